package ratelimit_test

import (
	"math/rand"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
	"github.com/counterfoil/counterfoil/internal/store/pgtest"
	"github.com/counterfoil/counterfoil/internal/store/postgres"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

var server pgtest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

const replicas = 4

// cluster returns replicas over one PostgreSQL database, with one clock.
func cluster(t testing.TB) []*fixture {
	t.Helper()
	clock := storetest.NewClock()
	url := server.Fresh(t)
	all := make([]*fixture, replicas)
	for i := range all {
		s, err := postgres.Open(t.Context(), url, postgres.Options{
			Audience: storetest.Audience, Signer: storetest.Key(counterfoil.RoleLedger), Names: storetest.Names(), Now: clock.Now,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		all[i] = newFixture(t, ratelimit.Options{Shared: true, Default: ratelimit.TierPremium}, s, clock)
	}
	return all
}

// A load says how many requests a replica gets in a tick.
type load struct {
	name     string
	rules    ratelimit.Rules
	requests func(r *rand.Rand, tick, replica int) int
}

const ticks = 20 // in a second

func loads() []load {
	premium := ratelimit.Rules{Minute: 200, Hour: 10_000, Day: 50_000, Burst: 50, PerMinute: 200}
	reads := ratelimit.Rules{Second: 50, Minute: 600}
	chance := func(r *rand.Rand, p float64) int {
		if r.Float64() < p {
			return 1
		}
		return 0
	}
	return []load{
		{"premium, twice as much as there is, spread evenly", premium, func(r *rand.Rand, _, _ int) int { return chance(r, 0.085) }},
		{"premium, five times as much, nearly all of it at one replica", premium, func(r *rand.Rand, _, replica int) int {
			if replica > 0 {
				return chance(r, 0.01)
			}
			return chance(r, 0.8)
		}},
		{"premium, eighty at once every twenty seconds", premium, func(_ *rand.Rand, tick, _ int) int {
			if tick%(20*ticks) == 0 {
				return 20
			}
			return 0
		}},
		{"premium, four fifths of what there is", premium, func(r *rand.Rand, _, _ int) int { return chance(r, 0.033) }},
		{"reads of a tool, three times as much as there is", reads, func(r *rand.Rand, _, _ int) int { return chance(r, 0.375) }},
	}
}

// An outcome is what a load was given over all replicas, and what one exact limiter would have given it.
type outcome struct {
	requests, given, exact int
	log                    []time.Time
	model                  ratelimit.State
}

func (o *outcome) most(length time.Duration) int {
	most, from := 0, 0
	for i, at := range o.log {
		for at.Sub(o.log[from]) >= length {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// Over replicas on PostgreSQL the limit holds: no minute has more than it may, and what is given is within a hundredth of what
// one process with exact counts would give.
func TestReplicas_error(t *testing.T) {
	t.Parallel()
	length := 90 * time.Second
	if os.Getenv("SOAK") != "" {
		length = 10 * time.Minute
	}
	all := cluster(t)
	outcomes := make([]outcome, len(loads()))
	random := rand.New(rand.NewSource(1))
	calls := 0
	for tick := range int(length.Seconds()) * ticks {
		for i, l := range loads() {
			o := &outcomes[i]
			for replica, f := range all {
				for range l.requests(random, tick, replica) {
					o.requests++
					if ok, _ := o.model.Take(f.clock.Now(), l.rules); ok {
						o.exact++
					}
					d, err := f.TakeRules(t.Context(), ratelimit.Key{Subject: who(l.name), Kind: ratelimit.KindRequest}, l.rules)
					if err != nil {
						t.Fatal(err)
					}
					if d.Allowed {
						o.given++
						o.log = append(o.log, f.clock.Now())
					}
				}
			}
		}
		all[0].clock.Move(time.Second / ticks)
		if tick%2 == 0 {
			for _, f := range all {
				if err := f.Tend(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, f := range all {
		calls += f.store.Calls()
	}
	for i, l := range loads() {
		o := &outcomes[i]
		off := 100 * (float64(o.given)/float64(o.exact) - 1)
		t.Logf("%s: %d requests, %d given, %d by an exact limiter: %+.2f %%; at most %d of %d in a minute", l.name, o.requests, o.given, o.exact,
			off, o.most(time.Minute), l.rules.Minute)
		if off > 1 || off < -5 {
			t.Errorf("%s: %+.2f %%", l.name, off)
		}
		if n := o.most(time.Minute); n > int(l.rules.Minute) {
			t.Errorf("%s: %d in a minute", l.name, n)
		}
	}
	t.Logf("%d calls of the store", calls)
}

// A replica that is killed takes its slice along: nobody gets it a second time, and nobody loses more than that.
func TestReplicas_killed(t *testing.T) {
	t.Parallel()
	all := cluster(t)
	given := 0
	for i, f := range all {
		given += f.count(t, who("a"), 4+i)
		if i%2 == 0 {
			f.Abandon()
		}
	}
	last := all[replicas-1]
	for range 600 {
		last.clock.Move(100 * time.Millisecond)
		if last.clock.Now().Sub(storetest.Start()) >= time.Minute {
			break
		}
		if err := last.Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		given += last.count(t, who("a"), 3)
	}
	if given > 200 || given < 190 {
		t.Fatalf("%d of 200 in a minute", given)
	}
}

// What one replica gives back another can have at once.
func TestReplicas_close(t *testing.T) {
	t.Parallel()
	all := cluster(t)
	given := all[0].count(t, who("a"), 10)
	if err := all[0].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if given += all[1].count(t, who("a"), 60); given != 50 {
		t.Fatalf("%d at once, of 50", given)
	}
	if u := all[2].used(t, who("a")); u.Minute != 50 {
		t.Fatalf("%+v", u)
	}
}

// Requests that come to all replicas at the same moment get exactly what there is.
func TestReplicas_atOnce(t *testing.T) {
	t.Parallel()
	all := cluster(t)
	var wg sync.WaitGroup
	var given atomic.Int64
	for i := range 80 {
		wg.Go(func() {
			d, err := all[i%replicas].Take(t.Context(), who("a"))
			if err != nil {
				t.Error(err)
			}
			if d.Allowed {
				given.Add(1)
			}
		})
	}
	wg.Wait()
	if n := given.Load(); n > 50 || n < 48 {
		t.Fatalf("%d at once, of 50", n)
	}
}
