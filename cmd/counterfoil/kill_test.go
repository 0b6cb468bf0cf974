package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// kill -9 of the gateway at random moments around an approved call: never two effects, never an effect without a spent
// use, and after a restart a receipt for every use.
func TestKill(t *testing.T) {
	t.Parallel()
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	killRounds(t, rounds)
}

func TestKill_Soak(t *testing.T) {
	if os.Getenv("SOAK") == "" {
		t.Skip("SOAK is not set")
	}
	killRounds(t, 1000)
}

func killRounds(t *testing.T, rounds int) {
	f := setup(t, "hold: 30s")
	s := f.open()
	key, err := s.keys.Unlock([]byte(testPassphrase))
	must(t, err)
	server, file := f.fake(t, "plain")
	for i := range rounds {
		f.killRound(s, key, server, fmt.Sprintf("round-%d", i))
	}
	// Recovery is what any process does: this one does it now.
	ctx, cancel := context.WithCancel(t.Context())
	must(t, s.gate.Serve(ctx, cancel))
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

func (f *fixture) killRound(s *state, key counterfoil.Signer, server []string, line string) {
	f.t.Helper()
	ag, err := startAgent(f.t.Context(), append([]string{built.counterfoil}, f.wrapArgs([]string{"--no-console"}, server...)...), io.Discard)
	must(f.t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = ag.call("append", map[string]any{"line": line})
	}()
	id := f.awaitPending(s)
	if rand.IntN(10) > 0 {
		must(f.t, s.gate.Approve(f.t.Context(), tenant, id, key, ""))
	}
	// An approved call takes a few milliseconds from the decision to the answer.
	time.Sleep(time.Duration(rand.Int64N(int64(25 * time.Millisecond))))
	must(f.t, ag.cmd.Process.Kill())
	<-done
	_ = ag.close()
	f.await("the dead waiter to be counted out", func() (string, bool) {
		_, err := s.store.Sweep(f.t.Context(), time.Now())
		must(f.t, err)
		list, err := s.gate.Approvals(f.t.Context(), tenant, gateway.Pending, "", 1)
		must(f.t, err)
		return "", len(list) == 0
	})
}
