// Package rowscan reads what both stores keep alike, out of a row of either. The columns that it names are in both schemas.
package rowscan

import (
	"time"

	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/hooks"
	"github.com/counterfoil/counterfoil/internal/idempotency"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
	"github.com/counterfoil/counterfoil/internal/tenancy"
	"github.com/counterfoil/counterfoil/internal/vault"
)

// A Scanner is a row.
type Scanner interface{ Scan(dest ...any) error }

// Millis is how a time is kept: in milliseconds since 1970, 0 for none.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Instant reads what Millis wrote.
func Instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// One reads a row of one column.
func One[T any](r Scanner) (v T, err error) {
	err = r.Scan(&v)
	return v, err
}

// ServerColumns are what Server reads.
const ServerColumns = `tenant, id, name, identity, tools, pins, classes, decision, seen`

// Server reads a row of servers.
func Server(r Scanner) (gateway.ServerRow, error) {
	var x gateway.ServerRow
	var seen int64
	err := r.Scan(&x.Tenant, &x.ID, &x.Name, &x.Identity, &x.Tools, &x.Pins, &x.Classes, &x.Decision, &seen)
	x.SeenAt = Instant(seen)
	return x, err
}

// TenantColumns are what Tenant reads, of tenants and its mark.
const TenantColumns = `id, created, body, value`

// Tenant reads a row of tenants with its epoch.
func Tenant(r Scanner) (tenancy.Record, error) {
	var x tenancy.Record
	var created int64
	err := r.Scan(&x.ID, &created, &x.Body, &x.Epoch)
	x.Created = Instant(created)
	return x, err
}

// HookColumns are what Hook reads.
const HookColumns = `tenant, id, phase, version, body, secret`

// Hook reads a row of hooks.
func Hook(r Scanner) (hooks.Row, error) {
	var x hooks.Row
	var phase string
	err := r.Scan(&x.Tenant, &x.ID, &phase, &x.Version, &x.Body, &x.Secret)
	x.Phase = hooks.Phase(phase)
	return x, err
}

// RepeatColumns are what Repeat reads.
const RepeatColumns = `tenant, id, principal, body, running, answer, until`

// Repeat reads a row of idempotency.
func Repeat(r Scanner) (idempotency.Row, error) {
	var x idempotency.Row
	var until int64
	err := r.Scan(&x.Tenant, &x.ID, &x.Principal, &x.Body, &x.Running, &x.Answer, &until)
	x.Until = Instant(until)
	return x, err
}

// RateColumns are what Rate reads.
const RateColumns = `tenant, principal, kind, tool, until, state`

// Rate reads a row of rates.
func Rate(r Scanner) (ratelimit.Row, error) {
	var x ratelimit.Row
	var kind string
	var until int64
	err := r.Scan(&x.Key.Tenant, &x.Key.Principal, &kind, &x.Key.Tool, &until, &x.State)
	x.Key.Kind, x.Until = ratelimit.Kind(kind), Instant(until)
	return x, err
}

// Secret reads tenant, name, version, created, value and metadata of a secret's version.
func Secret(r Scanner) (vault.SecretRow, error) {
	var x vault.SecretRow
	var created int64
	err := r.Scan(&x.Tenant, &x.Name, &x.Version, &created, &x.Value, &x.Metadata)
	x.Created = Instant(created)
	return x, err
}

// VaultKey reads id, proof and created of a vault's key.
func VaultKey(r Scanner) (vault.KeyRecord, error) {
	var x vault.KeyRecord
	var created int64
	err := r.Scan(&x.ID, &x.Proof, &created)
	x.Created = Instant(created)
	return x, err
}

// UserColumns are what UserRow reads.
const UserColumns = `tenant, name, scopes, groups, disabled, created, changed, password, version`

// UserRow reads a row of users.
func UserRow(r Scanner) (credential.UserRow, error) {
	var u credential.UserRow
	var scopes, groups string
	var created, changed int64
	err := r.Scan(&u.Tenant, &u.Name, &scopes, &groups, &u.Disabled, &created, &changed, &u.Password, &u.Version)
	u.Scopes, u.Groups = credential.SplitNames(scopes), credential.SplitNames(groups)
	u.Created, u.Changed = Instant(created), Instant(changed)
	return u, err
}

// User reads a row of users without its password.
func User(r Scanner) (credential.User, error) {
	u, err := UserRow(r)
	return u.User, err
}

// KeyColumns are what a Key reads, of api_keys as k.
const KeyColumns = `k.id, k.tenant, k.subject, k.kind, k.owner, k.scopes, k.label, k.created, k.created_by, k.expires, k.last_used, k.successor`

// A KeyScan reads KeyColumns, and what else a query has behind them.
type KeyScan struct {
	key                      credential.Key
	kind, scopes             string
	created, expires, lastAt int64
}

// Dest returns where a row's columns go.
func (x *KeyScan) Dest(more ...any) []any {
	k := &x.key
	return append([]any{
		&k.ID, &k.Tenant, &k.Subject, &x.kind, &k.Owner, &x.scopes, &k.Label, &x.created, &k.CreatedBy, &x.expires, &x.lastAt, &k.Successor,
	}, more...)
}

// Key returns what was read.
func (x *KeyScan) Key() credential.Key {
	k := x.key
	k.Kind, k.Scopes = identity.Kind(x.kind), credential.SplitNames(x.scopes)
	k.Created, k.Expires, k.LastUsed = Instant(x.created), Instant(x.expires), Instant(x.lastAt)
	return k
}

// Key reads a row of KeyColumns alone.
func Key(r Scanner) (credential.Key, error) {
	var x KeyScan
	err := r.Scan(x.Dest()...)
	return x.Key(), err
}
