package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"
)

const (
	keyLife     = 15 * time.Minute // how long an unlocked key is kept
	maxWrong    = 5                // wrong passphrases until the lockout
	lockout     = time.Minute
	maxPass     = 1024
	errNeedPass = sentinel("a passphrase is needed")
)

// A keyring unlocks the approver's key and holds it for a while, per session.
type keyring struct {
	service Service
	now     func() time.Time

	// turn lets one passphrase be tried at a time: guesses made at once would otherwise all be tried before the first
	// of them is counted. It guards wrong and until.
	turn  chan struct{}
	wrong int
	until time.Time

	mu   sync.Mutex
	held map[[sha256.Size]byte]*heldKey
}

type heldKey struct {
	key   Key
	until time.Time
	timer *time.Timer
}

func newKeyring(s Service, now func() time.Time) *keyring {
	return &keyring{service: s, now: now, turn: make(chan struct{}, 1), held: map[[sha256.Size]byte]*heldKey{}}
}

// fresh unlocks the key for one decision and doesn't keep it.
func (k *keyring) fresh(ctx context.Context, passphrase string) (Key, error) {
	if passphrase == "" {
		return nil, errNeedPass
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// During the lockout a right passphrase is answered like a wrong one, or the lockout would tell which is which.
	if k.now().Before(k.until) || len(passphrase) > maxPass {
		return nil, ErrWrongPassphrase
	}
	key, err := k.service.Unlock(ctx, passphrase)
	switch {
	case err == nil && key != nil:
		k.wrong = 0
		return key, nil
	case err == nil:
		return nil, errors.New("the service unlocked no key")
	case errors.Is(err, ErrWrongPassphrase):
		if k.wrong++; k.wrong >= maxWrong {
			k.wrong, k.until = 0, k.now().Add(lockout)
		}
		return nil, ErrWrongPassphrase
	}
	return nil, err
}

// kept returns the session's unlocked key, or else unlocks it and keeps it for the session.
func (k *keyring) kept(ctx context.Context, session [sha256.Size]byte, passphrase string) (Key, error) {
	if key, _ := k.look(session); key != nil {
		return key, nil
	}
	key, err := k.fresh(ctx, passphrase)
	if err != nil {
		return nil, err
	}
	k.forget(session)
	k.mu.Lock()
	defer k.mu.Unlock()
	h := &heldKey{key: key, until: k.now().Add(keyLife)}
	// The clock decides when the key is asked for; the timer sees to it that it is gone even if nobody asks.
	h.timer = time.AfterFunc(keyLife, func() { k.drop(session, h) })
	k.held[session] = h
	return key, nil
}

// look returns the session's unlocked key and until when it is kept; nil without one.
func (k *keyring) look(session [sha256.Size]byte) (Key, time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[session]
	if h == nil || !k.now().Before(h.until) {
		return nil, time.Time{}
	}
	return h.key, h.until
}

func (k *keyring) drop(session [sha256.Size]byte, h *heldKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held[session] == h {
		delete(k.held, session)
	}
}

func (k *keyring) forget(session [sha256.Size]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.held[session]; h != nil {
		h.timer.Stop()
		delete(k.held, session)
	}
}

func (k *keyring) forgetAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for s, h := range k.held {
		h.timer.Stop()
		delete(k.held, s)
	}
}
