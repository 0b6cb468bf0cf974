package vault

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/counterfoil/counterfoil"
)

// Kinds of sealed values, as their labels name them. The values of one kind are opened by nobody who asks for another.
const (
	KindSecret    = "secret"
	KindMetadata  = "secret-metadata"
	KindRequest   = "request"
	KindAnswer    = "answer"
	KindOperation = "operation"

	kindProof = "vault-key"
)

// SecretsOptions are what Secrets are made of. Every field is required.
type SecretsOptions struct {
	Vault    *Vault
	Store    SecretStore
	Names    *counterfoil.Pseudonyms
	Audience string
	Now      func() time.Time
	Rand     io.Reader // names the events; cryptographic
}

// Secrets are the tenants' secrets. No method returns a value in the clear but [Secrets.Fill], for the transport. It is safe for concurrent
// use.
type Secrets struct{ o SecretsOptions }

// NewSecrets returns the secrets of a store.
func NewSecrets(o SecretsOptions) (*Secrets, error) {
	if o.Vault == nil || o.Store == nil || o.Names == nil || o.Audience == "" || o.Now == nil || o.Rand == nil {
		return nil, fail(counterfoil.CodeInvalidInput, "secrets need a vault, a store, pseudonyms, an audience, a clock and randomness", nil)
	}
	return &Secrets{o}, nil
}

// A Version is one version of a secret, as lists tell it.
type Version struct {
	Name     string
	Number   int64
	Created  time.Time
	Metadata []byte // what was stored with it; nil for none
}

const maxName = 128

// CheckName reports whether a secret can have the name: 1 to 128 of A-Z, a-z, 0-9, "_", "-" and ".", the first a letter or
// digit.
func CheckName(name string) error {
	if name == "" || len(name) > maxName || !isNameByte(name[0]) || name[0] == '_' || name[0] == '-' || name[0] == '.' {
		return badName()
	}
	for i := range len(name) {
		if !isNameByte(name[i]) {
			return badName()
		}
	}
	return nil
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.'
}

func badName() error {
	return fail(counterfoil.CodeInvalidInput, "a secret's name has 1 to 128 letters, digits, _, - and ., and begins with a letter or digit", nil)
}

// attempts bounds how often a version is tried for that others are before.
const attempts = 100

// Put stores a new version of a secret, or the first, and returns its number. by is who does it.
func (s *Secrets) Put(ctx context.Context, by, tenant, name string, v Value, metadata []byte) (int64, error) {
	if err := CheckName(name); err != nil {
		return 0, err
	}
	if msg := fault(v.bytes()); msg != "" {
		return 0, fail(counterfoil.CodeInvalidInput, msg, nil)
	}
	if len(metadata) > MaxMetadata {
		return 0, fail(counterfoil.CodeInvalidInput, "a secret's metadata has at most 16384 bytes", nil)
	}
	e, err := s.event(tenant, by, "store/secret")
	if err != nil {
		return 0, err
	}
	for range attempts {
		last, err := s.o.Store.LastVersion(ctx, tenant, name)
		if err != nil {
			return 0, err
		}
		r, err := s.seal(tenant, name, last+1, v, metadata)
		if err != nil {
			return 0, err
		}
		if err = s.o.Store.AddSecret(ctx, r, e); err == nil {
			return r.Version, nil
		} else if !errors.Is(err, ErrChanged) {
			return 0, err
		}
	}
	return 0, fail(counterfoil.CodeUnavailable, "too many store this secret at once; nothing was recorded", ErrChanged)
}

// Import stores what a Fernet token of another system holds, as [Secrets.Put] does. The token itself is not kept.
func (s *Secrets) Import(ctx context.Context, by, tenant, name string, token []byte, k *FernetKey, metadata []byte) (int64, error) {
	plain, err := k.Open(token)
	if err != nil {
		return 0, err
	}
	return s.Put(ctx, by, tenant, name, newValue(plain), metadata)
}

func (s *Secrets) seal(tenant, name string, version int64, v Value, metadata []byte) (SecretRow, error) {
	r := SecretRow{Tenant: tenant, Name: name, Version: version, Created: s.o.Now().UTC().Truncate(time.Millisecond)}
	value, err := s.o.Vault.Seal(versionLabel(KindSecret, tenant, name, version), v.bytes())
	if err != nil {
		return r, err
	}
	sealed, err := s.o.Vault.Seal(versionLabel(KindMetadata, tenant, name, version), metadata)
	r.Value, r.Metadata = value, sealed
	return r, err
}

func versionLabel(kind, tenant, name string, version int64) Label {
	return Label{Tenant: tenant, Kind: kind, Name: name, Version: strconv.FormatInt(version, 10)}
}

// List returns the highest version left of each secret behind the name given, at most limit of them, by name.
func (s *Secrets) List(ctx context.Context, tenant, after string, limit int) ([]Version, error) {
	rows, err := s.o.Store.Secrets(ctx, tenant, after, limit)
	if err != nil {
		return nil, err
	}
	return s.versions(ctx, tenant, rows)
}

// Versions returns the versions of a secret, newest first. ErrNotFound if there is none.
func (s *Secrets) Versions(ctx context.Context, tenant, name string) ([]Version, error) {
	if err := CheckName(name); err != nil {
		return nil, ErrNotFound
	}
	rows, err := s.o.Store.SecretVersions(ctx, tenant, name)
	if err == nil && len(rows) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return s.versions(ctx, tenant, rows)
}

func (s *Secrets) versions(ctx context.Context, tenant string, rows []SecretRow) ([]Version, error) {
	out := make([]Version, len(rows))
	for i, r := range rows {
		metadata, err := s.open(ctx, versionLabel(KindMetadata, tenant, r.Name, r.Version), r.Metadata)
		if err != nil {
			return nil, err
		}
		out[i] = Version{Name: r.Name, Number: r.Version, Created: r.Created, Metadata: metadata}
	}
	return out, nil
}

// Delete removes one version of a secret, or all of them for 0. Its numbers are not used again.
func (s *Secrets) Delete(ctx context.Context, by, tenant, name string, version int64) error {
	if CheckName(name) != nil || version < 0 {
		return ErrNotFound
	}
	e, err := s.event(tenant, by, "delete/secret")
	if err != nil {
		return err
	}
	return s.o.Store.DeleteSecret(ctx, tenant, name, version, e)
}

// value reads a version in the clear; 0 is the last.
func (s *Secrets) value(ctx context.Context, tenant, name string, version int64) (Value, int64, error) {
	r, err := s.o.Store.Secret(ctx, tenant, name, version)
	if err != nil {
		return Value{}, 0, err
	}
	if version != 0 && r.Version != version {
		return Value{}, 0, fail(counterfoil.CodeIntegrityFailed, "the store has answered with another version", nil)
	}
	// The label is what was asked for, not what the row says of itself.
	plain, err := s.open(ctx, versionLabel(KindSecret, tenant, name, r.Version), r.Value)
	if err != nil {
		return Value{}, 0, err
	}
	v, err := NewValue(plain) // again: whatever was stored, nothing reaches a header that would end it
	return v, r.Version, err
}

// open opens a sealed value. One that does not open was changed or moved by somebody who writes to the database: it is
// recorded, without a byte of it.
func (s *Secrets) open(ctx context.Context, l Label, sealed []byte) ([]byte, error) {
	plain, err := s.o.Vault.Open(l, sealed)
	if err == nil || !errors.Is(err, counterfoil.CodeIntegrityFailed) {
		return plain, err
	}
	e, failed := s.event(l.Tenant, "gateway:vault", "integrity-failed/"+l.Kind)
	if failed == nil {
		failed = s.o.Store.Record(context.WithoutCancel(ctx), e)
	}
	return nil, errors.Join(err, failed)
}

func (s *Secrets) event(tenant, by, code string) (counterfoil.Event, error) {
	var b [12]byte
	if _, err := io.ReadFull(s.o.Rand, b[:]); err != nil {
		return counterfoil.Event{}, fail(counterfoil.CodeUnavailable, "there is no randomness", err)
	}
	return counterfoil.NewEvent(counterfoil.PhaseGoverned, s.o.Names, counterfoil.EventParams{
		Tenant: tenant, Audience: s.o.Audience, ExecutionID: "change-" + hex.EncodeToString(b[:]), Actor: by, Code: code,
	})
}
