package sqlite

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// head returns where a tenant's log stands. A log that is smaller than one that was seen before, or another one of the same
// size, is refused: the database was set back.
func (t *tx) head(tenant string) (head, error) {
	for _, known := range []map[string]head{t.changes.heads, t.w.known.heads} {
		if h, ok := known[tenant]; ok {
			return h, nil
		}
	}
	h, err := t.readHead(tenant)
	if err != nil {
		return head{}, err
	}
	if seen, ok := t.w.largest[tenant]; ok && seen.sequence > 0 {
		var leaf []byte
		err := t.get(`SELECT leaf FROM events WHERE place = ?`, []any{place(seen.log, seen.sequence)}, &leaf)
		if err != nil && !errors.Is(err, gateway.ErrNotFound) {
			return head{}, err
		}
		if h.log != seen.log || translog.Hash(pad(leaf)) != seen.leaf {
			return head{}, fail(counterfoil.CodeIntegrityFailed, "the log of "+tenant+" is shorter than it was, or another: the database was set back", nil)
		}
	}
	t.changes.heads[tenant] = h
	return h, nil
}

// pad makes a hash of a column that the schema has checked; zeros stand for a missing one.
func pad(b []byte) (h [sha256.Size]byte) {
	copy(h[:], b)
	return h
}

func (t *tx) readHead(tenant string) (head, error) {
	var h head
	var newest, at int64
	var leaf []byte
	err := t.get(`SELECT number, EXISTS (SELECT 1 FROM revocations WHERE tenant = ?1) FROM logs WHERE tenant = ?1`,
		[]any{tenant}, &h.log, &h.revoked)
	if errors.Is(err, gateway.ErrNotFound) {
		return h, nil // every revocation is an event
	} else if err != nil {
		return h, err
	}
	err = t.get(`SELECT place, at, leaf FROM events WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT 1`,
		[]any{place(h.log, 0), place(h.log+1, 0) - 1}, &newest, &at, &leaf)
	if errors.Is(err, gateway.ErrNotFound) {
		return h, nil
	}
	h.sequence, h.at, h.leaf = sequence(newest), rowscan.Instant(at), pad(leaf)
	return h, err
}

// append gives an event its place in the tenant's log and returns it. Times never decrease: one from before the newest event
// is raised to that event's.
func (t *tx) append(tenant string, e counterfoil.Event, at time.Time) (int64, error) {
	if e.Tenant() != tenant {
		return 0, fail(counterfoil.CodeInvalidInput, "the event is of another tenant", nil)
	}
	h, err := t.head(tenant)
	if err != nil {
		return 0, err
	}
	if h.log == 0 {
		if err := t.write(`INSERT INTO logs (tenant) VALUES (?) RETURNING number`, []any{tenant}, &h.log); err != nil {
			return 0, err
		}
	}
	if at = at.UTC().Truncate(time.Millisecond); h.at.After(at) {
		at = h.at
	}
	h.sequence, h.at = h.sequence+1, at
	body := e.Seal(h.sequence, at)
	h.leaf = leafHash(body)
	number := place(h.log, h.sequence)
	_, err = t.exec(`INSERT INTO events (place, at, phase, about, leaf, body) VALUES (?, ?, ?, ?, ?, ?)`,
		number, rowscan.Millis(at), string(e.Phase()), e.ExecutionID(), h.leaf[:], body)
	t.changes.heads[tenant] = h
	return number, err
}

// matching refuses an event that says something else than what is recorded with it.
func matching(e counterfoil.Event, phase counterfoil.Phase, tenant, about string) error {
	if e.Phase() != phase || e.Tenant() != tenant || e.ExecutionID() != about {
		return fail(counterfoil.CodeInvalidInput, "the event is about something else", nil)
	}
	return nil
}

// leafHash is RFC 6962's.
func leafHash(body []byte) translog.Hash {
	d := sha256.New()
	d.Write([]byte{0})
	d.Write(body)
	return translog.Hash(d.Sum(nil))
}

// Record implements gateway.Uses.
func (s *Store) Record(ctx context.Context, e counterfoil.Event) error {
	switch e.Phase() { //nolint:exhaustive // the others may be recorded
	case counterfoil.PhaseStarted, counterfoil.PhaseCompleted, "":
		return fail(counterfoil.CodeInvalidInput, "a use that is spent starts, a receipt completes it, and the zero event is none", nil)
	}
	return s.commit(ctx, func(t *tx) error { return second(t.append(e.Tenant(), e, s.o.Now())) })
}

func second[T any](_ T, err error) error { return err }

var _ translog.Store = (*Store)(nil)

const selectLogs = `SELECT tenant, (SELECT coalesce(max(place), 0) & 0xffffffffff FROM events
	WHERE place BETWEEN number << 40 AND ((number + 1) << 40) - 1), published, note FROM logs`

func scanState(r rowscan.Scanner) (translog.State, error) {
	var x translog.State
	err := r.Scan(&x.Tenant, &x.Size, &x.Published, &x.Note)
	return x, err
}

// Logs implements translog.Store.
func (s *Store) Logs(ctx context.Context, after string, limit int) ([]translog.State, error) {
	return list(ctx, s, selectLogs+` WHERE tenant > ? ORDER BY tenant LIMIT ?`, []any{after, page(limit)}, scanState)
}

// Log implements translog.Store.
func (s *Store) Log(ctx context.Context, tenant string) (translog.State, error) {
	x, err := scanState(s.read.QueryRowContext(ctx, selectLogs+` WHERE tenant = ?`, tenant))
	if err = readError(err); err != nil {
		if errors.Is(err, gateway.ErrNotFound) {
			err = nil
		}
		return translog.State{}, err
	}
	return x, nil
}

// inLog names the events of a tenant's log after a sequence; its parameters are both.
const inLog = ` FROM logs JOIN events ON place > number << 40 | ?2 AND place < (number + 1) << 40 WHERE tenant = ?1 ORDER BY place LIMIT ?3`

// Events implements translog.Store.
func (s *Store) Events(ctx context.Context, tenant string, after int64, limit int) ([]translog.Event, error) {
	return s.events(ctx, `SELECT place, at, leaf, body`+inLog, tenant, after, limit)
}

// Leaves implements translog.Store.
func (s *Store) Leaves(ctx context.Context, tenant string, after int64, limit int) ([]translog.Event, error) {
	return s.events(ctx, `SELECT place, at, leaf, NULL`+inLog, tenant, after, limit)
}

func (s *Store) events(ctx context.Context, query, tenant string, after int64, limit int) ([]translog.Event, error) {
	if after < 0 || after >= 1<<sequenceBits {
		return nil, nil
	}
	return list(ctx, s, query, []any{tenant, after, page(limit)}, func(r rowscan.Scanner) (translog.Event, error) {
		var e translog.Event
		var at int64
		var leaf []byte
		err := r.Scan(&e.Sequence, &at, &leaf, &e.Body)
		e.Sequence, e.At, e.Leaf = sequence(e.Sequence), rowscan.Instant(at), pad(leaf)
		return e, err
	})
}

// maxPage bounds what one list returns.
const maxPage = 1000

func page(limit int) int { return max(0, min(limit, maxPage)) }

// Find implements translog.Store.
func (s *Store) Find(ctx context.Context, tenant, execution string, phase counterfoil.Phase) (int64, error) {
	var at int64
	var err error
	switch phase { //nolint:exhaustive // the others are found over the events
	case counterfoil.PhaseStarted:
		err = s.get(ctx, `SELECT number FROM executions WHERE tenant = ? AND id = ?`, []any{tenant, execution}, &at)
	case counterfoil.PhaseCompleted:
		err = s.get(ctx, `SELECT settled FROM executions WHERE tenant = ? AND id = ? AND settled IS NOT NULL`, []any{tenant, execution}, &at)
	default:
		err = s.get(ctx, `SELECT place FROM events JOIN logs ON number = place >> 40
			WHERE about = ? AND phase = ? AND phase NOT IN ('started', 'completed') AND tenant = ? ORDER BY place LIMIT 1`,
			[]any{execution, string(phase), tenant}, &at)
	}
	if errors.Is(err, gateway.ErrNotFound) {
		return 0, nil
	}
	return sequence(at), err
}
