package identity

import (
	"maps"
	"slices"
	"strings"
)

// A Scope is one right, written noun:verb.
type Scope string

// The scopes. There are no others: a credential that names another is not issued and not accepted.
const (
	ScopeToolsRead       Scope = "tools:read"
	ScopeToolsExecute    Scope = "tools:execute"
	ScopeToolsGovern     Scope = "tools:govern" // pins, status, classification
	ScopePlansWrite      Scope = "plans:write"
	ScopeApprovalsRead   Scope = "approvals:read"
	ScopeApprovalsDecide Scope = "approvals:decide"
	ScopeGrantsRead      Scope = "grants:read"
	ScopeGrantsWrite     Scope = "grants:write"
	ScopeBudgetsRead     Scope = "budgets:read"
	ScopeBudgetsWrite    Scope = "budgets:write"
	ScopeRunsSignal      Scope = "runs:signal"
	ScopeSecretsRead     Scope = "secrets:read" // names and versions, never values
	ScopeSecretsWrite    Scope = "secrets:write"
	ScopeScanRun         Scope = "scan:run"
	ScopeReceiptsRead    Scope = "receipts:read"
	ScopeAuditRead       Scope = "audit:read"
	ScopePolicyRead      Scope = "policy:read"
	ScopePolicyWrite     Scope = "policy:write"
	ScopeKeysRead        Scope = "keys:read"
	ScopeKeysWrite       Scope = "keys:write"
	ScopeUsersWrite      Scope = "users:write"
	ScopeHooksWrite      Scope = "hooks:write"
	ScopeTenantAdmin     Scope = "tenant:admin" // everything in its own tenant; "admin" is short for it
	ScopeSystemAdmin     Scope = "system:admin" // tenants and operations; never arguments or secrets
)

// Registered returns all scopes, sorted.
func Registered() []Scope {
	return []Scope{
		ScopeApprovalsDecide, ScopeApprovalsRead, ScopeAuditRead, ScopeBudgetsRead, ScopeBudgetsWrite, ScopeGrantsRead,
		ScopeGrantsWrite, ScopeHooksWrite, ScopeKeysRead, ScopeKeysWrite, ScopePlansWrite, ScopePolicyRead, ScopePolicyWrite,
		ScopeReceiptsRead, ScopeRunsSignal, ScopeScanRun, ScopeSecretsRead, ScopeSecretsWrite, ScopeSystemAdmin,
		ScopeTenantAdmin, ScopeToolsExecute, ScopeToolsGovern, ScopeToolsRead, ScopeUsersWrite,
	}
}

// Scopes are a set of scopes and of all scopes of a noun ("tools:*"). The zero Scopes are none.
type Scopes struct{ set map[string]bool }

// ParseScopes reads a list of scopes: registered ones, "noun:*" of a registered noun, and "admin", which is tenant:admin.
// Anything else is refused: a wildcard stands for whole segments only.
func ParseScopes(list []string) (Scopes, error) {
	set := make(map[string]bool, len(list))
	for _, s := range list {
		if s == "admin" {
			s = string(ScopeTenantAdmin)
		}
		if !known(s) {
			return Scopes{}, fail("a scope is not known")
		}
		set[s] = true
	}
	return Scopes{set}, nil
}

func known(s string) bool {
	noun, all := strings.CutSuffix(s, ":*")
	return slices.ContainsFunc(Registered(), func(r Scope) bool {
		// What rules over tenants is named in full, never by a wildcard.
		return string(r) == s || all && strings.HasPrefix(string(r), noun+":") && noun != "system" && noun != "tenant"
	})
}

// List returns the scopes, sorted.
func (s Scopes) List() []string { return slices.Sorted(maps.Keys(s.set)) }

// Has reports whether the set has the scope, by its name or its noun. It does not look at tenant:admin.
func (s Scopes) Has(x Scope) bool {
	noun, _, _ := strings.Cut(string(x), ":")
	return s.set[string(x)] || s.set[noun+":*"]
}

// Within reports whether every right of s is one of o: what a principal may pass on.
func (s Scopes) Within(o Scopes) bool {
	for x := range s.set {
		if o.set[x] || o.Has(Scope(x)) && !strings.HasSuffix(x, ":*") {
			continue
		}
		// An administrator of the tenant passes on every right within it.
		if !o.set[string(ScopeTenantAdmin)] || x == string(ScopeSystemAdmin) {
			return false
		}
	}
	return true
}

// coveredBy reports whether every scope of s is one of o, by its name or its noun. Unlike Within, it does not look at
// tenant:admin: what a configuration allows is what it writes out.
func (s Scopes) coveredBy(o Scopes) bool {
	for x := range s.set {
		if !o.Has(Scope(x)) { // "noun:*" is covered by itself alone
			return false
		}
	}
	return true
}

// A Verdict says whether a request may go on. The zero Verdict is no.
type Verdict byte

// The verdicts.
const (
	Deny Verdict = iota
	Ask
	Allow
)

// Decide says whether a principal may do what needs the scope, under its tenant's lists of what is denied and what is asked.
// A denial beats everything, an administrator's own rights too; then a question; then the rights themselves. System
// administration is nobody's but who holds it by name. A scope that is not registered is nobody's.
func Decide(need Scope, have, denied, asked Scopes) Verdict {
	switch held := have.Has(need) || need != ScopeSystemAdmin && have.Has(ScopeTenantAdmin); {
	case !slices.Contains(Registered(), need), denied.Has(need), denied.Has(ScopeTenantAdmin) && !have.Has(need):
		return Deny
	case !held:
		return Deny
	case asked.Has(need):
		return Ask
	default:
		return Allow
	}
}
