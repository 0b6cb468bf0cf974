package mcpserver

import (
	"errors"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// checkInputs looks through a result in which a stateless upstream may ask the client for input. What it asks for is held
// to the same rules as a request of a session's upstream: questions to the user that the client declared are let through
// with a mark of where they come from, and nothing else is. The error's text is for the client.
func checkInputs(result []byte, e elicitation, origin string) ([]byte, error) {
	members := object(result)
	if kind := member(members, "resultType"); kind != nil {
		switch s, _ := jsonrpc.Unquote(kind); s {
		case "complete", "input_required", "task":
		default:
			return nil, errors.New("the upstream's result is of an unknown type")
		}
	}
	requests := member(members, "inputRequests")
	if requests == nil {
		return result, nil
	}
	marked, err := jsonrpc.Members(requests)
	if err != nil {
		return nil, errors.New("the upstream's requests for input are malformed")
	}
	for i, r := range marked {
		method, _ := jsonrpc.Unquote(member(object(r.Value), "method"))
		params := member(object(r.Value), "params")
		if method != "elicitation/create" || params == nil {
			return nil, errors.New("the upstream asks the client for what is not relayed")
		}
		if params, err = markQuestion(params, e, origin); err != nil {
			return nil, err
		}
		marked[i].Value = replace(r.Value, "params", params)
	}
	return replace(result, "inputRequests", jsonrpc.Object(marked)), nil
}

// markQuestion returns the params of a question to the user with the upstream's name before its message, if the client
// declared that it takes such questions.
func markQuestion(params []byte, e elicitation, origin string) ([]byte, error) {
	members := object(params)
	mode, allowed := "form", e.form
	if raw := member(members, "mode"); raw != nil {
		mode, _ = jsonrpc.Unquote(raw)
	}
	if mode == "url" {
		allowed = e.url
	}
	if !allowed || mode != "form" && mode != "url" {
		return nil, errors.New("the client does not take this kind of question")
	}
	message, ok := jsonrpc.Unquote(member(members, "message"))
	if !ok || jsonrpc.Ambiguous(members, "message", "mode") {
		return nil, errors.New("the question is malformed")
	}
	return replace(params, "message", jsonrpc.Quote("["+origin+"] "+message)), nil
}
