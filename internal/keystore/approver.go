package keystore

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"

	"github.com/counterfoil/counterfoil"
)

// ErrWrongPassphrase says that the passphrase does not open the approver's key. It does not say whether the passphrase or
// the sealed key is wrong.
const ErrWrongPassphrase = sentinel("the passphrase is wrong")

// ErrNotEnrolled says that there is no approver yet.
const ErrNotEnrolled = sentinel("no approver is enrolled")

// ErrEnrolled says that there is an approver already.
const ErrEnrolled = sentinel("an approver is enrolled already")

type sentinel string

func (s sentinel) Error() string { return string(s) }

const (
	// MinPassphrase is the least length of a passphrase, in characters.
	MinPassphrase = 8
	maxPassphrase = 1024 // bytes
	ownerPrefix   = "person:"
	saltSize      = 16
	sealing       = "counterfoil/v1/approver-key\n"
)

// kdf is argon2id and its parameters. They stand in the file, so that later versions can raise them.
type kdf struct {
	Name    string `json:"name"`
	Salt    []byte `json:"salt"`
	Time    uint32 `json:"time"`
	Memory  uint32 `json:"memoryKiB"`
	Threads uint8  `json:"threads"`
}

// usualCost is what new keys are sealed under: RFC 9106's second choice.
func usualCost() kdf { return kdf{Name: "argon2id", Time: 3, Memory: 64 << 10, Threads: 2} }

// check bounds what a file can make us do: a hostile one must not exhaust the memory.
func (d *kdf) check() error {
	if d.Name != "argon2id" || len(d.Salt) != saltSize || d.Time < 1 || d.Time > 10 || d.Threads < 1 || d.Threads > 16 ||
		d.Memory < 8*uint32(d.Threads) || d.Memory > 1<<20 {
		return errors.New("the key derivation's parameters are out of bounds")
	}
	return nil
}

// approver is the file of the approver's key: the seed under the passphrase, and every approver's public key, those of
// before too.
type approver struct {
	Version int            `json:"version"`
	Keys    jsontext.Value `json:"keys"` // a JWK set
	Current string         `json:"current"`
	KDF     kdf            `json:"kdf"`
	Sealed  []byte         `json:"sealed"` // nonce, ciphertext, tag: AES-256-GCM

	ring    *counterfoil.KeyRing
	current counterfoil.PublicKey
}

// readApprover returns nil when there is no approver.
func (k *Keystore) readApprover() (*approver, error) {
	b, err := readFile(k.path(approverFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	a := &approver{}
	if err := decode(b, a); err != nil || a.Version != version {
		return nil, damaged(approverFile, err)
	}
	if err := a.KDF.check(); err != nil {
		return nil, damaged(approverFile, err)
	}
	if a.ring, err = counterfoil.ParseKeyRing(a.Keys); err != nil {
		return nil, damaged(approverFile, err)
	}
	for _, key := range a.ring.Keys() {
		if key.Role != counterfoil.RoleApprover {
			return nil, damaged(approverFile, nil)
		}
		if string(key.ID) == a.Current {
			a.current = key
		}
	}
	if a.current.ID == "" || !a.current.NotAfter.IsZero() {
		return nil, damaged(approverFile, nil)
	}
	return a, nil
}

// Enrolled reports whether there is an approver whose key can be unlocked.
func (k *Keystore) Enrolled() bool {
	a, err := k.readApprover()
	return err == nil && a != nil
}

// Approver returns the identity of the approver, or ErrNotEnrolled.
func (k *Keystore) Approver() (string, error) {
	a, err := k.readApprover()
	if err != nil {
		return "", err
	}
	if a == nil {
		return "", notEnrolled()
	}
	return a.current.Owner, nil
}

// Enrol makes the approver's key, sealed under the passphrase (at least 8 characters). The owner is "person:" and a name. The
// key acts for the tenants named, or for the one of single mode. It fails with ErrEnrolled when there is an approver.
func (k *Keystore) Enrol(passphrase []byte, owner string, tenants ...string) error {
	return k.enrol(passphrase, owner, tenants, false, usualCost())
}

// Replace does what Enrol does and retires the approver that there is: their public key stays in the ring, for what they
// approved before, and ends now.
func (k *Keystore) Replace(passphrase []byte, owner string, tenants ...string) error {
	return k.enrol(passphrase, owner, tenants, true, usualCost())
}

func (k *Keystore) enrol(passphrase []byte, owner string, tenants []string, replace bool, cost kdf) error {
	if len(tenants) == 0 {
		tenants = []string{localTenant}
	}
	pass, err := normal(passphrase)
	if err != nil {
		return err
	}
	if name, ok := strings.CutPrefix(owner, ownerPrefix); !ok || name == "" || counterfoil.CheckIdentity(owner) != nil ||
		counterfoil.CheckIdentity(name) != nil {
		return fail(counterfoil.CodeInvalidInput, `an approver is named "person:" and a name`, nil)
	}
	return k.locked(func() error {
		old, err := k.readApprover()
		if err != nil {
			return err
		}
		if old != nil && !replace {
			return fail(counterfoil.CodeInvalidInput, "an approver is enrolled already", ErrEnrolled)
		}
		a, err := k.newApprover(pass, owner, tenants, old, cost)
		if err != nil {
			return err
		}
		if err := k.write(approverFile, a); err != nil {
			return err
		}
		return k.publish()
	})
}

func (k *Keystore) newApprover(pass []byte, owner string, tenants []string, old *approver, cost kdf) (*approver, error) {
	random := make([]byte, 32+saltSize+12)
	if _, err := io.ReadFull(k.Rand, random); err != nil {
		return nil, fail(counterfoil.CodeUnavailable, "there is no randomness", err)
	}
	seed, salt, nonce := random[:32], random[32:32+saltSize], random[32+saltSize:]
	now := k.Now().UTC().Truncate(time.Millisecond)
	key, err := counterfoil.NewPrivateKey(seed, approverParams(owner, tenants, now))
	if err != nil {
		return nil, err
	}
	keys := []counterfoil.PublicKey{key.Public()}
	if old != nil {
		for _, o := range old.ring.Keys() {
			if o.ID == old.current.ID {
				o.NotAfter = now
				if !now.After(o.NotBefore) {
					o.NotAfter = o.NotBefore.Add(time.Millisecond)
				}
			}
			keys = append(keys, o)
		}
	}
	ring, err := counterfoil.NewKeyRing(keys...)
	if err != nil {
		return nil, err
	}
	cost.Salt = salt
	a := &approver{Version: version, Keys: ring.JSON(), Current: string(key.Public().ID), KDF: cost, current: key.Public()}
	aead, ad, err := a.cipher(pass)
	if err != nil {
		return nil, err
	}
	a.Sealed = aead.Seal(nonce, nonce, seed, ad)
	return a, nil
}

func approverParams(owner string, tenants []string, from time.Time) counterfoil.KeyParams {
	return counterfoil.KeyParams{
		Role: counterfoil.RoleApprover, Owner: owner, Custody: counterfoil.CustodyHolder, Tenants: tenants,
		NotBefore: from, NotAfter: time.Time{},
	}
}

// Unlock opens the approver's key. A wrong passphrase and a damaged seal both are ErrWrongPassphrase.
func (k *Keystore) Unlock(passphrase []byte) (counterfoil.Signer, error) {
	a, err := k.readApprover()
	if err != nil {
		return nil, err
	}
	if a == nil {
		return nil, notEnrolled()
	}
	pass, err := normal(passphrase)
	if err != nil {
		return nil, wrong()
	}
	k.unlocking.Lock()
	defer k.unlocking.Unlock()
	aead, ad, err := a.cipher(pass)
	if err != nil {
		return nil, err
	}
	if len(a.Sealed) < aead.NonceSize() {
		return nil, wrong()
	}
	seed, err := aead.Open(nil, a.Sealed[:aead.NonceSize()], a.Sealed[aead.NonceSize():], ad)
	if err != nil {
		return nil, wrong()
	}
	key, err := counterfoil.NewPrivateKey(seed, approverParams(a.current.Owner, a.current.Tenants, a.current.NotBefore))
	if err != nil || key.Public().ID != a.current.ID {
		return nil, wrong()
	}
	return key, nil
}

func wrong() error {
	return fail(counterfoil.CodeInvalidInput, "the passphrase is wrong", ErrWrongPassphrase)
}

func notEnrolled() error {
	return fail(counterfoil.CodeInvalidInput, "no approver is enrolled; run the setup first", ErrNotEnrolled)
}

// cipher derives the key that the seed is sealed under. What the file says of the key and of the derivation is associated
// data: none of it can be changed without the passphrase.
func (a *approver) cipher(pass []byte) (cipher.AEAD, []byte, error) {
	d := a.KDF
	block, err := aes.NewCipher(argon2.IDKey(pass, d.Salt, d.Time, d.Memory, d.Threads, 32))
	if err != nil {
		return nil, nil, fail(counterfoil.CodeInternal, "the cipher could not be set up", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, nil, fail(counterfoil.CodeInternal, "the cipher could not be set up", err)
	}
	ring, err := counterfoil.NewKeyRing(a.current)
	if err != nil {
		return nil, nil, err
	}
	ad := []byte(sealing)
	for _, b := range [][]byte{ring.JSON(), []byte(d.Name), d.Salt} {
		ad = binary.BigEndian.AppendUint64(ad, uint64(len(b)))
		ad = append(ad, b...)
	}
	ad = binary.BigEndian.AppendUint32(ad, d.Time)
	ad = binary.BigEndian.AppendUint32(ad, d.Memory)
	return aead, append(ad, d.Threads), nil
}

// normal brings a passphrase into one form, so that the same keys give the same passphrase on every terminal.
func normal(passphrase []byte) ([]byte, error) {
	if len(passphrase) > maxPassphrase || !utf8.Valid(passphrase) {
		return nil, fail(counterfoil.CodeInvalidInput, "a passphrase is text of at most 1024 bytes", nil)
	}
	n := norm.NFC.Bytes(passphrase)
	if utf8.RuneCount(n) < MinPassphrase {
		return nil, fail(counterfoil.CodeInvalidInput, "a passphrase has at least 8 characters", nil)
	}
	return n, nil
}

// Ring returns the public keys that verification trusts: the gateway's own, and the approvers' as they stand in the
// directory now, so that an enrolment in another process counts at once.
func (k *Keystore) Ring() (*counterfoil.KeyRing, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	info, err := os.Lstat(k.path(approverFile))
	if errors.Is(err, fs.ErrNotExist) {
		info = nil
	} else if err != nil {
		return nil, fail(counterfoil.CodeUnavailable, "the key file "+approverFile+" can't be looked at", err)
	}
	if k.ring != nil && same(info, k.seen) {
		return k.ring, nil
	}
	keys := []counterfoil.PublicKey{k.policy.Public(), k.ledger.Public(), k.receipt.Public(), k.checkpoint.Public()}
	// Read after the look: a replacement in between is seen at the next call, when the file is another than info.
	a, err := k.readApprover()
	if err != nil {
		return nil, err
	}
	if a != nil {
		keys = append(keys, a.ring.Keys()...)
	}
	ring, err := counterfoil.NewKeyRing(keys...)
	if err != nil {
		return nil, damaged(approverFile, err)
	}
	k.ring, k.seen = ring, info
	return ring, nil
}

// same reports whether nothing changed: files are only ever replaced, so that a new content is a new file.
func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
