package jsonrpc

// An Envelope is what can be seen of a message that can't be parsed: enough to fail one call instead of a connection.
// It proves nothing about the text.
type Envelope struct {
	ID     ID   // zero unless the text's outer object has exactly one valid id
	Method bool // it has a method: a request or notification
	Answer bool // it has a result or an error
}

// Sniff looks through b for the outer members id, method, result and error.
func Sniff(b []byte) Envelope {
	var s sniffer
	s.feed(b)
	return s.envelope()
}

type sniffMode byte

const (
	sniffName sniffMode = iota
	sniffColon
	sniffValue
)

// sniffer follows strings and brackets through a text of any size in constant memory.
type sniffer struct {
	env      Envelope
	ids      int
	depth    int
	mode     sniffMode // of the outer object
	inString bool
	escaped  bool
	broken   bool // this is no object, or not only one
	closed   bool
	isID     bool   // the value at hand is the id's
	buf      []byte // the name or the id at hand, at most maxIDBytes+1
}

func (s *sniffer) feed(b []byte) {
	for _, c := range b {
		if s.broken {
			return
		}
		if s.inString {
			s.string(c)
		} else {
			s.structure(c)
		}
	}
}

func (s *sniffer) keep(c byte) {
	if s.depth == 1 && (s.mode == sniffName || s.isID) && len(s.buf) <= maxIDBytes {
		s.buf = append(s.buf, c)
	}
}

func (s *sniffer) string(c byte) {
	s.keep(c)
	switch {
	case s.escaped:
		s.escaped = false
	case c == '\\':
		s.escaped = true
	case c == '"':
		s.inString = false
		if s.depth == 1 && s.mode == sniffName {
			s.name()
		}
	}
}

func (s *sniffer) name() {
	s.mode = sniffColon
	name, _ := Unquote(s.buf)
	s.buf = s.buf[:0]
	switch name {
	case "id":
		s.ids++
		s.isID = true
	case "method":
		s.env.Method = true
	case "result", "error":
		s.env.Answer = true
	}
}

func (s *sniffer) structure(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n':
		return
	case '{', '[':
		if s.depth == 0 && (c == '[' || s.closed) {
			s.broken = true
			return
		}
		s.keep(c)
		s.depth++
	case '}', ']':
		s.endValue()
		s.depth--
		s.closed = s.depth == 0
		s.broken = s.depth < 0
	case ',':
		s.endValue()
	case ':':
		if s.depth == 1 && s.mode == sniffColon {
			s.mode = sniffValue
		}
	default:
		if s.depth == 0 {
			s.broken = true
			return
		}
		s.keep(c)
		s.inString = c == '"'
	}
}

// endValue ends the outer object's member at hand.
func (s *sniffer) endValue() {
	if s.depth != 1 {
		return
	}
	if s.isID {
		s.env.ID, _ = ParseID(s.buf) // an invalid id is as good as none
	}
	s.isID = false
	s.buf = s.buf[:0]
	s.mode = sniffName
}

func (s *sniffer) envelope() Envelope {
	if s.broken {
		return Envelope{}
	}
	if s.ids != 1 {
		s.env.ID = ID{}
	}
	return s.env
}
