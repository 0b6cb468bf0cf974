package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// A Program is what a backend adds to the tests with processes of their own: the test binary starts itself as a worker.
//
//	func TestMain(m *testing.M) {
//		if code, worker := program().Worker(); worker {
//			os.Exit(code)
//		}
//		os.Exit(m.Run())
//	}
type Program struct {
	// Open opens a handle on the database at a place, a path or a URL, with the clock Now.
	Open func(ctx context.Context, place string, fault func(Stage) error) (Store, error)
	// Dead is how long a killed process may still count as alive.
	Dead time.Duration
	// Now is the real clock.
	Now func() time.Time
}

// workerVariable holds a worker's orders, and is empty in the tests' own process.
const workerVariable = "COUNTERFOIL_TEST_WORKER"

// A job is what a worker does.
type job string

const (
	// runUses spends each use, has an effect and settles, one use after the other.
	runUses job = "run"
	// contend spends each use and nothing else, many at once.
	contend job = "contend"
)

// orders are for a worker: the uses first to last, which others may come to first.
type orders struct {
	job         job
	place       string // of the database
	dir         string // of effects and reports
	at          time.Time
	first, last int
	killAt      int // the stage, counted over all transactions, at which the worker kills itself; 0 for none
}

func (o orders) effects() string { return filepath.Join(o.dir, "effects") }

func (o orders) String() string {
	return fmt.Sprintf("%s %d %d %d %d\n%s\n%s", o.job, o.at.UnixMilli(), o.first, o.last, o.killAt, o.dir, o.place)
}

func parseOrders(s string) (orders, error) {
	var o orders
	var at int64
	first, rest, _ := strings.Cut(s, "\n")
	o.dir, o.place, _ = strings.Cut(rest, "\n")
	_, err := fmt.Sscanf(first, "%s %d %d %d %d", &o.job, &at, &o.first, &o.last, &o.killAt)
	o.at = time.UnixMilli(at).UTC()
	return o, err
}

// Worker does the work if this process was started for it, and returns its exit code.
func (p Program) Worker() (code int, worker bool) {
	text := os.Getenv(workerVariable)
	if text == "" {
		return 0, false
	}
	if err := p.work(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

func (p Program) work(text string) error {
	o, err := parseOrders(text)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	stages := 0
	s, err := p.Open(context.Background(), o.place, func(Stage) error {
		mu.Lock()
		defer mu.Unlock()
		if stages++; stages == o.killAt {
			die()
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return errors.Join(err, s.Close())
	}
	switch o.job {
	case runUses:
		for n := o.first; n <= o.last && err == nil; n++ {
			err = p.run(s, o, n)
		}
	case contend:
		err = contendAll(s, o)
	default:
		err = fmt.Errorf("a job %q", o.job)
	}
	return errors.Join(err, s.Close())
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

// run spends use n and, if it was the first, has an effect that can be counted: a line in a file. It pauses before and
// after, so that many of those that are killed are killed there.
func (p Program) run(s Store, o orders, n int) error {
	ctx := context.Background()
	c, err := NewCase(fmt.Sprintf("use-%d", n), o.at)
	if err != nil {
		return err
	}
	l := &Ledger{
		Store: s, Case: c, Spending: line("effects", 2, 1<<40),
		Settling: gateway.Settling{Counters: []gateway.Counter{{Name: "effects", Add: -1}}},
	}
	id := fmt.Sprintf("run-%d-%d", n, os.Getpid())
	claim, err := l.Claim(ctx, id)
	if errors.Is(err, counterfoil.CodeAlreadyUsed) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("use %d: %w", n, err)
	}
	_, err = l.Work(ctx, claim, p.Now(), func() error {
		wait(ctx, time.Millisecond)
		defer wait(ctx, time.Millisecond)
		f, err := os.OpenFile(o.effects(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600) //nolint:gosec // the test's own directory
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(f, "%d %s\n", n, id)
		return errors.Join(err, f.Sync(), f.Close())
	})
	return err
}

// contenders is how many uses a worker spends at once.
const contenders = 32

// contendAll spends each use, and reports those that it had.
func contendAll(s Store, o orders) error {
	won := make([]bool, o.last+1)
	errs := make(chan error, contenders)
	next := make(chan int)
	var wg sync.WaitGroup
	for range contenders {
		wg.Go(func() {
			for n := range next {
				u := newUse(fmt.Sprintf("contended-%d", n), o.at)
				u.ExecutionID = fmt.Sprintf("run-%d-%d", n, os.Getpid())
				switch err := spendUse(context.Background(), s, u, gateway.Spending{}); {
				case err == nil:
					won[n] = true
				case counterfoil.CodeOf(err) != counterfoil.CodeAlreadyUsed:
					select {
					case errs <- fmt.Errorf("use %d: %w", n, err):
					default: // the first few say enough
					}
				}
			}
		})
	}
	// Each worker begins elsewhere, so that they meet all along.
	count := o.last - o.first + 1
	for i := range count {
		next <- o.first + (os.Getpid()*7919+i)%count
	}
	close(next)
	wg.Wait()
	close(errs)
	for err := range errs {
		return err
	}
	f, err := os.Create(filepath.Join(o.dir, fmt.Sprintf("won-%d", os.Getpid())))
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for n, yes := range won {
		if yes {
			fmt.Fprintln(w, n)
		}
	}
	return errors.Join(w.Flush(), f.Close())
}
