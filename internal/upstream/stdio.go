package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// StdioOptions say what a Client over a Conn is.
type StdioOptions struct {
	Name     string           // for people
	Identity []byte           // the upstream's identity document
	Version  string           // of the program, told to the upstream
	Now      func() time.Time // the clock
	Logger   *slog.Logger     // nil for none
}

// NewStdio makes the client of an MCP server at the other end of conn, which it runs and closes in the end. Close must be
// called.
func NewStdio(conn *Conn, o StdioOptions) (*Client, error) {
	if conn == nil || o.Name == "" || len(o.Identity) == 0 || o.Now == nil {
		return nil, errors.New("an upstream needs a conversation, a name, an identity and a clock")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &stdioLink{conn: conn}
	c := newClient(o.Name, o.Identity, o.Version, o.Now, o.Logger, l)
	l.running.Go(func() { conn.Run(context.Background(), heard{c, conn}) })
	return c, nil
}

// heard takes what the upstream says unasked.
type heard struct {
	client *Client
	conn   *Conn
}

// Notify implements Handler.
func (h heard) Notify(m *jsonrpc.Message) { h.client.notified(m) }

// Ask implements Handler.
func (h heard) Ask(m *jsonrpc.Message) { _ = h.conn.Post(reply(m)) } // an upstream that has gone wants no answer

// stdioLink is the way to an upstream at the other end of a Conn.
type stdioLink struct {
	conn    *Conn
	running sync.WaitGroup
}

func (l *stdioLink) do(ctx context.Context, q request) (*jsonrpc.Message, error) {
	m, err := l.conn.Do(ctx, func(id jsonrpc.ID) []byte { return jsonrpc.NewRequest(id, q.method, q.params) }, q.maxBytes)
	if err == nil && q.method == "initialize" {
		version, _ := jsonrpc.Unquote(lookup(m.Result, "protocolVersion"))
		l.conn.AllowBatches(version == batchVersion)
	}
	return m, err
}

func (l *stdioLink) post(_ context.Context, message []byte) error { return l.conn.Post(message) }

func (l *stdioLink) reset() {}

func (l *stdioLink) close() error {
	defer l.running.Wait()
	return l.conn.Close()
}
