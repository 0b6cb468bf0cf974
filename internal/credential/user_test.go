package credential_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

func TestUsers_create(t *testing.T) {
	t.Parallel()
	r := setup(t)
	root := person("root", "admin")
	n := credential.NewUser{Name: "ada@example.com", Password: credential.NewSecret(pass), Scopes: []string{"tools:read", "admin"}, Groups: []string{"finance"}}
	u, err := r.users.Create(t.Context(), root, n)
	must(t, err)
	if u.Tenant != acme || u.Name != n.Name || strings.Join(u.Scopes, " ") != "tenant:admin tools:read" || u.Groups[0] != "finance" || u.Disabled || u.Created.IsZero() {
		t.Fatalf("%+v", u)
	}
	_, err = r.users.Create(t.Context(), root, n)
	if wantCode(t, "twice", err, counterfoil.CodeInvalidInput); !errors.Is(err, credential.ErrExists) {
		t.Fatal(err)
	}
	must(t, second(r.users.Create(t.Context(), of(umbrella, root), n)))
	for tenant, want := range map[string]int{acme: 2, umbrella: 2} {
		if list, err := r.users.List(t.Context(), of(tenant, root), "", 10); err != nil || len(list) != want || list[0].Tenant != tenant {
			t.Fatalf("%s has %d users, %v", tenant, len(list), err)
		}
	}
}

func TestUsers_createRejects(t *testing.T) {
	t.Parallel()
	r := setup(t)
	agent := &identity.Principal{Tenant: acme, Subject: "bot", Kind: identity.KindAgent, Owner: "root", Scopes: scopes("users:write"), Credential: "key_1"}
	for name, c := range map[string]struct {
		by     *identity.Principal
		change func(*credential.NewUser)
		want   counterfoil.Code
	}{
		"nobody":            {&identity.Principal{}, nil, counterfoil.CodePolicyDenied},
		"no scope":          {person("ada", "keys:*", "tools:*"), nil, counterfoil.CodePolicyDenied},
		"an agent":          {agent, nil, counterfoil.CodePolicyDenied},
		"more than they":    {person("ada", "users:write"), func(n *credential.NewUser) { n.Scopes = []string{"tools:read"} }, counterfoil.CodePolicyDenied},
		"an administrator":  {person("ada", "users:write"), func(n *credential.NewUser) { n.Scopes = []string{"admin"} }, counterfoil.CodePolicyDenied},
		"the system's":      {nil, func(n *credential.NewUser) { n.Scopes = []string{"system:admin"} }, counterfoil.CodePolicyDenied},
		"unknown scope":     {nil, func(n *credential.NewUser) { n.Scopes = []string{"tools:fly"} }, counterfoil.CodeInvalidInput},
		"no name":           {nil, func(n *credential.NewUser) { n.Name = "" }, counterfoil.CodeInvalidInput},
		"a slash":           {nil, func(n *credential.NewUser) { n.Name = "corp/ada" }, counterfoil.CodeInvalidInput},
		"upper case":        {nil, func(n *credential.NewUser) { n.Name = "Ada" }, counterfoil.CodeInvalidInput},
		"a look-alike":      {nil, func(n *credential.NewUser) { n.Name = "аda" }, counterfoil.CodeInvalidInput},
		"a space":           {nil, func(n *credential.NewUser) { n.Name = "ada " }, counterfoil.CodeInvalidInput},
		"a dot first":       {nil, func(n *credential.NewUser) { n.Name = ".ada" }, counterfoil.CodeInvalidInput},
		"a long name":       {nil, func(n *credential.NewUser) { n.Name = strings.Repeat("a", 129) }, counterfoil.CodeInvalidInput},
		"no password":       {nil, func(n *credential.NewUser) { n.Password = credential.Secret{} }, counterfoil.CodeInvalidInput},
		"11 characters":     {nil, func(n *credential.NewUser) { n.Password = credential.NewSecret("ééééééééééé"[:22]) }, counterfoil.CodeInvalidInput},
		"a long password":   {nil, func(n *credential.NewUser) { n.Password = credential.NewSecret(strings.Repeat("a", 1025)) }, counterfoil.CodeInvalidInput},
		"not UTF-8":         {nil, func(n *credential.NewUser) { n.Password = credential.NewSecret(pass + "\xff") }, counterfoil.CodeInvalidInput},
		"the name in it":    {nil, func(n *credential.NewUser) { n.Password = credential.NewSecret("1234-ADA-56789") }, counterfoil.CodeInvalidInput},
		"a group of spaces": {nil, func(n *credential.NewUser) { n.Groups = []string{" "} }, counterfoil.CodeInvalidInput},
		"many groups":       {nil, func(n *credential.NewUser) { n.Groups = strings.Split(strings.Repeat("a ", 65), " ")[:65] }, counterfoil.CodeInvalidInput},
	} {
		by := c.by
		if by == nil {
			by = person("root", "admin")
		}
		n := credential.NewUser{Name: "ada", Password: credential.NewSecret(pass)}
		if c.change != nil {
			c.change(&n)
		}
		_, err := r.users.Create(t.Context(), by, n)
		wantCode(t, name, err, c.want)
	}
	if list, err := r.users.List(t.Context(), person("root", "admin"), "", 10); err != nil || len(list) != 1 {
		t.Fatalf("%d users, %v", len(list), err)
	}
}

// The first user of a tenant is made by whoever governs the system, once; no other, and none who governs the system.
func TestUsers_createFirst(t *testing.T) {
	t.Parallel()
	r := setup(t)
	system := person("root", "admin", "system:admin")
	n := credential.NewUser{Name: "eve", Password: credential.NewSecret(pass), Scopes: []string{"admin"}}
	for name, c := range map[string]struct {
		by     *identity.Principal
		tenant string
		scopes []string
		want   error
	}{
		"there is one":      {system, umbrella, n.Scopes, credential.ErrNotFirst},
		"no such tenant":    {system, "nobody", n.Scopes, identity.ErrNoTenant},
		"no tenant":         {system, "", n.Scopes, counterfoil.CodeInvalidInput},
		"not the system's":  {person("root", "admin"), umbrella, n.Scopes, counterfoil.CodePolicyDenied},
		"nobody":            {nil, umbrella, n.Scopes, counterfoil.CodePolicyDenied},
		"one of the system": {system, umbrella, []string{"system:admin"}, counterfoil.CodePolicyDenied},
		"an unknown scope":  {system, umbrella, []string{"x"}, counterfoil.CodePolicyDenied},
	} {
		n.Scopes = c.scopes
		if _, err := r.users.CreateFirst(t.Context(), c.by, c.tenant, n); !errors.Is(err, c.want) {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// Nobody changes a user who has what they don't have, nor one of another tenant, nor gives what they don't have.
func TestUsers_govern(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.user(t, "chief", "admin")
	r.user(t, "clerk", "tools:read")
	clerks := person("ada", "users:write", "tools:read")
	secret := credential.NewSecret("another good phrase")
	for name, err := range map[string]error{
		"password of an administrator": second(r.users.SetPassword(t.Context(), clerks, "chief", secret)),
		"disable an administrator":     second(r.users.SetDisabled(t.Context(), clerks, "chief", true)),
		"rights of an administrator":   second(r.users.SetRights(t.Context(), clerks, "chief", nil, nil)),
		"give more":                    second(r.users.SetRights(t.Context(), clerks, "clerk", []string{"tools:execute"}, nil)),
		"no scope":                     second(r.users.SetPassword(t.Context(), person("ada", "tools:read"), "clerk", secret)),
		"nobody":                       second(r.users.SetPassword(t.Context(), nil, "clerk", secret)),
		"list without a scope":         second(r.users.List(t.Context(), person("ada", "tools:read"), "", 1)),
		"oneself":                      second(r.users.SetDisabled(t.Context(), person("root", "admin"), "root", true)),
	} {
		wantCode(t, name, err, counterfoil.CodePolicyDenied)
	}
	for name, err := range map[string]error{
		"unknown":                     second(r.users.SetDisabled(t.Context(), clerks, "eve", true)),
		"no name":                     second(r.users.SetDisabled(t.Context(), clerks, "'; --", true)),
		"another tenant's, disabled":  second(r.users.SetDisabled(t.Context(), of(umbrella, person("root", "admin")), "clerk", true)),
		"another tenant's, password":  second(r.users.SetPassword(t.Context(), of(umbrella, person("root", "admin")), "clerk", secret)),
		"another tenant's, rights":    second(r.users.SetRights(t.Context(), of(umbrella, person("root", "admin", "system:admin")), "clerk", nil, nil)),
		"another tenant's, unknowing": second(r.users.SetRights(t.Context(), of("nobody", person("root", "admin")), "clerk", nil, nil)),
	} {
		if !errors.Is(err, credential.ErrNotFound) {
			t.Fatalf("%s: %v", name, err)
		}
	}
	wantCode(t, "a weak password", second(r.users.SetPassword(t.Context(), clerks, "clerk", credential.NewSecret("short"))), counterfoil.CodeInvalidInput)
	must(t, second(r.users.SetPassword(t.Context(), clerks, "clerk", secret)))
	must(t, r.try(t, "clerk", "another good phrase", "192.0.2.1"))
	wantRefused(t, r.try(t, "clerk", pass, "192.0.2.1"), "password")
	must(t, second(r.users.SetDisabled(t.Context(), clerks, "clerk", true)))
	wantRefused(t, r.try(t, "clerk", "another good phrase", "192.0.2.1"), "disabled")
	u, err := r.users.SetDisabled(t.Context(), clerks, "clerk", false)
	must(t, err)
	must(t, r.try(t, "clerk", "another good phrase", "192.0.2.1"))
	if u.Disabled || len(u.Scopes) != 1 {
		t.Fatalf("%+v", u)
	}
	if d, err := r.store.User(t.Context(), umbrella, "root"); err != nil || d.Version != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
}

// One's own password is changed by whoever knows it, with as many attempts as a login has.
func TestUsers_changePassword(t *testing.T) {
	t.Parallel()
	r := setup(t)
	next := credential.NewSecret("another good phrase")
	agent := &identity.Principal{Tenant: acme, Subject: "root", Kind: identity.KindAgent, Owner: "root", Credential: "key_1"}
	for name, c := range map[string]struct {
		by        *identity.Principal
		old, next string
		want      counterfoil.Code
	}{
		"nobody": {nil, pass, next.Reveal(), counterfoil.CodePolicyDenied}, "an agent": {agent, pass, next.Reveal(), counterfoil.CodePolicyDenied},
		"a weak one": {person("root"), pass, "short", counterfoil.CodeInvalidInput}, "the name": {person("root"), pass, "root-123456789", counterfoil.CodeInvalidInput},
	} {
		err := r.users.ChangePassword(t.Context(), c.by, here(), credential.NewSecret(c.old), credential.NewSecret(c.next))
		wantCode(t, name, err, c.want)
	}
	wantRefused(t, r.users.ChangePassword(t.Context(), person("corp/ada"), here(), credential.NewSecret(pass), next), "unknown")
	for range 3 {
		wantRefused(t, r.users.ChangePassword(t.Context(), person("root"), here(), credential.NewSecret("incorrect horse"), next), "password")
	}
	wantRefused(t, r.users.ChangePassword(t.Context(), person("root"), here(), credential.NewSecret(pass), next), "locked")
	r.clock.Move(time.Minute)
	must(t, r.users.ChangePassword(t.Context(), person("root"), here(), credential.NewSecret(pass), next))
	must(t, r.try(t, "root", next.Reveal(), "192.0.2.1"))
	wantRefused(t, r.try(t, "root", pass, "192.0.2.1"), "password")
	// One character can be typed in two ways, and is the same.
	must(t, r.users.ChangePassword(t.Context(), person("root"), here(), next, credential.NewSecret("caf\u00e9 caf\u00e9 caf\u00e9")))
	must(t, r.try(t, "root", "cafe\u0301 cafe\u0301 cafe\u0301", "192.0.2.1"))
}

// The first person gets in once: one credential over all replicas, for an hour, and gone with its use.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	r := start(t)
	other := r.again(t)
	var kept []credential.Secret
	keep := func(s credential.Secret) error {
		kept = append(kept, s)
		return nil
	}
	if until, err := r.begin.Offer(t.Context(), func(credential.Secret) error { return errors.New("disk full") }); err == nil || !until.IsZero() {
		t.Fatalf("offered what nobody has, until %v", until)
	}
	until, err := r.begin.Offer(t.Context(), keep)
	must(t, err)
	if !until.Equal(storetest.Start().Add(time.Hour)) || len(kept) != 1 || !strings.HasPrefix(kept[0].Reveal(), "cfb_") {
		t.Fatalf("%d, until %v", len(kept), until)
	}
	if until, err := other.begin.Offer(t.Context(), keep); err != nil || !until.IsZero() || len(kept) != 1 {
		t.Fatalf("another until %v, %v", until, err)
	}
	first := credential.FirstTenant{ID: acme, Created: storetest.Start(), Body: []byte(`{}`)}
	n := credential.NewUser{Name: "ada", Password: credential.NewSecret(pass)}
	redeem := func(at *replica, s credential.Secret, n credential.NewUser) error {
		return second(at.begin.Redeem(context.WithoutCancel(t.Context()), s, first, n))
	}
	for _, text := range []string{"", "cfb_", "cfb_" + strings.Repeat("A", 43), "cfk_" + kept[0].Reveal()[4:], kept[0].Reveal() + "A"} {
		wantRefused(t, redeem(other, credential.NewSecret(text), n), "bootstrap")
	}
	for name, bad := range map[string]credential.NewUser{
		"a weak password": {Name: "ada", Password: credential.NewSecret("short")}, "no name": {Password: n.Password}, "scopes": {Name: "ada", Password: n.Password, Scopes: []string{"admin"}},
	} {
		wantCode(t, name, redeem(other, kept[0], bad), counterfoil.CodeInvalidInput)
	}
	r.clock.Move(time.Hour)
	wantRefused(t, redeem(other, kept[0], n), "bootstrap")
	must(t, second(other.begin.Offer(t.Context(), keep))) // an hour later there is another
	wantRefused(t, redeem(r, kept[0], n), "bootstrap")
	must(t, redeem(r, kept[1], n))
	wantRefused(t, redeem(other, kept[1], n), "bootstrap")
	p, err := r.auth.Token(t.Context(), other.login(t, acme, "ada").Access.Reveal())
	must(t, err)
	if !p.Scopes.Has(identity.ScopeSystemAdmin) || !p.Scopes.Has(identity.ScopeTenantAdmin) || p.Tenant != acme {
		t.Fatalf("%+v", p)
	}
	r.clock.Move(2 * time.Hour)
	if until, err := r.begin.Offer(t.Context(), keep); err != nil || !until.IsZero() || len(kept) != 2 {
		t.Fatalf("another until %v, %v", until, err)
	}
	if strings.Contains(r.log.String()+other.log.String(), kept[1].Reveal()[4:]) {
		t.Fatal("it is in the log")
	}
}

func TestNew_rejects(t *testing.T) {
	t.Parallel()
	r := setup(t)
	limits := credential.DefaultLimits()
	limits.Pair.Longest = 24 * time.Hour
	for name, err := range map[string]error{
		"keys": second(credential.NewKeys(credential.KeysOptions{Recorder: r.recorder()})), "keys without a recorder": second(credential.NewKeys(credential.KeysOptions{})),
		"users": second(credential.NewUsers(credential.UsersOptions{})), "bootstrap": second(credential.NewBootstrap(nil, r.users)), "tokens": second(credential.NewTokens(credential.TokensOptions{})),
		"a day's lock": second(credential.NewUsers(credential.UsersOptions{Store: r.store, Hasher: r.hasher, Limits: limits, Recorder: r.recorder(), Logger: r.logger()})),
		"no limits":    second(credential.NewUsers(credential.UsersOptions{Store: r.store, Hasher: r.hasher, Recorder: r.recorder(), Logger: r.logger()})),
	} {
		wantCode(t, name, err, counterfoil.CodeInvalidInput)
	}
}
