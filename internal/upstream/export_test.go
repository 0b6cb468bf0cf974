package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// Set writes the header for the arguments.
func (m Mirror) Set(header http.Header, arguments []byte) error { return m.set(header, arguments) }

// ReadEvents returns the data of all events of a stream.
func ReadEvents(r io.Reader, maxEvent, maxStream int) ([]string, error) {
	e := newEventReader(r, maxEvent, maxStream)
	var out []string
	for {
		ev, err := e.next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, string(ev.data))
	}
}

// Answer reads a response to the request with the id 2 of the modern revision.
func Answer(ctx context.Context, res *http.Response, body io.Reader) (*jsonrpc.Message, error) {
	l := &httpLink{heard: func(*jsonrpc.Message) {}}
	res.Body = io.NopCloser(body)
	x := &post{l: l, id: jsonrpc.IntID(2), q: request{method: "tools/call", modern: true}, limit: 10_000}
	return x.answer(ctx, http.DefaultClient, res)
}
