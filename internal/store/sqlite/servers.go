package sqlite

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
	row, err := rowscan.Server(s.read.QueryRowContext(ctx, selectServer+` WHERE tenant = ? AND id = ?`, tenant, id))
	if err != nil {
		return gateway.ServerRow{}, readError(err)
	}
	return row, nil
}

// Servers implements gateway.Servers. The newest seen comes first.
func (s *Store) Servers(ctx context.Context, tenant string) ([]gateway.ServerRow, error) {
	return list(ctx, s, selectServer+` WHERE tenant = ? ORDER BY seen DESC, id LIMIT ?`, []any{tenant, maxPage}, rowscan.Server)
}

// SeeServer implements gateway.Servers.
func (s *Store) SeeServer(ctx context.Context, row gateway.ServerRow) (gateway.ServerRow, error) {
	if err := named(row.Tenant, row.ID); err != nil {
		return gateway.ServerRow{}, err
	}
	if row.Identity == nil || row.Tools == nil {
		return gateway.ServerRow{}, fail(counterfoil.CodeInvalidInput, "the server's record is not complete", nil)
	}
	var out gateway.ServerRow
	err := s.commit(ctx, func(t *tx) error {
		known, err := t.server(row.Tenant, row.ID)
		if err != nil && !errors.Is(err, gateway.ErrNotFound) {
			return err
		}
		pins, err := gateway.MergePins(known.Pins, row.Pins)
		if err != nil {
			return err
		}
		if _, err := t.exec(`INSERT INTO servers (tenant, id, name, identity, tools, pins, seen) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (tenant, id) DO UPDATE SET name = excluded.name, tools = excluded.tools, pins = excluded.pins, seen = excluded.seen`,
			row.Tenant, row.ID, row.Name, row.Identity, row.Tools, pins, rowscan.Millis(row.SeenAt)); err != nil {
			return err
		}
		out, err = t.server(row.Tenant, row.ID)
		return err
	})
	if err != nil {
		return gateway.ServerRow{}, err
	}
	return out, nil
}

func (t *tx) server(tenant, id string) (gateway.ServerRow, error) {
	found, err := rows(t, selectServer+` WHERE tenant = ? AND id = ?`, []any{tenant, id}, rowscan.Server)
	if err != nil {
		return gateway.ServerRow{}, err
	}
	if len(found) == 0 {
		return gateway.ServerRow{}, gateway.ErrNotFound
	}
	return found[0], nil
}

// ClassifyServer implements gateway.Servers.
func (s *Store) ClassifyServer(ctx context.Context, row gateway.ServerRow, e counterfoil.Event) error {
	if len(row.Classes) == 0 || len(row.Decision) == 0 || len(row.Pins) == 0 {
		return fail(counterfoil.CodeInvalidInput, "a classification has classes, pins and a decision", nil)
	}
	if err := gateway.CheckPins(row.Pins); err != nil {
		return err
	}
	return s.commit(ctx, func(t *tx) error {
		n, err := t.exec(`UPDATE servers SET classes = ?, decision = ?, pins = ? WHERE tenant = ? AND id = ?`,
			row.Classes, row.Decision, row.Pins, row.Tenant, row.ID)
		if err != nil {
			return err
		}
		if n == 0 {
			return gateway.ErrNotFound
		}
		return second(t.append(row.Tenant, e, s.o.Now()))
	})
}
