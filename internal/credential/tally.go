package credential

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"
)

// A Rule says how attempts that fail are answered: some are free; each one more doubles the time in which nothing is tried,
// up to a bound. No lock is longer than that bound, so that strangers can shut nobody out for good.
type Rule struct {
	Free    int64         // attempts that cost nothing
	First   time.Duration // the lock after the first that does
	Longest time.Duration // the longest lock
	Forget  time.Duration // after so long without a failure all is forgotten; more than Longest
}

func (r Rule) check() error {
	if r.Free < 1 || r.Free > 1<<20 || r.First < time.Second || r.Longest < r.First || r.Longest > time.Hour || r.Forget <= r.Longest || r.Forget > 7*24*time.Hour {
		return fail("a rule for failed logins has at least one free attempt, locks from a second to an hour, and forgets within a week, but later than its longest lock")
	}
	return nil
}

// Limits are what holds against guessing. An attempt counts before it is judged, so that many at once get no further than one
// after the other.
type Limits struct {
	// Pair is for one user from one address.
	Pair Rule
	// Stranger is for one user from all addresses where that user has not logged in lately. Those where they have are not
	// held against it: others can't lock them out.
	Stranger Rule
	// Address is for one address, whichever users it tries. An IPv6 address counts as its /64.
	Address Rule
	// Known is how long an address counts as one where the user has logged in.
	Known time.Duration
}

// DefaultLimits leave about a hundred guesses a day at one user.
func DefaultLimits() Limits {
	return Limits{
		Pair:     Rule{Free: 5, First: 30 * time.Second, Longest: 15 * time.Minute, Forget: 24 * time.Hour},
		Stranger: Rule{Free: 20, First: 30 * time.Second, Longest: 15 * time.Minute, Forget: 24 * time.Hour},
		Address:  Rule{Free: 50, First: 30 * time.Second, Longest: 15 * time.Minute, Forget: time.Hour},
		Known:    30 * 24 * time.Hour,
	}
}

func (l Limits) check() error {
	for _, r := range []Rule{l.Pair, l.Stranger, l.Address} {
		if err := r.check(); err != nil {
			return err
		}
	}
	if l.Known < 0 || l.Known > 365*24*time.Hour {
		return fail("an address is known for at most a year")
	}
	return nil
}

// renew forgets what is long past, and mends what a clock that went wrong has left.
func (r Rule) renew(t *Tally, now time.Time) {
	if t.Last.After(now) {
		t.Last = now
	}
	if limit := now.Add(r.Longest); t.Until.After(limit) {
		t.Until = limit
	}
	if !t.Last.Add(r.Forget).After(now) {
		t.Failures, t.Last, t.Until = 0, time.Time{}, time.Time{}
	}
}

// charge counts an attempt, and locks behind it if it was one too many.
func (r Rule) charge(t *Tally, now time.Time) {
	t.Failures, t.Last = min(t.Failures+1, 1<<30), now
	if t.Failures > r.Free {
		lock := r.Longest
		if doublings := t.Failures - r.Free - 1; doublings < 16 {
			lock = min(r.First<<doublings, r.Longest)
		}
		t.Until = now.Add(lock)
	}
}

// refund takes an attempt back that has succeeded. The failures before it stay counted: whoever has one good password can't
// buy guesses at others with it.
func (r Rule) refund(t *Tally) {
	t.Failures = max(t.Failures-1, 0)
	if t.Failures <= r.Free {
		t.Until = time.Time{}
	}
}

func (r Rule) forget(t *Tally) {
	t.Forget = t.Known
	if t.Failures > 0 && t.Last.Add(r.Forget).After(t.Forget) {
		t.Forget = t.Last.Add(r.Forget)
	}
}

// An attempt is one login: its place among the tallies.
type attempt struct {
	limits Limits
	keys   []Hash // of the pair, the user and the address
}

func newAttempt(limits Limits, tenant, user string, from netip.Addr) attempt {
	from = from.Unmap().WithZone("")
	bits := 64
	if from.Is4() {
		bits = 32
	}
	prefix, _ := from.Prefix(bits) // a valid address has it
	where := prefix.String()
	return attempt{limits, []Hash{tallyKey("pair", tenant, user, where), tallyKey("user", tenant, user), tallyKey("address", where)}}
}

// tallyKey names a tally without saying what it is of: the database lists no addresses.
func tallyKey(parts ...string) Hash {
	h := sha256.New()
	for _, p := range parts {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p)))) // a hash takes everything
		_, _ = h.Write([]byte(p))
	}
	return Hash(h.Sum(nil))
}

// A ruling is whether an attempt may be judged.
type ruling struct {
	locked bool          // it is refused whatever the password
	wait   time.Duration // the address has to wait, if it is more than 0
}

// begin counts an attempt, or refuses it.
func (a attempt) begin(ctx context.Context, s TallyStore, now time.Time) (ruling, error) {
	var r ruling
	if err := s.ChangeTallies(ctx, a.keys, now, func(t []Tally) { r = a.charge(t, now) }); err != nil {
		return ruling{}, err // whoever gave up may be charged still: r is not theirs to read
	}
	return r, nil
}

func (a attempt) charge(t []Tally, now time.Time) (r ruling) {
	pair, user, address := &t[0], &t[1], &t[2]
	a.limits.Pair.renew(pair, now)
	a.limits.Stranger.renew(user, now)
	a.limits.Address.renew(address, now)
	stranger := !pair.Known.After(now)
	switch {
	case address.Until.After(now):
		r.wait = address.Until.Sub(now)
	case pair.Until.After(now), stranger && user.Until.After(now):
		a.limits.Address.charge(address, now)
		r.locked = true
	default:
		a.limits.Address.charge(address, now)
		a.limits.Pair.charge(pair, now)
		if stranger {
			a.limits.Stranger.charge(user, now)
		}
	}
	a.close(t)
	return r
}

// succeed takes back what begin has counted, and remembers the address as one of the user's.
func (a attempt) succeed(ctx context.Context, s TallyStore, now time.Time) error {
	return s.ChangeTallies(ctx, a.keys, now, func(t []Tally) {
		pair := &t[0]
		if !pair.Known.After(now) {
			a.limits.Stranger.refund(&t[1])
		}
		a.limits.Address.refund(&t[2])
		*pair = Tally{Known: now.Add(a.limits.Known)}
		a.close(t)
	})
}

func (a attempt) close(t []Tally) {
	a.limits.Pair.forget(&t[0])
	a.limits.Stranger.forget(&t[1])
	a.limits.Address.forget(&t[2])
}
