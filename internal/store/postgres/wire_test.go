package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/pgtest"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

func spend(t testing.TB, s gateway.Uses, name, run string) (*storetest.Ledger, *counterfoil.Claim, error) {
	t.Helper()
	l := &storetest.Ledger{Store: s, Case: storetest.Approved(t, name, storetest.Start())}
	claim, err := l.Claim(t.Context(), run)
	return l, claim, err
}

func wantCode(t testing.TB, err error, want counterfoil.Code) {
	t.Helper()
	if counterfoil.CodeOf(err) != want {
		t.Fatalf("got %v, not %s", err, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// healthy fails the test when the database's own check finds anything.
func healthy(t testing.TB, s interface {
	Check(ctx context.Context) ([]string, error)
}) {
	t.Helper()
	found, err := s.Check(t.Context())
	if err != nil || len(found) != 0 {
		t.Fatalf("the check found %q, %v", found, err)
	}
}

// A connection that is lost before the commit reaches the server, or before its answer comes back, leaves the outcome
// unknown. What resolving says is what is there, and the effect is had at most once.
func TestCut_commit(t *testing.T) {
	t.Parallel()
	url := server.Fresh(t)
	wire := pgtest.NewWire(t, url)
	s, direct := open(t, wire.URL(), options(storetest.Start)), open(t, url, options(storetest.Start))
	for name, row := range map[string]struct {
		cut     func(n int, having string) <-chan struct{}
		durable bool
	}{"before": {wire.CutBefore, false}, "after": {wire.CutAfter, true}} {
		sprung := row.cut(1, "INSERT INTO executions")
		l, _, err := spend(t, s, name, "run-"+name)
		wantCode(t, err, counterfoil.CodeUnknownOutcome)
		<-sprung
		want := gateway.UseAbsent
		if row.durable {
			want = gateway.UseMine
		}
		if r, c, err := direct.Resolve(t.Context(), l.Use); r != want || err != nil || (c != nil) != row.durable {
			t.Fatalf("%s: resolved as %v, %v", name, r, err)
		}
		if r, _, err := s.Resolve(t.Context(), l.Use); r != want || err != nil {
			t.Fatalf("%s: resolved after the cut as %v, %v", name, r, err)
		}
		_, claim, err := spend(t, s, name, "again-"+name)
		if row.durable {
			wantCode(t, err, counterfoil.CodeAlreadyUsed)
			continue
		}
		must(t, err)
		sprung = row.cut(1, "INSERT INTO receipts")
		l = &storetest.Ledger{Store: s, Case: storetest.Approved(t, name, storetest.Start())}
		_, err = l.Finish(t.Context(), claim, storetest.Start())
		if !errors.Is(err, counterfoil.CodeUnknownOutcome) {
			t.Fatalf("settling: %v", err)
		}
		<-sprung
	}
	healthy(t, direct)
}

// A commit that reaches the server long after its client has gone: nobody is told that the use is absent before that.
func TestCut_lateCommit(t *testing.T) {
	t.Parallel()
	url := server.Fresh(t)
	wire := pgtest.NewWire(t, url)
	s, direct := open(t, wire.URL(), options(storetest.Start)), open(t, url, options(storetest.Start))
	_, _, err := spend(t, s, "first", "run-first")
	must(t, err)
	wire.Delay(time.Second)
	sprung := wire.CutAfter(1, "INSERT INTO executions")
	done := make(chan *storetest.Ledger, 1)
	go func() {
		l, _, err := spend(t, s, "late", "run-late")
		if !errors.Is(err, counterfoil.CodeUnknownOutcome) {
			t.Errorf("the cut one: %v", err)
		}
		done <- l
	}()
	before := wire.Commits()
	for wire.Commits() == before {
		<-time.After(time.Millisecond)
	}
	wire.Cut()
	l := <-done
	r, c, err := direct.Resolve(t.Context(), l.Use)
	if r != gateway.UseMine || c == nil || err != nil {
		t.Fatalf("resolved as %v, %v", r, err)
	}
	<-sprung
	healthy(t, direct)
}

// While the database can't be reached every call is refused, and nothing is remembered; then the store goes on by itself.
func TestCut_outage(t *testing.T) {
	t.Parallel()
	url := server.Fresh(t)
	wire := pgtest.NewWire(t, url)
	s := open(t, wire.URL(), options(storetest.Start))
	_, _, err := spend(t, s, "a", "run-a")
	must(t, err)
	wire.Refuse(true)
	wire.Cut()
	for i := range 3 {
		_, _, err = spend(t, s, "a", "run-a2")
		wantCode(t, err, counterfoil.CodeUnavailable)
		_, _, err = spend(t, s, "b", fmt.Sprintf("run-b%d", i))
		wantCode(t, err, counterfoil.CodeUnavailable)
		wantCode(t, s.Ready(t.Context()), counterfoil.CodeUnavailable)
		_, err = s.Version(t.Context())
		wantCode(t, err, counterfoil.CodeUnavailable)
		_, err = s.Orphans(t.Context())
		wantCode(t, err, counterfoil.CodeUnavailable)
	}
	wire.Refuse(false)
	must(t, s.Ready(t.Context()))
	_, _, err = spend(t, s, "a", "run-a2")
	wantCode(t, err, counterfoil.CodeAlreadyUsed)
	_, _, err = spend(t, s, "b", "run-b")
	must(t, err)
	// A connection that died while nobody used it costs nobody an answer.
	wire.Cut()
	_, _, err = spend(t, s, "c", "run-c")
	must(t, err)
	healthy(t, s)
}
