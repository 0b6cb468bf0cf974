package mcpserver

import (
	"context"
	"slices"
	"strings"
	"sync"

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
	tools    *upstream.Lister

	mu      sync.Mutex
	version string // negotiated by initialize, "" before
	elicit  elicitation
}

// elicitation is what a client declared about questions to its user.
type elicitation struct{ form, url bool }

func newSession(o Options) *Session {
	s := &Session{name: o.Name, identity: slices.Clone(o.Identity), conn: o.Conn}
	s.tools = upstream.NewLister(o.Now, func(ctx context.Context, method string, params []byte) (*jsonrpc.Message, error) {
		return s.conn.Do(ctx, func(id jsonrpc.ID) []byte { return jsonrpc.NewRequest(id, method, params) }, 0)
	})
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
	s.tools.Forget()
}

// forget makes the next call of Definitions list anew.
func (s *Session) forget() { s.tools.Forget() }

// Definitions returns the definitions of all tools of the upstream, as it wrote them. A list is kept until the upstream
// says that its tools have changed; one that stateless requests asked for, which needs a subscription for that, as long as
// its ttlMs says.
func (s *Session) Definitions(ctx context.Context, meta []byte, refresh bool) ([][]byte, error) {
	if err := s.ready(meta); err != nil {
		return nil, err
	}
	if refresh {
		s.forget()
	}
	keep := upstream.KeepUntilTold
	if isModern(meta) {
		keep = upstream.KeepAsSaid
	}
	return s.tools.Tools(ctx, listMeta(meta), keep)
}

// listMeta is what of a call's _meta goes along when the tools are listed for it: all that describes the client, nothing
// that belongs to the one request.
func listMeta(meta []byte) []byte {
	var kept []jsonrpc.Member
	for _, m := range object(meta) {
		if strings.HasPrefix(m.Name, metaPrefix) {
			kept = append(kept, m)
		}
	}
	if kept == nil {
		return nil
	}
	return jsonrpc.Object(kept)
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
	params, err := upstream.Params(r)
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
