package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/idempotency"
)

// kept is an answer as it is kept for those who repeat the request.
type kept struct {
	Status  int            `json:"status"`
	Kind    string         `json:"kind"`
	Body    jsontext.Value `json:"body,omitzero"`
	Receipt string         `json:"receipt,omitzero"`
}

// maxKept bounds an answer that is kept. Of a larger one, whoever repeats the request learns the receipt.
const maxKept = 4 << 20

// once does a call at most once under the caller's Idempotency-Key, if it has one.
func (a *API) once(ctx context.Context, x *exchange, subject string, body []byte, do func() (*reply, error)) (*reply, error) {
	keys := x.r.Header.Values("Idempotency-Key")
	switch {
	case len(keys) == 0:
		return do()
	case len(keys) > 1:
		return nil, malformed("Idempotency-Key", "the header stands more than once")
	}
	run, answer, err := a.o.Repeats.Begin(ctx, idempotency.Request{
		Tenant: x.principal.Tenant, Principal: x.by(), Key: keys[0], Subject: subject, Body: body,
	})
	if err != nil {
		return nil, err
	}
	if run == nil {
		return x.repeated(answer)
	}
	r, err := do()
	keep := keepable(x, r, err)
	// The caller may have left: what happened is kept all the same.
	if e := run.End(context.WithoutCancel(ctx), keep); e != nil {
		// The key stays taken: nothing runs again under it. The answer itself is good.
		a.o.Logger.LogAttrs(ctx, slog.LevelError, "an answer could not be kept under its key", slog.String("request", x.id), slog.String("code", string(counterfoil.CodeOf(e))))
	}
	return r, err
}

// repeated is the answer that a request with this key had.
func (x *exchange) repeated(answer []byte) (*reply, error) {
	var k kept
	if err := json.Unmarshal(answer, &k, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, err
	}
	x.receipt = k.Receipt
	if k.Body == nil {
		p := refuse(codeGone, "the call has ended; its answer was too large to be kept")
		p.Receipt = k.Receipt
		return nil, p
	}
	return &reply{status: k.Status, kind: k.Kind, body: k.Body, header: http.Header{"Idempotency-Replayed": {"true"}}}, nil
}

// keepable returns what is kept of an answer: nil where nothing happened, so that the same request may come again.
func keepable(x *exchange, r *reply, err error) []byte {
	k := kept{Receipt: x.receipt, Kind: typeJSON}
	switch {
	case err == nil && r.status == http.StatusOK:
		k.Status, k.Body = r.status, r.body
	case err == nil, !happened(x, err):
		return nil
	default:
		p := problemOf(err).reply(x.id)
		k.Status, k.Kind, k.Body = p.status, p.kind, p.body
	}
	if len(k.Body) > maxKept {
		k.Body = nil
	}
	b, err := json.Marshal(k, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return []byte(`{"status":410}`)
	}
	return b
}

// happened reports whether a call that failed may have had an effect.
func happened(x *exchange, err error) bool {
	if x.receipt != "" {
		return true
	}
	if p, ok := errors.AsType[*problem](err); ok {
		return p.Code == code(gateway.OutcomeUnknown) || p.Status == http.StatusInternalServerError
	}
	return problemOf(err).Status == http.StatusInternalServerError
}
