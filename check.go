package counterfoil

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A checker recognises the canonical form, which is a much smaller language than JSON: no white space, one spelling for each
// string and number, names in strictly ascending order. Its methods take the offset at which something begins and return
// the offset past it, or -1.
type checker struct {
	b     []byte
	lim   limits
	found limits // nodes, depth and width so far

	marked bool   // whether marks are to be made
	marks  []mark // one for each value, in the order in which they begin

	escaped bool   // whether the last string had escapes
	names   []byte // the names that had, unescaped
	scratch []byte
}

// A mark says of one value where it ends, how many values have begun by then, and of a string whether it has escapes. So a
// reader passes over a value without looking into it.
type mark struct {
	end, next int32
	escaped   bool
}

// isCanonical reports whether b is one strict JSON text in canonical form and within lim. It is a short cut for what
// programs write; whatever it does not recognise goes the long way, which finds out why.
func isCanonical(b []byte, lim limits) bool {
	c := checker{b: b, lim: lim}
	return c.isCanonical()
}

func (c *checker) isCanonical() bool {
	if c.marked {
		c.marks = make([]mark, 0, 8+len(c.b)/40)
	}
	return c.value(0, 0) == len(c.b) && utf8.Valid(c.b)
}

// at returns the byte at b[i], zero past the end. No canonical text has a zero byte.
func (c *checker) at(i int) byte {
	if i < len(c.b) {
		return c.b[i]
	}
	return 0
}

func (c *checker) value(i, depth int) int {
	if c.found.nodes++; c.found.nodes > c.lim.nodes || depth > c.lim.depth {
		return -1
	}
	c.found.depth = max(c.found.depth, depth)
	if !c.marked {
		return c.any(i, depth)
	}
	at := len(c.marks)
	c.marks = append(room(c.marks, 1), mark{})
	c.escaped = false
	i = c.any(i, depth)
	c.marks[at] = mark{end: place(i), next: place(len(c.marks)), escaped: c.escaped}
	return i
}

// any checks a value of any kind.
func (c *checker) any(i, depth int) int {
	switch c.at(i) {
	case '{':
		return c.object(i+1, depth)
	case '[':
		return c.array(i+1, depth)
	case '"':
		return c.text(i)
	case 't':
		return c.literal(i, "true")
	case 'f':
		return c.literal(i, "false")
	case 'n':
		return c.literal(i, "null")
	default:
		return c.number(i)
	}
}

func (c *checker) array(i, depth int) int {
	if c.at(i) == ']' {
		return i + 1
	}
	for k := range c.lim.width {
		if i = c.value(i, depth+1); i < 0 {
			return -1
		}
		c.found.width = max(c.found.width, k+1)
		switch c.at(i) {
		case ',':
			i++
		case ']':
			return i + 1
		default:
			return -1
		}
	}
	return -1
}

func (c *checker) object(i, depth int) int {
	if c.at(i) == '}' {
		return i + 1
	}
	var last []byte
	for k := range c.lim.width {
		c.found.width = max(c.found.width, k+1)
		end := c.text(i)
		if end < 0 || c.at(end) != ':' {
			return -1
		}
		name := c.b[i+1 : end-1]
		if c.escaped {
			from := len(c.names)
			c.names = unquote(c.names, c.b[i:end])
			name = c.names[from:]
		}
		if last != nil && compareUTF16(last, name) >= 0 {
			return -1
		}
		last = name
		if i = c.value(end+1, depth+1); i < 0 {
			return -1
		}
		switch c.at(i) {
		case ',':
			i++
		case '}':
			return i + 1
		default:
			return -1
		}
	}
	return -1
}

func (c *checker) text(i int) int {
	if c.at(i) != '"' {
		return -1
	}
	c.escaped = false
	for end := nextMark(c.b, i+1); end < len(c.b); end = nextMark(c.b, end) {
		switch c.b[end] {
		case '"':
			if end++; !c.escaped || c.spelled(c.b[i:end]) {
				return end
			}
			return -1
		case '\\':
			c.escaped = true
			end += 2 // whatever is escaped does not end the string
		default:
			return -1
		}
	}
	return -1
}

// spelled reports whether a quoted string with escapes is what its content would be written as.
func (c *checker) spelled(quoted []byte) bool {
	content, err := jsontext.AppendUnquote(c.scratch[:0], quoted)
	n := len(content)
	c.scratch = appendString(content, content)
	return err == nil && bytes.Equal(c.scratch[n:], quoted)
}

func (c *checker) literal(i int, want string) int {
	if !bytes.HasPrefix(c.b[i:], []byte(want)) {
		return -1
	}
	return i + len(want)
}

func (c *checker) number(i int) int {
	end := skipSmallInteger(c.b, i)
	if end > i {
		return end
	}
	for end < len(c.b) && isNumeric(c.b[end]) {
		end++
	}
	raw := c.b[i:end]
	var own [32]byte
	if out, ok := appendExact(own[:0], raw); !ok || !bytes.Equal(out, raw) {
		return -1
	}
	return end
}

func isNumeric(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e'
}
