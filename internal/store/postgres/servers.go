package postgres

import (
	"context"
	"errors"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

const selectServer = `SELECT ` + rowscan.ServerColumns + ` FROM servers`

// Server implements gateway.Servers.
func (s *Store) Server(ctx context.Context, tenant, id string) (gateway.ServerRow, error) {
	return one(list(ctx, s, selectServer+` WHERE tenant = $1 AND id = $2`, []any{tenant, id}, rowscan.Server))
}

// Servers implements gateway.Servers. The newest seen comes first.
func (s *Store) Servers(ctx context.Context, tenant string) ([]gateway.ServerRow, error) {
	return list(ctx, s, selectServer+` WHERE tenant = $1 ORDER BY seen DESC, id LIMIT $2`, []any{tenant, maxPage}, rowscan.Server)
}

// SeeServer implements gateway.Servers.
func (s *Store) SeeServer(ctx context.Context, row gateway.ServerRow) (gateway.ServerRow, error) {
	if row.Identity == nil || row.Tools == nil {
		return gateway.ServerRow{}, fail(counterfoil.CodeInvalidInput, "the server's record is not complete", nil)
	}
	if err := errors.Join(names(row.Tenant, row.ID), texts(row.Name)); err != nil {
		return gateway.ServerRow{}, err
	}
	var out gateway.ServerRow
	err := s.transact(ctx, nil, func(t *tx) (err error) {
		out, err = t.see(row)
		return err
	})
	if err != nil {
		return gateway.ServerRow{}, err
	}
	return out, nil
}

// see makes the row first, so that there is something to lock.
func (t *tx) see(row gateway.ServerRow) (gateway.ServerRow, error) {
	pins, err := gateway.MergePins(nil, row.Pins)
	if err != nil {
		return row, err
	}
	if _, err := t.exec(`INSERT INTO servers (tenant, id, name, identity, tools, pins, seen) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT DO NOTHING`, row.Tenant, row.ID, row.Name, row.Identity, row.Tools, pins, rowscan.Millis(row.SeenAt)); err != nil {
		return row, err
	}
	known, err := one(rows(t, selectServer+` WHERE tenant = $1 AND id = $2 FOR UPDATE`, []any{row.Tenant, row.ID}, rowscan.Server))
	if err != nil {
		return row, err
	}
	if pins, err = gateway.MergePins(known.Pins, row.Pins); err != nil {
		return row, err
	}
	if _, err := t.exec(`UPDATE servers SET name = $3, tools = $4, pins = $5, seen = $6 WHERE tenant = $1 AND id = $2`,
		row.Tenant, row.ID, row.Name, row.Tools, pins, rowscan.Millis(row.SeenAt)); err != nil {
		return row, err
	}
	known.Name, known.Tools, known.Pins, known.SeenAt = row.Name, row.Tools, pins, rowscan.Instant(rowscan.Millis(row.SeenAt))
	return known, nil
}

// ClassifyServer implements gateway.Servers.
func (s *Store) ClassifyServer(ctx context.Context, row gateway.ServerRow, e counterfoil.Event) error {
	if len(row.Classes) == 0 || len(row.Decision) == 0 || len(row.Pins) == 0 {
		return fail(counterfoil.CodeInvalidInput, "a classification has classes, pins and a decision", nil)
	}
	if err := gateway.CheckPins(row.Pins); err != nil {
		return err
	}
	if _, err := s.Server(ctx, row.Tenant, row.ID); err != nil { // no log is made for a tenant that isn't there
		return err
	}
	return s.transactIn(ctx, row.Tenant, func(t *tx) error {
		n, err := t.exec(`UPDATE servers SET classes = $1, decision = $2, pins = $3 WHERE tenant = $4 AND id = $5`,
			row.Classes, row.Decision, row.Pins, row.Tenant, row.ID)
		if err != nil {
			return err
		}
		if n == 0 {
			return gateway.ErrNotFound
		}
		return t.append(row.Tenant, e, s.o.Now())
	})
}
