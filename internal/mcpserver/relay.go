package mcpserver

import (
	"context"
	"log/slog"
	"sync"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// relay passes a request of the protocol's own on to the upstream, and the answer back.
func (s *server) relay(f *flight, m *jsonrpc.Message) {
	params, refused := relayedParams(m)
	if refused != nil {
		s.end(f, answer{message: refused.message(f.id)})
		return
	}
	meta := member(object(m.Params), "_meta")
	if isObject(meta) {
		f.token = s.tokens.acquire(meta, false)
	}
	listening := m.Method == "subscriptions/listen"
	f.elicit = declared(meta)
	compose := func(id jsonrpc.ID) []byte {
		if listening {
			s.listens.add(id, f)
		}
		return m.With(id, params)
	}
	var mine jsonrpc.ID
	call, err := s.conn.Begin(func(id jsonrpc.ID) []byte { mine = id; return compose(id) }, 0, func(reply *jsonrpc.Message, err error) {
		if listening {
			s.listens.remove(mine)
		}
		s.end(f, s.relayed(f, m, mine, reply, err))
	})
	if err != nil {
		s.listens.remove(mine)
		s.end(f, s.relayed(f, m, mine, nil, err))
		return
	}
	context.AfterFunc(f.ctx, func() { call.Cancel(context.Cause(f.ctx)) }) // after the end it finds nothing to do
}

// relayed returns the answer to a relayed request, and takes note of what it says about the session.
func (s *server) relayed(f *flight, m *jsonrpc.Message, mine jsonrpc.ID, reply *jsonrpc.Message, err error) answer {
	if err != nil {
		r := upstreamFailure(err)
		s.log.LogAttrs(f.ctx, slog.LevelInfo, "a relayed request failed", slog.String("method", m.Method),
			slog.String("reason", string(r.Reason)), slog.String("cause", err.Error()))
		return answer{message: refusalMessage(f.id, r)}
	}
	if reply.Result == nil {
		return answer{message: reply.With(f.id, nil)}
	}
	switch m.Method {
	case "initialize":
		s.session.initialized(m.Params, reply.Result)
		s.conn.AllowBatches(s.session.batches())
	case "tools/list":
		// What the agent has just been shown may differ from what was listed for the gate before.
		s.session.forget()
	case "tasks/get", "tasks/result":
		if !isModern(member(object(m.Params), "_meta")) {
			break
		}
		result, err := checkInputs(reply.Result, declared(member(object(m.Params), "_meta")), s.opts.Name)
		if err != nil {
			s.log.LogAttrs(f.ctx, slog.LevelWarn, "an answer was withheld", slog.String("method", m.Method), slog.String("cause", err.Error()))
			return answer{message: (&rpcError{jsonrpc.InternalError, err.Error()}).message(f.id)}
		}
		return answer{message: jsonrpc.NewResult(f.id, result)}
	case "subscriptions/listen":
		return answer{message: jsonrpc.NewResult(f.id, withSubscriptionID(reply.Result, mine, f.id))}
	}
	return answer{message: reply.With(f.id, nil)}
}

// listens are the open subscriptions/listen requests by the id that the upstream knows them by. The upstream names that
// id in every message of the subscription; the client knows another.
type listens struct {
	mu  sync.Mutex
	all map[string]*flight
}

func newListens() *listens { return &listens{all: make(map[string]*flight)} }

func (l *listens) add(mine jsonrpc.ID, f *flight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[mine.Key()] = f
}

func (l *listens) remove(mine jsonrpc.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, mine.Key())
}

// find returns the client's id for a subscription.
func (l *listens) find(mine jsonrpc.ID) (*flight, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, ok := l.all[mine.Key()]
	return f, ok
}

// withSubscriptionID returns the object in raw with the client's id in place of ours as its subscription's.
func withSubscriptionID(raw []byte, mine, theirs jsonrpc.ID) []byte {
	meta := member(object(raw), "_meta")
	if id, ok := memberID(meta, metaSubscriptionID); !ok || id.Key() != mine.Key() {
		return raw
	}
	return replace(raw, "_meta", replace(meta, metaSubscriptionID, []byte(theirs.String())))
}
