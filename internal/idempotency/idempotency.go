// Package idempotency makes requests that a caller repeats under one key one request: what the first was answered is what
// the others get.
//
// It guarantees that under one key of a principal at most one request runs at a time, over all processes that share the
// store, and that none runs after one whose answer was kept. A key stands for one body: another under it is refused. It
// does not say what became of a request whose process died: its key stays taken until it is forgotten, because nobody may
// run it again blindly. Keys are kept as digests, answers sealed.
package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/vault"
)

type sentinel string

func (s sentinel) Error() string { return string(s) }

// Spoken marks what the stores may pass on.
func (sentinel) Spoken() {}

const (
	// ErrReused says that the key was used with another body.
	ErrReused = sentinel("the key was used with another body")
	// ErrRunning says that a request with this key runs, or that nobody knows how it ended.
	ErrRunning = sentinel("a request with this key runs, or its process has died: look for its receipt")
	// ErrTooMany says that the principal has as many keys as there may be; nothing was recorded.
	ErrTooMany = sentinel("there are too many keys")
	// ErrNotFound says that there is no such key.
	ErrNotFound = sentinel("there is no such key")
)

const (
	// Life is how long a key is kept.
	Life = 24 * time.Hour
	// MaxPerPrincipal bounds the keys of a principal.
	MaxPerPrincipal = 10_000
	// SealKind is what answers are sealed as.
	SealKind = "idempotent-answer"
	// MaxKey bounds the text of a key.
	MaxKey = 255
)

// A Row is a key as it is stored.
type Row struct {
	Tenant    string
	ID        string // made of the principal and the key
	Principal string
	Body      []byte // digest of what was asked, 32 bytes
	Running   bool
	Answer    []byte // sealed; nil while there is none
	Until     time.Time
}

// Whole reports whether the row can be stored.
func (r *Row) Whole() bool {
	return r.Tenant != "" && r.ID != "" && r.Principal != "" && len(r.Body) == sha256.Size && !r.Until.IsZero()
}

// Store keeps keys. Its errors carry codes, or are those of this package.
type Store interface {
	// BeginKey takes a key: it adds the row as running, or marks the one that is there as running, if it is of the same body,
	// doesn't run and has no answer. Then it returns true, to exactly one of those who call it at once. Else it returns the row as
	// it is, and false. Rows of the principal that have ended by now are forgotten first; ErrTooMany if there are most others.
	BeginKey(ctx context.Context, r Row, now time.Time, most int) (Row, bool, error)
	// EndKey ends the running of a key, with its answer, or without one, so that the same request may run again.
	EndKey(ctx context.Context, tenant, id string, answer []byte) error
}

// Options are what Keys are made of. Every field is required.
type Options struct {
	Store Store
	Vault *vault.Vault
	Now   func() time.Time
}

// Keys are the keys of all principals.
type Keys struct{ o Options }

// New returns keys, or says what their options lack.
func New(o Options) (*Keys, error) {
	if o.Store == nil || o.Vault == nil || o.Now == nil {
		return nil, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "idempotency needs a store, a vault and a clock"}
	}
	return &Keys{o}, nil
}

// A Request is what a key stands for.
type Request struct {
	Tenant, Principal string
	Key               string
	Subject           string // what is called
	Body              []byte
}

func (r *Request) row(now time.Time) (Row, error) {
	if r.Key == "" || len(r.Key) > MaxKey {
		return Row{}, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Path: "Idempotency-Key", Msg: "the key must have 1 to 255 characters"}
	}
	for _, c := range []byte(r.Key) {
		if c < ' ' || c > '~' {
			return Row{}, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Path: "Idempotency-Key", Msg: "the key has a character that is not printable ASCII"}
		}
	}
	id, body := digest(r.Principal, r.Key), digest(r.Subject, string(r.Body))
	return Row{Tenant: r.Tenant, ID: hex.EncodeToString(id), Principal: r.Principal, Body: body, Until: now.Add(Life)}, nil
}

// digest hashes texts, each with its length, so that no two lists of texts are one.
func digest(parts ...string) []byte {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		_, _ = h.Write(n[:]) // a hash takes everything
		_, _ = h.Write([]byte(p))
	}
	return h.Sum(nil)
}

// Begin takes the key of a request. It returns a run, which must be ended, or the answer that was kept. It fails with
// ErrReused, ErrRunning, ErrTooMany, CodeInvalidInput for what is no key, or an error of the store: then nothing may run.
func (k *Keys) Begin(ctx context.Context, r Request) (*Run, []byte, error) {
	now := k.o.Now()
	row, err := r.row(now)
	if err != nil {
		return nil, nil, err
	}
	found, mine, err := k.o.Store.BeginKey(ctx, row, now, MaxPerPrincipal)
	switch {
	case err != nil:
		return nil, nil, err
	case mine:
		return &Run{k, row}, nil, nil
	case string(found.Body) != string(row.Body):
		return nil, nil, ErrReused
	case len(found.Answer) == 0:
		return nil, nil, ErrRunning
	}
	answer, err := k.o.Vault.Open(row.label(), found.Answer)
	return nil, answer, err
}

func (r *Row) label() vault.Label {
	return vault.Label{Tenant: r.Tenant, Kind: SealKind, Name: r.ID, Version: "1"}
}

// A Run is a request that has its key.
type Run struct {
	keys *Keys
	row  Row
}

// End gives the key up, with the answer that everybody gets from now on, or nil if nothing happened and the same request may
// run again. With an error the key may stay taken.
func (r *Run) End(ctx context.Context, answer []byte) error {
	var sealed []byte
	if answer != nil {
		var err error
		if sealed, err = r.keys.o.Vault.Seal(r.row.label(), answer); err != nil {
			return err
		}
	}
	return r.keys.o.Store.EndKey(ctx, r.row.Tenant, r.row.ID, sealed)
}
