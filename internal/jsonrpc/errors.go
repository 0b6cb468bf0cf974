package jsonrpc

// The error numbers of JSON-RPC 2.0.
const (
	ParseError     = -32700
	InvalidRequest = -32600
	MethodNotFound = -32601
	InvalidParams  = -32602
	InternalError  = -32603
)

// A FormError says why a text is not a message. It is safe to send: it repeats nothing of the text.
type FormError struct {
	Number int    // ParseError or InvalidRequest
	Msg    string // one lower-case sentence
}

func (e *FormError) Error() string { return e.Msg }

func invalid(msg string) *FormError { return &FormError{Number: InvalidRequest, Msg: msg} }

// A TooLongError says that a line was longer than the reader's bound. The line was discarded up to its end and the next
// one can be read.
type TooLongError struct {
	Envelope Envelope // what could be seen of the message that the line began
}

func (e *TooLongError) Error() string { return "the line is longer than is accepted" }
