package gateway

import (
	"strconv"
	"strings"
	"time"
)

// ErrUnsent is wrapped by an upstream's error when nothing was sent: the call has had no effect.
const ErrUnsent = sentinel("nothing was sent to the upstream")

type sentinel string

func (s sentinel) Error() string { return string(s) }

// Spoken marks what the stores may pass on.
func (sentinel) Spoken() {}

// A Reason is the stable name of one way in which a call can end without its effect, as the agent is told it.
type Reason string

// The reasons, each with its JSON-RPC error number. The numbers are stable and lie outside the range that JSON-RPC and
// MCP reserve.
const (
	DeniedByPolicy      Reason = "denied_by_policy"     // 7001
	ApprovalRequired    Reason = "approval_required"    // 7002
	ApprovalPending     Reason = "approval_pending"     // 7003
	ApprovalDenied      Reason = "approval_denied"      // 7004
	ApprovalExpired     Reason = "approval_expired"     // 7005
	ApprovalVoid        Reason = "approval_void"        // 7006
	BudgetExhausted     Reason = "budget_exhausted"     // 7007
	DuplicateEffect     Reason = "duplicate_effect"     // 7008
	OutcomeUnknown      Reason = "outcome_unknown"      // 7009
	ContentBlocked      Reason = "content_blocked"      // 7010
	ToolQuarantined     Reason = "tool_quarantined"     // 7011
	UpstreamUnavailable Reason = "upstream_unavailable" // 7012

	InvalidParams Reason = "invalid_params" // -32602, JSON-RPC's own
	Internal      Reason = "internal"       // -32603, JSON-RPC's own
)

// Reasons returns the reasons with numbers of our own, in the order of their numbers from 7001.
func Reasons() []Reason {
	return []Reason{
		DeniedByPolicy, ApprovalRequired, ApprovalPending, ApprovalDenied, ApprovalExpired, ApprovalVoid, BudgetExhausted,
		DuplicateEffect, OutcomeUnknown, ContentBlocked, ToolQuarantined, UpstreamUnavailable,
	}
}

// Number returns the JSON-RPC error number of the reason.
func (r Reason) Number() int {
	for i, x := range Reasons() {
		if x == r {
			return 7001 + i
		}
	}
	if r == InvalidParams {
		return -32602
	}
	return -32603
}

// A Refusal is the end of a call that did not bring an answer from the upstream. It is safe to send.
type Refusal struct {
	Reason     Reason
	Msg        string // one sentence for the agent
	Approval   string // the id of the approval request, if there is one
	ExpiresAt  time.Time
	RetryAfter time.Duration
	Receipt    string // the id of the receipt, if the use was spent
	Err        error  // the cause: logged, never sent
}

// Error says it all in one line, because some clients show nothing else.
func (r *Refusal) Error() string {
	var b strings.Builder
	b.WriteString(string(r.Reason))
	b.WriteString(": ")
	b.WriteString(r.Msg)
	if r.Approval != "" {
		b.WriteString(" [approval " + r.Approval + "]")
	}
	if r.Receipt != "" {
		b.WriteString(" [receipt " + r.Receipt + "]")
	}
	if r.RetryAfter > 0 {
		b.WriteString(" Repeat the identical call in " + strconv.Itoa(int(r.RetryAfter/time.Second)) + " s.")
	}
	return b.String()
}

func (r *Refusal) Unwrap() error { return r.Err }

// refuse makes the Refusal for an error of the boundary.
func refuse(reason Reason, msg string, cause error) *Refusal {
	return &Refusal{Reason: reason, Msg: msg, Err: cause}
}
