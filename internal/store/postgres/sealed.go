package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/hooks"
	"github.com/counterfoil/counterfoil/internal/idempotency"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
	"github.com/counterfoil/counterfoil/internal/vault"
)

// A sealedPlace is a column of sealed values, and how a row of it says the label that they were sealed under. The tenant and the
// number are the table's key.
type sealedPlace struct {
	name, table, number, column string
	kind, title, version        string // of labels: the kind as text, the others as expressions
}

// sealedPlaces are all columns with sealed values. A table that gets one is named here, or a rotation of keys would lose
// what is in it.
func sealedPlaces() []sealedPlace {
	return []sealedPlace{
		{"request", "requests", "number", "details", vault.KindRequest, "id", "'1'"},
		{"answer", "requests", "number", "answer", vault.KindAnswer, "id", "'1'"},
		{"operation", "executions", "sequence", "operation", vault.KindOperation, "id", "'1'"},
		{"secret", "vault_values", "number", "value", vault.KindSecret, "name", "version::text"},
		{"metadata", "vault_values", "number", "metadata", vault.KindMetadata, "name", "version::text"},
		{"hook", "hooks", "number", "secret", hooks.SealKind, "id", "'1'"},
		{"idempotency", "idempotency", "number", "answer", idempotency.SealKind, "id", "'1'"},
	}
}

// Sealed implements vault.Records. A page is of one place.
func (s *Store) Sealed(ctx context.Context, except, from string, limit int) (vault.SealedPage, error) {
	places := sealedPlaces()
	at, number, tenant, ok := parseSealedFrom(from)
	if !ok || at >= len(places) || limit < 1 || texts(tenant) != nil {
		return vault.SealedPage{}, fail(counterfoil.CodeInvalidInput, "there is no such page of sealed values", nil)
	}
	p := places[at]
	limit = page(limit)
	prefix := []byte("cf1." + except + ".")
	found, err := list(ctx, s, `SELECT tenant, `+p.number+`, `+p.title+`, `+p.version+`,
			CASE WHEN substring(`+p.column+` FROM 1 FOR $3) <> $4 THEN `+p.column+` END
		FROM `+p.table+` WHERE (tenant, `+p.number+`) > ($1, $2) ORDER BY tenant, `+p.number+` LIMIT $5`,
		[]any{tenant, number, len(prefix), prefix, limit}, func(r rowscan.Scanner) (vault.SealedRow, error) {
			x := vault.SealedRow{Place: p.name, Label: vault.Label{Kind: p.kind}}
			err := r.Scan(&x.Label.Tenant, &x.Number, &x.Label.Name, &x.Label.Version, &x.Sealed)
			return x, err
		})
	if err != nil {
		return vault.SealedPage{}, err
	}
	out := vault.SealedPage{Looked: len(found)}
	for _, x := range found {
		if len(x.Sealed) > 0 {
			out.Rows = append(out.Rows, x)
		}
	}
	switch {
	case len(found) == limit:
		last := found[len(found)-1]
		out.Next = fmt.Sprintf("%d/%d/%s", at, last.Number, last.Label.Tenant)
	case at+1 < len(places):
		out.Next = fmt.Sprintf("%d/0/", at+1)
	}
	return out, nil
}

// parseSealedFrom reads which place is looked at, and behind which row.
func parseSealedFrom(from string) (place int, number int64, tenant string, ok bool) {
	if from == "" {
		return 0, 0, "", true
	}
	first, rest, _ := strings.Cut(from, "/")
	second, tenant, _ := strings.Cut(rest, "/")
	place, err := strconv.Atoi(first)
	if err != nil || place < 0 {
		return 0, 0, "", false
	}
	number, err = strconv.ParseInt(second, 10, 64)
	return place, number, tenant, err == nil && number >= 0
}

// Reseal implements vault.Records.
func (s *Store) Reseal(ctx context.Context, rows []vault.Resealed) (int, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	done := 0
	err := s.transact(ctx, nil, func(t *tx) error {
		done = 0
		for _, r := range rows {
			n, err := t.reseal(r)
			if err != nil {
				return err
			}
			done += int(n)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return done, nil
}

func (t *tx) reseal(r vault.Resealed) (int64, error) {
	for _, p := range sealedPlaces() {
		if p.name == r.Place && len(r.New) > 0 {
			return t.exec(`UPDATE `+p.table+` SET `+p.column+` = $1 WHERE tenant = $2 AND `+p.number+` = $3 AND `+p.column+` = $4`,
				r.New, r.Label.Tenant, r.Number, r.Sealed)
		}
	}
	return 0, fail(counterfoil.CodeInvalidInput, "there is no such place of sealed values", nil)
}

// VaultKeys implements vault.Records.
func (s *Store) VaultKeys(ctx context.Context) ([]vault.KeyRecord, error) {
	return list(ctx, s, `SELECT id, proof, created FROM vault_keys ORDER BY number`, nil, rowscan.VaultKey)
}

// AddVaultKey implements vault.Records.
func (s *Store) AddVaultKey(ctx context.Context, r vault.KeyRecord) error {
	if err := names(r.ID); err != nil {
		return err
	}
	return s.transact(ctx, nil, func(t *tx) error {
		_, err := t.exec(`INSERT INTO vault_keys (id, proof, created) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, r.ID, r.Proof, rowscan.Millis(r.Created))
		return err
	})
}

// DropVaultKey implements vault.Records.
func (s *Store) DropVaultKey(ctx context.Context, id string) error {
	return s.transact(ctx, nil, func(t *tx) error {
		_, err := t.exec(`DELETE FROM vault_keys WHERE id = $1`, id)
		return err
	})
}
