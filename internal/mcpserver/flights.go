package mcpserver

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// An answer is what one request gets.
type answer struct {
	message []byte                         // nil if the client is to get none
	deliver func(write func() error) error // how it is to be written (see gateway.Answer); may be nil
	number  int                            // of the error that it is; 0 for a result
}

// A reply takes the answer to one request, once.
type reply func(answer)

// A flight is one request of the client that has no answer yet.
type flight struct {
	id     jsonrpc.ID
	method string
	ctx    context.Context
	cancel context.CancelCauseFunc
	reply  reply
	token  *token      // nil without a progress token
	elicit elicitation // of a subscription: what the client declared with it
}

// flights are the requests of one client.
type flights struct {
	max     int
	mu      sync.Mutex
	all     map[string]*flight
	running sync.WaitGroup
}

func newFlights(maxAll int) *flights { return &flights{max: maxAll, all: make(map[string]*flight)} }

// begin enters a request, or says why it is refused. It must not be called any more once wait was.
func (f *flights) begin(ctx context.Context, m *jsonrpc.Message, r reply) (*flight, *rpcError) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all[m.ID.Key()] != nil {
		return nil, &rpcError{jsonrpc.InvalidRequest, "a request with this id is still being answered"}
	}
	if len(f.all) >= f.max {
		return nil, &rpcError{jsonrpc.InternalError, "busy: too many requests are being answered; try again later"}
	}
	x := &flight{id: m.ID, method: m.Method, reply: r}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	f.all[m.ID.Key()] = x
	f.running.Add(1)
	return x, nil
}

// cancel ends the request with this id, if it is still in flight and may be cancelled.
func (f *flights) cancel(id jsonrpc.ID, cause error) {
	f.mu.Lock()
	x := f.all[id.Key()]
	f.mu.Unlock()
	if x != nil && x.method != "initialize" { // MCP: the initialize request must not be cancelled
		x.cancel(cause)
	}
}

// cancelAll ends all requests that are in flight.
func (f *flights) cancelAll(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.all {
		x.cancel(cause)
	}
}

// end takes the request out and answers it, unless the client wants no answer any more.
func (f *flights) end(x *flight, a answer) {
	if c := context.Cause(x.ctx); errors.Is(c, ErrCancelledByClient) || errors.Is(c, errWithdrawn) {
		a = answer{}
	}
	f.mu.Lock()
	delete(f.all, x.id.Key())
	f.mu.Unlock()
	x.cancel(nil)
	x.reply(a)
	f.running.Done()
}

// wait returns when no request is in flight, or after limit if that is not zero.
func (f *flights) wait(limit time.Duration) {
	if limit == 0 {
		f.running.Wait()
		return
	}
	idle := make(chan struct{})
	go func() {
		f.running.Wait()
		close(idle)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// A batch gathers the answers to the messages of one array into one array.
type batch struct {
	send reply

	mu       sync.Mutex
	left     int // messages that have not been dealt with
	messages [][]byte
	deliver  []func(func() error) error
}

// reply takes the answer to one message of the batch.
func (b *batch) reply(a answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.message != nil {
		b.messages = append(b.messages, a.message)
	}
	if a.deliver != nil {
		b.deliver = append(b.deliver, a.deliver)
	}
	if b.left--; b.left > 0 {
		return
	}
	if len(b.messages) == 0 {
		b.send(answer{})
		return
	}
	b.send(answer{message: jsonrpc.Batch(b.messages), deliver: func(write func() error) error {
		for _, d := range b.deliver {
			inner := write
			write = func() error { return d(inner) }
		}
		return write()
	}})
}
