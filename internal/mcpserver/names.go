package mcpserver

import (
	"strings"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

const (
	maxMountName = 32
	maxName      = 128 // of a tool or prompt at the endpoint: the bound of MCP
)

// Names at the endpoint are the mount's, a separator that no mount's name has, and the upstream's own name. So they can be
// taken apart in one way only, and no upstream can take another's.
const (
	nameSeparator = "."
	uriSeparator  = "+" // with it a mount's name can begin the scheme of a URI
)

// isMountName reports whether s is 1 to 32 lower-case letters, digits and hyphens, a letter first.
func isMountName(s string) bool {
	if s == "" || len(s) > maxMountName || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// outer returns the endpoint's name for an upstream's, or false if there can be none.
func (m Mount) outer(name string) (string, bool) {
	s := m.Name + nameSeparator + name
	if name == "" || len(s) > maxName {
		return "", false
	}
	for _, c := range []byte(name) {
		if !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-", rune(c)) {
			return "", false
		}
	}
	return s, true
}

// find takes a name of the endpoint apart.
func find(mounts []Mount, name, separator string) (Mount, string, bool) {
	prefix, rest, ok := strings.Cut(name, separator)
	if !ok || rest == "" || !isMountName(prefix) {
		return Mount{}, "", false
	}
	for _, m := range mounts {
		if m.Name == prefix {
			return m, rest, m.Upstream != nil
		}
	}
	return Mount{}, "", false
}

// route finds the upstream of a call and puts the upstream's own name into it.
func route(c *gateway.Call, mounts []Mount) (Mount, *rpcError) {
	unknown := invalidParams("the server has no tool, prompt or resource of this name")
	if c.Method == "tools/call" {
		m, rest, ok := find(mounts, c.Tool, nameSeparator)
		if !ok {
			return Mount{}, unknown
		}
		c.Upstream, c.Tool = m.Upstream, rest
		return m, nil
	}
	arguments, err := jsonrpc.Members(c.Arguments)
	if err != nil || jsonrpc.Ambiguous(arguments, "name", "uri", "ref") {
		return Mount{}, invalidParams("a member name in params is ambiguous")
	}
	var m Mount
	var ok bool
	switch c.Method {
	case "prompts/get":
		m, c.Arguments, ok = renamed(c.Arguments, "name", nameSeparator, mounts)
	case "resources/read":
		m, c.Arguments, ok = renamed(c.Arguments, "uri", uriSeparator, mounts)
	case "completion/complete":
		m, c.Arguments, ok = reference(c.Arguments, mounts)
	}
	if !ok {
		return Mount{}, unknown
	}
	c.Upstream = m.Upstream
	return m, nil
}

// renamed returns the object in raw with the upstream's own name in one of its members.
func renamed(raw []byte, name, separator string, mounts []Mount) (Mount, []byte, bool) {
	text, ok := jsonrpc.Unquote(member(object(raw), name))
	if !ok {
		return Mount{}, nil, false
	}
	m, rest, ok := find(mounts, text, separator)
	if !ok {
		return Mount{}, nil, false
	}
	return m, replace(raw, name, jsonrpc.Quote(rest)), true
}

// reference renames what a completion is for.
func reference(raw []byte, mounts []Mount) (Mount, []byte, bool) {
	ref := member(object(raw), "ref")
	members := object(ref)
	if jsonrpc.Ambiguous(members, "type", "name", "uri") {
		return Mount{}, nil, false
	}
	var m Mount
	var ok bool
	switch kind, _ := jsonrpc.Unquote(member(members, "type")); kind {
	case "ref/prompt":
		m, ref, ok = renamed(ref, "name", nameSeparator, mounts)
	case "ref/resource":
		m, ref, ok = renamed(ref, "uri", uriSeparator, mounts)
	}
	if !ok {
		return Mount{}, nil, false
	}
	return m, replace(raw, "ref", ref), true
}
