package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/counterfoil/counterfoil"
)

// receiptItem is an execution as lists have it.
type receiptItem struct {
	ID        string    `json:"id"`
	Approval  string    `json:"approval,omitzero"` // the request's id; "" when policy alone allowed the call
	Upstream  string    `json:"upstream,omitzero"`
	Tool      string    `json:"tool"`
	Effect    string    `json:"effect,omitzero"`
	Outcome   string    `json:"outcome,omitzero"` // "" while it runs
	StartedAt time.Time `json:"startedAt"`
}

type receiptList struct {
	Items []receiptItem `json:"items"`
	Next  string        `json:"next,omitzero"`
}

// report is what a bundle proves.
type report struct {
	ID            string    `json:"id"`
	Tenant        string    `json:"tenant"`
	Audience      string    `json:"audience"`
	Actor         string    `json:"actor"`
	Tool          string    `json:"tool"`
	Effect        string    `json:"effect"`
	Source        string    `json:"source"`
	Arguments     rawJSON   `json:"arguments,omitzero"`
	ArgumentsHash string    `json:"argumentsDigest"`
	Authority     string    `json:"authority"`
	Approvers     []string  `json:"approvers,omitzero"`
	Reason        string    `json:"reason,omitzero"`
	ConsumedAt    time.Time `json:"consumedAt"`
	CompletedAt   time.Time `json:"completedAt"`
	Outcome       string    `json:"outcome"`
	Recovered     bool      `json:"recovered,omitzero"`
	Late          bool      `json:"late,omitzero"`
	ResultDigest  string    `json:"resultDigest"`
	ReceiptDigest string    `json:"receiptDigest"`
	Logged        bool      `json:"logged"`
	LogSize       int64     `json:"logSize,omitzero"`
	Checked       []string  `json:"checked"`
	Unchecked     []string  `json:"unchecked,omitzero"`
}

func reportOf(r *counterfoil.Report) report {
	return report{
		ID: r.ExecutionID, Tenant: r.Tenant, Audience: r.Audience, Actor: r.Actor, Tool: r.Tool, Effect: string(r.Effect), Source: r.Source,
		Arguments: r.Arguments, ArgumentsHash: r.ArgumentsDigest.String(), Authority: string(r.Authority), Approvers: r.Approvers, Reason: r.Reason,
		ConsumedAt: r.ConsumedAt, CompletedAt: r.CompletedAt, Outcome: string(r.Outcome), Recovered: r.Recovered, Late: r.Late,
		ResultDigest: r.ResultDigest.String(), ReceiptDigest: r.ReceiptDigest.String(), Logged: r.Logged, LogSize: r.LogSize,
		Checked: r.Checked, Unchecked: r.Unchecked,
	}
}

func (a *API) receipts(ctx context.Context, x *exchange) (receiptList, error) {
	after, limit, err := x.page()
	if err != nil {
		return receiptList{}, err
	}
	list, err := a.o.Executions.Executions(ctx, x.principal.Tenant, after, limit)
	if err != nil {
		return receiptList{}, err
	}
	out := receiptList{Items: make([]receiptItem, 0, len(list))}
	for i := range list {
		e := &list[i]
		out.Items = append(out.Items, receiptItem{e.ID, e.Request, e.Upstream, e.Tool, string(e.Effect), e.Outcome, e.StartedAt})
	}
	if len(list) == limit {
		out.Next = list[limit-1].ID
	}
	return out, nil
}

func (a *API) receipt(ctx context.Context, x *exchange) (report, error) {
	b, err := a.bundleOf(ctx, x, false)
	if err != nil {
		return report{}, err
	}
	return a.verified(b)
}

func (a *API) bundle(x *exchange) (*reply, error) {
	hide, err := x.flag("redact")
	if err != nil {
		return nil, err
	}
	b, err := a.bundleOf(x.r.Context(), x, hide)
	if err != nil {
		return nil, err
	}
	return &reply{status: http.StatusOK, kind: typeJSON, body: b}, nil
}

func (a *API) bundleOf(ctx context.Context, x *exchange, hide bool) ([]byte, error) {
	id, err := x.named("id")
	if err != nil {
		return nil, err
	}
	b, err := a.o.Gate.Bundle(ctx, x.principal.Tenant, id, hide)
	if err != nil {
		return nil, err
	}
	x.receipt = id
	return b, nil
}

// verify says what a bundle proves, by this server's keys. Somebody else's bundle is not told apart from a forged one.
func (a *API) verify(x *exchange) (*reply, error) {
	b, err := readJSON(x.r)
	if err != nil {
		return nil, err
	}
	if err := shallow(b); err != nil {
		return nil, err
	}
	r, err := a.verified(b)
	if err == nil && (r.Tenant != x.principal.Tenant || r.Audience != a.o.Audience) {
		err = &counterfoil.Error{Code: counterfoil.CodeIntegrityFailed, Msg: "the bundle is not this tenant's"}
	}
	if err != nil {
		return nil, unverified(err)
	}
	return jsonReply(http.StatusOK, r)
}

// unverified is what is said of a bundle that does not verify: whatever its fault is, it is the bundle's.
func unverified(err error) error {
	p := problemOf(err)
	if _, ok := errors.AsType[counterfoil.Code](err); ok && p.Status < http.StatusInternalServerError {
		p.Status = http.StatusUnprocessableEntity
	}
	return p
}

func (a *API) verified(b []byte) (report, error) {
	ring, err := a.o.Ring()
	if err != nil {
		return report{}, err
	}
	r, err := counterfoil.VerifyBundle(b, ring, a.o.Now())
	if err != nil {
		return report{}, err
	}
	return reportOf(r), nil
}
