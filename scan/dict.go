package scan

import "strings"

// A hash identifies a folded word: FNV-1a over its bytes, so that it can be computed while the text is read.
type hash uint64

const (
	hashStart hash = 14695981039346656037
	hashPrime hash = 1099511628211
)

func (h hash) add(b byte) hash { return (h ^ hash(b)) * hashPrime }

func hashOf(b []byte) hash {
	h := hashStart
	for _, c := range b {
		h = h.add(c)
	}
	return h
}

// A flavour is a way in which whole words may be disguised letter by letter, known without decoding the text.
type flavour int

const (
	plain flavour = iota
	rot13
	reversed
)

// flavours is how many there are.
const flavours = 3

func (f flavour) String() string {
	switch f {
	case rot13:
		return "rot13"
	case reversed:
		return "reversed"
	case plain:
	}
	return ""
}

// A meaning is what a word stands for in each flavour.
type meaning [flavours]slots

// A dictionary knows the words of the rules.
type dictionary struct {
	words   map[hash]meaning
	bloom   [1 << 12]uint64    // most words of a text are in no rule: these bits say so without a map look-up
	opens   [26 * 26 * 26]bool // the first three letters of all words of letters
	longest int                // in bytes, folded
	runes   int                // in characters, of words in scripts without spaces
}

func newDictionary(f *folder) *dictionary {
	d := &dictionary{words: make(map[hash]meaning, 4096)}
	for _, v := range vocabulary() {
		for w := range strings.FieldsSeq(v.words) {
			d.learn(f, w, v.slot)
		}
	}
	return d
}

func (d *dictionary) learn(f *folder, word string, s slots) {
	var buf []byte
	n, script := 0, false
	for _, r := range word {
		var k kind
		k, buf = f.fold(buf, r)
		script = script || k == kindScript
		n++
	}
	d.longest = max(d.longest, len(buf))
	if script {
		d.runes = max(d.runes, n)
	}
	d.add(hashOf(buf), plain, s)
	ascii := len(buf) >= 2
	turned, back := make([]byte, len(buf)), make([]byte, len(buf))
	for i, c := range buf {
		ascii = ascii && c >= 'a' && c <= 'z'
		turned[i], back[len(buf)-1-i] = 'a'+(c-'a'+13)%26, c
	}
	if ascii {
		for _, w := range [...][]byte{buf, turned, back} {
			if len(w) > 2 {
				d.opens[opening(w[0], w[1], w[2])] = true
			}
		}
		d.add(hashOf(turned), rot13, s)
		d.add(hashOf(back), reversed, s)
	}
}

func (d *dictionary) add(h hash, f flavour, s slots) {
	m := d.words[h]
	m[f] |= s
	d.words[h] = m
	d.bloom[h>>6&(1<<12-1)] |= 1 << (h & 63)
}

func (d *dictionary) find(h hash) (meaning, bool) {
	if d.bloom[h>>6&(1<<12-1)]>>(h&63)&1 == 0 {
		return meaning{}, false
	}
	m, ok := d.words[h]
	return m, ok
}

// opening numbers three letters.
func opening(a, b, c byte) int { return (int(a-'a')*26+int(b-'a'))*26 + int(c-'a') }

// begins reports whether some word of letters begins with these three.
func (d *dictionary) begins(a, b, c byte) bool {
	return a-'a' < 26 && b-'a' < 26 && c-'a' < 26 && d.opens[opening(a, b, c)]
}
