package counterfoil

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"
)

// A Role is the one purpose that a key serves. A key of one role never verifies in another (INV-8).
type Role string

// The roles.
const (
	RoleApprover Role = "approver" // a person's decisions
	RolePolicy   Role = "policy"   // approvals that policy alone gives
	RoleLedger   Role = "ledger"   // consumption records, signed inside the ledger's commit
	RoleReceipt  Role = "receipt"  // receipts

	RoleCheckpoint Role = "checkpoint" // checkpoints of a log
	RoleWitness    Role = "witness"    // cosignatures of checkpoints: the owner is the witness's name

	RoleToken Role = "token" // approval tokens, which are a gateway's: nothing of this package is signed or verified with it
)

func roles() []Role {
	return []Role{RoleApprover, RolePolicy, RoleLedger, RoleReceipt, RoleCheckpoint, RoleWitness, RoleToken}
}

// A Custody says whose hand holds a private key.
type Custody string

// The custodies.
const (
	CustodyHolder  Custody = "holder"  // the owner's own device or sealed file signs
	CustodyGateway Custody = "gateway" // the gateway signs
)

func custodies() []Custody { return []Custody{CustodyHolder, CustodyGateway} }

// A KeyID is the RFC 7638 thumbprint of a public key, base64url without padding.
type KeyID string

// A PublicKey is a verification key with all that is known of it.
type PublicKey struct {
	ID        KeyID
	Algorithm Algorithm
	Role      Role
	Owner     string // the identity that the key speaks for
	Custody   Custody
	Tenants   []string    // the tenants it may act for, sorted, or AllTenants alone; never empty
	NotBefore time.Time   // judged at the instant of the act that was signed
	NotAfter  time.Time   // exclusive; the zero time is no end
	Passkey   *Passkey    // nil for a key that makes plain signatures
	Revoked   *Revocation // nil for a key that was not revoked

	key curveKey
}

// AllTenants stands for every tenant when it is a key's only one: the keys of a gateway that serves many.
const AllTenants = "*"

// actsFor reports whether the key is one of the tenant's.
func (k *PublicKey) actsFor(tenant string) bool {
	return slices.Contains(k.Tenants, tenant) || slices.Equal(k.Tenants, []string{AllTenants})
}

// KeyParams is what a key is bound to.
type KeyParams struct {
	Role      Role
	Owner     string
	Custody   Custody
	Tenants   []string
	NotBefore time.Time
	NotAfter  time.Time // the zero time is no end
}

func newPublicKey(raw []byte, p KeyParams) (PublicKey, error) {
	var none PublicKey
	key, err := newCurveKey(raw)
	if err != nil {
		return none, err
	}
	if !slices.Contains(roles(), p.Role) {
		return none, fail(CodeInvalidInput, "the key's role is not known")
	}
	if !slices.Contains(custodies(), p.Custody) {
		return none, fail(CodeInvalidInput, "the key's custody is not known")
	}
	if (p.Role == RoleCheckpoint || p.Role == RoleWitness) && key.ec != nil {
		return none, fail(CodeInvalidInput, "the keys of logs and witnesses are Ed25519")
	}
	if p.Role == RoleWitness && !isNoteName(p.Owner) {
		return none, fail(CodeInvalidInput, "a witness's name has no space and no plus")
	}
	tenants := slices.Clone(p.Tenants)
	slices.SortFunc(tenants, compareUTF16)
	if len(tenants) == 0 || len(slices.Compact(tenants)) != len(p.Tenants) {
		return none, fail(CodeInvalidInput, "a key acts for at least one tenant and names none twice")
	}
	if slices.Contains(tenants, AllTenants) && (len(tenants) > 1 || p.Role == RoleApprover) {
		return none, fail(CodeInvalidInput, "a key for all tenants names no other, and an approver's key is none")
	}
	for _, s := range append([]string{p.Owner}, p.Tenants...) {
		if err := CheckIdentity(s); err != nil {
			return none, err
		}
	}
	from, err := instant(p.NotBefore)
	if err != nil {
		return none, fail(CodeInvalidInput, "a key needs a beginning")
	}
	k := PublicKey{
		ID: key.thumbprint(), Algorithm: key.algorithm(), Role: p.Role, Owner: p.Owner, Custody: p.Custody,
		Tenants: tenants, NotBefore: from, key: key,
	}
	if !p.NotAfter.IsZero() {
		if k.NotAfter, err = instant(p.NotAfter); err != nil || !k.NotAfter.After(from) {
			return none, fail(CodeInvalidInput, "a key ends after it begins")
		}
	}
	return k, nil
}

// remade makes the key anew from what it says, so that nothing in it is believed that was changed after it was made.
func (k *PublicKey) remade() (PublicKey, error) {
	n, err := newPublicKey(k.key.raw, k.params())
	if err != nil {
		return n, err
	}
	if n.ID != k.ID || n.Algorithm != k.Algorithm {
		return n, fail(CodeInvalidInput, badKeyID)
	}
	c := k.clone()
	n.Passkey, n.Revoked = c.Passkey, c.Revoked
	if n.Passkey != nil {
		if n.Algorithm != AlgorithmES256 || n.Role != RoleApprover || n.Custody != CustodyHolder {
			return n, fail(CodeInvalidInput, "a passkey is an approver's own key on P-256")
		}
		if msg := n.Passkey.check(); msg != "" {
			return n, fail(CodeInvalidInput, msg)
		}
	}
	if n.Revoked != nil {
		if msg := n.Revoked.check(); msg != "" {
			return n, fail(CodeInvalidInput, msg)
		}
		n.Revoked.At = n.Revoked.At.UTC().Truncate(time.Millisecond)
	}
	return n, nil
}

// params returns what the key is bound to.
func (k *PublicKey) params() KeyParams {
	return KeyParams{
		Role: k.Role, Owner: k.Owner, Custody: k.Custody, Tenants: k.Tenants, NotBefore: k.NotBefore, NotAfter: k.NotAfter,
	}
}

// clone returns a copy that shares no memory.
func (k *PublicKey) clone() PublicKey {
	c := *k
	c.Tenants = slices.Clone(k.Tenants)
	if k.Passkey != nil {
		c.Passkey = &Passkey{RPID: k.Passkey.RPID, Origins: slices.Clone(k.Passkey.Origins)}
	}
	if k.Revoked != nil {
		v := *k.Revoked
		c.Revoked = &v
	}
	return c
}

// A PrivateKey signs in one role. It can't be compared or printed: every text form of it says "redacted", and inside
// another value there is only a function to be printed.
type PrivateKey struct {
	public PublicKey
	sign   func(message []byte) ([]byte, error)
}

// NewPrivateKey makes an Ed25519 key from a 32-byte seed, which must come from a cryptographic random source.
func NewPrivateKey(seed []byte, p KeyParams) (*PrivateKey, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fail(CodeInvalidInput, "a seed has 32 bytes")
	}
	key := ed25519.NewKeyFromSeed(seed)
	// An Ed25519 private key is the seed and the public key (RFC 8032).
	public, err := newPublicKey(ed25519.PublicKey(key[ed25519.SeedSize:]), p)
	if err != nil {
		return nil, err
	}
	return &PrivateKey{public: public, sign: func(m []byte) ([]byte, error) { return ed25519.Sign(key, m), nil }}, nil
}

// Public returns the public half.
func (k *PrivateKey) Public() PublicKey { return k.public.clone() }

// Sign implements Signer.
func (k *PrivateKey) Sign(_ context.Context, m Message) ([]byte, error) {
	if m.role == "" || m.role != k.public.Role {
		return nil, fail(CodeSignatureInvalid, "this key does not sign documents of that kind")
	}
	return k.sign(m.pae)
}

const redacted = "redacted"

// String says "redacted".
func (k PrivateKey) String() string { return redacted }

// GoString says "redacted".
func (k PrivateKey) GoString() string { return redacted }

// Format says "redacted" for every verb.
func (k PrivateKey) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// LogValue says "redacted".
func (k PrivateKey) LogValue() slog.Value { return slog.StringValue(redacted) }

// A Signer makes signatures with a key that it keeps to itself. What it signs are messages that only this package
// makes, so that it can't be used to sign anything else.
type Signer interface {
	// Public returns the key that verifies what Sign makes.
	Public() PublicKey
	// Sign signs one message. It refuses a message that its key's role does not sign.
	Sign(ctx context.Context, m Message) ([]byte, error)
}

// A Message is a document of this package that is ready to be signed.
type Message struct {
	role Role
	pae  []byte
}
