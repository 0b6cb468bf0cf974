package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/hooks"
	"github.com/counterfoil/counterfoil/internal/idempotency"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
	"github.com/counterfoil/counterfoil/internal/tenancy"
	"github.com/counterfoil/counterfoil/internal/translog"
	"github.com/counterfoil/counterfoil/internal/vault"
)

const typeProblem = "application/problem+json"

// A Problem is a problem document (RFC 9457). Its type is about:blank: what tells problems apart is the code.
type problem struct {
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Code     code   `json:"code"`
	Detail   string `json:"detail,omitzero"`
	Instance string `json:"instance"` // the request's id
	// Path is a JSON pointer into the body, or the name of a parameter.
	Path       string    `json:"path,omitzero"`
	State      string    `json:"state,omitzero"` // where an approval stands
	Approval   string    `json:"approval,omitzero"`
	Receipt    string    `json:"receipt,omitzero"`
	ExpiresAt  time.Time `json:"expiresAt,omitzero"`
	RetryAfter int64     `json:"retryAfter,omitzero"` // seconds

	allow     string         // the methods that a path has
	challenge identity.Scope // the scope that was missing
	reason    identity.Reason
	cause     error // logged, never sent
	call      bool  // it is of a call: its cause may have the upstream's words, and is not logged here
}

// A code is the stable name of a problem.
type code string

// The codes that only HTTP has. Those of the core, of credentials, of bodies and of calls are passed on as they are.
const (
	codeNotFound         code = "not-found"
	codeMethod           code = "method-not-allowed"
	codeRateLimited      code = "rate-limited"
	codeConflict         code = "conflict"
	codeExists           code = "exists"
	codeTooMany          code = "too-many"
	codeReadOnly         code = "read-only"
	codeGone             code = "gone"
	codeMediaType        code = "unsupported-media-type"
	codeApprovalRequired code = "approval-required"
	codeKeyReused        code = "idempotency-key-reused"
	codeInProgress       code = "idempotency-in-progress"
	codePassphrase       code = "passphrase-wrong"
	codeStopping         code = "stopping"
	codeBody             code = "body-incomplete"
)

// httpCodes are the codes above, with their statuses, for docs/errors.md and the description of the API.
func httpCodes() []struct {
	code   code
	status int
} {
	type row = struct {
		code   code
		status int
	}
	return []row{
		{codeNotFound, http.StatusNotFound},
		{codeMethod, http.StatusMethodNotAllowed},
		{codeRateLimited, http.StatusTooManyRequests},
		{codeConflict, http.StatusConflict},
		{codeExists, http.StatusConflict},
		{codeTooMany, http.StatusTooManyRequests},
		{codeReadOnly, http.StatusForbidden},
		{codeGone, http.StatusGone},
		{codeMediaType, http.StatusUnsupportedMediaType},
		{codeApprovalRequired, http.StatusPreconditionRequired},
		{codeKeyReused, http.StatusUnprocessableEntity},
		{codeInProgress, http.StatusConflict},
		{codePassphrase, http.StatusForbidden},
		{codeStopping, http.StatusServiceUnavailable},
		{codeBody, http.StatusBadRequest},
	}
}

// Error makes a problem an error, for the handlers that know what they want to say.
func (p *problem) Error() string { return string(p.Code) + ": " + p.Detail }

// Unwrap returns the cause.
func (p *problem) Unwrap() error { return p.cause }

// refuse makes a problem of a code that only HTTP has.
func refuse(c code, detail string) *problem {
	for _, r := range httpCodes() {
		if r.code == c {
			return &problem{Status: r.status, Code: c, Detail: detail}
		}
	}
	return &problem{Status: http.StatusInternalServerError, Code: code(counterfoil.CodeInternal)}
}

// malformed is what a request gets whose form is wrong: nothing of what it says was looked at.
func malformed(path, detail string) *problem {
	return &problem{Status: http.StatusBadRequest, Code: code(counterfoil.CodeInvalidInput), Path: path, Detail: detail}
}

// problemOf is the only map from errors to what is sent. An error that nobody here knows is a fault of ours.
func problemOf(err error) *problem {
	p := known(err)
	if p.cause == nil {
		p.cause = err
	}
	p.Title = http.StatusText(p.Status)
	return p
}

func known(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		c := *p
		return &c
	}
	for _, f := range []func(error) *problem{ofCredential, ofBody, ofCall, ofStanding, ofCore} {
		if p := f(err); p != nil {
			return p
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &problem{Status: http.StatusServiceUnavailable, Code: code(counterfoil.CodeUnavailable), Detail: "the request ended before it was answered"}
	}
	return &problem{Status: http.StatusInternalServerError, Code: code(counterfoil.CodeInternal), Detail: "a fault of ours; the instance names the request in our log"}
}

// ofCredential is for who could not be let in.
func ofCredential(err error) *problem {
	if e, ok := errors.AsType[*credential.LimitedError](err); ok {
		p := refuse(codeRateLimited, e.Error())
		p.RetryAfter = seconds(e.RetryAfter)
		return p
	}
	e, ok := errors.AsType[*identity.Error](err)
	if !ok {
		return nil
	}
	p := &problem{Status: http.StatusServiceUnavailable, Code: code(e.Reason), Detail: e.Error(), reason: e.Reason}
	switch e.Reason {
	case identity.ReasonMissing, identity.ReasonInvalid:
		p.Status = http.StatusUnauthorized
	case identity.ReasonAmbiguous:
		p.Status = http.StatusBadRequest
	case identity.ReasonScope:
		p.Status = http.StatusForbidden
	case identity.ReasonUnavailable:
		p.RetryAfter = 1
	}
	return p
}

func ofBody(err error) *problem {
	e, ok := errors.AsType[*ratelimit.BodyError](err)
	if !ok {
		return nil
	}
	p := &problem{Code: code(e.Reason), Detail: e.Error()}
	switch e.Reason {
	case ratelimit.ReasonLength:
		p.Status = http.StatusBadRequest
	case ratelimit.ReasonTooLarge:
		p.Status = http.StatusRequestEntityTooLarge
	case ratelimit.ReasonEncoding:
		p.Status = http.StatusUnsupportedMediaType
	case ratelimit.ReasonUnread:
		p.Status, p.Code, p.Detail = http.StatusInternalServerError, code(counterfoil.CodeInternal), ""
	}
	return p
}

// ofCall is for calls that did not bring an answer.
func ofCall(err error) *problem {
	e, ok := errors.AsType[*gateway.Refusal](err)
	if !ok {
		return nil
	}
	p := &problem{
		Status: callStatus(e.Reason), Code: code(e.Reason), Detail: e.Msg, Approval: e.Approval, Receipt: e.Receipt,
		ExpiresAt: e.ExpiresAt, cause: e.Err, call: true,
	}
	if e.RetryAfter > 0 {
		p.RetryAfter = seconds(e.RetryAfter)
	}
	return p
}

func callStatus(r gateway.Reason) int {
	switch r {
	case gateway.DeniedByPolicy, gateway.ApprovalDenied, gateway.ToolQuarantined:
		return http.StatusForbidden
	case gateway.ApprovalRequired:
		return http.StatusPreconditionRequired
	case gateway.ApprovalPending:
		return http.StatusAccepted
	case gateway.ApprovalExpired, gateway.ApprovalVoid, gateway.DuplicateEffect:
		return http.StatusConflict
	case gateway.BudgetExhausted:
		return http.StatusTooManyRequests
	case gateway.ContentBlocked, gateway.InvalidParams:
		return http.StatusUnprocessableEntity
	case gateway.OutcomeUnknown, gateway.UpstreamUnavailable:
		return http.StatusBadGateway
	case gateway.Internal:
	}
	return http.StatusInternalServerError
}

// ofStanding is for what a service has found in the way of a request. It comes before the codes of the core, which some of
// these are causes of.
func ofStanding(err error) *problem {
	if e, ok := errors.AsType[*gateway.ConflictError](err); ok {
		p := refuse(codeConflict, "the request is "+string(e.State)+" by now")
		p.State = string(e.State)
		return p
	}
	if e, ok := errors.AsType[*hooks.RefusedError](err); ok {
		if e.Failed {
			return &problem{Status: http.StatusServiceUnavailable, Code: code(counterfoil.CodeUnavailable), Detail: e.Error(), RetryAfter: 1}
		}
		return &problem{Status: http.StatusForbidden, Code: code(counterfoil.CodePolicyDenied), Detail: e.Error()}
	}
	for _, s := range standings() {
		for _, e := range s.errs {
			if errors.Is(err, e) {
				return refuse(s.code, e.Error())
			}
		}
	}
	return nil
}

func standings() []struct {
	code code
	errs []error
} {
	type row = struct {
		code code
		errs []error
	}
	return []row{
		{codeNotFound, []error{gateway.ErrNotFound, credential.ErrNotFound, vault.ErrNotFound, hooks.ErrNotFound, identity.ErrNoTenant, translog.ErrNotLogged}},
		{codeExists, []error{tenancy.ErrExists, credential.ErrExists, credential.ErrTaken, credential.ErrNotFirst}},
		{codeConflict, []error{gateway.ErrChanged, credential.ErrChanged, hooks.ErrChanged}},
		{codeKeyReused, []error{idempotency.ErrReused}},
		{codeInProgress, []error{idempotency.ErrRunning}},
		{codeTooMany, []error{idempotency.ErrTooMany, gateway.ErrTooMany, vault.ErrTooMany, hooks.ErrTooMany, gateway.ErrBudget}},
		{codeReadOnly, []error{hooks.ErrReadOnly}},
		{codeGone, []error{gateway.ErrRetired, translog.ErrDropped}},
	}
}

// ofCore is for the boundary's own codes.
func ofCore(err error) *problem {
	c, ok := errors.AsType[counterfoil.Code](err)
	if !ok {
		return nil
	}
	p := &problem{Status: coreStatus(c), Code: code(c)}
	if p.Status == http.StatusServiceUnavailable {
		p.RetryAfter = 1
	}
	if e, ok := errors.AsType[*counterfoil.Error](err); ok && e.Code == c && c != counterfoil.CodeInternal {
		p.Detail, p.Path = e.Msg, e.Path
	}
	return p
}

func coreStatus(c counterfoil.Code) int {
	switch c {
	case counterfoil.CodeInvalidInput, counterfoil.CodeSignatureInvalid:
		return http.StatusUnprocessableEntity
	case counterfoil.CodePolicyDenied, counterfoil.CodeSelfApproval:
		return http.StatusForbidden
	case counterfoil.CodeIntegrityFailed, counterfoil.CodeContextMismatch, counterfoil.CodeApprovalExpired, counterfoil.CodeNotYetValid,
		counterfoil.CodeRevoked, counterfoil.CodeAlreadyUsed, counterfoil.CodeQuorumMissing:
		return http.StatusConflict
	case counterfoil.CodeClock, counterfoil.CodeAborted, counterfoil.CodeUnavailable:
		return http.StatusServiceUnavailable
	case counterfoil.CodeExecutionFailed, counterfoil.CodeReceiptFailed, counterfoil.CodeUnknownOutcome:
		return http.StatusBadGateway
	case counterfoil.CodeInternal:
	}
	return http.StatusInternalServerError
}

// seconds rounds up: waiting so long is enough.
func seconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }

// reply makes the answer of a problem.
func (p *problem) reply(id string) *reply {
	p.Instance = id
	h := http.Header{}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(p.RetryAfter, 10))
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	b, err := json.Marshal(p)
	if err != nil { // a detail with bad UTF-8
		b = []byte(`{"title":"Internal Server Error","status":500,"code":"internal"}`)
		p.Status = http.StatusInternalServerError
	}
	return &reply{status: p.Status, kind: typeProblem, header: h, body: b}
}
