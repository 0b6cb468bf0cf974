package ratelimit

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// AddressLimits are how often an address may fail to say who it is.
type AddressLimits struct {
	PerMinute int64 // 600 when 0
	Burst     int64 // 100 when 0
}

const (
	addressRows  = 4
	addressCells = 1 << 17 // in each row
)

// Addresses limit client addresses before anybody has said who they are. They take four megabytes and constant work,
// whatever comes: each address has a cell in each of four rows, may share it with others, and counts as the emptiest of its
// buckets. So nobody is ever given back what they have used, and an address is held for another's doings only if all four of
// its cells are shared with ones that are over their limit: with ten thousand such at once, one in ten thousand is.
type Addresses struct {
	now      func() time.Time
	seed     maphash.Seed
	interval int64 // ns for one
	burst    int64 // in ns

	mu    sync.Mutex
	cells [addressRows][]int64 // when a bucket is full again
}

// NewAddresses returns limits of addresses.
func NewAddresses(l AddressLimits, now func() time.Time) (*Addresses, error) {
	if l.PerMinute == 0 {
		l.PerMinute = 600
	}
	if l.Burst == 0 {
		l.Burst = 100
	}
	if now == nil || l.PerMinute < 0 || l.Burst < 0 || l.PerMinute > maxCount || l.Burst > maxCount {
		return nil, invalid("addresses need a clock, a rate and a burst")
	}
	r := rules{perMinute: l.PerMinute, burst: l.Burst}
	a := &Addresses{now: now, seed: maphash.MakeSeed(), interval: r.interval(), burst: l.Burst * r.interval()}
	for i := range a.cells {
		a.cells[i] = make([]int64, addressCells)
	}
	return a, nil
}

// Check says whether the address may try to say who it is. It costs nothing.
func (a *Addresses) Check(addr netip.Addr) Decision { return a.decide(addr, 0) }

// Take counts one failure of an address, or one attempt of the kind that may fail, such as a login. A no costs nothing.
func (a *Addresses) Take(addr netip.Addr) Decision { return a.decide(addr, a.interval) }

func (a *Addresses) decide(addr netip.Addr, cost int64) Decision {
	hash := maphash.Comparable(a.seed, network(addr))
	step := hash>>32 | 1
	now := a.now().UnixNano()
	a.mu.Lock()
	defer a.mu.Unlock()
	var cells [addressRows]*int64
	full := now + a.burst
	for i := range cells {
		cells[i] = &a.cells[i][(hash+uint64(i)*step)%addressCells]
		// One that is later was written before the clock was set back.
		*cells[i] = min(*cells[i], now+a.burst)
		full = min(full, max(*cells[i], now))
	}
	limit := 60e9 / a.interval
	if until := full + a.interval - a.burst; until > now {
		return refused(limit, until, now)
	}
	if full += cost; cost > 0 {
		for _, c := range cells {
			*c = max(*c, full)
		}
	}
	return Decision{Allowed: true, Limit: limit, Remaining: (a.burst - (full - now)) / a.interval, reset: full}
}

// network is what counts as one client: an IPv4 address, or 64 bits of an IPv6 address, which is what one subscriber has.
func network(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if !addr.Is6() {
		return addr
	}
	p, _ := addr.Prefix(64) // can't fail for an IPv6 address
	return p.Addr()
}
