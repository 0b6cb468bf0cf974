package identity_test

import (
	"testing"

	"github.com/counterfoil/counterfoil/internal/identity"
)

func scopes(t testing.TB, list ...string) identity.Scopes {
	t.Helper()
	s, err := identity.ParseScopes(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseScopes_refused(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "*", "a*", "?????", "tools", "tools:", ":*", "*:*", "tools:exec*", "tools:unknown", "system:*", "tenant:*", "Admin", "admin ", "tools:*:x", "nouns:*"} {
		if _, err := identity.ParseScopes([]string{s}); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	const need = identity.ScopeToolsExecute
	for _, c := range []struct {
		name                string
		have, denied, asked []string
		need                identity.Scope
		want                identity.Verdict
	}{
		{"held", []string{"tools:execute"}, nil, nil, need, identity.Allow},
		{"not held", []string{"tools:read"}, nil, nil, need, identity.Deny},
		{"none", nil, nil, nil, need, identity.Deny},
		{"by noun", []string{"tools:*"}, nil, nil, need, identity.Allow},
		{"admin", []string{"admin"}, nil, nil, need, identity.Allow},
		{"denied though held", []string{"tools:execute"}, []string{"tools:execute"}, nil, need, identity.Deny},
		{"denied by noun", []string{"tools:execute"}, []string{"tools:*"}, nil, need, identity.Deny},
		{"denied to an admin", []string{"admin"}, []string{"tools:execute"}, nil, need, identity.Deny},
		{"admin denied", []string{"admin"}, []string{"admin"}, nil, need, identity.Deny},
		{"another denied", []string{"tools:execute"}, []string{"tools:read"}, nil, need, identity.Allow},
		{"asked", []string{"tools:execute"}, nil, []string{"tools:execute"}, need, identity.Ask},
		{"denied and asked", []string{"tools:execute"}, []string{"tools:execute"}, []string{"tools:execute"}, need, identity.Deny},
		{"asked but not held", nil, nil, []string{"tools:execute"}, need, identity.Deny},
		{"a tenant's admin is no system's", []string{"admin"}, nil, nil, identity.ScopeSystemAdmin, identity.Deny},
		{"a system's admin does not call", []string{"system:admin"}, nil, nil, need, identity.Deny},
		{"not registered", []string{"admin"}, nil, nil, "tools:other", identity.Deny},
		{"empty", []string{"admin"}, nil, nil, "", identity.Deny},
	} {
		if got := identity.Decide(c.need, scopes(t, c.have...), scopes(t, c.denied...), scopes(t, c.asked...)); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestScopes_Within(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		give, hold []string
		want       bool
	}{
		{[]string{"tools:read"}, []string{"tools:*"}, true},
		{[]string{"tools:*"}, []string{"tools:*"}, true},
		{[]string{"tools:*"}, []string{"tools:read", "tools:execute"}, false},
		{[]string{"tools:*"}, []string{"admin"}, true},
		{[]string{"system:admin"}, []string{"admin"}, false},
		{[]string{"admin"}, []string{"tools:*"}, false},
		{[]string{"system:admin"}, []string{"system:admin"}, true},
		{nil, nil, true},
	} {
		if got := scopes(t, c.give...).Within(scopes(t, c.hold...)); got != c.want {
			t.Errorf("%v within %v: %v", c.give, c.hold, got)
		}
	}
}

func TestPrincipal_Check(t *testing.T) {
	t.Parallel()
	good := identity.Principal{Tenant: "acme", Subject: "build", Kind: identity.KindAgent, Owner: "ada", Credential: "key-1"}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*identity.Principal){
		"no tenant":           func(p *identity.Principal) { p.Tenant = "" },
		"no subject":          func(p *identity.Principal) { p.Subject = "" },
		"no owner":            func(p *identity.Principal) { p.Owner = "" },
		"no credential":       func(p *identity.Principal) { p.Credential = "" },
		"no kind":             func(p *identity.Principal) { p.Kind = "" },
		"an agent can decide": func(p *identity.Principal) { p.Scopes = scopes(t, "approvals:decide") },
		"by noun":             func(p *identity.Principal) { p.Scopes = scopes(t, "approvals:*") },
		"as admin":            func(p *identity.Principal) { p.Scopes = scopes(t, "admin") },
	} {
		p := good
		if change(&p); p.Check() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
