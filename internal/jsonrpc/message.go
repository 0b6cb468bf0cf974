package jsonrpc

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// A Kind tells the three kinds of messages apart.
type Kind byte

// The kinds. The zero Kind is none.
const (
	Request      Kind = iota + 1 // a method and an id
	Notification                 // a method, no id
	Response                     // an id and either a result or an error
)

// A Message is one parsed message. Its byte slices are the texts as they came; nobody may change them.
type Message struct {
	Kind   Kind
	ID     ID     // of a request or response
	Method string // of a request or notification
	Params []byte // nil if absent; else an object or an array
	Result []byte // of a response; nil if it has an error
	Error  []byte // of a response; an object, nil if it has a result

	members []Member
}

// DefaultMaxBytes is the default bound of one message.
const DefaultMaxBytes = 16 << 20

// Parse reads one message of at most maxBytes bytes and takes over b. The error is a *FormError. An array is refused:
// see ParseBatch.
func Parse(b []byte, maxBytes int) (*Message, error) {
	if len(b) > maxBytes {
		return nil, invalid("the message is too large")
	}
	b, err := unbroken(b)
	if err != nil {
		return nil, err
	}
	members, err := Members(b)
	if err != nil {
		return nil, err
	}
	return fromMembers(members)
}

// unbroken puts a message into one line. It reads one with line breaks as it is first: a break inside a string is no JSON,
// and must not pass for a blank.
func unbroken(b []byte) ([]byte, error) {
	if !bytes.ContainsAny(b, "\r\n") {
		return b, nil
	}
	if !jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true)) {
		return nil, &FormError{Number: ParseError, Msg: "this is not strict JSON"}
	}
	return oneLine(b), nil
}

// oneLine makes line breaks into blanks, so that no message spans lines.
func oneLine(b []byte) []byte {
	if !bytes.ContainsAny(b, "\r\n") {
		return b
	}
	b = slices.Clone(b)
	for i, c := range b {
		if c == '\n' || c == '\r' {
			b[i] = ' '
		}
	}
	return b
}

func fromMembers(members []Member) (*Message, error) {
	if Ambiguous(members, "jsonrpc", "id", "method", "params", "result", "error") {
		return nil, invalid("a member name is ambiguous")
	}
	m := &Message{members: members}
	var version, method, id []byte
	for _, x := range members {
		switch x.Name {
		case "jsonrpc":
			version = x.Value
		case "id":
			id = x.Value
		case "method":
			method = x.Value
		case "params":
			m.Params = x.Value
		case "result":
			m.Result = x.Value
		case "error":
			m.Error = x.Value
		}
	}
	if v, ok := Unquote(version); !ok || v != "2.0" {
		return nil, invalid(`the member "jsonrpc" is not "2.0"`)
	}
	if id != nil {
		var err error
		if m.ID, err = ParseID(id); err != nil {
			return nil, err
		}
	}
	check := m.checkResponse
	if method != nil {
		check = m.checkCall
	}
	if err := check(method, id != nil); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Message) checkResponse(_ []byte, hasID bool) error {
	m.Kind = Response
	switch {
	case !hasID || (m.Result == nil) == (m.Error == nil) || m.Params != nil:
		return invalid("this is neither a request nor a response")
	case m.Error != nil && m.Error[0] != '{':
		return invalid(`the member "error" is not an object`)
	}
	return nil
}

func (m *Message) checkCall(method []byte, hasID bool) error {
	var ok bool
	if m.Method, ok = Unquote(method); !ok || m.Method == "" {
		return invalid(`the member "method" is not a string, or empty`)
	}
	if m.Result != nil || m.Error != nil {
		return invalid("this is both a request and a response")
	}
	if m.Params != nil && m.Params[0] != '{' && m.Params[0] != '[' {
		return invalid(`the member "params" is neither an object nor an array`)
	}
	m.Kind = Notification
	if hasID {
		m.Kind = Request
	}
	return nil
}

// Bytes returns the message as one line without its end: each member as it came, in the order in which it came.
func (m *Message) Bytes() []byte { return Object(m.members) }

// With returns the message as Bytes does, but with another id (unless id is zero) and other params (unless params is
// nil). A notification gets no id.
func (m *Message) With(id ID, params []byte) []byte {
	out := make([]Member, 0, len(m.members)+1)
	for _, x := range m.members {
		switch {
		case x.Name == "id" && !id.IsZero():
			x.Value = []byte(id.String())
		case x.Name == "params" && params != nil:
			x.Value = params
		}
		out = append(out, x)
	}
	if params != nil && m.Params == nil && m.Kind != Response {
		out = append(out, Member{Name: "params", Value: params})
	}
	return Object(out)
}

// An Item is one element of a batch: a message, or the error that says why it is none.
type Item struct {
	Message  *Message
	Err      error
	Envelope Envelope // what could be seen of an element that is no message
}

// MaxBatch is the largest number of elements that a batch may have.
const MaxBatch = 64

// IsBatch reports whether line begins as a batch does.
func IsBatch(line []byte) bool {
	line = bytes.TrimLeft(line, " \t\r\n")
	return len(line) > 0 && line[0] == '['
}

// ParseBatch reads an array of 1 to MaxBatch messages of together at most maxBytes bytes and takes over b. The error is
// a *FormError about the whole; each element that is no message has its own.
func ParseBatch(b []byte, maxBytes int) ([]Item, error) {
	if len(b) > maxBytes {
		return nil, invalid("the batch is too large")
	}
	b, err := unbroken(b)
	if err != nil {
		return nil, err
	}
	elements, err := Elements(b)
	switch {
	case err != nil:
		return nil, err
	case len(elements) == 0:
		return nil, invalid("the batch is empty")
	case len(elements) > MaxBatch:
		return nil, invalid("the batch has more than " + strconv.Itoa(MaxBatch) + " messages")
	}
	items := make([]Item, len(elements))
	for i, e := range elements {
		if items[i].Message, items[i].Err = Parse(e, maxBytes); items[i].Err != nil {
			items[i].Envelope = Sniff(e)
		}
	}
	return items, nil
}

// Batch writes messages as one array.
func Batch(messages [][]byte) []byte {
	b := append([]byte{'['}, bytes.Join(messages, []byte{','})...)
	return append(b, ']')
}

// NewRequest writes a request. A nil params is left out.
func NewRequest(id ID, method string, params []byte) []byte {
	return newCall([]Member{{Name: "id", Value: []byte(id.String())}}, method, params)
}

// NewNotification writes a notification. A nil params is left out.
func NewNotification(method string, params []byte) []byte { return newCall(nil, method, params) }

func newCall(id []Member, method string, params []byte) []byte {
	m := append([]Member{{Name: "jsonrpc", Value: []byte(`"2.0"`)}}, id...)
	m = append(m, Member{Name: "method", Value: Quote(method)})
	if params != nil {
		m = append(m, Member{Name: "params", Value: params})
	}
	return Object(m)
}

// NewResult writes the response to id that carries result, a JSON text.
func NewResult(id ID, result []byte) []byte { return newResponse(id, "result", result) }

// NewError writes the response to id that carries an error object, a JSON text. The zero ID is written as null.
func NewError(id ID, object []byte) []byte { return newResponse(id, "error", object) }

func newResponse(id ID, name string, value []byte) []byte {
	return Object([]Member{
		{Name: "jsonrpc", Value: []byte(`"2.0"`)},
		{Name: "id", Value: []byte(id.String())},
		{Name: name, Value: value},
	})
}

// ErrorObject writes an error object. A nil data is left out.
func ErrorObject(number int, message string, data []byte) []byte {
	m := []Member{{Name: "code", Value: strconv.AppendInt(nil, int64(number), 10)}, {Name: "message", Value: Quote(message)}}
	if data != nil {
		m = append(m, Member{Name: "data", Value: data})
	}
	return Object(m)
}

// Frame returns message as a line with its end. Line breaks inside the message, which JSON allows between tokens alone,
// become blanks: nobody can end the line early.
func Frame(message []byte) []byte {
	line := make([]byte, 0, len(message)+1)
	return append(append(line, oneLine(message)...), '\n')
}
