package mcpserver

import (
	"errors"
	"strconv"
	"time"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// An rpcError is an error of the protocol: a number and a text for the client.
type rpcError struct {
	number int
	msg    string
}

func (e *rpcError) message(id jsonrpc.ID) []byte {
	return jsonrpc.NewError(id, jsonrpc.ErrorObject(e.number, e.msg, nil))
}

func asRPCError(err error) *rpcError {
	if fe, ok := errors.AsType[*jsonrpc.FormError](err); ok {
		return &rpcError{fe.Number, fe.Msg}
	}
	return &rpcError{jsonrpc.InternalError, "internal error"}
}

// invalidParams is the error of params that are not as MCP has them.
func invalidParams(msg string) *rpcError { return &rpcError{jsonrpc.InvalidParams, msg} }

// refusalMessage writes a refusal as an error. Its message says all that its data says: some clients drop the data.
func refusalMessage(id jsonrpc.ID, r *gateway.Refusal) []byte {
	data := []jsonrpc.Member{{Name: "code", Value: jsonrpc.Quote(string(r.Reason))}}
	if r.Approval != "" {
		data = append(data, jsonrpc.Member{Name: "approval_id", Value: jsonrpc.Quote(r.Approval)})
	}
	if !r.ExpiresAt.IsZero() {
		data = append(data, jsonrpc.Member{Name: "expires_at", Value: jsonrpc.Quote(r.ExpiresAt.UTC().Format(time.RFC3339))})
	}
	if r.RetryAfter > 0 {
		data = append(data, jsonrpc.Member{Name: "retry_after_ms", Value: strconv.AppendInt(nil, r.RetryAfter.Milliseconds(), 10)})
	}
	if r.Receipt != "" {
		data = append(data, jsonrpc.Member{Name: "receipt", Value: jsonrpc.Quote(r.Receipt)})
	}
	return jsonrpc.NewError(id, jsonrpc.ErrorObject(r.Reason.Number(), r.Error(), jsonrpc.Object(data)))
}

// upstreamFailure turns an upstream's error into what the client is told about a request that was only relayed.
func upstreamFailure(err error) *gateway.Refusal {
	if errors.Is(err, gateway.ErrUnsent) {
		return &gateway.Refusal{Reason: gateway.UpstreamUnavailable, Msg: "the upstream could not be reached; nothing was sent", Err: err}
	}
	return &gateway.Refusal{Reason: gateway.OutcomeUnknown, Msg: "the upstream was sent the request and did not answer it", Err: err}
}
