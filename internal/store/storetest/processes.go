package storetest

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// Run runs the tests with processes. fresh makes a new and empty database and says where it is.
func (p Program) Run(t *testing.T, fresh func(t *testing.T) (place string)) {
	for name, run := range map[string]func(t *testing.T, c *crew){
		"Kill_everyStage": killEveryStage,
		"Kill_anywhere":   func(t *testing.T, c *crew) { killAnywhere(t, c, 24) },
		// SOAK=1 go test -run TestProcesses -timeout 1h
		"Kill_anywhere_Soak": func(t *testing.T, c *crew) { soak(t); killAnywhere(t, c, 500) },
		"Together":           workTogether,
		"Contend": func(t *testing.T, c *crew) {
			uses := 10_000
			if testing.Short() {
				uses /= 10
			}
			contendTogether(t, c, 4, uses)
		},
		"Contend_Soak": func(t *testing.T, c *crew) { soak(t); contendTogether(t, c, 8, 20_000) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &crew{p: p, o: orders{job: runUses, place: fresh(t), dir: t.TempDir(), at: p.Now().UTC().Truncate(time.Millisecond)}}
			c.witness = c.open(t)
			run(t, c)
		})
	}
}

func soak(t *testing.T) {
	t.Helper()
	if os.Getenv("SOAK") == "" {
		t.Skip("SOAK is not set")
	}
}

// A crew is workers on one database, and a process that survives them.
type crew struct {
	p       Program
	o       orders
	witness Store
}

func (c *crew) open(t *testing.T) Store {
	t.Helper()
	s, err := c.p.Open(t.Context(), c.o.place, nil)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// A hand is a worker that has started.
type hand struct {
	*exec.Cmd
	orders io.WriteCloser
}

// begin lets the worker begin.
func (h hand) begin() {
	// One that has killed itself while it opened the database has nothing to begin.
	_, _ = io.WriteString(h.orders, "go\n")
}

// start starts a worker and waits until it has opened the database.
func (c *crew) start(t *testing.T, o orders) hand {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), exe) //nolint:gosec // this test itself
	cmd.Env = append(os.Environ(), workerVariable+"="+o.String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" && (o.killAt == 0 || !errors.Is(err, io.EOF)) {
		t.Fatalf("the worker said %q, %v", line, err)
	}
	return hand{cmd, in}
}

// recover settles what dead processes left, as the gateway does when it starts, once all of them count as dead.
func (c *crew) recover(t *testing.T) {
	t.Helper()
	eventually(t, c.p.Dead, func() bool {
		orphans, err := c.witness.Orphans(t.Context())
		must(t, err)
		for _, x := range orphans {
			st, err := Recovered(x, counterfoil.OutcomeIndeterminate, c.p.Now())
			must(t, err)
			st.Counters = []gateway.Counter{{Name: "effects", Add: -1}}
			must(t, c.witness.Settle(t.Context(), st))
		}
		all, err := pages(func(last gateway.Execution) ([]gateway.Execution, error) {
			return c.witness.Executions(t.Context(), Tenant, last.ID, 500)
		})
		must(t, err)
		for _, x := range all {
			if x.Outcome == "" {
				return false
			}
		}
		return true
	})
}

// audit checks that no use had two effects, that no effect was without its use, and that every use has one receipt. It
// returns how many uses there are and how many effects.
func (c *crew) audit(t *testing.T) (uses, effects int) {
	t.Helper()
	st, err := readState(t.Context(), c.witness)
	must(t, err)
	for _, phase := range st.check(t) {
		if phase == string(counterfoil.PhaseLate) {
			t.Error("a living process was taken for dead")
		}
	}
	outcomes, byUse := map[string]string{}, map[string]string{}
	for _, x := range st.executions {
		use := strings.Split(x.ID, "-")[1]
		if other, ok := byUse[use]; ok {
			t.Errorf("use %s was spent by %s and by %s", use, other, x.ID)
		}
		outcomes[x.ID], byUse[use] = x.Outcome, x.ID
	}
	file, err := os.ReadFile(c.o.effects())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	had := map[string]bool{}
	for line := range strings.Lines(string(file)) {
		use, id, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || had[use] {
			t.Errorf("use %q had two effects, or half of one: %q", use, line)
		}
		had[use] = true
		if _, spent := outcomes[id]; !spent {
			t.Errorf("an effect without a use: %q", line)
		}
	}
	for use, id := range byUse {
		if outcomes[id] == string(counterfoil.OutcomeSucceeded) && !had[use] {
			t.Errorf("%s succeeded without an effect", id)
		}
	}
	if len(st.events) != 2*len(outcomes) {
		t.Errorf("%d events for %d uses", len(st.events), len(outcomes))
	}
	wantCounter(t, c.witness, "effects", int64(len(outcomes)))
	return len(outcomes), len(had)
}

// A worker kills itself between any two statements, one after the other, until it lives to the end.
func killEveryStage(t *testing.T, c *crew) {
	for stage := 1; ; stage++ {
		if stage > 100 {
			t.Fatal("the worker never finishes")
		}
		o := c.o
		o.first, o.last, o.killAt = stage, stage, stage
		worker := c.start(t, o)
		worker.begin()
		lived := worker.Wait() == nil
		if !lived && c.p.Dead > 0 { // the wait for each would be long
			continue
		}
		c.recover(t)
		uses, effects := c.audit(t)
		if t.Failed() {
			t.Fatalf("killed at stage %d", stage)
		}
		if lived {
			if stage < 8 || uses < 3 || effects < 2 {
				t.Fatalf("only %d stages, %d uses, %d effects", stage, uses, effects)
			}
			t.Logf("%d stages, %d uses, %d effects", stage, uses, effects)
			return
		}
	}
}

// Workers contend for the same uses and are killed at any time.
func killAnywhere(t *testing.T, c *crew, rounds int) {
	const perRound = 40
	for round := range rounds {
		// The approvals' five minutes must not end during a soak.
		c.o.at = c.p.Now().UTC().Truncate(time.Millisecond)
		c.o.first, c.o.last = round*perRound+1, (round+1)*perRound
		var workers []hand
		for range 1 + round%3 {
			workers = append(workers, c.start(t, c.o))
		}
		var wg sync.WaitGroup
		for _, w := range workers {
			delay := time.Duration(random(t, 100_000)) * time.Microsecond
			w.begin()
			wg.Go(func() {
				wait(t.Context(), delay)
				_ = w.Process.Kill()
				_ = w.Wait()
			})
		}
		wg.Wait()
		if round%8 != 7 && round != rounds-1 {
			continue
		}
		c.recover(t)
		if left, err := c.witness.Orphans(t.Context()); err != nil || len(left) != 0 {
			t.Fatalf("round %d: orphans %v, %v", round, left, err)
		}
		uses, effects := c.audit(t)
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
		if round == rounds-1 {
			t.Logf("%d rounds, %d uses, %d effects", rounds, uses, effects)
			if uses == 0 || effects == 0 {
				t.Fatal("nothing happened")
			}
		}
	}
}

// random returns a number from 0 below n.
func random(t *testing.T, n int64) int64 {
	t.Helper()
	x, err := rand.Int(rand.Reader, big.NewInt(n))
	must(t, err)
	return x.Int64()
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Processes work through the same uses: each is had once, and nobody is turned away for being slow.
func workTogether(t *testing.T, c *crew) {
	c.o.first, c.o.last = 1, 60
	c.all(t, 4)
	if uses, effects := c.audit(t); uses != 60 || effects != 60 {
		t.Errorf("%d uses, %d effects", uses, effects)
	}
}

// all starts n workers and waits until they have done all of it.
func (c *crew) all(t *testing.T, n int) {
	t.Helper()
	var workers []hand
	for range n {
		workers = append(workers, c.start(t, c.o))
	}
	for _, w := range workers {
		w.begin()
	}
	for _, w := range workers {
		if err := w.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// Many processes, each of them many at once, want every use: each is had by exactly one.
func contendTogether(t *testing.T, c *crew, processes, uses int) {
	c.o.job, c.o.first, c.o.last = contend, 1, uses
	c.all(t, processes)
	reports, err := filepath.Glob(filepath.Join(c.o.dir, "won-*"))
	if err != nil || len(reports) != processes {
		t.Fatalf("%d reports of %d processes: %v", len(reports), processes, err)
	}
	winner := map[string]string{}
	for _, name := range reports {
		report, err := os.ReadFile(name) //nolint:gosec // of the test's own directory
		must(t, err)
		n := 0
		for line := range strings.Lines(string(report)) {
			use := strings.TrimSpace(line)
			if other, had := winner[use]; had {
				t.Errorf("use %s was had twice: %s and %s", use, other, name)
			}
			winner[use] = name
			n++
		}
		t.Logf("%s had %d", filepath.Base(name), n)
	}
	for n := 1; n <= uses; n++ {
		if winner[strconv.Itoa(n)] == "" {
			t.Errorf("use %d was had by nobody", n)
		}
	}
	log, err := pages(func(last translog.Event) ([]translog.Event, error) {
		return c.witness.Events(t.Context(), Tenant, last.Sequence, 1000)
	})
	must(t, err)
	seen := map[string]bool{}
	for i, e := range log {
		use := strings.Split(member(e.Body, "executionId"), "-")[1]
		if e.Sequence != int64(i+1) || counterfoil.LeafHash(e.Body) != e.Leaf || seen[use] {
			t.Fatalf("event %d is out of place, or of a use that was started before: %s", i+1, e.Body)
		}
		seen[use] = true
	}
	if len(log) != uses {
		t.Errorf("%d events for %d uses", len(log), uses)
	}
}
