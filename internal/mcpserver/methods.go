package mcpserver

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
	"github.com/counterfoil/counterfoil/internal/upstream"
)

// isOffered reports whether the endpoint has a method.
func isOffered(method string, modern bool) bool {
	switch method {
	case "tools/list", "resources/list", "resources/templates/list", "prompts/list", "tools/call", "resources/read", "prompts/get",
		"completion/complete":
		return true
	case "server/discover":
		return modern
	case "initialize", "ping":
		return !modern
	default:
		return false
	}
}

// serve answers one request.
func (v *visit) serve(f *flight, m *jsonrpc.Message) answer {
	if !isOffered(m.Method, v.modern) {
		return failed(f.id, &rpcError{jsonrpc.MethodNotFound, "the server does not offer this method"})
	}
	switch m.Method {
	case "initialize":
		return v.initialize(f, m)
	case "server/discover":
		return v.discover(f)
	case "ping":
		return answer{message: jsonrpc.NewResult(f.id, []byte(`{}`))}
	case "tools/list", "resources/list", "resources/templates/list", "prompts/list":
		return v.list(f, m)
	default:
		return v.call(f, m)
	}
}

// capabilities are what the endpoint has, whatever is behind it at the moment.
func (v *visit) capabilities() []byte {
	if v.modern {
		return []byte(`{"completions":{},"prompts":{},"resources":{},"tools":{}}`)
	}
	return []byte(`{"completions":{},"prompts":{},"resources":{},"tools":{"listChanged":true}}`)
}

func (v *visit) serverInfo() []byte {
	return jsonrpc.Object([]jsonrpc.Member{
		{Name: "name", Value: []byte(`"counterfoil"`)},
		{Name: "version", Value: jsonrpc.Quote(v.opts.Version)},
	})
}

// initialize begins a session.
func (v *visit) initialize(f *flight, m *jsonrpc.Message) answer {
	asked, ok := jsonrpc.Unquote(member(object(m.Params), "protocolVersion"))
	if !ok {
		return failed(f.id, invalidParams("the protocol version is missing"))
	}
	version := legacyVersions()[0]
	if slices.Contains(legacyVersions(), asked) {
		version = asked
	}
	s, err := v.seal.mint(v.p.Tenant, v.p.Actor(), version, v.opts.Now())
	if err != nil {
		return decider{log: v.log}.broken(f, "a session could not be made", err)
	}
	v.out.header(headerSession, s.id)
	return answer{message: jsonrpc.NewResult(f.id, jsonrpc.Object([]jsonrpc.Member{
		{Name: "protocolVersion", Value: jsonrpc.Quote(version)},
		{Name: "capabilities", Value: v.capabilities()},
		{Name: "serverInfo", Value: v.serverInfo()},
	}))}
}

// discover tells a modern client what there is.
func (v *visit) discover(f *flight) answer {
	return answer{message: jsonrpc.NewResult(f.id, jsonrpc.Object([]jsonrpc.Member{
		{Name: "resultType", Value: []byte(`"complete"`)},
		{Name: "supportedVersions", Value: quoteAll(supportedVersions())},
		{Name: "capabilities", Value: v.capabilities()},
		{Name: "ttlMs", Value: []byte("60000")},
		{Name: "cacheScope", Value: []byte(`"private"`)},
		{Name: "_meta", Value: jsonrpc.Object([]jsonrpc.Member{{Name: metaPrefix + "serverInfo", Value: v.serverInfo()}})},
	}))}
}

// notRelayed are the members of a call's params that would begin or go on with what the endpoint does not have: tasks, and
// requests in several rounds.
func notRelayed(params []jsonrpc.Member) bool {
	return slices.ContainsFunc(params, func(m jsonrpc.Member) bool {
		return strings.EqualFold(m.Name, "task") || strings.EqualFold(m.Name, "inputResponses") || strings.EqualFold(m.Name, "requestState")
	})
}

// call takes a request through the gate.
func (v *visit) call(f *flight, m *jsonrpc.Message) answer {
	if notRelayed(object(m.Params)) {
		return failed(f.id, invalidParams("the server has no tasks and no requests in several rounds"))
	}
	c, refused := parseCall(m)
	if refused != nil {
		return failed(f.id, refused)
	}
	mounts, err := v.opts.Upstreams(f.ctx, v.p.Tenant)
	if err != nil {
		return decider{log: v.log}.broken(f, "the tenant's upstreams are not known", err)
	}
	mount, refused := route(&c, mounts)
	if refused != nil {
		return failed(f.id, refused)
	}
	if v.modern && c.Method == "tools/call" {
		if refused := v.checkMirrored(f.ctx, c); refused != nil {
			return failed(f.id, refused)
		}
	}
	c.Tenant, c.Principal, c.Owner, c.Run = v.p.Tenant, v.p.Actor(), v.p.Answers(), v.p.Run("mcp", v.opts.Now())
	if v.opts.Run != nil {
		c.Run = v.opts.Run(f.ctx, v.p)
	}
	c.Hold = v.opts.Hold
	tokens := newTokens() // the progress of a request goes to its own stream
	if f.token = tokens.acquire(c.Meta, false); f.token != nil {
		c.Progress = func(waited time.Duration, message string) { tokens.held(f.token, waited, message, v.out.event) }
		f.ctx = upstream.WithProgress(f.ctx, v.progress(f, tokens))
		defer tokens.release(f.token)
	}
	v.log.LogAttrs(f.ctx, slog.LevelDebug, "a call", slog.String("upstream", mount.Name), slog.String("method", c.Method))
	return decider{gate: v.opts.Gate, log: v.log, adapt: func(a gateway.Answer) gateway.Answer {
		return v.adapt(c.Method, mount, a)
	}}.decide(f, c)
}
