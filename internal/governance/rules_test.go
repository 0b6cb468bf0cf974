package governance_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/governance"
)

func rules(t testing.TB, lines ...string) *governance.Rules {
	t.Helper()
	var list []governance.Rule
	for _, l := range lines {
		decision, tool, _ := strings.Cut(l, " ")
		list = append(list, governance.Rule{Tool: tool, Decision: decision})
	}
	r, err := governance.NewRules(list)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRules_Decide(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rules  string
		tool   string
		effect counterfoil.Effect
		want   governance.Verdict
		rule   string
	}{
		{"", "x", counterfoil.EffectRead, governance.Allow, "default: allow reads"},
		{"", "x", counterfoil.EffectRender, governance.Allow, "default: allow reads"},
		{"", "x", counterfoil.EffectMutation, governance.Ask, "default: ask before writes"},
		{"", "x", counterfoil.EffectPublish, governance.Ask, "default: ask before writes"},
		{"", "x", counterfoil.EffectShare, governance.Ask, "default: ask before writes"},
		{"", "x", counterfoil.EffectRealtime, governance.Ask, "default: ask before writes"},
		{"", "x", counterfoil.EffectJob, governance.Ask, "default: ask before writes"},
		{"", "x", counterfoil.EffectDestructive, governance.Ask, "default: ask before destructive calls"},
		{"", "x", "", governance.Ask, "default: ask before destructive calls"},
		{"", "x", "READ", governance.Ask, "default: ask before destructive calls"},
		{"allow x", "x", counterfoil.EffectMutation, governance.Allow, "rule 1: allow x"},
		{"allow x", "y", counterfoil.EffectMutation, governance.Ask, "default: ask before writes"},
		{"allow x", "x", counterfoil.EffectDestructive, governance.Ask, "rule 1: allow x, but destructive calls always ask"},
		{"allow x", "x", "", governance.Ask, "rule 1: allow x, but destructive calls always ask"},
		{"allow *", "x", counterfoil.EffectDestructive, governance.Ask, "rule 1: allow *, but destructive calls always ask"},
		{"ask x", "x", counterfoil.EffectRead, governance.Ask, "rule 1: ask x"},
		{"deny *", "x", counterfoil.EffectRead, governance.Deny, "rule 1: deny *"},
		// The strictest wins, whatever the order and however narrow.
		{"allow file_ops,deny file_*", "file_ops", counterfoil.EffectRead, governance.Deny, "rule 2: deny file_*"},
		{"deny *,allow file_ops", "file_ops", counterfoil.EffectRead, governance.Deny, "rule 1: deny *"},
		{"deny file_ops,allow *", "file_ops", counterfoil.EffectRead, governance.Deny, "rule 1: deny file_ops"},
		{"allow *,ask f*,deny fi*", "file", counterfoil.EffectRead, governance.Deny, "rule 3: deny fi*"},
		{"allow *,ask f*,deny fi*", "foo", counterfoil.EffectRead, governance.Ask, "rule 2: ask f*"},
		{"allow f*,ask foo", "foo", counterfoil.EffectRead, governance.Ask, "rule 2: ask foo"},
		{"ask foo,ask f*", "foo", counterfoil.EffectRead, governance.Ask, "rule 1: ask foo"},
		{"ask f*,ask foo", "foo", counterfoil.EffectRead, governance.Ask, "rule 1: ask f*"},
		{"deny foo,deny foo", "foo", counterfoil.EffectRead, governance.Deny, "rule 1: deny foo"},
		// Deny and ask ignore case, allow doesn't.
		{"deny delete_*", "Delete_all", counterfoil.EffectRead, governance.Deny, "rule 1: deny delete_*"},
		{"deny Straße", "STRASSE", counterfoil.EffectRead, governance.Deny, "rule 1: deny Straße"},
		{"ask Foo", "fOO", counterfoil.EffectRead, governance.Ask, "rule 1: ask Foo"},
		{"allow foo", "Foo", counterfoil.EffectMutation, governance.Ask, "default: ask before writes"},
		{"allow f*", "Foo", counterfoil.EffectMutation, governance.Ask, "default: ask before writes"},
		// Only the star is special.
		{"allow [ab]?", "[ab]?", counterfoil.EffectMutation, governance.Allow, "rule 1: allow [ab]?"},
		{"allow [ab]?", "ax", counterfoil.EffectMutation, governance.Ask, "default: ask before writes"},
		{"allow *_x_*", "a_x_b_x_", counterfoil.EffectMutation, governance.Allow, "rule 1: allow *_x_*"},
		{"allow resources/*", "resources/read", counterfoil.EffectRead, governance.Allow, "rule 1: allow resources/*"},
	}
	for _, tt := range tests {
		var lines []string
		if tt.rules != "" {
			lines = strings.Split(tt.rules, ",")
		}
		got, rule := rules(t, lines...).Decide(tt.tool, tt.effect)
		if got != tt.want || rule != tt.rule {
			t.Errorf("%q: %s (%s) = %v, %q; want %v, %q", tt.rules, tt.tool, tt.effect, got, rule, tt.want, tt.rule)
		}
	}
}

func TestRules_zero(t *testing.T) {
	t.Parallel()
	for _, r := range []*governance.Rules{nil, new(governance.Rules)} {
		if v, why := r.Decide("x", counterfoil.EffectRead); v != governance.Deny || why == "" {
			t.Errorf("%v, %q", v, why)
		}
	}
	var v governance.Verdict
	if v != governance.Deny || v.String() != "deny" || governance.Verdict(9).String() != "deny" {
		t.Error("the zero verdict doesn't deny")
	}
}

func TestNewRules_rejects(t *testing.T) {
	t.Parallel()
	for _, decision := range []string{"", "block", "deny ", " deny", "Deny", "DENY", "allowed", "yes", "no", "*", "deny\x00", "dеny"} {
		r, err := governance.NewRules([]governance.Rule{{Tool: "ok", Decision: "allow"}, {Tool: "x", Decision: decision}})
		e, ok := errors.AsType[*counterfoil.Error](err)
		if r != nil || !ok || e.Code != counterfoil.CodeInvalidInput || e.Path != "/rules/1" {
			t.Errorf("decision %q: %v", decision, err)
		}
	}
	for _, tool := range []string{"", " ", "a b", "a\n", "a\u200b", strings.Repeat("a", 129), "\xff"} {
		if _, err := governance.NewRules([]governance.Rule{{Tool: tool, Decision: "deny"}}); err == nil {
			t.Errorf("the pattern %q was accepted", tool)
		}
	}
	if _, err := governance.NewRules(make([]governance.Rule, 5000)); err == nil {
		t.Error("5000 rules were accepted")
	}
}

func TestRules_Document(t *testing.T) {
	t.Parallel()
	r := rules(t, "deny x", "allow y*")
	const want = `{"rules":[{"decision":"deny","tool":"x"},{"decision":"allow","tool":"y*"}],"version":1}`
	if got := string(r.Document()); got != want {
		t.Errorf("got %s", got)
	}
	r.Document()[0] = 'x'
	if got := string(r.Document()); got != want {
		t.Errorf("the document was changed from outside: %s", got)
	}
	if got := string(rules(t).Document()); got != `{"rules":[],"version":1}` {
		t.Errorf("no rules: %s", got)
	}
}

// TestRules_model compares with the plain statement of what rules mean.
func TestRules_model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) governance.Rule {
			return governance.Rule{
				Tool:     rapid.StringMatching(`[abA*]{1,3}`).Draw(rt, "tool"),
				Decision: rapid.SampledFrom([]string{"deny", "ask", "allow"}).Draw(rt, "decision"),
			}
		}), 0, 6).Draw(rt, "rules")
		tool := rapid.StringMatching(`[abA]{1,3}`).Draw(rt, "tool")
		effect := rapid.SampledFrom(counterfoil.Effects()).Draw(rt, "effect")
		r, err := governance.NewRules(list)
		if err != nil {
			rt.Fatal(err)
		}
		want := governance.Ask
		if effect.Class() == counterfoil.ClassRead {
			want = governance.Allow
		}
		for _, decision := range []string{"allow", "ask", "deny"} {
			if slices.ContainsFunc(list, func(x governance.Rule) bool { return x.Decision == decision && modelMatch(x, tool) }) {
				want = map[string]governance.Verdict{"deny": governance.Deny, "ask": governance.Ask, "allow": governance.Allow}[decision]
			}
		}
		if want == governance.Allow && effect == counterfoil.EffectDestructive {
			want = governance.Ask
		}
		for range 2 { // the second time from memory
			if got, _ := r.Decide(tool, effect); got != want {
				rt.Fatalf("%v: %s (%s) = %v, want %v", list, tool, effect, got, want)
			}
		}
		if got, why := r.Decide(tool, counterfoil.EffectDestructive); got == governance.Allow {
			rt.Fatalf("%v: a destructive %s is allowed by %s", list, tool, why)
		}
	})
}

func modelMatch(r governance.Rule, tool string) bool {
	pattern := r.Tool
	if r.Decision != "allow" {
		pattern, tool = strings.ToLower(pattern), strings.ToLower(tool)
	}
	var match func(p, s string) bool
	match = func(p, s string) bool {
		if p == "" {
			return s == ""
		}
		if p[0] == '*' {
			return match(p[1:], s) || s != "" && match(p, s[1:])
		}
		return s != "" && p[0] == s[0] && match(p[1:], s[1:])
	}
	return match(pattern, tool)
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{1, 100} {
		var exact, globs []string
		for i := range n {
			exact = append(exact, fmt.Sprintf("ask tool_%d", i))
			globs = append(globs, fmt.Sprintf("deny area%d_*", i))
		}
		for name, lines := range map[string][]string{"exact": exact, "globs": globs} {
			r := rules(b, lines...)
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					if v, _ := r.Decide("tool_0", counterfoil.EffectMutation); v != governance.Ask {
						b.Fatal(v)
					}
				}
			})
		}
	}
}
