package upstream

import (
	"slices"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// Params writes the params of an approved request, from what was approved and its _meta alone. A failure wraps
// gateway.ErrUnsent. Nil is for a request without params.
func Params(r gateway.Request) ([]byte, error) {
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
