package mcpserver

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
	"github.com/counterfoil/counterfoil/internal/upstream"
)

// batchVersion is the one revision of the protocol that has arrays of messages.
const batchVersion = "2025-03-26"

// A Session is the upstream as the gate sees it, and what is known of the conversation with it. It is a
// gateway.Upstream.
type Session struct {
	name     string
	identity []byte
	conn     *upstream.Conn
	now      func() time.Time

	mu       sync.Mutex
	version  string // negotiated by initialize, "" before
	elicit   elicitation
	changes  uint64 // how often the definitions were said to have changed
	cached   *definitions
	listing  chan struct{} // holds one token: only one caller lists at a time
	listTime time.Duration
}

// elicitation is what a client declared about questions to its user.
type elicitation struct{ form, url bool }

func newSession(o Options) *Session {
	s := &Session{
		name: o.Name, identity: slices.Clone(o.Identity), conn: o.Conn, now: o.Now,
		listing: make(chan struct{}, 1), listTime: defaultListTime,
	}
	s.listing <- struct{}{}
	return s
}

// Identity returns the upstream's identity document.
func (s *Session) Identity() []byte { return slices.Clone(s.identity) }

// Name returns the upstream's name for people.
func (s *Session) Name() string { return s.name }

// initialized takes note of the answer to an initialize request.
func (s *Session) initialized(params, result []byte) {
	version, _ := jsonrpc.Unquote(member(object(result), "protocolVersion"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
	s.elicit = declaredIn(member(object(params), "capabilities"))
	s.changes++
	s.cached = nil
}

func (s *Session) batches() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version == batchVersion
}

func (s *Session) elicitation() elicitation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.elicit
}

// declaredIn reads the elicitation capability: empty means forms alone.
func declaredIn(capabilities []byte) elicitation {
	e := member(object(capabilities), "elicitation")
	if e == nil || e[0] != '{' {
		return elicitation{}
	}
	modes := object(e)
	url := member(modes, "url") != nil
	return elicitation{form: !url || member(modes, "form") != nil, url: url}
}

// declared reads the elicitation capability that a stateless request declares in its _meta.
func declared(meta []byte) elicitation { return declaredIn(member(object(meta), metaCapabilities)) }

// isModern reports whether a request with this _meta describes itself, so that it needs no initialize before it.
func isModern(meta []byte) bool {
	v, ok := jsonrpc.Unquote(member(object(meta), metaVersion))
	return ok && v != ""
}

// ready reports whether the upstream can be asked something in a request with this _meta.
func (s *Session) ready(meta []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version == "" && !isModern(meta) {
		return &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "the session is not initialized", Err: gateway.ErrUnsent}
	}
	return nil
}

// Send sends an approved request, composed from r alone, and waits for the answer.
func (s *Session) Send(ctx context.Context, r gateway.Request) (gateway.Answer, error) {
	if err := s.ready(r.Meta); err != nil {
		return gateway.Answer{}, err
	}
	params, err := composeParams(r)
	if err != nil {
		return gateway.Answer{}, err
	}
	reply, err := s.conn.Do(ctx, func(id jsonrpc.ID) []byte { return jsonrpc.NewRequest(id, r.Method, params) }, r.MaxBytes)
	if err != nil {
		return gateway.Answer{}, err
	}
	if reply.Error != nil {
		return gateway.Answer{Error: reply.Error}, nil
	}
	result := reply.Result
	if isModern(r.Meta) {
		if result, err = checkInputs(result, declared(r.Meta), s.name); err != nil {
			return gateway.Answer{}, &counterfoil.Error{Code: counterfoil.CodeUnknownOutcome, Msg: err.Error()}
		}
	}
	return gateway.Answer{Result: result}, nil
}

// composeParams writes the params of an approved request.
func composeParams(r gateway.Request) ([]byte, error) {
	var params []jsonrpc.Member
	var err error
	if r.Method == "tools/call" {
		params = append(params, jsonrpc.Member{Name: "name", Value: jsonrpc.Quote(r.Tool)})
		if r.Arguments != nil {
			params = append(params, jsonrpc.Member{Name: "arguments", Value: r.Arguments})
		}
		params, err = appendMembers(params, r.Extra)
	} else {
		params, err = appendMembers(nil, r.Arguments)
	}
	if err != nil {
		return nil, err
	}
	if r.Meta != nil {
		params = append(params, jsonrpc.Member{Name: "_meta", Value: r.Meta})
	}
	if params == nil && r.Arguments == nil {
		return nil, nil
	}
	return jsonrpc.Object(params), nil
}

// appendMembers appends the members of an object that come from the call's own, which must not repeat one of ours.
func appendMembers(params []jsonrpc.Member, raw []byte) ([]jsonrpc.Member, error) {
	if raw == nil {
		return params, nil
	}
	more, err := jsonrpc.Members(raw)
	if err != nil {
		return nil, unsendable("the parameters of the request are not an object")
	}
	reserved := []string{"_meta"}
	for _, p := range params {
		reserved = append(reserved, p.Name)
	}
	for _, m := range more {
		if slices.Contains(reserved, m.Name) {
			return nil, unsendable("a parameter of the request has a reserved name")
		}
	}
	if jsonrpc.Ambiguous(more, reserved...) {
		return nil, unsendable("a parameter's name is ambiguous")
	}
	return append(params, more...), nil
}

func unsendable(msg string) error {
	return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: msg, Err: gateway.ErrUnsent}
}
