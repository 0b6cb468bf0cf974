package mcpserver

import (
	"context"
	"net/http"
	"time"

	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// A visit is one POST on its way to its answer.
type visit struct {
	*Handler
	r       *http.Request
	p       *identity.Principal
	out     *response
	modern  bool   // the request stands alone
	version string // of the session, "" for none

	ctx    context.Context // of what the visit sets going; it outlives an old client's connection
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed when the answer was written
}

// post takes one POST.
func (h *Handler) post(w http.ResponseWriter, r *http.Request, p *identity.Principal) {
	v := &visit{Handler: h, r: r, p: p, ended: make(chan struct{})}
	var e *httpError
	if v.out, e = newResponse(w, r, h.opts.Now); e != nil {
		refuse(w, e)
		return
	}
	body, e := h.admitBody(w, r)
	if e != nil {
		refuse(w, e)
		return
	}
	_ = v.out.rc.SetReadDeadline(time.Time{}) // the server's own is for the request, not for how long its answer takes
	v.ctx, v.cancel = context.WithCancelCause(context.WithoutCancel(r.Context()))
	if jsonrpc.IsBatch(body) {
		e = v.batch(body)
	} else {
		e = v.single(body)
	}
	if e != nil {
		v.cancel(nil)
		refuse(w, e)
	}
}

// single takes a body that is one message. If it is refused nothing was begun.
func (v *visit) single(body []byte) *httpError {
	m, err := jsonrpc.Parse(body, v.opts.MaxBytes)
	if err != nil {
		e := asRPCError(err)
		x := badRequest(e.msg)
		x.number = e.number
		if seen := jsonrpc.Sniff(body); seen.Method && !seen.Answer {
			x.id = seen.ID
		}
		return x
	}
	var e *httpError
	if v.modern = standsAlone(v.r, m); v.modern {
		e = v.alone(m)
	} else {
		e = v.inSession(m)
	}
	if e != nil && m.Kind == jsonrpc.Request {
		e.id = m.ID
	}
	return e
}

// batch takes a body that is an array of messages, which one revision has.
func (v *visit) batch(body []byte) *httpError {
	s, e := v.session()
	if e != nil {
		return e
	}
	if s.version != batchVersion {
		return badRequest("this revision of the protocol has no arrays of messages")
	}
	items, err := jsonrpc.ParseBatch(body, v.opts.MaxBytes)
	if err != nil {
		x := badRequest(asRPCError(err).msg)
		x.number = asRPCError(err).number
		return x
	}
	fl, done, e := v.enterSession(s)
	if e != nil {
		return e
	}
	b := &batch{send: v.send, left: len(items)}
	v.run(done, func() {
		for _, item := range items {
			v.item(fl, item, b.reply)
		}
	})
	return nil
}

// item takes one message of an array.
func (v *visit) item(fl *flights, item jsonrpc.Item, r reply) {
	switch m := item.Message; {
	case item.Err != nil:
		id := jsonrpc.ID{}
		if item.Envelope.Method && !item.Envelope.Answer {
			id = item.Envelope.ID
		}
		r(failed(id, asRPCError(item.Err)))
	case m.Kind != jsonrpc.Request:
		v.notified(fl, m)
		r(answer{})
	case m.Method == "initialize":
		r(failed(m.ID, &rpcError{jsonrpc.InvalidRequest, "initialize must not be part of a batch"}))
	case v.permitted(m.Method) != nil:
		r(failed(m.ID, &rpcError{jsonrpc.InvalidRequest, "the credential does not allow this method"}))
	default:
		v.begin(fl, m, r)
	}
}

// run begins the work of a visit and waits for its end, or for the client's. What is begun may go on after the client has
// left; the endpoint waits for it when it is shut down.
func (v *visit) run(done func(), begin func()) {
	unhook := context.AfterFunc(v.stop, func() { v.cancel(ErrClientGone) })
	v.open.Add(1)
	go func() {
		defer v.open.Done()
		<-v.ended
		unhook()
		done()
		v.cancel(nil)
	}()
	begin()
	v.wait()
}

// wait returns when the answer is written or the client has gone. A modern client that goes has cancelled; an older one
// has not.
func (v *visit) wait() {
	t := time.NewTicker(v.opts.KeepAlive)
	defer t.Stop()
	for {
		select {
		case <-v.ended:
			return
		case <-t.C:
			v.out.alive()
		case <-v.r.Context().Done():
			if v.modern {
				v.cancel(ErrClientGone)
			}
			v.out.abandon()
			return
		}
	}
}

// send is the reply that writes the answer of the visit.
func (v *visit) send(a answer) {
	defer close(v.ended)
	write := func() error { return v.out.finish(v.status(a.number), a.message) }
	if a.deliver == nil {
		_ = write() // a client that has gone is noticed elsewhere
		return
	}
	_ = a.deliver(write)
}

// status returns the HTTP status of an answer. Only modern clients read more than "OK" out of it, and only these errors of
// the protocol have another; what the gate refuses has none.
func (v *visit) status(number int) int {
	switch {
	case !v.modern:
		return http.StatusOK
	case number == jsonrpc.MethodNotFound:
		return http.StatusNotFound
	case number == jsonrpc.InvalidParams, number == headerMismatch, number == missingCapability, number == unsupportedVersion:
		return http.StatusBadRequest
	default:
		return http.StatusOK
	}
}

// begin sets one request going.
func (v *visit) begin(fl *flights, m *jsonrpc.Message, r reply) {
	if !isObject(m.Params) {
		r(failed(m.ID, invalidParams("params is not an object")))
		return
	}
	k := keyOf(v.p)
	if !v.callers.acquire(k, 1) {
		r(failed(m.ID, &rpcError{jsonrpc.InternalError, "busy: too many requests are being answered; try again later"}))
		return
	}
	f, refused := fl.begin(v.ctx, m, func(a answer) { v.callers.release(k, 1); r(a) })
	if refused != nil {
		v.callers.release(k, 1)
		r(failed(m.ID, refused))
		return
	}
	v.open.Add(1)
	go func() {
		defer v.open.Done()
		fl.end(f, v.serve(f, m))
	}()
}

// notified takes a notification or a response. There is one that means something: the end of a request.
func (v *visit) notified(fl *flights, m *jsonrpc.Message) {
	if m.Kind != jsonrpc.Notification || m.Method != "notifications/cancelled" {
		return
	}
	if id, ok := memberID(m.Params, "requestId"); ok {
		fl.cancel(id, ErrCancelledByClient)
	}
}

// permitted returns nil if the principal may use the method.
func (v *visit) permitted(method string) *httpError {
	need := scopeOf(method)
	if need == "" {
		return nil
	}
	switch v.opts.Permit(v.r.Context(), v.p, need) {
	case identity.Allow:
		return nil
	case identity.Ask, identity.Deny:
	}
	challenge := `Bearer error="insufficient_scope", scope="` + string(need) + `"`
	if v.opts.Metadata != "" {
		challenge += `, resource_metadata="` + v.opts.Metadata + `"`
	}
	return &httpError{
		status: http.StatusForbidden, number: jsonrpc.InvalidRequest, msg: "the credential does not allow this method", challenge: challenge,
	}
}

// scopeOf returns the scope that a method needs, "" for none.
func scopeOf(method string) identity.Scope {
	switch method {
	case "tools/list", "resources/list", "resources/templates/list", "prompts/list":
		return identity.ScopeToolsRead
	case "tools/call", "resources/read", "prompts/get", "completion/complete":
		return identity.ScopeToolsExecute
	default:
		return ""
	}
}
