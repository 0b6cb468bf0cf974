package scan

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxNesting bounds how deep a JSON document may be nested.
const maxNesting = 256

// ScanValue looks for injection in one strict JSON document: in every string value and every member name, and in what
// neighbours spell together: array items, values of adjacent members, members of the same name in an array's objects.
// Anything but one document (bad UTF-8, a repeated name, something after it) is not safe.
func (s *Scanner) ScanValue(ctx context.Context, doc []byte) Result {
	if s == nil || s.dict == nil {
		return Result{Unscannable: UnscannableNoScanner}
	}
	if len(doc) > MaxBytes {
		return Result{Unscannable: UnscannableSize}
	}
	r := newRun(ctx, s, joinFactor*len(doc))
	d := document{r: r}
	d.read(doc)
	if r.stopped != "" {
		return r.result()
	}
	d.scan()
	for i := range r.found {
		r.found[i].Pointer = d.pointer(d.strings[r.found[i].leaf].node)
	}
	return r.result()
}

// joinFactor is how many times a document's strings are looked at: in order, as values and as names run together with
// and without a space, and by member.
const joinFactor = 8

// A node is a place in a document: a member or an item of its parent.
type node struct {
	parent int
	name   string // of a member
	index  int    // of an item; -1 of a member
	column int    // the same for all places that differ in the indexes of items alone
}

// A text is one string of a document.
type text struct {
	s    string
	node int
	name bool
}

// A document is what ScanValue keeps of one.
type document struct {
	r       *run
	nodes   []node
	strings []text
	columns map[column]int
}

// A column identifies a member of a column of places.
type column struct {
	parent int
	name   string
	item   bool
}

// A container is an object or array that is being read.
type container struct {
	node   int
	object bool
	index  int
}

// read takes the document apart.
func (d *document) read(doc []byte) {
	d.nodes = append(d.nodes, node{parent: -1, index: -1})
	d.columns = map[column]int{}
	dec := jsontext.NewDecoder(bytes.NewBuffer(doc))
	var open []container
	at := 0
	for n := 0; ; n++ {
		if n%1024 == 0 && !d.r.alive() {
			return
		}
		tok, err := dec.ReadToken()
		if err != nil {
			d.r.stop(UnscannableNotJSON)
			return
		}
		kind := tok.Kind()
		closing := kind == '}' || kind == ']'
		if closing {
			open = open[:len(open)-1]
		} else {
			var name bool
			if at, name = d.place(open, at, tok); name {
				continue
			}
		}
		if kind == '{' || kind == '[' {
			if len(open) == maxNesting {
				d.r.stop(UnscannableNesting)
				return
			}
			open = append(open, container{node: at, object: kind == '{'})
		}
		if kind == '"' {
			d.strings = append(d.strings, text{tok.String(), at, false})
		}
		if len(open) == 0 {
			break
		}
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		d.r.stop(UnscannableNotJSON)
	}
}

// place makes the node that the token tok belongs to, and reports whether tok is the name of a member.
func (d *document) place(open []container, at int, tok jsontext.Token) (int, bool) {
	if len(open) == 0 {
		return 0, false
	}
	c := &open[len(open)-1]
	if !c.object {
		n := d.add(node{parent: c.node, index: c.index})
		c.index++
		return n, false
	}
	if c.index++; c.index%2 == 0 {
		return at, false // the value of the member just named
	}
	n := d.add(node{parent: c.node, name: tok.String(), index: -1})
	d.strings = append(d.strings, text{d.nodes[n].name, n, true})
	return n, true
}

func (d *document) add(n node) int {
	key := column{parent: d.nodes[n.parent].column, name: n.name, item: n.index >= 0}
	col, ok := d.columns[key]
	if !ok {
		col = len(d.columns) + 1
		d.columns[key] = col
	}
	n.column = col
	d.nodes = append(d.nodes, n)
	return len(d.nodes) - 1
}

// scan looks at the strings by themselves and joined.
func (d *document) scan() {
	all := make([]int, len(d.strings))
	var values, names []int
	columns := map[int][]int{}
	for i, t := range d.strings {
		all[i] = i
		if t.name {
			names = append(names, i)
			continue
		}
		values = append(values, i)
		col := d.nodes[t.node].column
		columns[col] = append(columns[col], i)
	}
	d.join(all, "\n", false)
	d.join(all, "", true)
	for _, list := range [][]int{values, names} {
		d.join(list, " ", true)
		d.join(list, "", true)
	}
	if len(columns) < 2 {
		return // the values are one column
	}
	for _, i := range values {
		col := d.nodes[d.strings[i].node].column
		list := columns[col]
		delete(columns, col)
		d.join(list, " ", true)
		d.join(list, "", true)
	}
}

// join scans the strings of a list joined by sep; with crosses, only what runs from one into the next.
func (d *document) join(list []int, sep string, crosses bool) {
	if len(list) == 0 || crosses && len(list) == 1 {
		return
	}
	whole := joiner{crosses: crosses}
	long := false
	for n, i := range list {
		t := d.strings[i]
		if n > 0 {
			whole.text.WriteString(sep)
		}
		whole.add(t, i, 0, len(t.s))
		long = long || len(t.s) > 2*seamReach
	}
	l := whole.layer()
	switch {
	case !crosses:
		d.r.scan(l)
	case long:
		d.r.seams(l, d.near(list, sep))
	default:
		d.r.seams(l, l)
	}
}

// near joins what stands near the seams.
func (d *document) near(list []int, sep string) *layer {
	j := joiner{crosses: true}
	for n, i := range list {
		t := d.strings[i]
		if n > 0 {
			j.text.WriteString(sep)
		}
		if len(t.s) <= 2*seamReach {
			j.add(t, i, 0, len(t.s))
			continue
		}
		j.add(t, i, 0, seamReach)
		j.text.WriteString("\n\n")
		j.add(t, i, len(t.s)-seamReach, len(t.s))
	}
	return j.layer()
}

// seamReach is how much of a string is looked at on either side of a seam: more than the words of any rule take.
const seamReach = 512

// A joiner builds a layer from strings.
type joiner struct {
	text    strings.Builder
	leaves  []leaf
	crosses bool
}

func (j *joiner) add(t text, id, from, to int) {
	j.leaves = append(j.leaves, leaf{start: j.text.Len(), size: to - from, skip: from, id: id, name: t.name})
	j.text.WriteString(t.s[from:to])
}

func (j *joiner) layer() *layer {
	return &layer{text: j.text.String(), leaves: j.leaves, crosses: j.crosses}
}

// pointer returns the RFC 6901 pointer to a node.
func (d *document) pointer(n int) string {
	var parts []string
	for ; n > 0; n = d.nodes[n].parent {
		if i := d.nodes[n].index; i >= 0 {
			parts = append(parts, strconv.Itoa(i))
		} else {
			parts = append(parts, strings.NewReplacer("~", "~0", "/", "~1").Replace(d.nodes[n].name))
		}
	}
	var b strings.Builder
	for i := len(parts) - 1; i >= 0; i-- {
		b.WriteByte('/')
		b.WriteString(parts[i])
	}
	return b.String()
}
