package upstream

import "github.com/counterfoil/counterfoil/internal/jsonrpc"

// members returns the members of the object in raw, none if it is no object.
func members(raw []byte) []jsonrpc.Member {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	m, err := jsonrpc.Members(raw)
	if err != nil {
		return nil
	}
	return m
}

// lookup returns the value of a member of the object in raw, nil if there is none.
func lookup(raw []byte, name string) []byte {
	return member(members(raw), name)
}

// member returns the value of the first member with this name, or nil.
func member(list []jsonrpc.Member, name string) []byte {
	for _, m := range list {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}
