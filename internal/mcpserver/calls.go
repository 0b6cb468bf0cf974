package mcpserver

import (
	"errors"
	"log/slog"
	"strconv"
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
	return decider{gate: s.opts.Gate, log: s.log}.decide(f, c)
}

// A decider turns what the gate says into the answer to a request.
type decider struct {
	gate  Gate
	log   *slog.Logger
	adapt func(gateway.Answer) gateway.Answer // what the client is given for it; nil for the same
}

func (d decider) decide(f *flight, c gateway.Call) answer {
	a, err := d.gate.Do(f.ctx, c)
	if r, _ := errors.AsType[*gateway.Refusal](err); r != nil {
		return answer{message: refusalMessage(f.id, r), number: r.Reason.Number()}
	}
	if err != nil {
		return d.broken(f, "the gate failed without a reason", err)
	}
	if (a.Result == nil) == (a.Error == nil) {
		return d.broken(f, "the gate's answer is not one of result and error", nil)
	}
	if d.adapt != nil {
		a = d.adapt(a)
	}
	if a.Result != nil {
		return answer{message: jsonrpc.NewResult(f.id, a.Result), deliver: a.Deliver}
	}
	return answer{message: jsonrpc.NewError(f.id, a.Error), deliver: a.Deliver, number: numberOf(a.Error)}
}

// broken is the answer for a fault of ours.
func (d decider) broken(f *flight, what string, err error) answer {
	d.log.LogAttrs(f.ctx, slog.LevelError, what, slog.Any("cause", err))
	return failed(f.id, &rpcError{jsonrpc.InternalError, "internal error"})
}

// failed is the answer with an error of the protocol.
func failed(id jsonrpc.ID, e *rpcError) answer {
	return answer{message: e.message(id), number: e.number}
}

// numberOf returns the number of an error object, InternalError if it has none.
func numberOf(raw []byte) int {
	n, err := strconv.Atoi(string(member(object(raw), "code")))
	if err != nil {
		return jsonrpc.InternalError
	}
	return n
}
