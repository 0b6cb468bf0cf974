package pgtest

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A Wire is a TCP proxy in front of a database. It follows the protocol far enough to see commits go by: a COMMIT or END,
// sent as a simple query or in steps, and the end of a transaction that was never begun by a statement, if it may write.
type Wire struct {
	network, server string // where the real one is
	url             string

	ctx      context.Context // of all connections; it ends with the test
	stop     context.CancelFunc
	listener net.Listener
	workers  sync.WaitGroup

	mu      sync.Mutex
	open    map[net.Conn]bool // of clients
	refuse  bool
	delay   time.Duration
	commits int
	trap    trap
}

// A trap is a fault that waits for its commit. The zero trap waits for none.
type trap struct {
	where  where
	left   int    // the commits that it still counts, this one included
	having string // it counts transactions in which a statement contains this
	sprung chan struct{}
}

// where says on which side of a commit a connection is cut.
type where int

const (
	before where = iota + 1
	after
)

// NewWire puts a wire before the database of the URL. It is taken away when the test ends.
func NewWire(tb testing.TB, to string) *Wire {
	tb.Helper()
	config, err := pgx.ParseConfig(to)
	if err != nil {
		tb.Fatal(err)
	}
	w := &Wire{open: map[net.Conn]bool{}}
	w.network, w.server = pgconn.NetworkAddress(config.Host, config.Port)
	w.ctx, w.stop = context.WithCancel(context.Background())
	if w.listener, err = (&net.ListenConfig{}).Listen(w.ctx, "tcp", "127.0.0.1:0"); err != nil {
		tb.Fatal(err)
	}
	u, err := url.Parse(to)
	if err != nil {
		tb.Fatal(err)
	}
	query := u.Query()
	query.Del("host")
	query.Del("port")
	query.Set("sslmode", "disable")
	u.Host, u.RawQuery = w.listener.Addr().String(), query.Encode()
	w.url = u.String()
	w.workers.Go(w.accept)
	tb.Cleanup(func() {
		w.stop()
		_ = w.listener.Close()
		w.Cut()
		w.workers.Wait()
	})
	return w
}

// URL names the database through the wire.
func (w *Wire) URL() string { return w.url }

// CutBefore drops the connection of the n-th commit from now, which never reaches the server. Commits are counted of
// transactions in which a statement contains having, or of all when it is "". The channel is closed when it has happened.
func (w *Wire) CutBefore(n int, having string) <-chan struct{} { return w.set(before, n, having) }

// CutAfter lets the n-th commit from now through and drops its connection instead of the answer: it is durable by then.
// The rest is as with CutBefore.
func (w *Wire) CutAfter(n int, having string) <-chan struct{} { return w.set(after, n, having) }

func (w *Wire) set(at where, n int, having string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trap = trap{where: at, left: n, having: having, sprung: make(chan struct{})}
	return w.trap.sprung
}

// Delay holds up every commit from now on for so long, before it reaches the server.
func (w *Wire) Delay(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = d
}

// Refuse closes every new connection as soon as it is made, or no longer does. Those that are open stay.
func (w *Wire) Refuse(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = on
}

// Cut drops every connection there is.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		_ = c.Close()
	}
}

// Commits returns how many commits have come to the wire.
func (w *Wire) Commits() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.commits
}

// commit counts a commit and says what is to happen with it.
func (w *Wire) commit(statements []string) (at where, delay time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commits++
	if w.trap.left == 0 || !contains(statements, w.trap.having) {
		return 0, w.delay
	}
	if w.trap.left--; w.trap.left > 0 {
		return 0, w.delay
	}
	return w.trap.where, w.delay
}

func (w *Wire) spring() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.trap.sprung)
	w.trap = trap{}
}

func contains(statements []string, part string) bool {
	for _, s := range statements {
		if strings.Contains(s, part) {
			return true
		}
	}
	return part == ""
}

func (w *Wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.mu.Lock()
		refuse := w.refuse || w.ctx.Err() != nil
		w.open[client] = !refuse
		w.mu.Unlock()
		if refuse {
			w.close(client)
			continue
		}
		w.workers.Go(func() {
			defer w.close(client)
			// An error is a connection that ended, which is what the client is to see.
			_ = w.carry(client)
		})
	}
}

func (w *Wire) close(client net.Conn) {
	w.mu.Lock()
	delete(w.open, client)
	w.mu.Unlock()
	_ = client.Close()
}

// carry brings one connection through, until either side ends it.
func (w *Wire) carry(client net.Conn) error {
	server, err := (&net.Dialer{}).DialContext(w.ctx, w.network, w.server)
	if err != nil {
		return err
	}
	defer server.Close() //nolint:errcheck // nothing is written to it by then
	l := newLine(w, client, server)
	if err := l.open(); err != nil {
		return err
	}
	var answers sync.WaitGroup
	answers.Go(func() {
		_ = l.fromServer() // however it ends, so does the client's side
		_ = client.Close()
	})
	err = l.fromClient()
	if errors.Is(err, errCutAfter) { // the server's answers end it
		answers.Wait()
		if l.answered() {
			w.spring()
		}
		return err
	}
	_ = server.Close()
	answers.Wait()
	if errors.Is(err, errCutBefore) {
		w.spring()
	}
	return err
}
