package console

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil/internal/console/show"
)

// The bounds of a tree that is drawn. Beyond maxNodes only the text is shown, which is whole as well.
const (
	maxNodes = 10_000
	maxDepth = 128
)

// A node is one JSON value as a page shows it.
type node struct {
	Name  []show.Segment // the member's name
	Index string         // the element's place in its array
	Kind  string         // "object", "array", "string", "number", "boolean", "null"
	Size  string         // "3 members", "120 bytes, 4 lines"
	Text  []show.Segment // of a scalar
	Block bool           // the text is long or has several lines
	Note  string
	Kids  []*node
}

// A tally is what was seen in a document while its tree was made.
type tally struct {
	nodes   int
	lines   int // line feeds in all strings, and one
	biggest int // bytes of the longest string
	marks   int // segments that are not plainly visible
	notes   map[string]int
}

// see counts the segments that a reader has to be told of.
func (t *tally) see(segs []show.Segment) {
	for _, s := range segs {
		switch s.Kind {
		case show.Mark, show.Odd, show.Hidden:
			t.marks++
			t.notes[s.Note]++
		case show.Visible, show.Break, show.Tab:
		}
	}
}

// warnings returns the tally's notes in words, sorted.
func (t *tally) warnings() []string {
	var out []string
	for _, note := range slices.Sorted(maps.Keys(t.notes)) {
		out = append(out, strconv.Itoa(t.notes[note])+" × "+note)
	}
	return out
}

// treeBuilder reads a document's tokens into nodes. With decode, the payload of a signed envelope is shown decoded too.
type treeBuilder struct {
	dec    *jsontext.Decoder
	decode bool
	tally  *tally
}

// buildTree returns the tree of a canonical document, nil when it has too many values to be drawn, and the tally of all
// its values in any case.
func buildTree(doc []byte, decode bool) (*node, *tally, error) {
	b := &treeBuilder{dec: jsontext.NewDecoder(bytes.NewReader(doc)), decode: decode, tally: &tally{lines: 1, notes: map[string]int{}}}
	root, err := b.value(0)
	if err != nil {
		return nil, b.tally, err
	}
	if _, err := b.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, b.tally, errors.New("there is something after the document")
	}
	if b.tally.nodes > maxNodes {
		root = nil
	}
	return root, b.tally, nil
}

func (b *treeBuilder) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errors.New("the document is nested too deep")
	}
	b.tally.nodes++
	tok, err := b.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch kind := tok.Kind(); kind {
	case jsontext.KindBeginObject, jsontext.KindBeginArray:
		return b.container(kind, depth)
	case jsontext.KindString:
		return b.text(tok.String()), nil
	case jsontext.KindNumber:
		return &node{Kind: "number", Text: show.Text(tok.String())}, nil
	case jsontext.KindTrue, jsontext.KindFalse:
		return &node{Kind: "boolean", Text: show.Text(tok.String())}, nil
	case jsontext.KindNull:
		return &node{Kind: "null", Text: show.Text("null")}, nil
	case jsontext.KindInvalid, jsontext.KindEndObject, jsontext.KindEndArray:
	}
	return nil, errors.New("there is no value where one must be")
}

func (b *treeBuilder) text(s string) *node {
	n := &node{Kind: "string", Size: count(len(s), "byte")}
	b.tally.biggest = max(b.tally.biggest, len(s))
	if feeds := strings.Count(s, "\n"); feeds > 0 {
		b.tally.lines += feeds
		n.Size += ", " + count(feeds+1, "line")
		n.Block = true
	}
	n.Block = n.Block || len(s) > 60
	if b.tally.nodes <= maxNodes {
		n.Text = show.Text(s)
		b.tally.see(n.Text)
	}
	if show.RightToLeft(s) {
		n.Note = "has letters that run from right to left: the order on the screen is not that of the bytes; see the exact text"
	}
	return n
}

func (b *treeBuilder) container(kind jsontext.Kind, depth int) (*node, error) {
	n := &node{Kind: "array"}
	noun := "element"
	if kind == '{' {
		n.Kind, noun = "object", "member"
	}
	members := 0
	for ; b.dec.PeekKind() != '}' && b.dec.PeekKind() != ']'; members++ {
		name := ""
		if kind == '{' {
			tok, err := b.dec.ReadToken()
			if err != nil {
				return nil, err
			}
			name = tok.String()
		}
		kid, err := b.value(depth + 1)
		if err != nil {
			return nil, err
		}
		b.tally.biggest = max(b.tally.biggest, len(name))
		if b.tally.nodes > maxNodes {
			continue // counted, no longer drawn
		}
		if kind == '{' {
			kid.Name = show.Text(name)
			b.tally.see(kid.Name)
		} else {
			kid.Index = strconv.Itoa(members)
		}
		n.Kids = append(n.Kids, kid)
	}
	if _, err := b.dec.ReadToken(); err != nil {
		return nil, err
	}
	n.Size = count(members, noun)
	if b.decode {
		b.open(n, depth)
	}
	return n, nil
}

// open adds the decoded payload of a signed envelope to its node, if it is one that can be shown.
func (b *treeBuilder) open(n *node, depth int) {
	members := map[string]string{}
	for _, kid := range n.Kids {
		if kid.Kind == "string" {
			members[plainText(kid.Name)] = plainText(kid.Text)
		}
	}
	if members["payloadType"] == "" || members["payload"] == "" {
		return
	}
	doc, err := base64.StdEncoding.DecodeString(members["payload"])
	if err != nil {
		return
	}
	inner := &treeBuilder{dec: jsontext.NewDecoder(bytes.NewReader(doc)), tally: b.tally}
	kid, err := inner.value(depth + 1)
	if err != nil || b.tally.nodes > maxNodes {
		return
	}
	kid.Note = "the payload, decoded"
	n.Kids = append(n.Kids, kid)
}

// plainText puts a text that has no marks together again, and returns "" for one that has.
func plainText(segs []show.Segment) string {
	if len(segs) != 1 || segs[0].Kind != show.Visible {
		return ""
	}
	return segs[0].Text
}
