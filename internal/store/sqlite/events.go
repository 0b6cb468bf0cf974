package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// A head is the newest event of a tenant's log. The zero head is that of an empty log.
type head struct {
	sequence int64
	at       time.Time
}

func (t *tx) head(tenant string) (head, error) {
	var h head
	var at int64
	err := t.get(`SELECT sequence, at FROM events WHERE tenant = ? ORDER BY sequence DESC LIMIT 1`, []any{tenant}, &h.sequence, &at)
	if errors.Is(err, gateway.ErrNotFound) {
		return head{}, nil
	}
	h.at = instant(at)
	return h, err
}

// append gives an event its place in the tenant's log. Times never decrease: one from before the newest event is raised to
// that event's.
func (t *tx) append(tenant string, e counterfoil.Event, at time.Time) error {
	h, err := t.head(tenant)
	if err != nil {
		return err
	}
	return t.appendAfter(h, tenant, e, at)
}

func (t *tx) appendAfter(h head, tenant string, e counterfoil.Event, at time.Time) error {
	if e.Tenant() != tenant {
		return fail(counterfoil.CodeInvalidInput, "the event is of another tenant", nil)
	}
	return t.insertEvent(h, tenant, at, e.Seal)
}

func (t *tx) insertEvent(h head, tenant string, at time.Time, seal func(sequence int64, at time.Time) []byte) error {
	at = at.UTC().Truncate(time.Millisecond)
	if at.Before(h.at) {
		at = h.at
	}
	body := seal(h.sequence+1, at)
	digest := counterfoil.EventDigest(body)
	_, err := t.exec(`INSERT INTO events (tenant, sequence, at, body, digest) VALUES (?, ?, ?, ?, ?)`,
		tenant, h.sequence+1, millis(at), body, digest[:])
	return err
}

// Record implements gateway.Uses.
func (s *Store) Record(ctx context.Context, e counterfoil.Event) error {
	return s.commit(ctx, func(t *tx) error { return t.append(e.Tenant(), e, s.o.Now()) })
}

// A SealedEvent is an event at its place in a tenant's log.
type SealedEvent struct {
	Sequence int64
	At       time.Time
	Body     []byte // canonical
	Digest   counterfoil.Digest
}

// maxPage bounds what one list returns.
const maxPage = 1000

// Events returns at most limit events of the tenant's log after the one with the sequence after, 0 for the first.
func (s *Store) Events(ctx context.Context, tenant string, after int64, limit int) ([]SealedEvent, error) {
	return list(ctx, s, `SELECT sequence, at, body, digest FROM events WHERE tenant = ? AND sequence > ? ORDER BY sequence LIMIT ?`,
		[]any{tenant, after, page(limit)}, func(r scanner) (SealedEvent, error) {
			var e SealedEvent
			var at int64
			var digest []byte
			err := r.Scan(&e.Sequence, &at, &e.Body, &digest)
			e.At = instant(at)
			copy(e.Digest[:], digest)
			return e, err
		})
}

func page(limit int) int { return max(0, min(limit, maxPage)) }
