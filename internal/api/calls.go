package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil/internal/gateway"
)

// callBody is the body of a call.
type callBody struct {
	Arguments rawJSON `json:"arguments,omitzero"`
}

// callAnswer is the answer of a call that ran: exactly one of result and error is what the tool said.
type callAnswer struct {
	Result  rawJSON `json:"result,omitzero"`
	Error   rawJSON `json:"error,omitzero"`
	Receipt string  `json:"receipt"`
}

// pendingAnswer is the answer of a call that waits for a person.
type pendingAnswer struct {
	Approval   string    `json:"approval"`
	URL        string    `json:"url"`
	ExpiresAt  time.Time `json:"expiresAt,omitzero"`
	RetryAfter int64     `json:"retryAfter,omitzero"` // seconds; the identical call then takes the approval up
}

// find returns the upstream of a tool's name at this surface, and the upstream's own name for it. A tenant that does not
// have the upstream is told what one is told that names none.
func (a *API) find(ctx context.Context, tenant, name string) (Mount, string, error) {
	prefix, tool, ok := strings.Cut(name, ".")
	if ok && tool != "" {
		mounts, err := a.o.Upstreams(ctx, tenant)
		if err != nil {
			return Mount{}, "", err
		}
		for _, m := range mounts {
			if m.Name == prefix && m.Upstream != nil {
				return m, tool, nil
			}
		}
	}
	return Mount{}, "", refuse(codeNotFound, "there is no such tool")
}

func (a *API) call(x *exchange) (*reply, error) {
	name, err := x.named("tool")
	if err != nil {
		return nil, err
	}
	raw, err := readJSON(x.r)
	if err != nil {
		return nil, err
	}
	var in callBody
	if err := parse(raw, &in); err != nil {
		return nil, err
	}
	hold, err := a.hold(x.r.Header)
	if err != nil {
		return nil, err
	}
	ctx := x.r.Context()
	m, tool, err := a.find(ctx, x.principal.Tenant, name)
	if err != nil {
		return nil, err
	}
	c := gateway.Call{
		Tenant: x.principal.Tenant, Principal: x.by(), Owner: x.principal.Answers(), Run: x.principal.Run("rest", a.o.Now()), Upstream: m.Upstream,
		Method: "tools/call", Tool: tool, Arguments: in.Arguments, Hold: hold,
	}
	return a.once(ctx, x, name, raw, func() (*reply, error) { return a.do(ctx, x, c) })
}

// do takes a call through the chain.
func (a *API) do(ctx context.Context, x *exchange, c gateway.Call) (*reply, error) {
	ans, err := a.o.Gate.Do(ctx, c)
	if p := ofCall(err); p != nil {
		x.approval, x.receipt = p.Approval, p.Receipt
		if p.Status == http.StatusAccepted {
			return a.pending(p)
		}
		return nil, p
	}
	if err != nil {
		return nil, err
	}
	x.receipt = ans.Receipt
	b, err := json.Marshal(callAnswer{rawJSON(ans.Result), rawJSON(ans.Error), ans.Receipt}, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if err != nil {
		return nil, err
	}
	return &reply{status: http.StatusOK, kind: typeJSON, body: b, deliver: ans.Deliver}, nil
}

// pending is 202: the same call, sent again, waits for the same decision and then runs.
func (a *API) pending(p *problem) (*reply, error) {
	url := "/v1/approvals/" + p.Approval
	r, err := jsonReply(http.StatusAccepted, pendingAnswer{p.Approval, a.o.URL + url, p.ExpiresAt, p.RetryAfter})
	if err != nil {
		return nil, err
	}
	r.header = http.Header{"Location": {url}}
	if p.RetryAfter > 0 {
		r.header.Set("Retry-After", strconv.FormatInt(p.RetryAfter, 10))
	}
	return r, nil
}

// hold reads Prefer: wait=N (RFC 7240), in seconds, at most what the server holds. Other preferences are passed over.
func (a *API) hold(h http.Header) (time.Duration, error) {
	hold, seen := time.Duration(0), false
	for p := range strings.SplitSeq(strings.Join(h.Values("Prefer"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31)
		if err != nil || seen {
			return 0, malformed("Prefer", "wait must be a number of seconds, once")
		}
		hold, seen = min(time.Duration(n)*time.Second, a.o.Hold), true
	}
	return hold, nil
}

// mcp hands the request to the endpoint of the Model Context Protocol.
func (a *API) mcp(x *exchange) (*reply, error) {
	endless(x.w)
	a.o.MCP.ServeHTTP(x.w, x.r)
	return &reply{sent: true, status: http.StatusOK}, nil
}
