package identity_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/tenancy"
)

// A token that is revoked is refused at once here, from the first request on after a restart, and elsewhere within a second.
func TestRevokeCredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	other := openWorld(t, w.path, w.clock, nil)
	text, issued, err := w.issue.Issue(w.principal(), time.Hour)
	must(t, err)
	kept := w.token()
	for _, x := range []*world{w, other} {
		for range 2 {
			if _, err := x.auth.Token(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
	}
	must(t, w.auth.RevokeCredential(t.Context(), "person:root", "acme", issued.Credential))
	p, err := w.auth.Token(t.Context(), text)
	if got := why(t, p, err); got != "revoked" {
		t.Fatalf("here: %s", got)
	}
	w.clock.Move(time.Second)
	p, err = other.auth.Token(t.Context(), text)
	if got := why(t, p, err); got != "revoked" {
		t.Fatalf("elsewhere, after a second: %s", got)
	}
	restarted := openWorld(t, w.path, w.clock, nil)
	p, err = restarted.auth.Token(t.Context(), text)
	if got := why(t, p, err); got != "revoked" {
		t.Fatalf("after a restart: %s", got)
	}
	for _, x := range []*world{w, other, restarted} {
		if _, err := x.auth.Token(t.Context(), kept); err != nil {
			t.Fatalf("another token: %v", err)
		}
	}
}

// All that a subject was issued ends, by whichever process, and what is issued later is good.
func TestRevokeSubject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	texts := []string{w.token(), w.token()}
	someone, _, err := w.issue.Issue(identity.Principal{Tenant: "acme", Subject: "test", Kind: identity.KindAgent, Owner: "ada"}, time.Minute)
	must(t, err)
	for _, text := range append(texts, someone) {
		if _, err := w.auth.Token(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	w.clock.Move(300 * time.Millisecond)
	must(t, w.auth.RevokeSubject(t.Context(), "person:root", "acme", "build"))
	for _, text := range texts {
		p, err := w.auth.Token(t.Context(), text)
		if got := why(t, p, err); got != "revoked" {
			t.Fatal(got)
		}
	}
	w.clock.Move(time.Second)
	for _, text := range []string{someone, w.token()} {
		if _, err := w.auth.Token(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRevoke_refused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	if err := w.auth.RevokeCredential(t.Context(), "person:root", "initech", "t-1"); !errors.Is(err, identity.ErrNoTenant) {
		t.Fatalf("another tenant: %v", err)
	}
	for _, x := range [][3]string{{"", "acme", "t-1"}, {"person:root", "", "t-1"}, {"person:root", "acme", ""}, {"person:root", "acme", "a\x00"}} {
		for name, revoke := range map[string]func(ctx context.Context, by, tenant, name string) error{
			"credential": w.auth.RevokeCredential, "subject": w.auth.RevokeSubject,
		} {
			if err := revoke(t.Context(), x[0], x[1], x[2]); !errors.Is(err, counterfoil.CodeInvalidInput) {
				t.Errorf("%s %q: %v", name, x, err)
			}
		}
	}
}

// A token that is revoked between its look-up and its being remembered is not remembered.
func TestRevokeCredential_between(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	text, issued, err := w.issue.Issue(w.principal(), time.Hour)
	must(t, err)
	w.store.after = func() {
		w.store.after = nil
		must(t, w.auth.RevokeCredential(t.Context(), "person:root", "acme", issued.Credential))
	}
	if _, err := w.auth.Token(t.Context(), text); err != nil { // it was looked up before
		t.Fatal(err)
	}
	p, err := w.auth.Token(t.Context(), text)
	if got := why(t, p, err); got != "revoked" {
		t.Fatal(got)
	}
}

// Of many that verify a token while it is revoked, none is let in once the revocation has returned.
func TestRevokeCredential_race(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for range 20 {
		text, issued, err := w.issue.Issue(w.principal(), time.Hour)
		must(t, err)
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for range 4 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						_, _ = w.auth.Token(t.Context(), text)
					}
				}
			})
		}
		must(t, w.auth.RevokeCredential(t.Context(), "person:root", "acme", issued.Credential))
		for range 10 {
			if p, err := w.auth.Token(t.Context(), text); err == nil {
				t.Errorf("%v is let in", p)
			}
		}
		close(stop)
		wg.Wait()
	}
}

// A remembered token costs no look-up, until the tenant's epoch moves.
func TestToken_remembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	text := w.token()
	ask := func(want int64) {
		t.Helper()
		w.store.reads.Store(0)
		for range 5 {
			if _, err := w.auth.Token(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.store.reads.Load(); got != want {
			t.Fatalf("%d look-ups, want %d", got, want)
		}
	}
	ask(1)
	ask(0)
	_, err := w.dir.Configure(t.Context(), "person:root", "globex", tenancy.Settings{MaxBody: 1})
	must(t, err)
	ask(0)
	_, err = w.dir.Configure(t.Context(), "person:root", "acme", tenancy.Settings{MaxBody: 1})
	must(t, err)
	ask(1)
	must(t, w.auth.RevokeCredential(t.Context(), "person:root", "acme", "another"))
	ask(1)
	// Nobody who got a principal can change what the next one gets.
	p, err := w.auth.Token(t.Context(), text)
	must(t, err)
	p.Tenant = "globex"
	if p, err := w.auth.Token(t.Context(), text); err != nil || p.Tenant != "acme" {
		t.Fatalf("%v, %v", p, err)
	}
}

// Only so many tokens are remembered, and each is still good when it is forgotten.
func TestToken_forgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *identity.Options) { o.Remembered = 3 })
	texts := make([]string, 20)
	for i := range texts {
		texts[i] = w.token()
	}
	for range 3 {
		for i, text := range texts {
			if _, err := w.auth.Token(t.Context(), text); err != nil {
				t.Fatalf("%d: %v", i, err)
			}
		}
	}
	w.store.reads.Store(0)
	if _, err := w.auth.Token(t.Context(), texts[19]); err != nil || w.store.reads.Load() != 0 {
		t.Fatalf("the newest is not remembered: %v", err)
	}
}

// What can't be learned lets nobody in, whether the token is remembered or not, and lasts no longer than its cause.
func TestToken_unavailable(t *testing.T) {
	t.Parallel()
	var epoch error
	var w *world
	w = newWorld(t, func(o *identity.Options) {
		o.Epoch = func(ctx context.Context, id string) (int64, error) {
			if epoch != nil {
				return 0, epoch
			}
			return w.epoch(ctx, id)
		}
	})
	known, fresh := w.token(), w.token()
	if _, err := w.auth.Token(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	w.store.fails.Store(true)
	p, err := w.auth.Token(t.Context(), fresh)
	if got := reason(t, p, err); got != identity.ReasonUnavailable || !errors.Is(err, errStore) {
		t.Fatalf("%s: %v", got, err)
	}
	if _, err := w.auth.Token(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	w.store.fails.Store(false)
	epoch = fmt.Errorf("away")
	for _, text := range []string{known, fresh} {
		p, err := w.auth.Token(t.Context(), text)
		if got := reason(t, p, err); got != identity.ReasonUnavailable {
			t.Fatal(got)
		}
	}
	epoch = identity.ErrNoTenant
	for _, text := range []string{known, fresh} {
		p, err := w.auth.Token(t.Context(), text)
		if got := why(t, p, err); got != "tenant" {
			t.Fatal(got)
		}
	}
	epoch = nil
	for _, text := range []string{known, fresh} {
		if _, err := w.auth.Token(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
}
