package sqlite_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// TestMain is also the program that the tests below start and kill.
func TestMain(m *testing.M) {
	if os.Getenv("COUNTERFOIL_TEST_CHILD") != "" {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A work order is what a child does: uses first to last, by anybody who comes first.
type order struct {
	dir         string // of database and effects
	at          time.Time
	first, last int
	killAt      int // the stage, counted over all transactions, at which the child kills itself; 0 for none
}

func (o order) db() string      { return filepath.Join(o.dir, "test.db") }
func (o order) effects() string { return filepath.Join(o.dir, "effects") }

func child() error {
	var o order
	var at int64
	spec := os.Getenv("COUNTERFOIL_TEST_CHILD")
	if _, err := fmt.Sscanf(spec, "%d %d %d %d", &at, &o.first, &o.last, &o.killAt); err != nil {
		return err
	}
	o.at, o.dir = time.UnixMilli(at).UTC(), os.Getenv("COUNTERFOIL_TEST_DIR")
	stages := 0
	opts := options(time.Now).Faulty(func(string) error {
		if stages++; stages == o.killAt {
			die()
		}
		return nil
	})
	s, err := sqlite.Open(context.Background(), o.db(), opts)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for n := o.first; n <= o.last; n++ {
		if err := effect(s, o, n); err != nil {
			return fmt.Errorf("use %d: %w", n, err)
		}
	}
	return s.Close()
}

// die is kill -9: no deferred function, no buffer, no signal handler.
func die() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err == nil {
		select {}
	}
	panic(err)
}

// effect spends use n and, if it was the first, has an effect that can be counted: a line in a file.
func effect(s *sqlite.Store, o order, n int) error {
	c, err := storetest.NewCase(fmt.Sprintf("use-%d", n), o.at)
	if err != nil {
		return err
	}
	l := &storetest.Ledger{Store: s, Case: c}
	id := fmt.Sprintf("run-%d-%d", n, os.Getpid())
	claim, err := l.Claim(context.Background(), id)
	if errors.Is(err, counterfoil.CodeAlreadyUsed) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = l.Work(context.Background(), claim, time.Now(), func() error {
		f, err := os.OpenFile(o.effects(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(f, "%d %s\n", n, id)
		return errors.Join(err, f.Sync(), f.Close())
	})
	return err
}

// start starts a child and waits until it has opened the database.
func start(t *testing.T, o order) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), fmt.Sprintf("COUNTERFOIL_TEST_CHILD=%d %d %d %d", o.at.UnixMilli(), o.first, o.last, o.killAt),
		"COUNTERFOIL_TEST_DIR="+o.dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" && (o.killAt == 0 || !errors.Is(err, io.EOF)) {
		t.Fatalf("the child said %q, %v", line, err)
	}
	return cmd
}

func newOrder(t *testing.T) order {
	t.Helper()
	return order{dir: t.TempDir(), at: time.Now().UTC().Truncate(time.Millisecond)}
}

// recover settles what dead processes left, as the gateway does when it starts.
func recoverAll(t *testing.T, s *sqlite.Store) {
	t.Helper()
	orphans, err := s.Orphans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range orphans {
		st, err := storetest.Recovered(x, counterfoil.OutcomeIndeterminate, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Settle(t.Context(), st); err != nil {
			t.Fatal(err)
		}
	}
}

// audit checks that no use had two effects, that no effect was without its use, and that every use has one receipt. It
// returns how many uses there are and how many effects.
func audit(t *testing.T, s *sqlite.Store, o order) (uses, effects int) {
	t.Helper()
	outcomes := map[string]string{}
	for after := ""; ; {
		page, err := s.Executions(t.Context(), storetest.Tenant, after, 500)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, x := range page {
			if x.Outcome == "" {
				t.Errorf("%s was never settled", x.ID)
			}
			outcomes[x.ID] = x.Outcome
		}
		after = page[len(page)-1].ID
	}
	file, err := os.ReadFile(o.effects())
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
	for id, outcome := range outcomes {
		use := strings.Split(id, "-")[1]
		if outcome == "succeeded" && !had[use] {
			t.Errorf("%s succeeded without an effect", id)
		}
	}
	log := readLog(t, s, storetest.Tenant)
	for i, e := range log {
		if e.Sequence != int64(i+1) || counterfoil.LeafHash(e.Body) != e.Leaf || i > 0 && e.At.Before(log[i-1].At) {
			t.Fatalf("event %d is out of place", i+1)
		}
		if bytes.Contains(e.Body, []byte("late-outcome")) {
			t.Errorf("a living process was taken for dead: %s", e.Body)
		}
	}
	if len(log) != 2*len(outcomes) {
		t.Errorf("%d events for %d uses", len(log), len(outcomes))
	}
	return len(outcomes), len(had)
}

// A child kills itself between any two statements, one after the other, until it lives to the end.
func TestKill_everyStage(t *testing.T) {
	t.Parallel()
	o := newOrder(t)
	witness := open(t, o.db(), options(time.Now))
	for stage := 1; ; stage++ {
		if stage > 100 {
			t.Fatal("the child never finishes")
		}
		o.first, o.last, o.killAt = stage, stage, stage
		err := start(t, o).Wait()
		recoverAll(t, witness)
		uses, effects := audit(t, witness, o)
		if t.Failed() {
			t.Fatalf("killed at stage %d", stage)
		}
		if err == nil {
			if stage < 15 || uses < 5 || effects < 3 {
				t.Fatalf("only %d stages, %d uses, %d effects", stage, uses, effects)
			}
			break
		}
	}
	// Those that died before they had spent anything are named nowhere: the next start removes their files.
	open(t, o.db(), options(time.Now))
	if entries, err := os.ReadDir(filepath.Join(o.dir, "procs")); err != nil || len(entries) != 2 {
		t.Errorf("%d signs of life, %v", len(entries), err)
	}
}

// Children contend for the same uses and are killed at any time.
func TestKill_anywhere(t *testing.T) {
	t.Parallel()
	kill(t, 30)
}

// SOAK=1 go test -run Soak -timeout 30m
func TestKill_anywhere_Soak(t *testing.T) {
	t.Parallel()
	if os.Getenv("SOAK") == "" {
		t.Skip("SOAK is not set")
	}
	kill(t, 500)
}

func kill(t *testing.T, rounds int) {
	t.Helper()
	o := newOrder(t)
	witness := open(t, o.db(), options(time.Now))
	rnd := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	const perRound = 40
	for round := range rounds {
		// The approvals' five minutes must not end during a soak.
		o.at = time.Now().UTC().Truncate(time.Millisecond)
		o.first, o.last = round*perRound+1, (round+1)*perRound
		var wg sync.WaitGroup
		for range 1 + round%3 {
			cmd := start(t, o)
			delay := time.Duration(rnd.IntN(40_000)) * time.Microsecond
			wg.Go(func() {
				time.Sleep(delay)
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
		}
		wg.Wait()
		recoverAll(t, witness)
		if left, err := witness.Orphans(t.Context()); err != nil || len(left) != 0 {
			t.Fatalf("round %d: orphans %v, %v", round, left, err)
		}
		if round%10 == 9 || round == rounds-1 {
			uses, effects := audit(t, witness, o)
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
}

// Two and four processes work through the same uses: each is had once, and nobody is turned away for being slow.
func TestProcesses(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{2, 4} {
		t.Run(strconv.Itoa(processes), func(t *testing.T) {
			t.Parallel()
			o := newOrder(t)
			o.first, o.last = 1, 60
			var children []*exec.Cmd
			for range processes {
				children = append(children, start(t, o))
			}
			for _, c := range children {
				if err := c.Wait(); err != nil {
					t.Error(err)
				}
			}
			if uses, effects := audit(t, open(t, o.db(), options(time.Now)), o); uses != 60 || effects != 60 {
				t.Errorf("%d uses, %d effects", uses, effects)
			}
		})
	}
}
