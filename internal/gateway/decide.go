package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/governance"
	"github.com/counterfoil/counterfoil/scan"
)

// methodToolsCall is the one method whose effect the registry knows per tool.
const methodToolsCall = "tools/call"

// readMethods are the methods that only read, by the protocol's own definition.
func readMethod(m string) bool {
	switch m {
	case "resources/read", "resources/subscribe", "resources/unsubscribe", "prompts/get", "completion/complete":
		return true
	}
	return false
}

// admit parses the call's bytes, once: from here on only their canonical form exists (INV-1).
func (g *Gateway) admit(c Call) (*passage, error) {
	if c.Tenant == "" || c.Principal == "" || c.Run == "" || c.Upstream == nil {
		return nil, &counterfoil.Error{Code: counterfoil.CodeInternal, Msg: "the call does not say whose it is"}
	}
	for _, s := range []string{c.Tool, c.Method} {
		if err := counterfoil.CheckIdentity(s); err != nil {
			return nil, refuse(InvalidParams, "the tool's name is not one: "+err.Error(), err)
		}
	}
	p := &passage{call: c, method: c.Method}
	raw := c.Arguments
	if raw == nil {
		raw = []byte("{}")
	}
	var err error
	if p.parameters, err = counterfoil.ParseArguments(raw); err != nil {
		return nil, err
	}
	p.arguments = p.parameters.Canonical()
	if c.Extra == nil {
		return p, nil
	}
	extra, err := counterfoil.ParseArguments(c.Extra)
	if err != nil {
		return nil, err
	}
	// Each half was parsed by itself, so that neither can write into the other.
	p.method += "+extra"
	p.parameters, err = counterfoil.ParseArguments(fmt.Appendf(nil, `{"arguments":%s,"extra":%s}`, p.arguments, extra.Canonical()))
	return p, err
}

// screen looks for injected instructions in the arguments. What it finds makes the call ask; it never lets one pass.
func (g *Gateway) screen(ctx context.Context, p *passage) error {
	res := g.Scanner.ScanValue(ctx, p.parameters.Canonical())
	for _, f := range res.Findings {
		if f.Severity < scan.SeverityMedium {
			continue
		}
		p.findings = append(p.findings, Finding{Pattern: f.Pattern, Severity: f.Severity.String(), Pointer: f.Pointer})
	}
	if !res.Safe && len(p.findings) == 0 {
		p.findings = append(p.findings, Finding{Pattern: "unscannable: " + res.Unscannable, Severity: scan.SeverityHigh.String()})
	}
	return nil
}

// govern finds out what the call is: a tool that is known, whose definition is the pinned one, with arguments that fit.
func (g *Gateway) govern(ctx context.Context, p *passage) error {
	s, err := g.serverOf(ctx, p.call)
	if err != nil {
		return err
	}
	p.server = s
	if err := g.stands(ctx, p, false); err != nil {
		return err
	}
	if p.call.Method != methodToolsCall {
		p.tool, p.effect, p.why = nil, counterfoil.EffectDestructive, "the method is not known"
		if readMethod(p.call.Method) {
			p.effect, p.why = counterfoil.EffectRead, "the protocol defines this method as a read"
		}
		return nil
	}
	if s.registry == nil {
		return refuse(UpstreamUnavailable, "the upstream's tools could not be listed", s.listErr)
	}
	tool, err := s.registry.Lookup(p.call.Tool)
	switch {
	case errors.Is(err, governance.ErrQuarantined):
		return refuse(ToolQuarantined, "the tool's definition has changed since it was first seen; a person must accept it: counterfoil servers", err)
	case err != nil:
		return err
	}
	if problems := tool.Check(p.arguments); len(problems) > 0 {
		lines := make([]string, 0, len(problems))
		for _, x := range problems {
			lines = append(lines, strings.TrimSpace(x.Pointer+" "+x.Msg))
		}
		return refuse(InvalidParams, "the arguments do not match the tool's schema: "+strings.Join(lines, "; "), nil)
	}
	p.tool = tool
	p.effect, p.why = tool.Effect(p.arguments)
	if p.call.Extra != nil && p.effect.Class() == counterfoil.ClassRead {
		p.effect, p.why = counterfoil.EffectMutation, "the call carries members that the gateway does not know"
	}
	return nil
}

// splitExtra takes the two halves of parameters with extra members apart. Both are pieces of canonical bytes.
func splitExtra(canonical []byte) (arguments, extra []byte) {
	v := struct {
		Arguments jsontext.Value `json:"arguments"`
		Extra     jsontext.Value `json:"extra"`
	}{}
	if err := unmarshal(canonical, &v); err != nil {
		return nil, nil
	}
	return v.Arguments, v.Extra
}

// decide asks the rules. Findings turn an allow into an ask.
func (g *Gateway) decide(_ context.Context, p *passage) error {
	p.verdict, p.rule = g.Rules.Decide(p.call.Tool, p.effect)
	switch p.verdict {
	case governance.Allow:
		if len(p.findings) > 0 {
			p.verdict, p.rule = governance.Ask, "screening found "+p.findings[0].Pattern+" in the arguments"
		}
		return nil
	case governance.Ask:
		return nil
	case governance.Deny:
	}
	return refuse(DeniedByPolicy, "a rule denies this call: "+p.rule, nil)
}

// budget refuses what could not run even with an approval, so that no person is asked for it.
func (g *Gateway) budget(_ context.Context, p *passage) error {
	if p.tool != nil {
		if _, err := p.tool.Reach(p.arguments); err != nil {
			return err
		}
	}
	g.mu.Lock()
	spent := g.calls[p.run()]
	g.mu.Unlock()
	if spent >= g.MaxCalls {
		return refuse(BudgetExhausted, "this run has used all of its calls", nil)
	}
	return nil
}

// Limits of a call whose registry entry names none.
const (
	defaultRows  = 10_000
	defaultBytes = 16 << 20
)

// plan makes the plan of one step, its projected policy, the dry run and the operation.
func (g *Gateway) plan(p *passage, now time.Time) error {
	id, err := g.id("plan-")
	if err != nil {
		return err
	}
	c := counterfoil.Call{
		PlanID: id, Tenant: p.call.Tenant, Audience: g.Keys.Audience(), Actor: p.call.Principal,
		Tool: p.call.Tool, Method: p.method, Effect: p.effect, Arguments: p.parameters,
		Source: p.source(), Rows: defaultRows, Bytes: defaultBytes,
	}
	policy, err := counterfoil.ParsePolicy(c.Policy(g.rules, g.GrantLife+time.Minute))
	if err != nil {
		return err
	}
	plan, err := counterfoil.ParsePlan(c.Plan())
	if err != nil {
		return err
	}
	if p.dry, err = plan.DryRun(policy, now); err != nil {
		return err
	}
	p.op, err = counterfoil.ParseOperation(c.Operation(), policy)
	return err
}

// source says what the call acts on, as it is seen now.
func (p *passage) source() counterfoil.Source {
	return counterfoil.Source{
		ID: p.server.sourceID, SchemaVersion: p.definition().String(), SourceVersion: p.server.id.String(),
		Scopes: []string{"tools:execute"}, DataMode: counterfoil.DataLive, ObservedAt: p.server.seen, Attribution: p.server.name,
	}
}

// definition is the digest of what defines the call: the tool's pinned definition, or the protocol's method.
func (p *passage) definition() counterfoil.Digest {
	if p.tool != nil {
		return p.tool.Digest
	}
	method, err := jsontext.AppendQuote(nil, p.call.Method)
	if err != nil {
		return counterfoil.Digest{}
	}
	d, err := counterfoil.DefinitionDigest(fmt.Appendf(nil, `{"method":%s}`, method))
	if err != nil {
		return counterfoil.Digest{}
	}
	return d
}
