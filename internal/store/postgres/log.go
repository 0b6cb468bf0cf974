package postgres

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
	"github.com/counterfoil/counterfoil/internal/translog"
)

const selectState = `SELECT l.tenant, l.sequence, coalesce(c.size, 0), c.note FROM logs l LEFT JOIN checkpoints c ON c.tenant = l.tenant`

func scanState(r rowscan.Scanner) (translog.State, error) {
	var x translog.State
	err := r.Scan(&x.Tenant, &x.Size, &x.Published, &x.Note)
	return x, err
}

// sizes copies what is known of the logs' sizes, to be held against what is read afterwards.
func (s *Store) sizes() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := make(map[string]int64, len(s.seen))
	for tenant, n := range s.seen {
		m[tenant] = n
	}
	return m
}

// Logs implements translog.Store.
func (s *Store) Logs(ctx context.Context, after string, limit int) ([]translog.State, error) {
	seen := s.sizes()
	all, err := list(ctx, s, selectState+` WHERE l.tenant > $1 AND l.sequence > 0 ORDER BY l.tenant LIMIT $2`,
		[]any{after, page(limit)}, scanState)
	if err != nil {
		return nil, err
	}
	heads := map[string]*head{}
	for _, x := range all {
		if x.Size < seen[x.Tenant] {
			return nil, shorter()
		}
		heads[x.Tenant] = &head{sequence: x.Size}
	}
	s.saw(heads)
	return all, nil
}

// Log implements translog.Store.
func (s *Store) Log(ctx context.Context, tenant string) (translog.State, error) {
	seen := s.sizes()[tenant]
	x, err := one(list(ctx, s, selectState+` WHERE l.tenant = $1 AND l.sequence > 0`, []any{tenant}, scanState))
	if err != nil && !errors.Is(err, gateway.ErrNotFound) {
		return translog.State{}, err
	}
	if x.Size < seen {
		return translog.State{}, shorter()
	}
	if x.Size > 0 {
		s.saw(map[string]*head{tenant: {sequence: x.Size}})
	}
	return x, nil
}

func scanEvent(r rowscan.Scanner, more func(*translog.Event) []any) (translog.Event, error) {
	var e translog.Event
	var at int64
	var leaf []byte
	err := r.Scan(append([]any{&e.Sequence, &at, &leaf}, more(&e)...)...)
	e.At = rowscan.Instant(at)
	copy(e.Leaf[:], leaf)
	return e, err
}

// Events implements translog.Store.
func (s *Store) Events(ctx context.Context, tenant string, after int64, limit int) ([]translog.Event, error) {
	return list(ctx, s, `SELECT sequence, at, leaf, body FROM events WHERE tenant = $1 AND sequence > $2 ORDER BY sequence LIMIT $3`,
		[]any{tenant, after, page(limit)}, func(r rowscan.Scanner) (translog.Event, error) {
			return scanEvent(r, func(e *translog.Event) []any { return []any{&e.Body} })
		})
}

// Leaves implements translog.Store.
func (s *Store) Leaves(ctx context.Context, tenant string, after int64, limit int) ([]translog.Event, error) {
	return list(ctx, s, `SELECT sequence, at, leaf FROM events WHERE tenant = $1 AND sequence > $2 ORDER BY sequence LIMIT $3`,
		[]any{tenant, after, page(limit)}, func(r rowscan.Scanner) (translog.Event, error) {
			return scanEvent(r, func(*translog.Event) []any { return nil })
		})
}

// Find implements translog.Store.
func (s *Store) Find(ctx context.Context, tenant, execution string, phase counterfoil.Phase) (int64, error) {
	var sequence int64
	err := s.get(ctx, `SELECT coalesce(min(sequence), 0) FROM events WHERE tenant = $1 AND execution = $2 AND phase = $3`,
		[]any{tenant, execution, string(phase)}, &sequence)
	if errors.Is(err, gateway.ErrNotFound) {
		return 0, nil
	}
	return sequence, err
}

// Publish implements translog.Store.
func (s *Store) Publish(ctx context.Context, p translog.Publication) error {
	if p.Size < 1 || len(p.Note) == 0 {
		return fail(counterfoil.CodeInvalidInput, "the checkpoint is not complete", nil)
	}
	if err := names(p.Tenant); err != nil {
		return err
	}
	for _, x := range p.Tiles {
		if n := len(x.Hashes); n == 0 || n%32 != 0 || n > 256*32 || x.Level < 0 || x.Level > 63 || x.Index < 0 {
			return fail(counterfoil.CodeInvalidInput, "a tile has 1 to 256 hashes, and a place", nil)
		}
	}
	return s.transact(ctx, nil, func(t *tx) error { return t.publish(p) })
}

// publish locks the row of the checkpoint and not the log's head: publishing never makes a call wait.
func (t *tx) publish(p translog.Publication) error {
	if _, err := t.exec(`INSERT INTO checkpoints (tenant) VALUES ($1) ON CONFLICT DO NOTHING`, p.Tenant); err != nil {
		return err
	}
	var size, events int64
	var root []byte
	err := t.get(`SELECT c.size, c.root, coalesce((SELECT sequence FROM logs l WHERE l.tenant = c.tenant), 0)
		FROM checkpoints c WHERE c.tenant = $1 FOR UPDATE OF c`, []any{p.Tenant}, &size, &root, &events)
	if err != nil {
		return err
	}
	switch {
	case p.Size > events:
		return fail(counterfoil.CodeInvalidInput, "the checkpoint has more events than the log", nil)
	case p.Size < size, p.Size == size && !bytes.Equal(p.Root[:], root):
		return translog.ErrStale
	}
	t.exactly(1, `UPDATE checkpoints SET size = $2, root = $3, note = $4 WHERE tenant = $1`, p.Tenant, p.Size, p.Root[:], p.Note)
	if len(p.Tiles) == 0 {
		return nil
	}
	levels, indexes := make([]int64, 0, len(p.Tiles)), make([]int64, 0, len(p.Tiles))
	hashes := make([][]byte, 0, len(p.Tiles))
	for _, x := range p.Tiles {
		levels, indexes, hashes = append(levels, int64(x.Level)), append(indexes, x.Index), append(hashes, x.Hashes)
	}
	t.later(`INSERT INTO tiles (tenant, level, index, hashes)
		SELECT $1, level, index, hashes FROM unnest($2::bigint[], $3::bigint[], $4::bytea[]) AS k (level, index, hashes)
		ON CONFLICT (tenant, level, index) DO UPDATE SET hashes = excluded.hashes
		WHERE tiles.hashes = substring(excluded.hashes FROM 1 FOR octet_length(tiles.hashes))`, p.Tenant, levels, indexes, hashes)
	return nil
}

// Tiles implements translog.Store.
func (s *Store) Tiles(ctx context.Context, tenant string, ids []translog.TileID) ([]translog.Tile, error) {
	levels, indexes := make([]int64, 0, len(ids)), make([]int64, 0, len(ids))
	for _, id := range ids {
		levels, indexes = append(levels, int64(id.Level)), append(indexes, id.Index)
	}
	return list(ctx, s, `SELECT t.level, t.index, t.hashes
		FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY AS k (level, index, n)
		JOIN tiles t ON t.tenant = $1 AND t.level = k.level AND t.index = k.index ORDER BY k.n`,
		[]any{tenant, levels, indexes}, func(r rowscan.Scanner) (translog.Tile, error) {
			var x translog.Tile
			err := r.Scan(&x.Level, &x.Index, &x.Hashes)
			return x, err
		})
}

// Retire implements translog.Store. Bodies go in the order of the log, so that the next call knows where to go on.
func (s *Store) Retire(ctx context.Context, tenant string, before, now time.Time, limit int) (int, error) {
	if before.IsZero() || now.IsZero() {
		return 0, fail(counterfoil.CodeInvalidInput, "retention has an instant", nil)
	}
	var emptied int64
	err := s.transact(ctx, nil, func(t *tx) (err error) {
		emptied, err = t.retire(tenant, before, now, page(limit))
		return err
	})
	if errors.Is(err, gateway.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return int(emptied), nil
}

func (t *tx) retire(tenant string, before, now time.Time, limit int) (int64, error) {
	var size, from int64
	if err := t.get(`SELECT size, retired FROM checkpoints WHERE tenant = $1 FOR UPDATE`, []any{tenant}, &size, &from); err != nil {
		return 0, err
	}
	to := min(size, from+int64(limit))
	emptied, err := t.exec(`UPDATE events SET body = NULL WHERE tenant = $1 AND sequence > $2 AND sequence <= $3 AND at < $4`,
		tenant, from, to, rowscan.Millis(before))
	if err != nil {
		return 0, err
	}
	if emptied > 0 {
		t.exactly(1, `UPDATE checkpoints SET retired = $2 WHERE tenant = $1`, tenant, from+emptied)
	}
	if _, err := t.exec(`WITH gone AS (
			SELECT r.tenant, r.sequence FROM receipts r JOIN executions e ON e.tenant = r.tenant AND e.sequence = r.sequence
			WHERE r.tenant = $1 AND r.body IS NOT NULL AND r.completed < $2 AND e.expires <= $3),
		emptied AS (UPDATE executions e SET approved = NULL, dry_run = NULL, policy = NULL, operation = NULL
			FROM gone WHERE e.tenant = gone.tenant AND e.sequence = gone.sequence)
		UPDATE receipts r SET body = NULL FROM gone WHERE r.tenant = gone.tenant AND r.sequence = gone.sequence`,
		tenant, rowscan.Millis(before), rowscan.Millis(now)); err != nil {
		return 0, err
	}
	return emptied, nil
}
