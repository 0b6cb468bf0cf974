package mcpserver

import (
	"strconv"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

const (
	// heldEvery is the least time between two notifications about a held call. It is a little less than the 10 s that
	// are meant, because whoever calls every 10 s does not do so to the millisecond.
	heldEvery = 9500 * time.Millisecond
	// heldStep is what a held call's progress grows by. It is small, so that the upstream's own count, which begins
	// later under the same token and must still grow, is hardly touched.
	heldStep = 0.001
	// maxTaskTokens bounds the tokens that are kept for tasks.
	maxTaskTokens = 1024
)

// A token is a progress token that the client gave with one or more requests.
type token struct {
	raw      []byte
	key      string
	requests int  // in flight
	task     bool // it stays valid after them
	last     float64
	any      bool // last was sent
	heldAt   time.Duration
	wasHeld  bool
}

// tokens sees to it that the progress under each token grows and ends with its request. Its lock is held while a
// notification is written, so that none can be written after the answer.
type tokens struct {
	mu    sync.Mutex
	all   map[string]*token
	tasks int
}

func newTokens() *tokens { return &tokens{all: make(map[string]*token)} }

// acquire enters the progress token in a request's _meta; without a valid one it returns nil.
func (t *tokens) acquire(meta []byte, task bool) *token {
	id, ok := memberID(meta, metaProgressToken)
	if !ok {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	tok := t.all[id.Key()]
	if tok == nil {
		tok = &token{raw: []byte(id.String()), key: id.Key()}
		t.all[tok.key] = tok
	}
	tok.requests++
	if task && !tok.task && t.tasks < maxTaskTokens {
		tok.task = true
		t.tasks++
	}
	return tok
}

// release ends one request's use of a token, which may be nil.
func (t *tokens) release(tok *token) {
	if tok == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if tok.requests--; tok.requests == 0 && !tok.task {
		delete(t.all, tok.key)
	}
}

// held reports that a call waits for a person.
func (t *tokens) held(tok *token, waited time.Duration, message string, send func([]byte) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if tok.requests == 0 || tok.wasHeld && waited-tok.heldAt < heldEvery {
		return
	}
	tok.wasHeld, tok.heldAt = true, waited
	tok.last += heldStep
	tok.any = true
	_ = send(jsonrpc.NewNotification("notifications/progress", jsonrpc.Object([]jsonrpc.Member{ // a dead client has its own way to be noticed
		{Name: metaProgressToken, Value: tok.raw},
		{Name: "progress", Value: strconv.AppendFloat(nil, tok.last, 'f', -1, 64)},
		{Name: "message", Value: jsonrpc.Quote(message)},
	})))
}

// relay passes on the upstream's progress notification if there is a request with its token and it grows.
func (t *tokens) relay(m *jsonrpc.Message, send func([]byte) error) bool {
	params := object(m.Params)
	id, err := jsonrpc.ParseID(member(params, metaProgressToken))
	if err != nil {
		return false
	}
	progress, err := strconv.ParseFloat(string(member(params, "progress")), 64)
	if err != nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	tok := t.all[id.Key()]
	if tok == nil || tok.any && progress <= tok.last {
		return false
	}
	tok.last, tok.any = progress, true
	_ = send(m.Bytes()) // a dead client has its own way to be noticed
	return true
}
