// Package keystore keeps the private keys of one state directory: the gateway's signing keys, the vault's master key, the
// pseudonym key, the log's name, and the approver's key under a passphrase.
//
// It trusts the file system to keep other users out, and refuses to work when it visibly doesn't: the directory must be
// the user's own with mode 0700, the files 0600. It can't protect keys from a program that runs as the same user, but for
// the approver's: that one is useless without the passphrase. A file that is damaged, or missing beside a database, is an
// error that names it; nothing is ever replaced in silence.
package keystore

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/filelock"
	"github.com/counterfoil/counterfoil/internal/vault"
)

const (
	// Database is the name of the database beside the keys.
	Database = "counterfoil.db"
	// PublicKeys is the name of the file with the public keys, a JWK set.
	PublicKeys = "keys.json"

	privateFile  = "private.json"
	approverFile = "approver.json"
	lockFile     = "keys.lock"

	// localTenant is the tenant that approvers act for if nobody says more.
	localTenant = "local"

	version  = 1
	lockWait = 10 * time.Second
)

// Options are what a keystore takes from outside.
type Options struct {
	Now  func() time.Time
	Rand io.Reader // cryptographic randomness
	// Masters, if any, are vault keys that are kept elsewhere, oldest first: the last one seals. The file's own open what they have
	// sealed.
	Masters []vault.Key
}

// A Keystore is the open key files of one state directory. It is safe for concurrent use.
type Keystore struct {
	dir string
	Options

	policy, ledger, receipt, checkpoint *counterfoil.PrivateKey

	vault    *vault.Vault
	names    *counterfoil.Pseudonyms
	audience string
	token    []byte

	mu   sync.Mutex
	seen fs.FileInfo // the approver file that ring was made from; nil for none
	ring *counterfoil.KeyRing

	unlocking sync.Mutex // one derivation at a time: each takes 64 MiB
}

// private is the file of private keys.
type private struct {
	Version    int        `json:"version"`
	Audience   string     `json:"audience"`
	Created    time.Time  `json:"created"`
	Policy     []byte     `json:"policySeed"`
	Ledger     []byte     `json:"ledgerSeed"`
	Receipt    []byte     `json:"receiptSeed"`
	Checkpoint []byte     `json:"checkpointSeed"`
	Token      []byte     `json:"tokenSeed"`
	Vault      []namedKey `json:"vaultKeys"` // oldest first
	Pseudonyms namedKey   `json:"pseudonymKey"`
}

type namedKey struct {
	ID  string `json:"id"`
	Key []byte `json:"key"`
}

// Open opens the keys of the directory. Where there are none yet it makes them, and the directory, unless a database
// stands there already: its records need the keys that they were made with. Processes that start at once get one and the
// same set of keys.
func Open(dir string, o Options) (*Keystore, error) {
	if o.Now == nil || o.Rand == nil {
		return nil, fail(counterfoil.CodeInvalidInput, "a keystore needs a clock and randomness", nil)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fail(counterfoil.CodeInvalidInput, "the state directory has no absolute path", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fail(counterfoil.CodeUnavailable, "the state directory can't be made", err)
	}
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	k := &Keystore{dir: dir, Options: o}
	err = k.locked(func() error {
		p, err := k.readPrivate()
		if errors.Is(err, fs.ErrNotExist) {
			p, err = k.create()
		}
		if err != nil {
			return err
		}
		if err := k.load(p); err != nil {
			return err
		}
		return k.publish()
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// locked runs f while no other process changes the files.
func (k *Keystore) locked(f func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	l, err := filelock.Wait(ctx, k.path(lockFile))
	if err != nil {
		return fail(counterfoil.CodeUnavailable, "the keys are locked by another process", err)
	}
	return errors.Join(f(), l.Release())
}

func (k *Keystore) path(name string) string { return filepath.Join(k.dir, name) }

func (k *Keystore) readPrivate() (private, error) {
	var p private
	b, err := readFile(k.path(privateFile))
	if err != nil {
		return p, err
	}
	if err := decode(b, &p); err != nil || p.Version != version {
		return p, damaged(privateFile, err)
	}
	return p, nil
}

func (k *Keystore) create() (private, error) {
	var p private
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		return p, fail(counterfoil.CodeUnavailable, "the state directory can't be read", err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), filepath.Ext(Database)) || e.Name() == approverFile || e.Name() == PublicKeys {
			return p, fail(counterfoil.CodeIntegrityFailed,
				"the keys of this state are missing ("+privateFile+"); restore them from where "+bounded(e.Name())+" was made", nil)
		}
	}
	random := make([]byte, 6*32+2*4+32+8)
	if _, err := io.ReadFull(k.Rand, random); err != nil {
		return p, fail(counterfoil.CodeUnavailable, "there is no randomness", err)
	}
	take := func(n int) []byte {
		b := random[:n:n]
		random = random[n:]
		return b
	}
	p = private{
		Version: version, Created: k.Now().UTC().Truncate(time.Millisecond),
		Policy: take(32), Ledger: take(32), Receipt: take(32), Checkpoint: take(32), Token: take(32),
		Vault:      []namedKey{{ID: "v-" + hex.EncodeToString(take(4)), Key: take(vault.MasterSize)}},
		Pseudonyms: namedKey{ID: "p-" + hex.EncodeToString(take(4)), Key: take(32)},
		Audience:   "counterfoil-" + hex.EncodeToString(take(8)),
	}
	return p, k.write(privateFile, p)
}

func (k *Keystore) load(p private) error {
	bad := func(err error) error { return damaged(privateFile, err) }
	err := counterfoil.CheckIdentity(p.Audience)
	if err != nil {
		return bad(err)
	}
	for _, r := range []struct {
		role counterfoil.Role
		seed []byte
		key  **counterfoil.PrivateKey
	}{
		{counterfoil.RolePolicy, p.Policy, &k.policy},
		{counterfoil.RoleLedger, p.Ledger, &k.ledger},
		{counterfoil.RoleReceipt, p.Receipt, &k.receipt},
		{counterfoil.RoleCheckpoint, p.Checkpoint, &k.checkpoint},
	} {
		*r.key, err = counterfoil.NewPrivateKey(r.seed, counterfoil.KeyParams{
			Role: r.role, Owner: string(r.role) + ":" + p.Audience, Custody: counterfoil.CustodyGateway,
			Tenants: []string{counterfoil.AllTenants}, NotBefore: p.Created, NotAfter: time.Time{},
		})
		if err != nil {
			return bad(err)
		}
	}
	var keys []vault.Key
	for _, v := range p.Vault {
		keys = append(keys, vault.Key{ID: v.ID, Master: v.Key})
	}
	if k.vault, err = vault.New(k.Rand, append(keys, k.Masters...)...); err != nil {
		return bad(err)
	}
	if k.names, err = counterfoil.NewPseudonyms(p.Pseudonyms.ID, p.Pseudonyms.Key); err != nil {
		return bad(err)
	}
	if len(p.Token) != tokenSize {
		return bad(nil)
	}
	k.audience, k.token = p.Audience, p.Token
	return nil
}

// publish writes the public keys beside the private ones, if they changed.
func (k *Keystore) publish() error {
	ring, err := k.Ring()
	if err != nil {
		return err
	}
	b := ring.JSON()
	if old, err := readFile(k.path(PublicKeys)); err == nil && string(old) == string(b) {
		return nil
	}
	return writeFile(k.dir, PublicKeys, b)
}

// Policy returns the key that approves what policy alone allows.
func (k *Keystore) Policy() counterfoil.Signer { return k.policy }

// Ledger returns the key that signs consumption records.
func (k *Keystore) Ledger() counterfoil.Signer { return k.ledger }

// Receipt returns the key that signs receipts.
func (k *Keystore) Receipt() counterfoil.Signer { return k.receipt }

// Checkpoint returns the key that signs the checkpoints of the log.
func (k *Keystore) Checkpoint() counterfoil.Signer { return k.checkpoint }

// TokenSeed returns the 32 bytes that the Ed25519 key of access tokens is made of.
func (k *Keystore) TokenSeed() []byte { return slices.Clone(k.token) }

// tokenSize is the length of an Ed25519 seed.
const tokenSize = 32

// Vault returns the vault under the state's master key.
func (k *Keystore) Vault() *vault.Vault { return k.vault }

// Pseudonyms returns the pseudonyms of the state's log.
func (k *Keystore) Pseudonyms() *counterfoil.Pseudonyms { return k.names }

// Audience returns the name of this state: the audience of its approvals and the origin of its log.
func (k *Keystore) Audience() string { return k.audience }

func (k *Keystore) write(name string, v any) error {
	b, err := json.Marshal(v, jsontext.WithIndent("  "))
	if err != nil {
		return fail(counterfoil.CodeInternal, "the keys could not be written down", err)
	}
	return writeFile(k.dir, name, append(b, '\n'))
}

func decode(b []byte, v any) error { return json.Unmarshal(b, v, json.RejectUnknownMembers(true)) }

func fail(code counterfoil.Code, msg string, cause error) error {
	return &counterfoil.Error{Code: code, Msg: msg, Err: cause}
}

// damaged says which file can't be used. It never says what stands in it.
func damaged(name string, cause error) error {
	return fail(counterfoil.CodeIntegrityFailed, "the key file "+name+" is damaged or of another version; restore it", cause)
}

// bounded makes a name from the directory safe to print.
func bounded(name string) string {
	if counterfoil.CheckIdentity(name) != nil || len(name) > 64 {
		return "the database"
	}
	return name
}
