package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// maxTile is a full tile's size in bytes.
const maxTile = 256 * sha256.Size

// Publish implements translog.Store.
func (s *Store) Publish(ctx context.Context, p translog.Publication) error {
	if p.Tenant == "" || p.Size < 1 || len(p.Note) == 0 {
		return fail(counterfoil.CodeInvalidInput, "the checkpoint is not complete", nil)
	}
	for _, tile := range p.Tiles {
		if n := len(tile.Hashes); tile.Level < 0 || tile.Index < 0 || n == 0 || n > maxTile || n%sha256.Size != 0 {
			return fail(counterfoil.CodeInvalidInput, "a tile has between 1 and 256 hashes, and a place in the tree", nil)
		}
	}
	return s.commit(ctx, func(t *tx) error { return t.publish(p) })
}

func (t *tx) publish(p translog.Publication) error {
	h, err := t.head(p.Tenant)
	if err != nil {
		return err
	}
	if p.Size > h.sequence {
		return fail(counterfoil.CodeInvalidInput, "the checkpoint is of a larger log than there is", nil)
	}
	var published int64
	var root []byte
	if err := t.get(`SELECT published, root FROM logs WHERE number = ?`, []any{h.log}, &published, &root); err != nil {
		return err
	}
	if p.Size < published || p.Size == published && !bytes.Equal(root, p.Root[:]) {
		return translog.ErrStale
	}
	if _, err := t.exec(`UPDATE logs SET published = ?, root = ?, note = ? WHERE number = ?`, p.Size, p.Root[:], p.Note, h.log); err != nil {
		return err
	}
	for _, tile := range p.Tiles {
		if _, err := t.exec(`INSERT INTO tiles (log, level, idx, hashes) VALUES (?, ?, ?, ?)
			ON CONFLICT (log, level, idx) DO UPDATE SET hashes = excluded.hashes
			WHERE hashes = substr(excluded.hashes, 1, length(hashes))`,
			h.log, tile.Level, tile.Index, tile.Hashes); err != nil {
			return err
		}
	}
	return nil
}

// Tiles implements translog.Store.
func (s *Store) Tiles(ctx context.Context, tenant string, ids []translog.TileID) ([]translog.Tile, error) {
	var out []translog.Tile
	for _, id := range ids {
		tile := translog.Tile{TileID: id}
		err := s.get(ctx, `SELECT hashes FROM logs JOIN tiles ON log = number WHERE tenant = ? AND level = ? AND idx = ?`,
			[]any{tenant, id.Level, id.Index}, &tile.Hashes)
		switch {
		case err == nil:
			out = append(out, tile)
		case !errors.Is(err, gateway.ErrNotFound):
			return nil, err
		}
	}
	return out, nil
}

// Retire implements translog.Store. Executions whose approvals have not ended keep their documents until a later call.
func (s *Store) Retire(ctx context.Context, tenant string, before, now time.Time, limit int) (int, error) {
	limit = page(limit)
	if limit == 0 {
		return 0, nil
	}
	for {
		emptied, dropped := 0, 0
		err := s.commit(ctx, func(t *tx) (err error) {
			if emptied, err = t.retireEvents(tenant, before, limit); err != nil {
				return err
			}
			dropped, err = t.retireDocuments(tenant, before, now, limit)
			return err
		})
		if err != nil {
			return 0, err
		}
		// Nobody comes back after 0: then all documents go now.
		if emptied > 0 || dropped < limit {
			return emptied, nil
		}
	}
}

// retireEvents empties the oldest that have a body, in their order: their times never decrease.
func (t *tx) retireEvents(tenant string, before time.Time, limit int) (int, error) {
	var log, first, last int64
	err := t.get(`SELECT number, retired + 1, min(published, retired + ?) FROM logs WHERE tenant = ?`, []any{limit, tenant}, &log, &first, &last)
	if errors.Is(err, gateway.ErrNotFound) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	err = t.get(`SELECT coalesce(max(place), 0) FROM events WHERE place BETWEEN ? AND ? AND at < ?`,
		[]any{place(log, first), place(log, last), rowscan.Millis(before)}, &last)
	if err != nil || last == 0 {
		return 0, err
	}
	if _, err := t.exec(`UPDATE events SET body = NULL WHERE place BETWEEN ? AND ?`, place(log, first), last); err != nil {
		return 0, err
	}
	_, err = t.exec(`UPDATE logs SET retired = ? WHERE number = ?`, sequence(last), log)
	return int(sequence(last) - first + 1), err
}

// retireDocuments drops those of executions whose started events are empty.
func (t *tx) retireDocuments(tenant string, before, now time.Time, limit int) (int, error) {
	numbers, err := rows(t, `SELECT d.number FROM logs l JOIN documents d ON d.number BETWEEN l.number << 40 AND l.number << 40 | l.retired
		JOIN executions e ON e.number = d.number WHERE l.tenant = ? AND e.completed < ? AND e.expires <= ? ORDER BY d.number LIMIT ?`,
		[]any{tenant, rowscan.Millis(before), rowscan.Millis(now), limit}, func(r rowscan.Scanner) (int64, error) {
			var n int64
			err := r.Scan(&n)
			return n, err
		})
	if err != nil {
		return 0, err
	}
	for _, n := range numbers {
		for _, statement := range []string{`DELETE FROM documents WHERE number = ?`, `DELETE FROM receipts WHERE number = ?`} {
			if _, err := t.exec(statement, n); err != nil {
				return 0, err
			}
		}
	}
	return len(numbers), nil
}
