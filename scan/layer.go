package scan

import (
	"context"
	"sort"
	"strings"
	"unicode/utf8"
)

// The bounds on decoding. Each layer's length is charged to one budget per scan; a scan therefore costs at most
// workFactor times its input, plus a constant, however its encodings are nested.
const (
	workFactor = 16
	workFloor  = 1 << 20
	maxDepth   = 8
)

// maxFound bounds what is kept while scanning, for notes and for the rest apart. The same place may be found by several
// passes, so it is larger than MaxFindings.
const maxFound = 10 * MaxFindings

// checkEvery is how many bytes are read between two looks at the context.
const checkEvery = 64 << 10

// A layer is one text to look at: what arrived, or what came of decoding a piece of another layer.
type layer struct {
	text   string
	path   string // how it was decoded, outermost first
	depth  int    // how many decodings lie above it
	parent *layer

	// Of a layer that came out of one piece of its parent as a whole: that piece.
	whole   bool
	at, end int

	// Of a layer that is its parent's text with some pieces replaced: the pieces, in order.
	pieces []piece

	// Of a layer without a parent: the strings it was joined from, in order.
	leaves  []leaf
	crosses bool // only what runs from one string into the next is of interest: the strings were looked at already
}

// A piece says that [out, outEnd) of a layer replaces [in, inEnd) of its parent.
type piece struct{ out, outEnd, in, inEnd int }

// A leaf is one string of a JSON document, or the whole plain text.
type leaf struct {
	start int  // where it begins in the joined text
	size  int  // its length in bytes
	skip  int  // how many bytes of the string were left out before it
	id    int  // the string's place in the document
	name  bool // it is a member's name
}

// up maps a span of l to one of its parent.
func (l *layer) up(a, b int) (int, int) {
	if l.whole {
		return l.at, l.end
	}
	return l.upOne(a, false), l.upOne(b, true)
}

func (l *layer) upOne(pos int, isEnd bool) int {
	n := sort.Search(len(l.pieces), func(i int) bool {
		if isEnd {
			return l.pieces[i].out >= pos
		}
		return l.pieces[i].out > pos
	})
	if n == 0 {
		return pos
	}
	p := l.pieces[n-1]
	switch {
	case pos >= p.outEnd:
		return p.inEnd + pos - p.outEnd
	case isEnd:
		return p.inEnd
	}
	return p.in
}

// keep reports whether a span of l shows something that its parent, or the strings it was joined from, didn't.
func (l *layer) keep(a, b int) bool {
	if l.pieces != nil && !l.touched(a, b) {
		return false
	}
	for ; l.parent != nil; l = l.parent {
		if l.whole {
			return true // decided when that piece was decoded
		}
		a, b = l.up(a, b)
	}
	return !l.crosses || l.leaves[l.leafAt(a)].id != l.leaves[l.leafAt(max(a, b-1))].id
}

// touched reports whether a replaced piece lies in [a, b).
func (l *layer) touched(a, b int) bool {
	n := sort.Search(len(l.pieces), func(i int) bool { return l.pieces[i].outEnd > a })
	return n < len(l.pieces) && l.pieces[n].out < b
}

// leafAt returns the index of the leaf that holds a position of a layer without a parent.
func (l *layer) leafAt(pos int) int {
	n := sort.Search(len(l.leaves), func(i int) bool { return l.leaves[i].start > pos })
	return max(0, n-1)
}

// root maps a span of l to the layer without a parent that it came from.
func (l *layer) root(a, b int) (*layer, int, int) {
	for ; l.parent != nil; l = l.parent {
		a, b = l.up(a, b)
	}
	return l, a, b
}

// via returns a path with one more decoding.
func via(path, by string) string {
	switch {
	case by == "":
		return path
	case path == "":
		return by
	}
	return path + " > " + by
}

// A located finding knows its leaf, so that findings can be ordered and given their pointers.
type located struct {
	Finding
	leaf int
}

// A run is one scan at work.
type run struct {
	ctx     context.Context
	s       *Scanner
	budget  int
	stopped string // why the scan ended early
	worst   Severity
	dropped bool
	kept    [2]int // notes, and the rest
	found   []located
	tok     tokenizer // one is at work at a time; its buffers are used again
}

func newRun(ctx context.Context, s *Scanner, size int) *run {
	return &run{ctx: ctx, s: s, budget: workFactor*size + workFloor}
}

// stop ends the scan. The first reason stands.
func (r *run) stop(why string) {
	if r.stopped == "" {
		r.stopped = why
	}
}

// alive reports whether the scan goes on, after a look at the context.
func (r *run) alive() bool {
	if r.stopped == "" && r.ctx.Err() != nil {
		r.stop(UnscannableCancelled)
	}
	return r.stopped == ""
}

// charge takes n bytes of work from the budget and reports whether it held that much.
func (r *run) charge(n int) bool {
	if n > r.budget {
		r.stop(UnscannableWork)
		return false
	}
	r.budget -= n
	return true
}

// scan looks at a layer and at everything that can be decoded from it.
func (r *run) scan(l *layer) {
	if !r.alive() || !r.charge(len(l.text)) {
		return
	}
	odd := r.words(l)
	r.operatorPatterns(l)
	if !r.alive() {
		return
	}
	if odd {
		r.hidden(l)
	}
	if l.parent == nil {
		if out, by, ok := r.inflate(l.text); ok {
			r.childAt(l, out, by, 0, len(l.text), l.depth+1)
		}
	}
	r.unescape(l)
	r.runs(l)
	r.codes(l)
}

// words applies the rules over words, and reports whether l has characters that can carry hidden text.
func (r *run) words(l *layer) bool {
	t := &r.tok
	t.reset(r, l, false)
	t.run()
	if t.invisible && r.alive() && r.charge(len(l.text)) {
		// Something invisible stood inside a word. Left out, it joined two halves; now it parts two words.
		t.reset(r, l, true)
		t.run()
	}
	return t.odd
}

// seams looks only at what runs from one string of l into the next. near holds what stands near the seams, which is all that
// a rule's words can reach; encoded payloads are followed however far they go.
func (r *run) seams(l, near *layer) {
	if !r.alive() || !r.charge(len(l.text)/4+len(near.text)) {
		return
	}
	r.words(near)
	r.operatorPatterns(near)
	r.unescape(near)
	r.runs(l)
	r.codes(l)
}

// child scans what came of decoding [a, b) of l.
func (r *run) child(l *layer, text []byte, by string, a, b int) {
	if len(text) >= minPayload && r.alive() && l.keep(a, b) {
		r.childAt(l, text, by, a, b, l.depth+1)
	}
}

func (r *run) childAt(l *layer, text []byte, by string, a, b, depth int) {
	s := string(text)
	legible := printable(s)
	if depth > maxDepth {
		if legible || packed(s) != "" {
			r.stop(UnscannableDepth)
		}
		return
	}
	if !legible {
		if out, more, ok := r.inflate(s); ok {
			r.childAt(l, out, via(by, more), a, b, depth+1)
			return
		}
		if s = dense(s); len(s) < minPayload {
			return
		}
	}
	r.scan(&layer{text: s, path: via(l.path, by), depth: depth, parent: l, whole: true, at: a, end: b})
}

// report records a finding over [a, b) of l.
func (r *run) report(l *layer, f Finding, a, b int, by string) {
	if !l.keep(a, b) {
		return
	}
	f.Decoded = via(l.path, by)
	if f.Decoded != "" && f.Family != FamilyHiddenText {
		f.Family = FamilyEncodedPayload
		if f.Severity >= SeverityMedium {
			f.Severity = SeverityCritical // whoever encodes an instruction means it not to be seen
		}
	}
	if f.Decoded != "" && f.Excerpt == "" {
		f.Excerpt = excerpt(l.text[a:b])
	}
	r.worst = max(r.worst, f.Severity)
	class := 0
	if f.Severity >= SeverityMedium {
		class = 1
	}
	if r.kept[class] >= maxFound {
		r.dropped = true
		return
	}
	r.kept[class]++
	root, a, b := l.root(a, b)
	lf := root.leaves[root.leafAt(a)]
	f.InName = lf.name
	f.Offset = lf.skip + min(max(a-lf.start, 0), lf.size)
	f.End = min(max(lf.skip+b-lf.start, f.Offset), lf.skip+lf.size)
	r.found = append(r.found, located{f, lf.id})
}

// excerpt returns the beginning of s as valid UTF-8, at most 120 bytes.
func excerpt(s string) string {
	const most = 120
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "")
}

// printable reports whether s is text: valid UTF-8 without control characters.
func printable(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 && c != '\t' && c != '\n' && c != '\r' || c == 0x7F {
			return false
		}
	}
	return utf8.ValidString(s)
}
