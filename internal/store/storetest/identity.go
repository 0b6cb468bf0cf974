package storetest

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

func tenant(t testing.TB, s Store, id string) {
	t.Helper()
	must(t, s.CreateTenant(t.Context(), tenancy.Record{ID: id, Created: Start(), Epoch: 1, Body: []byte(`{}`)}, governed(t, id)))
}

func ended(at time.Time, credential, subject string) identity.Revocation {
	return identity.Revocation{Tenant: Tenant, Credential: credential, Subject: subject, At: at, Until: at.Add(24 * time.Hour)}
}

func wantEpoch(t testing.TB, s Store, want int64) {
	t.Helper()
	if got, err := s.Mark(t.Context(), Tenant, tenancy.MarkEpoch); err != nil || got != want {
		t.Fatalf("epoch %d, %v, want %d", got, err, want)
	}
}

func revoked(t testing.TB, s Store, tenant, credential, subject string, issued time.Time) bool {
	t.Helper()
	is, err := s.CredentialRevoked(t.Context(), tenant, credential, subject, issued)
	must(t, err)
	return is
}

// What is revoked by its id stays so, over handles and a restart, for its tenant alone, and moves the epoch once.
func testRevokedCredentials(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	one := ended(clock.Now(), "token-1", "")
	if err := s.RevokeCredential(t.Context(), one, governed(t, Tenant)); !errors.Is(err, identity.ErrNoTenant) {
		t.Fatalf("without a tenant: %v", err)
	}
	tenant(t, s, Tenant)
	tenant(t, s, OtherTenant)
	if revoked(t, s, Tenant, "token-1", "ada", clock.Now()) {
		t.Fatal("revoked by nobody")
	}
	must(t, s.RevokeCredential(t.Context(), one, governed(t, Tenant)))
	must(t, other.RevokeCredential(t.Context(), one, governed(t, Tenant))) // once more changes nothing
	wantEpoch(t, other, 2)
	if n := len(check(t, s)); n != 2 {
		t.Fatalf("%d events", n)
	}
	b.Kill(t, s)
	for _, at := range []Store{other, b.Open(t, clock.Now, nil)} {
		if !revoked(t, at, Tenant, "token-1", "ada", clock.Now()) {
			t.Fatal("not revoked")
		}
		for _, x := range [][3]string{{Tenant, "token-2", "ada"}, {OtherTenant, "token-1", "ada"}, {Tenant, "", "token-1"}, {Tenant, "ada", "ada"}} {
			if revoked(t, at, x[0], x[1], x[2], clock.Now()) {
				t.Fatalf("%v is revoked too", x)
			}
		}
	}
}

// A subject's credentials are ended up to the latest revocation, those that are issued later are not.
func testRevokedSubjects(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	tenant(t, s, Tenant)
	at := clock.Now()
	must(t, s.RevokeCredential(t.Context(), ended(at, "", "ada"), governed(t, Tenant)))
	for _, c := range []struct {
		subject string
		issued  time.Duration
		want    bool
	}{{"ada", -time.Hour, true}, {"ada", 0, true}, {"ada", time.Millisecond, false}, {"bob", -time.Hour, false}} {
		if got := revoked(t, s, Tenant, "token-1", c.subject, at.Add(c.issued)); got != c.want {
			t.Fatalf("%s, issued %v: %v", c.subject, c.issued, got)
		}
	}
	// An earlier one takes nothing back, a later one counts.
	must(t, s.RevokeCredential(t.Context(), ended(at.Add(-time.Hour), "", "ada"), governed(t, Tenant)))
	wantEpoch(t, s, 2)
	if !revoked(t, s, Tenant, "token-1", "ada", at) {
		t.Fatal("a revocation was taken back")
	}
	must(t, s.RevokeCredential(t.Context(), ended(at.Add(time.Hour), "", "ada"), governed(t, Tenant)))
	wantEpoch(t, s, 3)
	if !revoked(t, s, Tenant, "token-1", "ada", at.Add(time.Hour)) {
		t.Fatal("not revoked up to the later")
	}
}

// A revocation is forgotten only when its end is past by the caller's clock and by the log.
func testRevokedForgotten(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	tenant(t, s, Tenant)
	start := clock.Now()
	must(t, s.RevokeCredential(t.Context(), ended(start, "old", ""), governed(t, Tenant)))
	// The caller's clock runs ahead; the log's does not.
	must(t, s.RevokeCredential(t.Context(), ended(start.Add(48*time.Hour), "ahead", ""), governed(t, Tenant)))
	if !revoked(t, s, Tenant, "old", "ada", start) {
		t.Fatal("forgotten though the log is not that far")
	}
	clock.Move(24 * time.Hour) // to the end of the first
	must(t, s.RevokeCredential(t.Context(), ended(clock.Now(), "new", ""), governed(t, Tenant)))
	must(t, s.RevokeCredential(t.Context(), ended(clock.Now().Add(-time.Millisecond), "behind", ""), governed(t, Tenant)))
	if !revoked(t, s, Tenant, "old", "ada", start) {
		t.Fatal("forgotten though a clock is not that far")
	}
	must(t, s.RevokeCredential(t.Context(), ended(clock.Now(), "newer", ""), governed(t, Tenant)))
	if revoked(t, s, Tenant, "old", "ada", start) {
		t.Fatal("it is kept for ever")
	}
	for _, still := range []string{"ahead", "new", "behind", "newer"} {
		if !revoked(t, s, Tenant, still, "ada", start) {
			t.Fatalf("%s is forgotten", still)
		}
	}
}

// What is incomplete is refused without a trace.
func testRevokedRejects(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	tenant(t, s, Tenant)
	for name, change := range map[string]func(*identity.Revocation){
		"no tenant": func(r *identity.Revocation) { r.Tenant = "" }, "nothing": func(r *identity.Revocation) { r.Credential = "" },
		"both": func(r *identity.Revocation) { r.Subject = "ada" }, "no time": func(r *identity.Revocation) { r.At = time.Time{} },
		"ended before": func(r *identity.Revocation) { r.Until = r.At }, "another's event": func(r *identity.Revocation) { r.Tenant = OtherTenant },
	} {
		r := ended(clock.Now(), "token-1", "")
		change(&r)
		err := s.RevokeCredential(t.Context(), r, governed(t, Tenant))
		if counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Fatalf("%s: %v", name, err)
		}
	}
	wantEpoch(t, s, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if is, err := s.CredentialRevoked(ctx, Tenant, "token-1", "ada", clock.Now()); err == nil || is {
		t.Fatalf("a read that was given up: %v, %v", is, err)
	}
}

// Each of many at once is durable, and the epoch counts them all.
func testRevokedContenders(t *testing.T, b Backend) {
	clock := NewClock()
	handles := []Store{b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)}
	tenant(t, handles[0], Tenant)
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			name := fmt.Sprint("token-", i/2) // each twice
			if err := handles[i%2].RevokeCredential(context.WithoutCancel(t.Context()), ended(clock.Now(), name, ""), governed(t, Tenant)); err != nil {
				t.Error(err)
			}
			if !revoked(t, handles[1-i%2], Tenant, name, "ada", clock.Now()) {
				t.Errorf("%s is not revoked for the other", name)
			}
		})
	}
	wg.Wait()
	wantEpoch(t, handles[1], 17)
}

// A revocation that failed has left nothing, one whose commit was not confirmed has left all: the row, the epoch and the event.
func testRevokedFaults(t *testing.T, b Backend) {
	clock := NewClock()
	witness := b.Open(t, clock.Now, nil)
	tenant(t, witness, Tenant)
	events, epoch := len(check(t, witness)), int64(1)
	for _, stage := range []Stage{Begin, Write, Commit, Committed} {
		for nth, hit := 1, true; hit && (nth == 1 || stage == Write); nth++ {
			armed, count := false, 0
			s := b.Open(t, clock.Now, func(at Stage) error {
				if !armed || at != stage {
					return nil
				}
				if count++; count != nth {
					return nil
				}
				armed = false
				return errors.New("injected")
			})
			name := fmt.Sprintf("%s-%d", stage, nth)
			armed = true
			err := s.RevokeCredential(t.Context(), ended(clock.Now(), name, ""), governed(t, Tenant))
			hit, armed = !armed, false
			switch {
			case hit && stage == Committed:
				wantCode(t, err, counterfoil.CodeUnknownOutcome)
			case hit:
				wantCode(t, err, counterfoil.CodeUnavailable)
			default:
				must(t, err)
			}
			done := !hit || stage == Committed
			if done {
				events, epoch = events+1, epoch+1
			}
			if n := len(check(t, witness)); n != events || revoked(t, witness, Tenant, name, "ada", clock.Now()) != done {
				t.Fatalf("%s: %d events, want %d", name, n, events)
			}
			wantEpoch(t, witness, epoch)
			must(t, s.Close())
		}
	}
}
