package sqlite

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

// A sealedPlace is a column of sealed values, and how a row of it says the label that they were sealed under.
type sealedPlace struct {
	name, table, number, column  string // number is the table's integer key
	from                         string // the table, with what it has to be joined with
	kind, tenant, title, version string // of labels, as expressions; the kind as text
}

// sealedPlaces are all columns with sealed values. A table that gets one is named here, or a rotation of keys would lose
// what is in it.
func sealedPlaces() []sealedPlace {
	documents := `documents JOIN executions ON executions.number = documents.number`
	return []sealedPlace{
		{"request", "requests", "requests.number", "details", `requests`, vault.KindRequest, "tenant", "id", "'1'"},
		{"answer", "requests", "requests.number", "answer", `requests`, vault.KindAnswer, "tenant", "id", "'1'"},
		{"operation", "documents", "documents.number", "operation", documents, vault.KindOperation, "tenant", "id", "'1'"},
		{"secret", "vault_values", "vault_values.number", "value", `vault_values`, vault.KindSecret, "tenant", "name", "CAST(version AS TEXT)"},
		{"metadata", "vault_values", "vault_values.number", "metadata", `vault_values`, vault.KindMetadata, "tenant", "name", "CAST(version AS TEXT)"},
		{"hook", "hooks", "hooks.number", "secret", `hooks`, hooks.SealKind, "tenant", "id", "'1'"},
		{"idempotency", "idempotency", "idempotency.number", "answer", `idempotency`, idempotency.SealKind, "tenant", "id", "'1'"},
	}
}

// Sealed implements vault.Records. A page is of one place.
func (s *Store) Sealed(ctx context.Context, except, from string, limit int) (vault.SealedPage, error) {
	places := sealedPlaces()
	at, number, ok := parseSealedFrom(from)
	if !ok || at >= len(places) || limit < 1 {
		return vault.SealedPage{}, fail(counterfoil.CodeInvalidInput, "there is no such page of sealed values", nil)
	}
	p := places[at]
	prefix := []byte("cf1." + except + ".")
	limit = min(limit, maxPage)
	looked := 0
	found, err := list(ctx, s, `SELECT `+p.number+`, `+p.tenant+`, `+p.title+`, `+p.version+`,
			CASE WHEN substr(`+p.column+`, 1, ?2) <> ?3 THEN `+p.column+` END
		FROM `+p.from+` WHERE `+p.number+` > ?1 ORDER BY `+p.number+` LIMIT ?4`, []any{number, len(prefix), prefix, limit},
		func(r rowscan.Scanner) (vault.SealedRow, error) {
			x := vault.SealedRow{Place: p.name, Label: vault.Label{Kind: p.kind}}
			err := r.Scan(&x.Number, &x.Label.Tenant, &x.Label.Name, &x.Label.Version, &x.Sealed)
			looked, number = looked+1, x.Number
			return x, err
		})
	if err != nil {
		return vault.SealedPage{}, err
	}
	page := vault.SealedPage{Looked: looked}
	for _, x := range found {
		if len(x.Sealed) > 0 {
			page.Rows = append(page.Rows, x)
		}
	}
	switch {
	case looked == limit:
		page.Next = fmt.Sprintf("%d/%d", at, number)
	case at+1 < len(places):
		page.Next = fmt.Sprintf("%d/0", at+1)
	}
	return page, nil
}

// parseSealedFrom reads which place is looked at, and behind which row.
func parseSealedFrom(from string) (place int, number int64, ok bool) {
	if from == "" {
		return 0, 0, true
	}
	first, second, _ := strings.Cut(from, "/")
	place, err := strconv.Atoi(first)
	if err != nil || place < 0 {
		return 0, 0, false
	}
	number, err = strconv.ParseInt(second, 10, 64)
	return place, number, err == nil && number >= 0
}

// Reseal implements vault.Records.
func (s *Store) Reseal(ctx context.Context, rows []vault.Resealed) (int, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	done := 0
	err := s.commit(ctx, func(t *tx) error {
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
			return t.exec(`UPDATE `+p.table+` SET `+p.column+` = ? WHERE number = ? AND `+p.column+` = ?`, r.New, r.Number, r.Sealed)
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
	if err := named(r.ID); err != nil {
		return err
	}
	return s.commit(ctx, func(t *tx) error {
		return second(t.exec(`INSERT INTO vault_keys (id, proof, created) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, r.ID, r.Proof, rowscan.Millis(r.Created)))
	})
}

// DropVaultKey implements vault.Records.
func (s *Store) DropVaultKey(ctx context.Context, id string) error {
	return s.commit(ctx, func(t *tx) error { return second(t.exec(`DELETE FROM vault_keys WHERE id = ?`, id)) })
}
