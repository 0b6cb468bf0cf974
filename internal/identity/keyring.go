package identity

import (
	"strings"
	"sync/atomic"
	"time"
)

// A Held key verifies tokens, until the end that it has. It is a retired one, or one that is announced before it signs, so that
// every replica knows it by then.
type Held struct {
	Key   *Key
	Until time.Time // its end; the zero time is none
}

// A KeyRing is the keys of our own tokens: one signs, all verify. It is safe for concurrent use.
type KeyRing struct{ keys atomic.Pointer[ring] }

type ring struct {
	signs *Key
	byID  map[string]Held
	order []string
}

// NewKeyRing makes a ring. Its keys differ in their ids and in what they are made of.
func NewKeyRing(signs *Key, others ...Held) (*KeyRing, error) {
	r := &KeyRing{}
	if err := r.Replace(signs, others...); err != nil {
		return nil, err
	}
	return r, nil
}

// Replace rotates the keys, all at once. Tokens of keys that are no longer there are refused from now on, those that were
// verified before too. After an error the ring is as it was.
func (r *KeyRing) Replace(signs *Key, others ...Held) error {
	n := &ring{signs: signs, byID: map[string]Held{}, order: nil}
	for _, h := range append([]Held{{Key: signs, Until: time.Time{}}}, others...) {
		if h.Key == nil || h.Key.method == nil {
			return fail("a key of the ring is missing")
		}
		for _, had := range n.byID {
			if had.Key.id == h.Key.id || had.Key.like(h.Key) || h.Key.like(had.Key) {
				return fail("two keys of the ring are the same")
			}
		}
		n.byID[h.Key.id] = h
		n.order = append(n.order, h.Key.id)
	}
	r.keys.Store(n)
	return nil
}

// find returns a key that verifies, and what it is held as.
func (n *ring) find(kid string, now time.Time) (Held, bool) {
	h, ok := n.byID[kid]
	return h, ok && (h.Until.IsZero() || now.Before(h.Until))
}

// JWKS returns the public keys as a JSON Web Key Set (RFC 7517), those that have ended by now left out. Secrets are never in
// it.
func (r *KeyRing) JWKS(now time.Time) []byte {
	var keys []string
	if n := r.keys.Load(); n != nil {
		for _, id := range n.order {
			h, ok := n.find(id, now)
			if members := h.Key.publicMembers(); ok && members != "" {
				keys = append(keys, `{`+members+`,"alg":"`+string(h.Key.algorithm)+`","kid":"`+id+`","use":"sig"}`)
			}
		}
	}
	return []byte(`{"keys":[` + strings.Join(keys, ",") + `]}`)
}
