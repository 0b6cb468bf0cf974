package mcpserver

import (
	"strings"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// The names in _meta that mean something to us.
const (
	metaPrefix         = "io.modelcontextprotocol/"
	metaVersion        = metaPrefix + "protocolVersion"
	metaCapabilities   = metaPrefix + "clientCapabilities"
	metaSubscriptionID = metaPrefix + "subscriptionId"
	metaProgressToken  = "progressToken"
)

// object returns the members of an object that was parsed before, none for nil.
func object(raw []byte) []jsonrpc.Member {
	if raw == nil {
		return nil
	}
	m, err := jsonrpc.Members(raw)
	if err != nil {
		return nil
	}
	return m
}

// member returns the value of the first member with this name, or nil.
func member(members []jsonrpc.Member, name string) []byte {
	for _, m := range members {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// memberID returns the member of the object in raw that is an id.
func memberID(raw []byte, name string) (jsonrpc.ID, bool) {
	v := member(object(raw), name)
	if v == nil {
		return jsonrpc.ID{}, false
	}
	id, err := jsonrpc.ParseID(v)
	return id, err == nil
}

// replace returns the object in raw with another value for one of its members.
func replace(raw []byte, name string, value []byte) []byte {
	members := object(raw)
	for i := range members {
		if members[i].Name == name {
			members[i].Value = value
		}
	}
	return jsonrpc.Object(members)
}

// withoutCapabilities removes from declared client capabilities those that are not relayed: the upstream may neither use
// the client's model nor see its folders. Some readers ignore letter case, so it is ignored here too.
func withoutCapabilities(raw []byte) ([]byte, *rpcError) {
	members, err := jsonrpc.Members(raw)
	if err != nil {
		return nil, invalidParams("the client's capabilities are not an object")
	}
	kept := make([]jsonrpc.Member, 0, len(members))
	for _, m := range members {
		if !strings.EqualFold(m.Name, "sampling") && !strings.EqualFold(m.Name, "roots") {
			kept = append(kept, m)
		}
	}
	if len(kept) == len(members) {
		return raw, nil
	}
	return jsonrpc.Object(kept), nil
}

// relayedParams returns the params to relay instead of m's, nil for m's own. Nothing is changed in them but the declared
// capabilities.
func relayedParams(m *jsonrpc.Message) ([]byte, *rpcError) {
	params := object(m.Params)
	changed := false
	for i, p := range params {
		var v []byte
		var err *rpcError
		switch {
		case p.Name == "_meta" && p.Value[0] == '{':
			v, err = relayedMeta(p.Value)
		case m.Method == "initialize" && p.Name == "capabilities":
			v, err = withoutCapabilities(p.Value)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		changed = changed || string(v) != string(p.Value)
		params[i].Value = v
	}
	if !changed {
		return nil, nil
	}
	return jsonrpc.Object(params), nil
}

func relayedMeta(raw []byte) ([]byte, *rpcError) {
	members := object(raw)
	for i, m := range members {
		if !strings.EqualFold(m.Name, metaCapabilities) {
			continue
		}
		v, err := withoutCapabilities(m.Value)
		if err != nil {
			return nil, err
		}
		if string(v) == string(m.Value) {
			continue
		}
		members[i].Value = v
		raw = jsonrpc.Object(members)
	}
	return raw, nil
}

// passedMeta reduces a call's _meta to the members that may pass.
func passedMeta(raw []byte) ([]byte, *rpcError) {
	members, err := jsonrpc.Members(raw)
	if err != nil {
		return nil, invalidParams("_meta is not an object")
	}
	var kept []jsonrpc.Member
	for _, m := range members {
		switch {
		case m.Name == metaProgressToken:
			if _, err := jsonrpc.ParseID(m.Value); err != nil {
				return nil, invalidParams("the progress token is not a string or an integer")
			}
		case m.Name == metaCapabilities:
			v, err := withoutCapabilities(m.Value)
			if err != nil {
				return nil, err
			}
			m.Value = v
		case strings.EqualFold(m.Name, metaCapabilities):
			continue // another reader might take it for the one above
		case m.Name == "traceparent", m.Name == "tracestate", m.Name == "baggage", strings.HasPrefix(m.Name, metaPrefix):
		default:
			continue
		}
		kept = append(kept, m)
	}
	if kept == nil {
		return nil, nil
	}
	return jsonrpc.Object(kept), nil
}

// parseCall turns a request into a call for the gate: its method, tool, arguments, extra members and reduced _meta.
func parseCall(m *jsonrpc.Message) (gateway.Call, *rpcError) {
	members := object(m.Params)
	if m.Method == "tools/call" {
		return parseToolCall(members)
	}
	if jsonrpc.Ambiguous(members, "_meta") {
		return gateway.Call{}, invalidParams("a member name in params is ambiguous")
	}
	c := gateway.Call{Method: m.Method, Tool: m.Method, Arguments: m.Params}
	var rest []jsonrpc.Member
	for _, x := range members {
		if x.Name != "_meta" {
			rest = append(rest, x)
			continue
		}
		var err *rpcError
		if c.Meta, err = passedMeta(x.Value); err != nil {
			return gateway.Call{}, err
		}
	}
	if len(rest) < len(members) {
		c.Arguments = jsonrpc.Object(rest)
	}
	return c, nil
}

func parseToolCall(members []jsonrpc.Member) (gateway.Call, *rpcError) {
	if jsonrpc.Ambiguous(members, "name", "arguments", "_meta") {
		return gateway.Call{}, invalidParams("a member name in params is ambiguous")
	}
	c := gateway.Call{Method: "tools/call"}
	var extra []jsonrpc.Member
	for _, x := range members {
		switch x.Name {
		case "name":
			var ok bool
			if c.Tool, ok = jsonrpc.Unquote(x.Value); !ok {
				return gateway.Call{}, invalidParams("the tool's name is not a string")
			}
		case "arguments":
			if x.Value[0] != '{' {
				return gateway.Call{}, invalidParams("the tool's arguments are not an object")
			}
			c.Arguments = x.Value
		case "_meta":
			var err *rpcError
			if c.Meta, err = passedMeta(x.Value); err != nil {
				return gateway.Call{}, err
			}
		default:
			extra = append(extra, x)
		}
	}
	if c.Tool == "" {
		return gateway.Call{}, invalidParams("the tool has no name")
	}
	if extra != nil {
		c.Extra = jsonrpc.Object(extra)
	}
	return c, nil
}
