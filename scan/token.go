package scan

import (
	"strings"
	"unicode/utf8"
)

// A tokenizer reads a layer once, folding as it goes, and keeps only the words that play a role in some rule.
type tokenizer struct {
	r     *run
	l     *layer
	s     string
	fold  *folder
	dict  *dictionary
	parts bool // invisible characters part words, instead of being left out

	token     int
	hits      [flavours][]hit
	script    int  // characters without a meaning since the last token, of scripts without spaces
	escaped   bool // the next word begins with the letter of an escape such as \n
	invisible bool // an invisible character stood inside a word
	odd       bool // there are characters that can carry hidden text

	// The words joined by single marks, tags or spaces so far: the letters of one word, perhaps.
	pieces   []span
	letters  int
	single   bool
	joiner   byte // what joined the last two
	runToken int
	runHits  [flavours]int

	buf    []byte
	pos    []int
	memory [64]foldedRune
}

// A span is a piece of a text.
type span struct{ from, to int }

// reset makes t ready to read l. It keeps its buffers.
func (t *tokenizer) reset(r *run, l *layer, parts bool) {
	t.r, t.l, t.s, t.fold, t.dict, t.parts = r, l, l.text, r.s.fold, r.s.dict, parts
	t.token, t.script, t.escaped, t.invisible, t.odd = 0, 0, false, false, false
	for f := range t.hits {
		t.hits[f] = t.hits[f][:0]
	}
}

// A foldedRune remembers what a character folds to.
type foldedRune struct {
	r    rune
	kind kind
	n    int
	out  [maxFolded * utf8.UTFMax]byte
}

// foldRune is the folder's fold, with a memory of the last characters that it had to work out.
func (t *tokenizer) foldRune(dst []byte, r rune) (kind, []byte) {
	if r < tableSize {
		return t.fold.fold(dst, r)
	}
	m := &t.memory[r%rune(len(t.memory))]
	if m.r != r {
		k, out := t.fold.fold(m.out[:0], r)
		m.r, m.kind, m.n = r, k, len(out)
	}
	return m.kind, append(dst, m.out[:m.n]...)
}

func alnum(c byte) bool { return c|0x20-'a' < 26 || c-'0' < 10 }

// run reads the whole layer and reports what the rules find.
func (t *tokenizer) run() {
	check := checkEvery
	for i := 0; i < len(t.s); {
		if i >= check {
			if !t.r.alive() {
				return
			}
			check = i + checkEvery
		}
		c := t.s[i]
		switch {
		case t.fold.ascii[c] != 0:
			i = t.words(i)
		case c < utf8.RuneSelf:
			i = t.mark(c, i, i+1)
		default:
			i = t.wide(i)
		}
	}
	t.conclude()
}

// wide reads one character beyond ASCII, or the word it begins.
func (t *tokenizer) wide(i int) int {
	r, n := utf8.DecodeRuneInString(t.s[i:])
	k, out := t.foldRune(t.buf[:0], r)
	t.buf = out
	switch k {
	case kindWord:
		return t.words(i)
	case kindScript:
		return t.ideograph(i, n)
	case kindInvisible:
		t.odd = true
	case kindOther:
		if len(out) == 1 {
			return t.mark(out[0], i, i+n)
		}
		if r == '。' || r == '！' || r == '।' {
			t.token += 2
		}
	case kindMark:
	}
	return i + n
}

// mark handles one character that parts words. It stands at i in the text; the next one stands at next.
func (t *tokenizer) mark(c byte, i, next int) int {
	switch c {
	case '.', '!', '?':
		if c == '!' && next < len(t.s) && t.s[next] == '[' && !t.parts {
			t.marker(c, i, next)
		}
		if next == len(t.s) || strings.IndexByte(" \n\r\t\"')", t.s[next]) >= 0 {
			t.token += 2 // words of two sentences are further apart
		}
	case '(', ')', ';', ':', '"', '|':
		t.token++ // so are those of two clauses
	case '\'':
		if i == 0 || !alnum(t.s[i-1]) {
			t.token++
		}
	case '\n':
		if next < len(t.s) && t.s[next] == '\n' {
			t.token += 2
		}
	case '\\':
		t.escaped = next < len(t.s) && (t.s[next] == 'n' || t.s[next] == 'r' || t.s[next] == 't')
	case 0x1B:
		return t.control(next)
	case '<', '[', '#', '`', '~':
		if !t.parts {
			t.marker(c, i, next)
		}
	}
	return next
}

// control skips a terminal control sequence, which shows nothing, and notes one that conceals what follows.
func (t *tokenizer) control(i int) int {
	if i >= len(t.s) || t.s[i] != '[' {
		return i
	}
	for j := i + 1; j < len(t.s) && j < i+32; j++ {
		c := t.s[j]
		if c >= 0x40 && c <= 0x7E {
			if c == 'm' && concealing(t.s[i+1:j]) && !t.parts {
				t.r.report(t.l, Finding{Pattern: "terminal_conceal", Family: FamilyHiddenText, Severity: SeverityMedium}, i-1, j+1, "")
			}
			return j + 1
		}
		if c < 0x20 || c > 0x3F {
			break
		}
	}
	return i
}

func concealing(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		if p == "8" {
			return true
		}
	}
	return false
}

// A word is what readWord found.
type word struct {
	end     int // one past its last character
	next    int // where to read on
	hash    hash
	letters int
	digits  int
	capital bool // one that isn't the first letter
}

// readWord reads the word that begins at i, of an endless one the beginning.
func (t *tokenizer) readWord(i int) word {
	w := word{end: i, hash: hashStart}
	j := i
	for j < len(t.s) {
		from := j
		for ; j < len(t.s) && j-i < checkEvery; j++ {
			c := t.s[j]
			b := t.fold.ascii[c]
			if b == 0 {
				break
			}
			w.hash = w.hash.add(b)
			if b < 'a' {
				w.digits++
			} else if b != c && j > i {
				w.capital = true
			}
		}
		if j > from {
			w.letters += j - from
			w.end = j
			if j == len(t.s) || j-i >= checkEvery {
				break
			}
		}
		n := t.inWord(&w, i, j)
		if n == 0 {
			break
		}
		j += n
		if j-i >= checkEvery {
			break
		}
	}
	w.letters -= w.digits
	w.next = max(j, w.end)
	return w
}

// inWord reads at j, inside the word begun at i, what is neither an ASCII letter nor a digit. It returns how many bytes
// still belong to the word, 0 if it ends here.
func (t *tokenizer) inWord(w *word, i, j int) int {
	c := t.s[j]
	if c < utf8.RuneSelf {
		switch {
		case c == '\'' && j > i && j+1 < len(t.s) && alnum(t.s[j+1]):
			return 1
		case c == 0x1B:
			return t.unseen(t.control(j+1) - j)
		case invisible(rune(c)):
			return t.unseen(1)
		}
		return 0
	}
	r, n := utf8.DecodeRuneInString(t.s[j:])
	k, out := t.foldRune(t.buf[:0], r)
	t.buf = out
	switch k {
	case kindWord:
		for _, b := range out {
			w.hash = w.hash.add(b)
		}
		w.letters++
		w.end = j + n
		return n
	case kindMark:
		return n
	case kindInvisible:
		t.odd = true
		return t.unseen(n)
	case kindOther:
		if r == '’' && j > i && j+n < len(t.s) && alnum(t.s[j+n]) {
			return n
		}
	case kindScript:
	}
	return 0
}

// unseen says how an invisible character of n bytes inside a word is taken.
func (t *tokenizer) unseen(n int) int {
	t.invisible = true
	if t.parts {
		return 0
	}
	return n
}

// words reads a word and those joined to it by single marks.
func (t *tokenizer) words(i int) int {
	t.pieces, t.letters, t.single = t.pieces[:0], 0, true
	t.runToken = t.token
	for f := range t.hits {
		t.runHits[f] = len(t.hits[f])
	}
	for start := i; ; {
		w := t.readWord(i)
		t.pieces = append(t.pieces, span{i, w.end})
		t.letters += w.end - i
		t.single = t.single && w.letters+w.digits == 1
		t.resolve(w, i)
		t.escaped = false
		n := 0
		if w.next == w.end && w.end-start < checkEvery {
			n = t.joint(w.end, w.letters+w.digits == 1)
		}
		if n == 0 {
			t.script = 0
			if len(t.pieces) > 1 {
				t.glue()
			}
			return w.next
		}
		i = w.end + n
	}
}

// resolve looks the word up and counts it.
func (t *tokenizer) resolve(w word, start int) {
	m, ok := t.dict.find(w.hash)
	if !ok && t.escaped && w.end-start <= t.dict.longest {
		m, ok = t.leet(t.s[start+1 : w.end])
	}
	if !ok && w.digits > 0 && w.letters > 0 && w.end-start <= t.dict.longest {
		m, ok = t.leet(t.s[start:w.end])
	}
	if !ok && w.end < len(t.s) && t.s[w.end] == '$' {
		m, ok = t.dict.find(w.hash.add(symbolLetter('$')))
	}
	if n := w.letters + w.digits; !ok && n >= longWord && n == w.end-start && w.digits < 2*w.letters && !w.capital {
		t.pieces = append(t.pieces, span{start, min(w.end, start+longestWord)}) // for gather alone
		t.gather(t.pieces[len(t.pieces)-1:])
		t.pieces = t.pieces[:len(t.pieces)-1]
		t.segment(w.end)
		return
	}
	if ok {
		t.emit(m, start, w.end)
	}
	t.token++
}

// Words of more than longWord letters are looked through for words written without gaps, up to longestWord bytes.
const (
	longWord    = 20
	longestWord = 4096
)

func (t *tokenizer) emit(m meaning, start, end int) {
	for f, set := range m {
		if set != 0 {
			t.hits[f] = append(t.hits[f], hit{set, t.token, start, end})
		}
	}
}

// ideograph reads at i, where a character of n bytes of a script without spaces stands: the longest known word that
// begins there, or that one character.
func (t *tokenizer) ideograph(i, n int) int {
	h, best, end := hashStart, meaning{}, 0
	for j, k := i, 0; j < len(t.s) && k < t.dict.runes; k++ {
		r, size := utf8.DecodeRuneInString(t.s[j:])
		kd, out := t.foldRune(t.buf[:0], r)
		t.buf = out
		if kd != kindScript && kd != kindMark && kd != kindInvisible {
			break
		}
		for _, b := range out {
			h = h.add(b)
		}
		j += size
		if m, ok := t.dict.find(h); ok {
			best, end = m, j
		}
	}
	if end > 0 {
		t.emit(best, i, end)
		t.token++
		t.script = 0
		return end
	}
	if t.script++; t.script%3 == 0 {
		t.token++
	}
	return i + n
}
