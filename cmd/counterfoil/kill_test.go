package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// kill -9 of the gateway at random moments around an approved call, on either store: never two effects, never an effect
// without a spent use, and after a restart a receipt for every use.
func TestKill(t *testing.T) {
	t.Parallel()
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		killRounds(t, setup(t, "hold: 30s"), rounds)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		killRounds(t, onPostgres(t, "hold: 30s"), rounds/4)
	})
}

func TestKill_Soak(t *testing.T) {
	if os.Getenv("SOAK") == "" {
		t.Skip("SOAK is not set")
	}
	t.Run("sqlite", func(t *testing.T) { killRounds(t, setup(t, "hold: 30s"), 500) })
	t.Run("postgres", func(t *testing.T) { killRounds(t, onPostgres(t, "hold: 30s"), 500) })
}

func killRounds(t *testing.T, f *fixture, rounds int) {
	s := f.open()
	key, err := s.keys.Unlock([]byte(testPassphrase))
	must(t, err)
	server, file := f.fake(t, "plain")
	seen := map[string]bool{}
	for i := range rounds {
		f.killRound(s, key, server, fmt.Sprintf("round-%d", i), seen)
	}
	// Recovery is what any process does: this one does it now, once the others' leases have ended.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready, served := make(chan struct{}), make(chan error, 1)
	go func() { served <- s.gate.Serve(ctx, func() { close(ready) }) }()
	<-ready
	f.await("a receipt for every use", func() (string, bool) { return "", f.unsettled(s) == 0 })
	cancel()
	must(t, <-served)
	lines := map[string]int{}
	b, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, l := range strings.Fields(string(b)) {
		lines[l]++
	}
	outcomes, after := map[string]int{}, ""
	for {
		list, err := s.store.Executions(t.Context(), tenant, after, 50)
		must(t, err)
		if len(list) == 0 {
			break
		}
		for _, e := range list {
			after = e.ID
			outcomes[e.Outcome]++
			line := f.provenLine(s, e.ID)
			if lines[line] > 1 {
				t.Errorf("%s had %d effects", line, lines[line])
			}
			if lines[line] == 1 && e.Outcome == "cancelled" {
				t.Errorf("%s had an effect, and its receipt says cancelled", line)
			}
			if lines[line] == 0 && e.Outcome == "succeeded" {
				t.Errorf("%s had no effect, and its receipt says succeeded", line)
			}
			delete(lines, line)
		}
	}
	if len(lines) != 0 {
		t.Errorf("effects without a use: %v", lines)
	}
	if outcomes[""] != 0 {
		t.Errorf("%d uses without a receipt", outcomes[""])
	}
	t.Logf("%d rounds: outcomes %v", rounds, outcomes)
}

// provenLine verifies the execution's bundle and returns the line that it was about.
func (f *fixture) provenLine(s *state, id string) string {
	f.t.Helper()
	b, err := s.gate.Bundle(f.t.Context(), tenant, id, false)
	must(f.t, err)
	ring, err := s.keys.Ring()
	must(f.t, err)
	r, err := counterfoil.VerifyBundle(b, ring, time.Now())
	must(f.t, err)
	line, ok := strings.CutPrefix(string(r.Arguments), `{"line":"`)
	if !ok {
		f.t.Fatalf("arguments %s", r.Arguments)
	}
	return strings.TrimSuffix(line, `"}`)
}

// unsettled counts the uses without a receipt.
func (f *fixture) unsettled(s *state) (n int) {
	f.t.Helper()
	for after := ""; ; {
		list, err := s.store.Executions(f.t.Context(), tenant, after, 100)
		must(f.t, err)
		if len(list) == 0 {
			return n
		}
		for _, e := range list {
			if after = e.ID; e.Outcome == "" {
				n++
			}
		}
	}
}

func (f *fixture) killRound(s *state, key counterfoil.Signer, server []string, line string, seen map[string]bool) {
	f.t.Helper()
	argv := append([]string{built.counterfoil}, f.wrapArgs([]string{"--no-console"}, server...)...)
	stderr := &syncBuffer{}
	ag, err := startAgent(f.t.Context(), argv, f.env, stderr)
	if err != nil {
		f.t.Fatalf("%s: %v\n%s", line, err, stderr)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = ag.call("append", map[string]any{"line": line})
	}()
	id := f.await("the request", func() (string, bool) {
		list, err := s.gate.Approvals(f.t.Context(), tenant, gateway.Pending, "", 10)
		must(f.t, err)
		for _, p := range list {
			if !seen[p.ID] {
				return p.ID, true
			}
		}
		return "", false
	})
	seen[id] = true
	if rand.IntN(10) > 0 {
		must(f.t, s.gate.Approve(f.t.Context(), tenant, id, key, ""))
	}
	// An approved call takes some milliseconds from the decision to the answer.
	window := 25 * time.Millisecond
	if f.store != "" {
		window = 75 * time.Millisecond
	}
	time.Sleep(time.Duration(rand.Int64N(int64(window))))
	must(f.t, ag.cmd.Process.Kill())
	<-done
	_ = ag.close()
	_, err = s.store.Sweep(f.t.Context(), time.Now()) // counts out the waiters of those that are dead by now
	must(f.t, err)
}
