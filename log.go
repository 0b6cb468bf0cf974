package counterfoil

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/mod/sumdb/note"
)

// Bounds of a checkpoint's note. The signatures of witnesses that this package doesn't know can be long.
const (
	maxNoteBytes      = 65_536
	maxNoteSignatures = 32
)

// A noteAlgorithm is the byte that tells kinds of signatures on a note apart; it is part of the id of the key.
type noteAlgorithm byte

const (
	noteEd25519     noteAlgorithm = 1 // over the text (c2sp.org/signed-note)
	noteCosignature noteAlgorithm = 4 // over the time and the text (c2sp.org/tlog-cosignature)
)

// LogOrigin returns the name of a tenant's log: the audience, a slash and an id that does not show the tenant's name. It
// is the first line of the log's checkpoints and the name of the key that signs them. It fails with CodeInvalidInput for an
// audience that can't be in such a name, which has no space, no plus and 512 bytes at most.
func LogOrigin(audience, tenant string) (string, error) {
	for _, s := range []string{audience, tenant} {
		if err := CheckIdentity(s); err != nil {
			return "", err
		}
	}
	id := digest(domainLog, []byte(tenant))
	origin := audience + "/" + hex.EncodeToString(id[:16])
	if !isNoteName(origin) {
		return "", fail(CodeInvalidInput, "the audience can't name a log: it has a space, a plus or too many bytes")
	}
	return origin, nil
}

// isNoteName reports whether s can name a key on a note.
func isNoteName(s string) bool {
	return faultInIdentity(s) == "" && !strings.Contains(s, "+") && strings.IndexFunc(s, unicode.IsSpace) < 0
}

// A Checkpoint says how many leaves a log had and the root of their tree: a C2SP tlog-checkpoint without extension lines, as
// a signed note. SignCheckpoint and ParseCheckpoint are its only makers; parsing verifies nothing.
type Checkpoint struct {
	origin string
	size   int64
	root   [sha256.Size]byte
	sigs   []noteSignature
	note   []byte
}

// A noteSignature is one line of a note: the id of the key, and what it made.
type noteSignature struct {
	name string
	raw  []byte // at least 5 bytes: 4 of the key's id
}

// Origin returns the name of the log.
func (c *Checkpoint) Origin() string { return c.origin }

// Size returns how many leaves the log had, at least 1.
func (c *Checkpoint) Size() int64 { return c.size }

// Root returns the root of the tree of these leaves (RFC 6962, section 2.1).
func (c *Checkpoint) Root() [sha256.Size]byte { return c.root }

// Note returns a copy of the signed note, which ParseCheckpoint reads.
func (c *Checkpoint) Note() []byte { return slices.Clone(c.note) }

// text is what the log signs. Its first line has no space, while a DSSE pre-authentication encoding begins with "DSSEv1 "
// and has no line's end: no text is both, whatever key signs (INV-8).
func (c *Checkpoint) text() []byte {
	b := append([]byte(c.origin), '\n')
	b = append(strconv.AppendInt(b, c.size, 10), '\n')
	return append(base64.StdEncoding.AppendEncode(b, c.root[:]), '\n')
}

// cosigned is what a witness signs. It begins with a line that is no log's name, which has a slash before 32 hex digits.
func (c *Checkpoint) cosigned(seconds int64) []byte {
	b := strconv.AppendInt([]byte("cosignature/v1\ntime "), seconds, 10)
	return append(append(b, '\n'), c.text()...)
}

func (c *Checkpoint) encode() []byte {
	b := append(c.text(), '\n')
	for _, s := range c.sigs {
		b = append(b, "— "+s.name+" "...)
		b = append(base64.StdEncoding.AppendEncode(b, s.raw), '\n')
	}
	return b
}

// ParseCheckpoint reads a checkpoint: a note of three lines and 1 to 32 signatures, 65,536 bytes together, in the one
// spelling that there is. It verifies nothing; signatures of unknown keys and kinds are kept.
func ParseCheckpoint(b []byte) (*Checkpoint, error) {
	if len(b) > maxNoteBytes {
		return nil, fail(CodeInvalidInput, "the checkpoint is too large")
	}
	_, err := note.Open(b, nil) // with no keys it verifies none and takes the note apart
	open, ok := errors.AsType[*note.UnverifiedNoteError](err)
	if !ok {
		return nil, failWith(CodeInvalidInput, "this is not a signed note", err)
	}
	lines := strings.SplitN(open.Note.Text, "\n", 4)
	if len(lines) != 4 || lines[3] != "" || !isNoteName(lines[0]) {
		return nil, fail(CodeInvalidInput, "a checkpoint has three lines: the log's name, the size and the root")
	}
	c := &Checkpoint{origin: lines[0]}
	c.size, err = strconv.ParseInt(lines[1], 10, 64)
	root, faulty := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || faulty != nil || c.size < 1 || c.size > maxSafeInteger || copy(c.root[:], root) != len(root) {
		return nil, fail(CodeInvalidInput, "the checkpoint's size or root is none")
	}
	for _, s := range open.Note.UnverifiedSigs {
		raw, _ := base64.StdEncoding.DecodeString(s.Base64) // note.Open did the same
		again := func(o noteSignature) bool { return o.name == s.Name && bytes.Equal(o.raw[:4], raw[:4]) }
		if len(c.sigs) == maxNoteSignatures || !isNoteName(s.Name) || slices.ContainsFunc(c.sigs, again) {
			return nil, fail(CodeInvalidInput, "the checkpoint has too many signatures, two by one key or one without a name")
		}
		c.sigs = append(c.sigs, noteSignature{s.Name, raw})
	}
	if c.note = c.encode(); !bytes.Equal(c.note, b) {
		return nil, fail(CodeInvalidInput, "the checkpoint is spelled otherwise than it should be")
	}
	return c, nil
}

// SignCheckpoint signs the size and root of a tenant's log with a checkpoint key. The caller vouches for it that the tree
// has the leaves of every smaller one that was signed before.
func SignCheckpoint(ctx context.Context, audience, tenant string, size int64, root [sha256.Size]byte, key Signer) (*Checkpoint, error) {
	origin, err := LogOrigin(audience, tenant)
	if err != nil {
		return nil, err
	}
	k, err := noteKey(key, RoleCheckpoint)
	if err != nil {
		return nil, err
	}
	if !k.actsFor(tenant) {
		return nil, fail(CodeSignatureInvalid, "the checkpoint key may not act for this tenant")
	}
	c := &Checkpoint{origin: origin, size: size, root: root}
	return c.sign(ctx, key, k, origin, noteEd25519, nil, c.text())
}

// Cosign adds the signature of a witness, who vouches for it that as of now this is the largest tree of the log that it has
// seen, and has the leaves of every smaller one.
func (c *Checkpoint) Cosign(ctx context.Context, witness Signer, now time.Time) (*Checkpoint, error) {
	k, err := noteKey(witness, RoleWitness)
	if err != nil {
		return nil, err
	}
	seconds := now.Unix()
	if seconds < 0 {
		return nil, fail(CodeClock, "the time given is not a time of this era")
	}
	stamp := binary.BigEndian.AppendUint64(nil, uint64(seconds))
	return c.sign(ctx, witness, k, k.Owner, noteCosignature, stamp, c.cosigned(seconds))
}

// noteKey returns the public key of a signer that has the role.
func noteKey(s Signer, role Role) (PublicKey, error) {
	k, err := publicOf(s)
	if err != nil {
		return k, err
	}
	if k, err = k.remade(); err != nil || k.Role != role {
		return k, failWith(CodeSignatureInvalid, "the signer's key has another role", err)
	}
	return k, nil
}

// sign adds a line: the signer's signature of a message, after a stamp that is in the message too.
func (c *Checkpoint) sign(ctx context.Context, s Signer, k PublicKey, name string, alg noteAlgorithm, stamp, message []byte) (*Checkpoint, error) {
	m := Message{role: k.Role, pae: message}
	sig, err := signed(ctx, m, s, k)
	if err != nil {
		return nil, err
	}
	id := k.noteID(name, alg)
	line := noteSignature{name, slices.Concat(id[:], stamp, sig)}
	with := &Checkpoint{origin: c.origin, size: c.size, root: c.root, sigs: append(slices.Clip(c.sigs), line)}
	return ParseCheckpoint(with.encode()) // the parser is the one judge of what a checkpoint may be
}

// noteID returns the id that a note has for a key (c2sp.org/signed-note). It finds keys and proves nothing.
func (k *PublicKey) noteID(name string, alg noteAlgorithm) [4]byte {
	sum := sha256.Sum256(slices.Concat([]byte(name), []byte{'\n', byte(alg)}, k.key.raw))
	return [4]byte(sum[:4])
}

// AddCosignatures adds the signature lines that a witness answers with (c2sp.org/tlog-witness). It verifies none of them:
// Cosignatures does. A key that has signed already is refused.
func (c *Checkpoint) AddCosignatures(lines []byte) (*Checkpoint, error) {
	return ParseCheckpoint(slices.Concat(c.note, lines))
}

// Verify checks that the checkpoint is of the tenant's log and is signed with a checkpoint key of the ring that may act for
// the tenant at the instant given or, if it begins later, then. A checkpoint has no time of its own: what is known is that it
// is no older than the log's last event of which it has the leaf.
func (c *Checkpoint) Verify(ring *KeyRing, audience, tenant string, from time.Time) error {
	keys, err := c.Signers(ring, audience, tenant)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if err = k.MayAct(tenant, k.from(from)); err == nil {
			return nil
		}
	}
	return err
}

// from returns the first instant from t on at which the key may act.
func (k *PublicKey) from(t time.Time) time.Time {
	if k.NotBefore.After(t) {
		return k.NotBefore
	}
	return t
}

// Signers returns the checkpoint keys of the ring that signed, at least one, whether or not they may act. It fails with
// CodeIntegrityFailed for the checkpoint of another log, and with CodeSignatureInvalid.
func (c *Checkpoint) Signers(ring *KeyRing, audience, tenant string) ([]PublicKey, error) {
	origin, err := LogOrigin(audience, tenant)
	if err != nil {
		return nil, err
	}
	if c.origin != origin {
		return nil, fail(CodeIntegrityFailed, "the checkpoint is of another log")
	}
	var keys []PublicKey
	for _, s := range c.sigs {
		if s.name != origin {
			continue
		}
		k, err := ring.signedNote(s, RoleCheckpoint, noteEd25519, c.text(), s.raw[4:])
		if err != nil {
			return nil, err
		}
		if k != nil {
			keys = append(keys, k.clone())
		}
	}
	if len(keys) == 0 {
		return nil, fail(CodeSignatureInvalid, "the ring does not have the key that signed the checkpoint")
	}
	return keys, nil
}

// A Cosignature is a witness's word on a checkpoint.
type Cosignature struct {
	Witness string // the owner of the key
	Key     KeyID
	At      time.Time // when the witness had seen no larger tree of this log, in seconds
}

// Cosignatures returns the cosignatures of the ring's witnesses that may act for the tenant, each at the time that it signed.
// Others are passed over: they say nothing to who doesn't know them. A cosignature in the name of such a witness that does not
// fit is refused.
func (c *Checkpoint) Cosignatures(ring *KeyRing, tenant string) ([]Cosignature, error) {
	var out []Cosignature
	for _, s := range c.sigs {
		at, sig := s.stamped()
		k, err := ring.signedNote(s, RoleWitness, noteCosignature, c.cosigned(at.Unix()), sig)
		if err != nil {
			return nil, err
		}
		if k != nil && k.validAt(tenant, at) {
			out = append(out, Cosignature{Witness: k.Owner, Key: k.ID, At: at})
		}
	}
	return out, nil
}

// stamped takes a cosignature apart. What has no time of this era has no signature, which fits nothing.
func (s noteSignature) stamped() (at time.Time, sig []byte) {
	if len(s.raw) != 4+8+signatureSize {
		return at, nil
	}
	seconds := binary.BigEndian.Uint64(s.raw[4:])
	at = time.Unix(int64(min(seconds, math.MaxInt64)), 0).UTC()
	if !validInstant(at) {
		return at, nil
	}
	return at, s.raw[12:]
}

// signedNote returns the ring's key of a role that made a signature on a note, nil if the ring has none of that name and id.
func (r *KeyRing) signedNote(s noteSignature, role Role, alg noteAlgorithm, message, sig []byte) (*PublicKey, error) {
	if r == nil {
		return nil, fail(CodeSignatureInvalid, "there is no key ring")
	}
	known := false
	for _, k := range r.keys {
		id := k.noteID(s.name, alg)
		if k.Role != role || role == RoleWitness && k.Owner != s.name || !bytes.Equal(id[:], s.raw[:4]) {
			continue
		}
		if k.key.verify(message, sig) {
			return &k, nil
		}
		known = true // ids are short: another key may have the same
	}
	if known {
		return nil, fail(CodeSignatureInvalid, doesNotFit)
	}
	return nil, nil
}
