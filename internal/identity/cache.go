package identity

import (
	"crypto/sha256"
	"sync"
	"time"
)

// A cache remembers tokens that were verified, by their SHA-256: a memory dump has no token in it. An entry is worth nothing
// from its end on, nor when its tenant's epoch or the key ring is another.
type cache struct {
	max int

	mu      sync.RWMutex
	entries map[[sha256.Size]byte]verified
	drops   uint64 // how often entries were dropped for a revocation
}

type verified struct {
	principal Principal
	until     time.Time // the token's end, its key's, or that of what is known of an issuer's keys
	epoch     int64     // of the tenant
	ring      *ring     // that was in force
}

func newCache(maxEntries int) *cache {
	return &cache{max: maxEntries, entries: map[[sha256.Size]byte]verified{}}
}

func (c *cache) get(key [sha256.Size]byte) (verified, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	v, ok := c.entries[key]
	return v, ok
}

// begin returns what put wants to know of the moment before the token was held against the revocations.
func (c *cache) begin() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.drops
}

// put remembers a token, unless something was revoked since begin.
func (c *cache) put(key [sha256.Size]byte, v verified, since uint64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drops != since {
		return
	}
	if len(c.entries) >= c.max {
		c.makeRoom(now)
	}
	c.entries[key] = v
}

// makeRoom drops what has ended among a few entries that the map happens to begin with, and one of them in any case.
func (c *cache) makeRoom(now time.Time) {
	seen := 0
	for key, v := range c.entries {
		if seen == 0 || !now.Before(v.until) {
			delete(c.entries, key)
		}
		if seen++; seen == 8 {
			return
		}
	}
}

func (c *cache) drop(key [sha256.Size]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}

// dropTenant forgets all tokens of a tenant, those that are being verified too.
func (c *cache) dropTenant(tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	for key, v := range c.entries {
		if v.principal.Tenant == tenant {
			delete(c.entries, key)
		}
	}
}
