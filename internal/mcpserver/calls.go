package mcpserver

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// call takes a request through the gate, beside the loop.
func (s *server) call(f *flight, m *jsonrpc.Message) {
	c, refused := parseCall(m)
	if refused != nil {
		s.end(f, answer{message: refused.message(f.id)})
		return
	}
	c.Tenant, c.Principal, c.Run = s.opts.Tenant, s.opts.Principal, s.opts.Run
	c.Upstream = s.session
	c.Hold = s.opts.Hold
	// A task goes on reporting under the token when the call that made it has ended.
	f.token = s.tokens.acquire(c.Meta, member(object(c.Extra), "task") != nil)
	if f.token != nil {
		c.Progress = func(waited time.Duration, message string) { s.tokens.held(f.token, waited, message, s.out.send) }
	}
	go func() { s.end(f, s.decide(f, c)) }() // s.flights.wait waits for it
}

// decide asks the gate and writes its answer.
func (s *server) decide(f *flight, c gateway.Call) answer {
	a, err := s.opts.Gate.Do(f.ctx, c)
	switch r, _ := errors.AsType[*gateway.Refusal](err); {
	case r != nil:
		return answer{message: refusalMessage(f.id, r)}
	case err != nil:
		return s.broken(f.ctx, f.id, "the gate failed without a reason", err)
	case a.Result != nil && a.Error == nil:
		return answer{message: jsonrpc.NewResult(f.id, a.Result), deliver: a.Deliver}
	case a.Error != nil && a.Result == nil:
		return answer{message: jsonrpc.NewError(f.id, a.Error), deliver: a.Deliver}
	default:
		return s.broken(f.ctx, f.id, "the gate's answer is not one of result and error", nil)
	}
}

// broken is the answer for a fault of ours.
func (s *server) broken(ctx context.Context, id jsonrpc.ID, what string, err error) answer {
	s.log.LogAttrs(ctx, slog.LevelError, what, slog.Any("cause", err))
	return answer{message: (&rpcError{jsonrpc.InternalError, "internal error"}).message(id)}
}
