package mcpserver

import (
	"context"
	"strconv"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
	"github.com/counterfoil/counterfoil/internal/upstream"
)

// checkMirrored checks the headers that repeat arguments. A tool that is not found is the gate's to refuse.
func (v *visit) checkMirrored(ctx context.Context, c gateway.Call) *rpcError {
	definitions, err := c.Upstream.Definitions(ctx, nil, false)
	if err != nil {
		return nil
	}
	for _, d := range definitions {
		if name, _ := jsonrpc.Unquote(member(object(d), "name")); name != c.Tool {
			continue
		}
		mirrors, err := upstream.Mirrors(d)
		if err != nil {
			return nil
		}
		for _, m := range mirrors {
			if !m.Matches(v.r.Header, c.Arguments) {
				return &rpcError{headerMismatch, "an argument is not the same in header and body"}
			}
		}
	}
	return nil
}

// progress passes an upstream's progress on to the client, under the token that the client gave.
func (v *visit) progress(f *flight, t *tokens) func(params []byte) {
	return func(params []byte) {
		note := jsonrpc.NewNotification("notifications/progress", replace(params, metaProgressToken, f.token.raw))
		m, err := jsonrpc.Parse(note, v.opts.MaxBytes)
		if err == nil {
			t.relay(m, v.out.event)
		}
	}
}

// adapt gives an upstream's answer the form that the client's revision has, and its URIs the endpoint's names. Nothing
// else is changed in it.
func (v *visit) adapt(method string, m Mount, a gateway.Answer) gateway.Answer {
	if a.Error != nil {
		if v.modern {
			a.Error = modernError(a.Error)
		}
		return a
	}
	a.Result = m.outwardResult(method, a.Result)
	if !v.modern {
		return a
	}
	a.Result = withMember(a.Result, "resultType", []byte(`"complete"`), false)
	if method == "resources/read" {
		a.Result = withMember(a.Result, "ttlMs", []byte("0"), false)
		a.Result = withMember(a.Result, "cacheScope", []byte(`"private"`), true)
	}
	return a
}

// modernError replaces the numbers that older revisions had and the modern one forbids.
func modernError(raw []byte) []byte {
	number := numberOf(raw)
	switch {
	case number == -32002: // an unknown resource
		number = jsonrpc.InvalidParams
	case number == missingCapability, number == headerMismatch, number == unsupportedVersion, number == -32042, number <= -32020 && number >= -32099:
		// The first three are about our own request, not about the client's.
		number = jsonrpc.InternalError
	default:
		return raw
	}
	return replace(raw, "code", strconv.AppendInt(nil, int64(number), 10))
}

// withMember returns the object in raw with one more member; one that is there stays as it is, unless it is to be
// overwritten.
func withMember(raw []byte, name string, value []byte, overwrite bool) []byte {
	members := object(raw)
	if old := member(members, name); old != nil {
		if !overwrite {
			return raw
		}
		return replace(raw, name, value)
	}
	return jsonrpc.Object(append(members, jsonrpc.Member{Name: name, Value: value}))
}

// outwardResult puts the mount's name before the URIs of resources in a result.
func (m Mount) outwardResult(method string, result []byte) []byte {
	switch method {
	case "resources/read":
		return m.eachOf(result, "contents", m.outwardURI)
	case "tools/call":
		return m.eachOf(result, "content", m.outwardContent)
	case "prompts/get":
		return m.eachOf(result, "messages", func(message []byte) []byte {
			content := member(object(message), "content")
			if content == nil {
				return message
			}
			return changed(message, "content", m.outwardContent(content))
		})
	default:
		return result
	}
}

// eachOf changes the elements of an array in the object in raw.
func (m Mount) eachOf(raw []byte, name string, change func([]byte) []byte) []byte {
	list := member(object(raw), name)
	if list == nil || list[0] != '[' {
		return raw
	}
	elements, err := jsonrpc.Elements(list)
	if err != nil {
		return raw
	}
	same := true
	for i, e := range elements {
		elements[i] = change(e)
		same = same && string(elements[i]) == string(e)
	}
	if same {
		return raw
	}
	return replace(raw, name, jsonrpc.Batch(elements))
}

// outwardContent changes the URI of a link to a resource, or of a resource that is part of the content.
func (m Mount) outwardContent(content []byte) []byte {
	members := object(content)
	switch kind, _ := jsonrpc.Unquote(member(members, "type")); kind {
	case "resource_link":
		return m.outwardURI(content)
	case "resource":
		if r := member(members, "resource"); r != nil {
			return changed(content, "resource", m.outwardURI(r))
		}
	}
	return content
}

func (m Mount) outwardURI(raw []byte) []byte {
	uri, ok := jsonrpc.Unquote(member(object(raw), "uri"))
	if !ok {
		return raw
	}
	return replace(raw, "uri", jsonrpc.Quote(m.Name+uriSeparator+uri))
}

// changed is replace, for a value that may be the same.
func changed(raw []byte, name string, value []byte) []byte {
	if string(member(object(raw), name)) == string(value) {
		return raw
	}
	return replace(raw, name, value)
}
