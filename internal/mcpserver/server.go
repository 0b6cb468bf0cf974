package mcpserver

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
	"github.com/counterfoil/counterfoil/internal/upstream"
)

// A Gate decides about a call and runs it. Its error is a *gateway.Refusal; any other is answered as an internal error.
type Gate interface {
	Do(ctx context.Context, c gateway.Call) (gateway.Answer, error)
}

type sentinel string

func (s sentinel) Error() string { return string(s) }

// The causes with which the context of a call ends (see context.Cause).
const (
	ErrCancelledByClient = sentinel("the client cancelled the call")
	ErrClientGone        = sentinel("the client is gone")

	errWithdrawn = sentinel("the upstream ended the subscription")
)

// Options say what Serve is to serve.
type Options struct {
	In  io.Reader // the client's messages; closed in the end if it is an io.Closer
	Out io.Writer // where the client reads

	Gate Gate
	Conn *upstream.Conn // the upstream; Serve runs it and closes it in the end

	Tenant    string // the same for every call of this server
	Principal string
	Run       string
	Name      string // of the upstream, for people
	Identity  []byte // of the upstream: see governance.Identity

	Hold        time.Duration    // how long a call may wait for a person
	Drain       time.Duration    // how long calls may take to end when the client has gone; zero is 2 s
	MaxBytes    int              // of one message from the client; zero is 16 MiB
	MaxInFlight int              // requests that are not answered yet; zero is 256
	Now         func() time.Time // the clock
	Logger      *slog.Logger     // nil for none
}

const (
	defaultDrain    = 2 * time.Second
	defaultInFlight = 256
	closeInTime     = time.Second // how long a reader may take to notice that it was closed
)

// server is one client's session with one upstream.
type server struct {
	opts    Options
	log     *slog.Logger
	conn    *upstream.Conn
	session *Session
	out     *out
	flights *flights
	tokens  *tokens
	asks    *asks
	listens *listens
}

// Serve runs one session and returns when the client or ctx has ended and nothing of the session is left. It returns nil
// when the client ended it. The upstream's death does not end it: calls are then refused.
func Serve(ctx context.Context, o Options) error {
	s, err := newServer(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	running.Go(func() { s.conn.Run(ctx, downstream{s, ctx}) })
	lines := make(chan line)
	readerDone, writerDone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(readerDone)
		readLines(ctx, jsonrpc.NewReader(s.opts.In, s.opts.MaxBytes), lines, cancel)
	}()
	go func() {
		defer close(writerDone)
		if err := s.out.run(); err != nil {
			cancel(errors.Join(ErrClientGone, err))
		}
	}()
	s.loop(ctx, lines)

	// A client that neither reads nor dies must not keep us.
	giveUp := time.AfterFunc(s.opts.Drain+closeInTime, s.out.close)
	defer giveUp.Stop()
	s.flights.wait(s.opts.Drain)
	err = s.conn.Close() // calls that are still on their way fail now
	s.flights.wait(0)
	running.Wait()
	s.out.close()
	s.closeIn(readerDone, writerDone)
	if cause := context.Cause(ctx); cause != error(ErrClientGone) { //nolint:errorlint // joined with more, it is a failure
		return cause
	}
	return err
}

func newServer(o Options) (*server, error) {
	if o.In == nil || o.Out == nil || o.Gate == nil || o.Conn == nil || o.Now == nil {
		return nil, errors.New("a server needs a reader, a writer, a gate, an upstream and a clock")
	}
	if o.Drain <= 0 {
		o.Drain = defaultDrain
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = jsonrpc.DefaultMaxBytes
	}
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = defaultInFlight
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &server{
		opts: o, log: o.Logger, conn: o.Conn, session: newSession(o), out: newOut(o.Out),
		flights: newFlights(o.MaxInFlight), tokens: newTokens(), asks: newAsks(), listens: newListens(),
	}
	return s, nil
}

// A line is one line from the client, or what is wrong with it.
type line struct {
	text    []byte
	tooLong *jsonrpc.TooLongError
}

// readLines hands on lines until the client or ctx ends, and then cancels.
func readLines(ctx context.Context, r *jsonrpc.Reader, lines chan<- line, cancel context.CancelCauseFunc) {
	for {
		text, err := r.Next()
		tooLong, ok := errors.AsType[*jsonrpc.TooLongError](err)
		if err != nil && !ok {
			cancel(ErrClientGone)
			return
		}
		select {
		case lines <- line{text, tooLong}:
		case <-ctx.Done():
			return
		}
	}
}

func (s *server) loop(ctx context.Context, lines <-chan line) {
	for {
		select {
		case l := <-lines:
			s.line(ctx, l)
		case <-ctx.Done():
			return
		}
	}
}

// closeIn ends the reader and waits for it and the writer. One that can't be interrupted, as a terminal's, keeps its
// goroutine until the process ends.
func (s *server) closeIn(done ...<-chan struct{}) {
	if c, ok := s.opts.In.(io.Closer); ok {
		_ = c.Close() // nothing is read from it any more
	}
	timer := time.NewTimer(closeInTime)
	defer timer.Stop()
	for _, d := range done {
		select {
		case <-d:
		case <-timer.C:
			return
		}
	}
}
