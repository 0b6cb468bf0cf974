package storetest

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// tb is what the checker needs of a test, so that a property's can stand in for it.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// pageSize is how much the checker reads at once: small, so that pages are turned.
const pageSize = 17

// events reads a tenant's whole log.
func events(t testing.TB, s Store, tenant string) []translog.Event {
	t.Helper()
	log, err := readLog(t.Context(), s, tenant)
	must(t, err)
	return log
}

// check reads the tenant's whole state and fails the test when it breaks a rule. It returns the log's phases.
func check(t testing.TB, s Store) []string {
	t.Helper()
	state, err := readState(t.Context(), s)
	must(t, err)
	return state.check(t)
}

func wantPhases(t testing.TB, s Store, want ...string) {
	t.Helper()
	if got := check(t, s); !slices.Equal(got, want) {
		t.Fatalf("the log has %v, not %v", got, want)
	}
}

func wantCode(t tb, err error, want counterfoil.Code) {
	t.Helper()
	if !errors.Is(err, want) || counterfoil.CodeOf(err) != want {
		t.Fatalf("got %v, not %s", err, want)
	}
}

func wantConflict(t tb, err error, want gateway.State) {
	t.Helper()
	c, ok := errors.AsType[*gateway.ConflictError](err)
	if !ok || c.State != want {
		t.Fatalf("got %v, not a conflict with %s", err, want)
	}
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func second[T any](_ T, err error) error { return err }

// A state is all that a store says about the tenant.
type state struct {
	log        translog.State
	events     []translog.Event
	leaves     []translog.Event
	executions []gateway.Execution  // newest first, as they are listed
	requests   []gateway.RequestRow // the same
	found      map[string][2]int64  // where the started and completed events of each execution are, by Find
}

// check holds the state against the rules that hold at every moment.
func (s *state) check(t tb) []string {
	t.Helper()
	phases := s.checkLog(t)
	if !slices.Contains(phases, retired) {
		s.checkUses(t)
	}
	s.checkRequests(t)
	return phases
}

// retired stands for the phase of an event that retention has emptied.
const retired = ""

// checkLog checks the events one by one, and their leaves.
func (s *state) checkLog(t tb) []string {
	t.Helper()
	if s.log.Size != int64(len(s.events)) || s.log.Published > s.log.Size || (s.log.Published > 0) != (s.log.Note != nil) {
		t.Fatalf("the log stands at %+v, and has %d events", s.log, len(s.events))
	}
	if want := (map[bool]string{true: Tenant})[s.log.Size > 0]; s.log.Tenant != want {
		t.Fatalf("the log's tenant is %q", s.log.Tenant)
	}
	var phases []string
	var last time.Time
	for i, e := range s.events {
		if e.Sequence != int64(i+1) {
			t.Fatalf("event %d has sequence %d", i+1, e.Sequence)
		}
		if e.At.Before(last) {
			t.Fatalf("event %d is of %v, after one of %v", i+1, e.At, last)
		}
		last = e.At
		phases = append(phases, member(e.Body, "phase"))
		if e.Body != nil {
			checkEvent(t, e)
		} else if e.Sequence > s.log.Published {
			t.Fatalf("event %d is empty, and not published", e.Sequence)
		}
		e.Body = nil
		if i >= len(s.leaves) || !cmp.Equal(s.leaves[i], e) {
			t.Fatalf("leaf %d of %d is not that of its event", i+1, len(s.leaves))
		}
	}
	if len(s.leaves) != len(s.events) {
		t.Fatalf("%d leaves of %d events", len(s.leaves), len(s.events))
	}
	return phases
}

func checkEvent(t tb, e translog.Event) {
	t.Helper()
	if counterfoil.LeafHash(e.Body) != e.Leaf {
		t.Fatalf("event %d has another leaf", e.Sequence)
	}
	if c, err := counterfoil.Canonicalize(e.Body); err != nil || !bytes.Equal(c, e.Body) {
		t.Fatalf("event %d is not canonical: %v", e.Sequence, err)
	}
	for name, want := range map[string]string{
		"time": e.At.UTC().Format("2006-01-02T15:04:05.000Z"), "tenant": Tenant, "audience": Audience,
	} {
		if member(e.Body, name) != want {
			t.Fatalf("event %d has another %s: %s", e.Sequence, name, e.Body)
		}
	}
}

// member returns a text member of a sealed event, in which every quote inside of a text is escaped.
func member(body []byte, name string) string {
	_, after, _ := bytes.Cut(body, []byte(`"`+name+`":"`))
	text, _, _ := bytes.Cut(after, []byte(`"`))
	return string(text)
}

// checkUses checks that each execution has the events that it must have, and each event its execution.
func (s *state) checkUses(t tb) {
	t.Helper()
	started, completed := map[string]int64{}, map[string]int64{}
	late := map[string]bool{}
	for _, e := range s.events {
		id := member(e.Body, "executionId")
		switch phase := counterfoil.Phase(member(e.Body, "phase")); phase { //nolint:exhaustive // the others are not about executions
		case counterfoil.PhaseStarted:
			if started[id] != 0 {
				t.Fatalf("%s was started twice", id)
			}
			started[id] = e.Sequence
		case counterfoil.PhaseCompleted:
			if completed[id] != 0 || started[id] == 0 {
				t.Fatalf("%s was completed twice, or before it was started", id)
			}
			completed[id] = e.Sequence
		case counterfoil.PhaseLate:
			receipt := id + member(e.Body, "receiptDigest")
			if completed[id] == 0 || late[receipt] {
				t.Fatalf("%s has a late outcome before its own, or one twice", id)
			}
			late[receipt] = true
		}
	}
	if len(started) != len(s.executions) {
		t.Fatalf("%d uses were started, and there are %d executions", len(started), len(s.executions))
	}
	for _, x := range s.executions {
		if want := [2]int64{started[x.ID], completed[x.ID]}; want[0] == 0 || s.found[x.ID] != want {
			t.Fatalf("the events of %s are at %v, and found at %v", x.ID, want, s.found[x.ID])
		}
		if (x.Outcome != "") != (completed[x.ID] != 0) {
			t.Fatalf("%s has the outcome %q and the completed event %d", x.ID, x.Outcome, completed[x.ID])
		}
	}
}

// checkRequests checks that requests and executions belong to each other.
func (s *state) checkRequests(t tb) {
	t.Helper()
	byRequest := map[string]gateway.Execution{}
	for _, x := range s.executions {
		if x.Request == "" {
			continue
		}
		if other, ok := byRequest[x.Request]; ok {
			t.Fatalf("%s was spent by %s and by %s", x.Request, other.ID, x.ID)
		}
		byRequest[x.Request] = x
	}
	for _, r := range s.requests {
		x, ran := byRequest[r.ID]
		delete(byRequest, r.ID)
		if ran != (r.State == gateway.Spent) || x.ID != r.Execution || r.Outcome != "" && r.Outcome != x.Outcome || r.Delivered && !ran {
			t.Fatalf("request %+v has the execution %+v", r, x)
		}
	}
	if len(byRequest) > 0 {
		t.Fatalf("executions of requests that are not there: %v", byRequest)
	}
}
