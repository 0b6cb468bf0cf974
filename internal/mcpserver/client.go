package mcpserver

import (
	"context"
	"log/slog"
	"strings"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// maxClip bounds what the log repeats of the other sides' texts, in bytes.
const maxClip = 100

func clip(s string) string {
	if len(s) > maxClip {
		return strings.ToValidUTF8(s[:maxClip], "") + "…"
	}
	return s
}

// send is the reply that writes to the client.
func (s *server) send(a answer) {
	if a.message == nil {
		return
	}
	write := func() error { return s.out.send(a.message) }
	if a.deliver == nil {
		_ = write() // a dead client ends the session by itself
		return
	}
	_ = a.deliver(write)
}

// line takes one line from the client.
func (s *server) line(ctx context.Context, l line) {
	if l.tooLong != nil {
		s.malformed(ctx, l.tooLong.Envelope, &rpcError{jsonrpc.InvalidRequest, l.tooLong.Error()}, s.send)
		return
	}
	if !jsonrpc.IsBatch(l.text) || !s.session.batches() {
		m, err := jsonrpc.Parse(l.text, s.opts.MaxBytes)
		if err != nil {
			s.malformed(ctx, jsonrpc.Sniff(l.text), asRPCError(err), s.send)
			return
		}
		s.message(ctx, m, s.send)
		return
	}
	items, err := jsonrpc.ParseBatch(l.text, s.opts.MaxBytes)
	if err != nil {
		s.malformed(ctx, jsonrpc.Envelope{}, asRPCError(err), s.send)
		return
	}
	b := &batch{send: s.send, left: len(items)}
	for _, item := range items {
		switch {
		case item.Err != nil:
			s.malformed(ctx, item.Envelope, asRPCError(item.Err), b.reply)
		case item.Message.Method == "initialize":
			s.fail(item.Message.ID, &rpcError{jsonrpc.InvalidRequest, "initialize must not be part of a batch"}, b.reply)
		default:
			s.message(ctx, item.Message, b.reply)
		}
	}
}

// malformed deals with a text that is no message. If it can be seen to be a request, the error goes to that; an answer
// that can't be read is the end of what asked for it; for everything else JSON-RPC has the id null.
func (s *server) malformed(ctx context.Context, e jsonrpc.Envelope, err *rpcError, r reply) {
	s.log.LogAttrs(ctx, slog.LevelWarn, "a line from the client is no message", slog.String("cause", err.msg))
	switch {
	case e.Answer && !e.Method:
		if id, ok := s.asks.take(e.ID); ok {
			s.post(ctx, (&rpcError{jsonrpc.InternalError, "the client's answer is malformed"}).message(id))
		}
		s.fail(jsonrpc.ID{}, err, r)
	case e.Method && !e.Answer:
		s.fail(e.ID, err, r)
	default:
		s.fail(jsonrpc.ID{}, err, r)
	}
}

func (s *server) fail(id jsonrpc.ID, err *rpcError, r reply) { r(answer{message: err.message(id)}) }

// post sends the upstream a notification or a response, if it takes it.
func (s *server) post(ctx context.Context, message []byte) {
	if err := s.conn.Post(message); err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "a message to the upstream was dropped", slog.String("cause", err.Error()))
	}
}

// message takes one message from the client.
func (s *server) message(ctx context.Context, m *jsonrpc.Message, r reply) {
	switch m.Kind {
	case jsonrpc.Request:
		s.request(ctx, m, r)
	case jsonrpc.Notification:
		s.notification(ctx, m)
		r(answer{})
	case jsonrpc.Response:
		if id, ok := s.asks.take(m.ID); ok {
			s.post(ctx, m.With(id, nil))
		} else {
			s.log.LogAttrs(ctx, slog.LevelWarn, "an answer of the client to no question was dropped", slog.String("id", clip(m.ID.String())))
		}
		r(answer{})
	}
}

// notification takes one notification from the client.
func (s *server) notification(ctx context.Context, m *jsonrpc.Message) {
	switch {
	case !isObject(m.Params):
		s.log.LogAttrs(ctx, slog.LevelWarn, "a notification without an object was dropped", slog.String("method", clip(m.Method)))
	case m.Method == "notifications/cancelled":
		// The id is the client's own: the upstream hears of it, under the id that it knows, when the call ends by it.
		if id, ok := memberID(m.Params, "requestId"); ok {
			s.flights.cancel(id, ErrCancelledByClient)
		}
	case strings.HasPrefix(m.Method, "notifications/"):
		params, err := relayedParams(m)
		if err != nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "a notification was dropped", slog.String("method", clip(m.Method)), slog.String("cause", err.msg))
			return
		}
		s.post(ctx, m.With(jsonrpc.ID{}, params))
	default:
		// A call that wants no answer is still a call, and there is nobody to tell of the gate's decision.
		s.log.LogAttrs(ctx, slog.LevelWarn, "an unknown notification was dropped", slog.String("method", clip(m.Method)))
	}
}

// request takes one request from the client. It does not wait: whatever takes time goes on beside the loop.
func (s *server) request(ctx context.Context, m *jsonrpc.Message, r reply) {
	if !isObject(m.Params) {
		s.fail(m.ID, &rpcError{jsonrpc.InvalidParams, "params is not an object"}, r)
		return
	}
	f, refused := s.flights.begin(ctx, m, r)
	if refused != nil {
		s.fail(m.ID, refused, r)
		return
	}
	if isRelayed(m.Method) {
		s.relay(f, m)
	} else {
		s.call(f, m)
	}
}

// end answers a request. No progress is reported for it after this.
func (s *server) end(f *flight, a answer) {
	s.tokens.release(f.token)
	s.flights.end(f, a)
}

// isObject reports whether params are an object or absent, which in MCP they all are.
func isObject(params []byte) bool { return params == nil || params[0] == '{' }

// isRelayed reports whether a request with this method is a known part of the protocol that has no effect of its own.
// Every other request is a call and goes through the gate.
func isRelayed(method string) bool {
	switch method {
	case "initialize", "ping", "tools/list", "resources/list", "resources/templates/list", "prompts/list", "logging/setLevel",
		"server/discover", "tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update", "subscriptions/listen":
		return true
	default:
		return false
	}
}
