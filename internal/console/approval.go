package console

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/counterfoil/counterfoil/internal/console/show"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// What can be approved here, and what has to be confirmed.
const (
	confirmBytes = 4 << 10 // more than this must be confirmed to have been read
	maxValue     = 1 << 20 // a longer string can't be approved here
	maxTotal     = 2 << 20 // larger arguments can't be approved here
	maxMarks     = 20_000  // nobody reads more marks than this
	maxReason    = 500     // characters
)

// A detail is a request with all that its reviewer must see.
type detail struct {
	ID, Href  string
	State     string
	Pending   bool
	Method    string
	ToolCall  bool
	Tool      []show.Segment
	Upstream  []show.Segment
	Requester []show.Segment
	Run       []show.Segment
	Effect    effect
	Strict    bool // the passphrase is asked for each time
	Size      string

	Tree     *node
	Exact    []show.Segment
	Warnings []string
	Confirm  string // "4,711 bytes, 12 lines": the reviewer must say that they saw it; "" when that need not be said
	Refused  string // why this can't be approved here, "" when it can
	Hidden   bool   // the arguments are too large to be drawn

	Definition *node
	Rule       []show.Segment
	Findings   []finding

	UpstreamID, DefinitionDigest, RulesDigest, InputDigest, DryRunDigest digest

	Created, Expires, Decided moment
	By, Reason, VoidCause     []show.Segment
	Receipt                   string
	ReceiptHref               string
	Outcome                   []show.Segment
}

type finding struct{ Severity, Pattern, Pointer string }

func (x *exchange) detail(a gateway.Approval) *detail {
	state := stateAt(a, x.now)
	d := &detail{
		ID: a.ID, Href: link("/approvals/", a.ID), State: stateWord(state), Pending: state == gateway.Pending,
		Method: show.Plain(a.Method), ToolCall: a.Method == "tools/call",
		Tool: show.Text(a.Tool), Upstream: show.Text(a.UpstreamName), Requester: show.Text(a.Requester), Run: show.Text(a.Run),
		Effect: effectNamed(a.Effect), Rule: show.Text(a.Rule),
		UpstreamID: shorten(a.UpstreamID), DefinitionDigest: shorten(a.DefinitionDigest), RulesDigest: shorten(a.RulesDigest),
		InputDigest: shorten(a.InputDigest), DryRunDigest: shorten(a.DryRunDigest),
		Created: x.moment(a.CreatedAt), Expires: x.moment(a.ExpiresAt), Decided: x.moment(a.DecidedAt),
		By: show.Text(a.DecidedBy), Reason: show.Text(a.Reason), VoidCause: show.Text(a.VoidCause),
		Receipt: a.Receipt, ReceiptHref: link("/receipts/", a.Receipt), Outcome: show.Text(a.Outcome),
	}
	d.Strict = d.Effect.Class == classDestructive
	for _, f := range a.Findings {
		d.Findings = append(d.Findings, finding{show.Plain(f.Severity), show.Plain(f.Pattern), show.Plain(f.Pointer)})
	}
	d.arguments(a.Arguments)
	if a.DryRunDigest == "" {
		d.Refused = "There is no digest to sign."
	}
	if len(a.Definition) > 0 && len(a.Definition) <= maxTotal {
		if tree, _, err := buildTree(a.Definition, false); err == nil {
			d.Definition = tree
		}
	}
	return d
}

// arguments fills in what is shown of the arguments: all of them or, when that is not possible, none and why.
func (d *detail) arguments(doc []byte) {
	if len(doc) == 0 {
		d.Size = "none"
		return
	}
	d.Size = count(len(doc), "byte")
	if len(doc) > maxTotal {
		d.Hidden = true
		d.Refused = "The arguments are larger than 2 MiB. They can't be shown in full here, so they can't be approved here."
		return
	}
	tree, seen, err := buildTree(doc, false)
	if err != nil {
		d.Exact = show.Text(string(doc))
		d.Refused = "The arguments are not a JSON document."
		return
	}
	d.Size += ", " + count(seen.lines, "line")
	if len(doc) > confirmBytes {
		d.Confirm = d.Size
	}
	d.Tree, d.Exact = tree, show.JSON(string(doc))
	if tree == nil {
		seen.see(d.Exact) // else each mark would be counted twice
	}
	d.Warnings = seen.warnings()
	switch {
	case seen.biggest > maxValue:
		d.Refused = "One value is larger than 1 MiB, so this can't be approved here."
	case seen.marks > maxMarks:
		d.Refused = "There are more than " + strconv.Itoa(maxMarks) + " characters that can't be seen. Nobody can read this, so it can't be approved here."
	}
	if d.Refused != "" {
		d.Hidden, d.Tree, d.Exact = true, nil, nil
	}
}

// A problem is what was wrong with a form; it is shown beside it, with what was typed but the passphrase.
type problem struct {
	Form   string // "approve" or "deny"
	Text   string
	Reason string
}

// approvalView is the body of the page for one request.
type approvalView struct {
	*detail
	Problem   problem
	NeedsPass bool
	MaxReason int
}

// Reason returns what stands in the reason field of a form.
func (v approvalView) Typed(form string) string {
	if v.Problem.Form == form {
		return v.Problem.Reason
	}
	return ""
}

func (c *Console) approval(x *exchange) error {
	a, err := c.service.Approval(x.r.Context(), x.id)
	if err != nil {
		return err
	}
	return c.approvalPage(x, http.StatusOK, x.detail(a), problem{})
}

func (c *Console) approvalPage(x *exchange, status int, d *detail, p problem) error {
	key, _ := c.keys.look(x.session)
	v := approvalView{detail: d, Problem: p, NeedsPass: d.Strict || key == nil, MaxReason: maxReason}
	return c.render(x, status, "approval", frame{Title: "Request " + d.ID, Nav: "requests"}, v)
}

// arguments sends the exact canonical bytes as a file.
func (c *Console) arguments(x *exchange) error {
	a, err := c.service.Approval(x.r.Context(), x.id)
	if err != nil {
		return err
	}
	x.attach("arguments.json", "application/octet-stream", a.Arguments)
	return nil
}

func (c *Console) approve(x *exchange) error { return c.decide(x, "approve") }
func (c *Console) deny(x *exchange) error    { return c.decide(x, "deny") }

// decide takes a decision. Everything that can be refused without the passphrase is refused before it is tried.
func (c *Console) decide(x *exchange, form string) error {
	a, err := c.service.Approval(x.r.Context(), x.id)
	if err != nil {
		return err
	}
	if state := stateAt(a, x.now); state != gateway.Pending {
		return &Conflict{State: state}
	}
	// The form names what its page showed; a request never changes, but a form can be old or made up.
	if x.field("shown") != a.DryRunDigest {
		return &failure{status: http.StatusConflict, title: "Changed meanwhile", href: link("/approvals/", a.ID),
			text: "The request is not the one that was shown. Your decision changed nothing. Look again."}
	}
	d := x.detail(a)
	reason := strings.ReplaceAll(x.field("reason"), "\r\n", "\n")
	p := problem{Form: form, Reason: reason}
	if p.Text = d.objection(form, x.field("seen"), reason); p.Text != "" {
		return c.approvalPage(x, http.StatusUnprocessableEntity, d, p)
	}
	key, err := c.signer(x, d.Strict)
	if err != nil {
		if p.Text = passphraseProblem(err); p.Text != "" {
			return c.approvalPage(x, http.StatusForbidden, d, p)
		}
		return err
	}
	if form == "approve" {
		err = c.service.Approve(x.r.Context(), a.ID, key, reason)
	} else {
		err = c.service.Deny(x.r.Context(), a.ID, key, reason)
	}
	if err != nil {
		return err
	}
	x.redirect(d.Href)
	return nil
}

// objection returns why a form can't be accepted, "" when it can.
func (d *detail) objection(form, seen, reason string) string {
	switch {
	case utf8.RuneCountInString(reason) > maxReason:
		return "The reason is longer than " + strconv.Itoa(maxReason) + " characters."
	case form != "approve":
		return ""
	case d.Refused != "":
		return d.Refused
	case d.Confirm != "" && seen != d.Confirm:
		return "Confirm that you have seen all " + d.Confirm + "."
	}
	return ""
}

// signer returns the key to sign a decision with. For a strict one the passphrase is asked each time, and the key that
// it unlocks serves that decision alone.
func (c *Console) signer(x *exchange, strict bool) (Key, error) {
	if strict {
		return c.keys.fresh(x.r.Context(), x.field("passphrase"))
	}
	return c.keys.kept(x.r.Context(), x.session, x.field("passphrase"))
}

// passphraseProblem returns the text for an error about the passphrase, "" for any other error. It is the same for a
// wrong passphrase and during the lockout.
func passphraseProblem(err error) string {
	switch {
	case errors.Is(err, errNeedPass):
		return "Enter your passphrase to sign the decision."
	case errors.Is(err, ErrWrongPassphrase):
		return "The passphrase was not accepted. After " + strconv.Itoa(maxWrong) + " wrong ones, none is accepted for a minute."
	}
	return ""
}
