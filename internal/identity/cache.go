package identity

import (
	"crypto/sha256"
	"sync"
	"time"
)

// A Proof is what was found out about a credential, and may be remembered.
type Proof interface {
	Tenant() string
	// Ended reports whether it is worth nothing any more, whatever happens.
	Ended(now time.Time) bool
}

// A Memory remembers credentials that were verified, by their SHA-256: a memory dump has none in it. It is safe for concurrent
// use. Who gets a proof says whether it still holds.
type Memory[P Proof] struct {
	max int

	mu      sync.RWMutex
	entries map[[sha256.Size]byte]P
	drops   uint64 // how often entries were dropped for a change
}

// NewMemory returns a memory of at most so many proofs.
func NewMemory[P Proof](most int) *Memory[P] {
	return &Memory[P]{max: most, entries: map[[sha256.Size]byte]P{}}
}

// Get returns the proof of a credential, if there is one.
func (m *Memory[P]) Get(key [sha256.Size]byte) (P, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, ok := m.entries[key]
	return p, ok
}

// Begin returns what Put wants to know of the moment before the credential was looked up.
func (m *Memory[P]) Begin() uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.drops
}

// Put remembers a proof, unless something was changed since Begin.
func (m *Memory[P]) Put(key [sha256.Size]byte, p P, since uint64, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.drops != since {
		return
	}
	if len(m.entries) >= m.max {
		m.makeRoom(now)
	}
	m.entries[key] = p
}

// makeRoom drops what has ended among a few entries that the map happens to begin with, and one of them in any case.
func (m *Memory[P]) makeRoom(now time.Time) {
	seen := 0
	for key, p := range m.entries {
		if seen == 0 || p.Ended(now) {
			delete(m.entries, key)
		}
		if seen++; seen == 8 {
			return
		}
	}
}

// Drop forgets one.
func (m *Memory[P]) Drop(key [sha256.Size]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}

// DropTenant forgets all of a tenant, those that are being looked up too.
func (m *Memory[P]) DropTenant(tenant string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drops++
	for key, p := range m.entries {
		if p.Tenant() == tenant {
			delete(m.entries, key)
		}
	}
}

// verified is the proof of a token. It is worth nothing when its tenant's epoch or the key ring is another.
type verified struct {
	principal Principal
	until     time.Time // the token's end, its key's, or that of what is known of an issuer's keys
	epoch     int64     // of the tenant
	ring      *ring     // that was in force
}

// Tenant implements Proof.
func (v verified) Tenant() string { return v.principal.Tenant }

// Ended implements Proof.
func (v verified) Ended(now time.Time) bool { return !now.Before(v.until) }
