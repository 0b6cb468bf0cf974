package credential_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

func TestTokens_password(t *testing.T) {
	t.Parallel()
	r := setup(t)
	must(t, second(r.users.Create(t.Context(), person("root", "admin"), credential.NewUser{
		Name: "ada", Password: credential.NewSecret(pass), Scopes: []string{"tools:read"}, Groups: []string{"finance"},
	})))
	g := r.login(t, acme, "ada")
	p, err := r.auth.Token(t.Context(), g.Access.Reveal())
	must(t, err)
	if p.Tenant != acme || p.Subject != "ada" || p.Owner != "ada" || p.Kind != identity.KindPerson || p.Groups[0] != "finance" || p.Scopes.List()[0] != "tools:read" {
		t.Fatalf("%+v", p)
	}
	if text := g.Refresh.Reveal(); !strings.HasPrefix(text, "cfr_") || len(text) != 47 || !g.Until.Equal(storetest.Start().Add(30*24*time.Hour)) {
		t.Fatalf("%d characters, until %v", len(text), g.Until)
	}
	if !p.ExpiresAt.Equal(storetest.Start().Add(15 * time.Minute)) {
		t.Fatalf("until %v", p.ExpiresAt)
	}
	// Neither is a credential of another kind.
	wantRefused(t, second(r.keys.Principal(t.Context(), g.Refresh.Reveal())), "key")
	if _, err := r.auth.Token(t.Context(), g.Refresh.Reveal()); identity.ReasonOf(err) != identity.ReasonInvalid {
		t.Fatal(err)
	}
	must(t, r.store.Close())
	db, err := os.ReadFile(r.path)
	must(t, err)
	for _, secret := range []string{pass, g.Access.Reveal(), g.Refresh.Reveal()[4:], here().String()} {
		if strings.Contains(string(db), secret) || strings.Contains(r.log.String(), secret) {
			t.Fatal("a secret is in the database or the log")
		}
	}
}

// Whatever is wrong with a login, it costs a hash and gets one answer.
func TestTokens_passwordRefuses(t *testing.T) {
	t.Parallel()
	r := open(t, filepath.Join(t.TempDir(), "test.db"), storetest.NewClock(), credential.DefaultLimits()).settle(t)
	r.user(t, "ada")
	r.user(t, "off")
	from := here()
	must(t, second(r.users.SetDisabled(t.Context(), person("root", "admin"), "off", true)))
	for name, c := range map[string]struct{ tenant, user, password, why string }{
		"another password":    {acme, "ada", "incorrect horse", "password"},
		"no password":         {acme, "ada", "", "password"},
		"half of it":          {acme, "ada", pass[:10], "password"},
		"upper case":          {acme, "ada", strings.ToUpper(pass), "password"},
		"a long one":          {acme, "ada", pass + strings.Repeat("x", 1<<20), "password"},
		"unknown":             {acme, "eve", pass, "unknown"},
		"no user":             {acme, "", pass, "unknown"},
		"no name":             {acme, "'; DROP TABLE users", pass, "unknown"},
		"upper case user":     {acme, "ADA", pass, "unknown"},
		"NUL":                 {acme, "ada\x00", pass, "unknown"},
		"a long name":         {acme, strings.Repeat("a", 1<<20), pass, "unknown"},
		"another tenant":      {umbrella, "ada", pass, "unknown"},
		"no tenant":           {"", "ada", pass, "unknown"},
		"not a tenant":        {"nobody", "ada", pass, "unknown"},
		"a hostile tenant":    {"a\xff\x00", "ada", pass, "unknown"},
		"disabled":            {acme, "off", pass, "disabled"},
		"disabled, and wrong": {acme, "off", "incorrect horse", "password"},
		"the hash":            {acme, "ada", "$argon2id$v=19$m=8192,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "password"},
	} {
		l := credential.Login{Tenant: c.tenant, User: c.user, Password: credential.NewSecret(c.password), From: from}
		from = from.Next() // each from its own address
		g, err := r.tokens.Password(t.Context(), l)
		if g != nil {
			t.Fatalf("%s: a grant", name)
		}
		wantRefused(t, err, c.why)
		free := r.hasher.Occupy()
		_, err = r.tokens.Password(t.Context(), l)
		wantCode(t, name+": it costs no hash", err, counterfoil.CodeUnavailable)
		free()
	}
	_, err := r.tokens.Password(t.Context(), credential.Login{Tenant: acme, User: "ada", Password: credential.NewSecret(pass)})
	wantCode(t, "from nowhere", err, counterfoil.CodeInternal)
}

// A refresh credential is good once. Each gives the next, to the end of the family and not beyond, over restarts.
func TestTokens_refresh(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.user(t, "ada", "tools:read")
	g := r.login(t, acme, "ada")
	until := g.Until
	seen := map[string]bool{g.Refresh.Reveal(): true}
	for range 5 {
		r.clock.Move(24 * time.Hour)
		next, err := r.again(t).tokens.Refresh(t.Context(), g.Refresh)
		must(t, err)
		if seen[next.Refresh.Reveal()] || !next.Until.Equal(until) {
			t.Fatalf("the same again, or until %v", next.Until)
		}
		must(t, second(r.auth.Token(t.Context(), next.Access.Reveal())))
		g, seen[next.Refresh.Reveal()] = next, true
	}
	r.clock.Move(25*24*time.Hour - time.Minute)
	g, err := r.tokens.Refresh(t.Context(), g.Refresh)
	must(t, err)
	if !g.Principal.ExpiresAt.Equal(until) { // the access token does not outlive its family
		t.Fatalf("until %v", g.Principal.ExpiresAt)
	}
	r.clock.Move(time.Minute)
	wantRefused(t, second(r.tokens.Refresh(t.Context(), g.Refresh)), "expired")
	if _, err := r.auth.Token(t.Context(), g.Access.Reveal()); identity.ReasonOf(err) != identity.ReasonInvalid {
		t.Fatal(err)
	}
}

func TestTokens_refreshRefuses(t *testing.T) {
	t.Parallel()
	r := setup(t)
	good := r.login(t, acme, "root").Refresh.Reveal()
	for name, text := range map[string]string{
		"nothing": "", "unknown": "cfr_" + strings.Repeat("A", 43), "a key": "cfk_" + good[4:], "short": good[:46], "long": good + "A", "a break": good + "\n", "bytes": "cfr_\xff",
	} {
		_, err := r.tokens.Refresh(t.Context(), credential.NewSecret(text))
		if err == nil {
			t.Fatal(name)
		}
		wantRefused(t, err, "refresh")
		must(t, r.tokens.End(t.Context(), credential.NewSecret(text)))
	}
	must(t, second(r.tokens.Refresh(t.Context(), credential.NewSecret(good)))) // none of them has harmed it
}

// A credential that comes a second time ends its family and the user's access tokens, everywhere; other logins and other
// users go on.
func TestTokens_reuse(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.user(t, "ada")
	r.user(t, "bob")
	stolen, kept, bob, namesake := r.login(t, acme, "ada"), r.login(t, acme, "ada"), r.login(t, acme, "bob"), r.login(t, umbrella, "root")
	thief, err := r.tokens.Refresh(t.Context(), stolen.Refresh)
	must(t, err)
	r.clock.Move(time.Second)
	wantRefused(t, second(r.again(t).tokens.Refresh(t.Context(), stolen.Refresh)), "reused")
	wantRefused(t, second(r.tokens.Refresh(t.Context(), thief.Refresh)), "refresh")
	for _, g := range []*credential.Grant{stolen, thief, kept} {
		if _, err := r.auth.Token(t.Context(), g.Access.Reveal()); identity.ReasonOf(err) != identity.ReasonInvalid {
			t.Fatal(err)
		}
	}
	for _, g := range []*credential.Grant{bob, namesake} {
		must(t, second(r.auth.Token(t.Context(), g.Access.Reveal())))
	}
	r.clock.Move(time.Second) // what is issued in the very second of the reuse is ended too
	g, err := r.tokens.Refresh(t.Context(), kept.Refresh)
	must(t, err)
	must(t, second(r.auth.Token(t.Context(), g.Access.Reveal())))
}

// Of many who come with one credential at once, over two replicas, at most one gets a grant, and the family is over.
func TestTokens_refreshContenders(t *testing.T) {
	t.Parallel()
	r := setup(t)
	replicas := []*replica{r, r.again(t)}
	g := r.login(t, acme, "root")
	var won atomic.Int64
	var last atomic.Pointer[credential.Grant]
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			next, err := replicas[i%2].tokens.Refresh(context.WithoutCancel(t.Context()), g.Refresh)
			if err == nil {
				won.Add(1)
				last.Store(next)
			} else if identity.ReasonOf(err) != identity.ReasonInvalid {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() > 1 {
		t.Fatalf("%d grants", won.Load())
	}
	if next := last.Load(); next != nil {
		if _, err := r.tokens.Refresh(t.Context(), next.Refresh); identity.ReasonOf(err) != identity.ReasonInvalid {
			t.Fatal(err)
		}
	}
}

func TestTokens_end(t *testing.T) {
	t.Parallel()
	r := setup(t)
	a, b := r.login(t, acme, "root"), r.login(t, acme, "root")
	must(t, r.tokens.End(t.Context(), a.Refresh))
	must(t, r.tokens.End(t.Context(), a.Refresh))
	wantRefused(t, second(r.tokens.Refresh(t.Context(), a.Refresh)), "refresh")
	must(t, second(r.tokens.Refresh(t.Context(), b.Refresh)))
}

// Whatever changes a user ends what they were issued.
func TestTokens_userChanged(t *testing.T) {
	t.Parallel()
	r := setup(t)
	root := person("root", "admin")
	for name, change := range map[string]func(user string) error{
		"disabled":     func(user string) error { return second(r.users.SetDisabled(t.Context(), root, user, true)) },
		"other rights": func(user string) error { return second(r.users.SetRights(t.Context(), root, user, nil, nil)) },
		"another password": func(user string) error {
			return second(r.users.SetPassword(t.Context(), root, user, credential.NewSecret("another good phrase")))
		},
		"their own password": func(user string) error {
			return r.users.ChangePassword(t.Context(), person(user), here(), credential.NewSecret(pass), credential.NewSecret("another good phrase"))
		},
	} {
		user := strings.ReplaceAll(name, " ", "-")
		r.user(t, user, "tools:read")
		g := r.login(t, acme, user)
		must(t, second(r.auth.Token(t.Context(), g.Access.Reveal())))
		must(t, change(user))
		if _, err := r.auth.Token(t.Context(), g.Access.Reveal()); identity.ReasonOf(err) != identity.ReasonInvalid {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := r.tokens.Refresh(t.Context(), g.Refresh); identity.ReasonOf(err) != identity.ReasonInvalid {
			t.Fatalf("%s: %v", name, err)
		}
		r.clock.Move(time.Second)
	}
}

// A replica whose clock is ahead has issued a token that the others' revocation ends all the same.
func TestTokens_clockAhead(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.user(t, "ada")
	clock := storetest.NewClock()
	clock.Move(2 * time.Minute)
	ahead := open(t, r.path, clock, few())
	g := ahead.login(t, acme, "ada")
	must(t, second(r.users.SetDisabled(t.Context(), person("root", "admin"), "ada", true)))
	clock.Move(time.Minute)
	if _, err := ahead.auth.Token(t.Context(), g.Access.Reveal()); identity.ReasonOf(err) != identity.ReasonInvalid {
		t.Fatal(err)
	}
}

// A password that was hashed at another cost gets the present one when its user logs in.
func TestTokens_rehash(t *testing.T) {
	t.Parallel()
	r := setup(t)
	before, err := r.store.User(t.Context(), acme, "root")
	must(t, err)
	o := cheap()
	o.Cost.Time = 2
	hasher, err := credential.NewHasher(o)
	must(t, err)
	users, err := credential.NewUsers(credential.UsersOptions{Store: r.store, Hasher: hasher, Limits: credential.DefaultLimits(), Recorder: r.recorder(), Logger: r.logger()})
	must(t, err)
	tokens, err := credential.NewTokens(credential.TokensOptions{Store: r.store, Users: users, Issue: none, AccessLife: time.Minute, RefreshLife: time.Hour})
	must(t, err)
	login := credential.Login{Tenant: acme, User: "root", Password: credential.NewSecret(pass), From: here()}
	must(t, second(tokens.Password(t.Context(), login)))
	after, err := r.store.User(t.Context(), acme, "root")
	must(t, err)
	if !strings.Contains(before.Password, "t=1") || !strings.Contains(after.Password, "t=2") {
		t.Fatalf("%q became %q", before.Password, after.Password)
	}
	must(t, second(tokens.Password(t.Context(), login)))
	r.login(t, acme, "root")
}

func none(p identity.Principal, life time.Duration) (string, *identity.Principal, error) {
	p.Credential, p.ExpiresAt = "none", storetest.Start().Add(life)
	return "none", &p, nil
}

// A token that can't be issued leaves nothing behind, and the refresh credential good.
func TestTokens_issuerFails(t *testing.T) {
	t.Parallel()
	r := setup(t)
	fails := true
	tokens, err := credential.NewTokens(credential.TokensOptions{
		Store: r.store, Users: r.users, AccessLife: time.Minute, RefreshLife: time.Hour,
		Issue: func(p identity.Principal, life time.Duration) (string, *identity.Principal, error) {
			if fails {
				return "", nil, errors.New("no key")
			}
			return none(p, life)
		},
	})
	must(t, err)
	login := credential.Login{Tenant: acme, User: "root", Password: credential.NewSecret(pass), From: here()}
	if _, err := tokens.Password(t.Context(), login); err == nil {
		t.Fatal("a grant without a token")
	}
	fails = false
	g, err := tokens.Password(t.Context(), login)
	must(t, err)
	fails = true
	if _, err := tokens.Refresh(t.Context(), g.Refresh); err == nil {
		t.Fatal("a grant without a token")
	}
	fails = false
	must(t, second(tokens.Refresh(t.Context(), g.Refresh)))
}

func (r *replica) try(t testing.TB, user, password, from string) error {
	t.Helper()
	return second(r.tokens.Password(context.WithoutCancel(t.Context()), credential.Login{
		Tenant: acme, User: user, Password: credential.NewSecret(password), From: netip.MustParseAddr(from),
	}))
}

// After some failures a user is locked for an address, with the same answer as ever, known or not, over replicas and restarts;
// and not for long.
func TestTokens_locked(t *testing.T) {
	t.Parallel()
	r := setup(t)
	for range 3 {
		for user, why := range map[string]string{"root": "password", "eve": "unknown"} {
			wantRefused(t, r.try(t, user, "incorrect horse", "192.0.2.1"), why)
		}
	}
	other := r.again(t)
	for _, at := range []*replica{r, other} {
		wantRefused(t, at.try(t, "root", pass, "192.0.2.1"), "locked")
		wantRefused(t, at.try(t, "eve", pass, "192.0.2.1"), "locked")
		wantRefused(t, at.try(t, "root", pass, "::ffff:192.0.2.1"), "locked") // the same address in another form
	}
	free := r.hasher.Occupy()
	wantCode(t, "it costs no hash", r.try(t, "root", pass, "192.0.2.1"), counterfoil.CodeUnavailable)
	free()
	must(t, r.try(t, "root", pass, "192.0.2.2"))
	r.clock.Move(30*time.Second - time.Millisecond)
	wantRefused(t, r.try(t, "root", pass, "192.0.2.1"), "locked")
	r.clock.Move(time.Millisecond)
	must(t, other.try(t, "root", pass, "192.0.2.1"))
}

// Many at once get no further than one after the other.
func TestTokens_lockedContenders(t *testing.T) {
	t.Parallel()
	r := setup(t)
	replicas := []*replica{r, r.again(t)}
	var judged atomic.Int64
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			err := replicas[i%2].try(t, "root", "incorrect horse", "192.0.2.1")
			if _, told := errors.AsType[*credential.LimitedError](err); told {
				return
			}
			e, ok := errors.AsType[*identity.Error](err)
			if !ok || e.Why != "password" && e.Why != "locked" {
				t.Errorf("%v", err)
			} else if e.Why == "password" {
				judged.Add(1)
			}
		})
	}
	wg.Wait()
	if judged.Load() != 3 {
		t.Fatalf("%d of 32 were judged", judged.Load())
	}
}

// Strangers, from wherever they come, lock a user for other strangers, not for where the user has been.
func TestTokens_strangers(t *testing.T) {
	t.Parallel()
	r := setup(t)
	must(t, r.try(t, "root", pass, "192.0.2.1"))
	for i := range 6 {
		wantRefused(t, r.try(t, "root", "incorrect horse", fmt.Sprintf("198.51.100.%d", i+1)), "password")
	}
	wantRefused(t, r.try(t, "root", pass, "203.0.113.1"), "locked")
	must(t, r.try(t, "root", pass, "192.0.2.1"))
	r.clock.Move(30 * time.Second)
	must(t, r.try(t, "root", pass, "203.0.113.1"))
	// One address does not lock a user for all.
	r.user(t, "ada")
	for range 8 {
		_ = r.try(t, "ada", "incorrect horse", "198.51.100.99")
	}
	must(t, r.try(t, "ada", pass, "203.0.113.2"))
}

// An address that tries one user after the other has to wait, and is told so: that depends on no user.
func TestTokens_address(t *testing.T) {
	t.Parallel()
	r := setup(t)
	for i := range 21 {
		wantRefused(t, r.try(t, fmt.Sprintf("user-%d", i), "incorrect horse", fmt.Sprintf("2001:db8:1:2::%d", i+1)), "unknown")
	}
	for _, user := range []string{"root", "eve"} {
		err := r.again(t).try(t, user, pass, "2001:db8:1:2:ffff::1")
		if e, ok := errors.AsType[*credential.LimitedError](err); !ok || e.RetryAfter != 30*time.Second || e.Error() == "" {
			t.Fatalf("%s: %v", user, err)
		}
	}
	must(t, r.try(t, "root", pass, "2001:db8:1:3::1"))
	r.clock.Move(30 * time.Second)
	must(t, r.try(t, "root", pass, "2001:db8:1:2::1"))
}

// However long it goes on, no lock is longer than its bound, and in the end all is forgotten.
func TestTokens_lockIsBounded(t *testing.T) {
	t.Parallel()
	r := setup(t)
	for i := range 12 {
		for range 3 {
			_ = r.try(t, "root", "incorrect horse", "192.0.2.1")
		}
		r.clock.Move(15 * time.Minute)
		if i%5 == 0 {
			r.clock.Move(-time.Minute) // a clock that is set back
		}
	}
	r.clock.Move(15 * time.Minute)
	must(t, r.try(t, "root", pass, "192.0.2.1"))
	r.clock.Move(365 * 24 * time.Hour)
	for range 3 {
		wantRefused(t, r.try(t, "root", "incorrect horse", "192.0.2.1"), "password")
	}
	r.clock.Move(-365 * 24 * time.Hour) // it was wrong by a year: the lock does not last one
	r.clock.Move(15 * time.Minute)
	_ = r.try(t, "root", pass, "192.0.2.1")
	r.clock.Move(15 * time.Minute)
	must(t, r.try(t, "root", pass, "192.0.2.1"))
}

func TestNewTokens_rejects(t *testing.T) {
	t.Parallel()
	r := setup(t)
	for name, change := range map[string]func(*credential.TokensOptions){
		"no store": func(o *credential.TokensOptions) { o.Store = nil }, "no users": func(o *credential.TokensOptions) { o.Users = nil },
		"no issuer": func(o *credential.TokensOptions) { o.Issue = nil }, "no life": func(o *credential.TokensOptions) { o.AccessLife = 0 },
		"a long life": func(o *credential.TokensOptions) { o.AccessLife = 2 * time.Hour }, "half seconds": func(o *credential.TokensOptions) { o.AccessLife += time.Millisecond },
		"a short family": func(o *credential.TokensOptions) { o.RefreshLife = time.Second }, "a long family": func(o *credential.TokensOptions) { o.RefreshLife = 1<<63 - 1 },
	} {
		o := credential.TokensOptions{Store: r.store, Users: r.users, Issue: none, AccessLife: time.Minute, RefreshLife: time.Hour}
		change(&o)
		if _, err := credential.NewTokens(o); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: %v", name, err)
		}
	}
}
