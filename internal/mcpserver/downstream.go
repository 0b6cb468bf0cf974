package mcpserver

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// downstream takes what the upstream says unasked.
type downstream struct {
	*server
	ctx context.Context
}

// maxAsks bounds the questions of the upstream that the client has not answered.
const maxAsks = 32

// asks are the upstream's questions that the client has not answered, by the ids that the client knows them by.
type asks struct {
	mu   sync.Mutex
	last int64
	all  map[int64]jsonrpc.ID
}

func newAsks() *asks { return &asks{all: make(map[int64]jsonrpc.ID)} }

// add enters the upstream's id and returns ours, or false if there are too many.
func (a *asks) add(theirs jsonrpc.ID) (jsonrpc.ID, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) >= maxAsks {
		return jsonrpc.ID{}, false
	}
	a.last++
	a.all[a.last] = theirs
	return jsonrpc.IntID(a.last), true
}

// take removes a question by our id and returns the upstream's.
func (a *asks) take(mine jsonrpc.ID) (jsonrpc.ID, bool) {
	n, ok := mine.Int()
	if !ok {
		return jsonrpc.ID{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	theirs, ok := a.all[n]
	delete(a.all, n)
	return theirs, ok
}

// withdraw removes a question by the upstream's id and returns ours.
func (a *asks) withdraw(theirs jsonrpc.ID) (jsonrpc.ID, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for n, id := range a.all {
		if id.Key() == theirs.Key() {
			delete(a.all, n)
			return jsonrpc.IntID(n), true
		}
	}
	return jsonrpc.ID{}, false
}

// Ask answers the upstream's request. Only a question to the user goes on to the client, if it takes such: never one for
// the client's model or folders, never one that we do not know.
func (d downstream) Ask(m *jsonrpc.Message) {
	switch m.Method {
	case "ping":
		d.post(d.ctx, jsonrpc.NewResult(m.ID, []byte(`{}`)))
	case "elicitation/create":
		d.elicit(m)
	default:
		d.log.LogAttrs(d.ctx, slog.LevelInfo, "a request of the upstream was refused", slog.String("method", clip(m.Method)))
		d.refuse(m, jsonrpc.MethodNotFound, "the client does not offer this method")
	}
}

func (d downstream) refuse(m *jsonrpc.Message, number int, msg string) {
	d.post(d.ctx, (&rpcError{number, msg}).message(m.ID))
}

func (d downstream) elicit(m *jsonrpc.Message) {
	e := d.session.elicitation()
	if e == (elicitation{}) {
		d.refuse(m, jsonrpc.MethodNotFound, "the client does not offer this method")
		return
	}
	params, err := markQuestion(m.Params, e, d.opts.Name)
	if err != nil {
		d.refuse(m, jsonrpc.InvalidParams, err.Error())
		return
	}
	id, ok := d.asks.add(m.ID)
	if !ok {
		d.refuse(m, jsonrpc.InternalError, "too many questions are waiting for the user")
		return
	}
	_ = d.out.send(m.With(id, params)) // a dead client ends the session
}

// Notify passes the upstream's notification on to the client.
func (d downstream) Notify(m *jsonrpc.Message) {
	var relayed bool
	switch {
	case !strings.HasPrefix(m.Method, "notifications/") || !isObject(m.Params): // dropped
	case m.Method == "notifications/progress":
		relayed = d.tokens.relay(m, d.out.send)
	case m.Method == "notifications/cancelled":
		relayed = d.cancelled(m)
	default:
		relayed = d.notify(m)
	}
	if !relayed {
		d.log.LogAttrs(d.ctx, slog.LevelDebug, "a notification of the upstream was dropped", slog.String("method", clip(m.Method)))
	}
}

func (d downstream) notify(m *jsonrpc.Message) bool {
	if m.Method == "notifications/tools/list_changed" {
		d.session.forget()
	}
	params := m.Params
	var declared elicitation
	if mine, ok := memberID(member(object(params), "_meta"), metaSubscriptionID); ok {
		f, ok := d.listens.find(mine)
		if !ok {
			return false
		}
		declared = f.elicit
		params = withSubscriptionID(params, mine, f.id)
	}
	if m.Method == "notifications/tasks" {
		var err error
		if params, err = checkInputs(params, declared, d.opts.Name); err != nil {
			return false
		}
	}
	_ = d.out.send(m.With(jsonrpc.ID{}, params)) // a dead client ends the session
	return true
}

// cancelled passes on that the upstream withdraws a question of its own or ends a subscription of the client's.
func (d downstream) cancelled(m *jsonrpc.Message) bool {
	named, ok := memberID(m.Params, "requestId")
	if !ok {
		return false
	}
	id, ok := d.asks.withdraw(named)
	if f, listening := d.listens.find(named); listening {
		id, ok = f.id, true
		// The upstream will not answer it, and the client is told by the notification.
		f.cancel(errWithdrawn)
	}
	if !ok {
		return false
	}
	_ = d.out.send(m.With(jsonrpc.ID{}, replace(m.Params, "requestId", []byte(id.String())))) // a dead client ends the session
	return true
}
