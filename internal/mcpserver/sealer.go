package mcpserver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"io"
	"slices"
	"time"
)

// legacyVersions are the revisions that have sessions, newest first.
func legacyVersions() []string { return []string{"2025-11-25", "2025-06-18", batchVersion} }

// modernVersion is the revision in which each request stands alone.
const modernVersion = "2026-07-28"

// The parts of a session's id, in bytes: the number of its revision, the second in which it began, random bytes, and the
// code that binds them to tenant and principal.
const (
	sealedNonce = 16
	sealedHead  = 1 + 8 + sealedNonce
	sealedSize  = sealedHead + sha256.Size
)

// A sealer makes and reads the ids of sessions.
type sealer struct {
	key  []byte
	life time.Duration
	rand io.Reader
}

// session is what the id of a session says.
type session struct {
	id      string
	version string
	until   time.Time
}

// mint makes a session for one principal of one tenant.
func (s sealer) mint(tenant, actor, version string, now time.Time) (session, error) {
	b := make([]byte, sealedHead, sealedSize)
	b[0] = byte(slices.Index(legacyVersions(), version) + 1) //nolint:gosec // a handful
	binary.BigEndian.PutUint64(b[1:], uint64(now.Unix()))    //nolint:gosec // read back the same way
	if _, err := io.ReadFull(s.rand, b[9:]); err != nil {
		return session{}, err
	}
	b = append(b, s.code(b, tenant, actor)...)
	return s.read(base64.RawURLEncoding.EncodeToString(b), tenant, actor, now)
}

// errNoSession says that an id is of no session that lives, or of somebody else's.
const errNoSession = sentinel("there is no such session")

// read returns the session with this id if it is this principal's and has not run out.
func (s sealer) read(id, tenant, actor string, now time.Time) (session, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil || len(b) != sealedSize || !hmac.Equal(b[sealedHead:], s.code(b[:sealedHead], tenant, actor)) {
		return session{}, errNoSession
	}
	n := int(b[0]) - 1
	if n < 0 || n >= len(legacyVersions()) {
		return session{}, errNoSession
	}
	// A time that we sealed ourselves is no time out of range.
	begun := time.Unix(int64(binary.BigEndian.Uint64(b[1:])), 0) //nolint:gosec // see above
	until := begun.Add(s.life)
	if !now.Before(until) || now.Before(begun.Add(-s.life)) {
		return session{}, errNoSession
	}
	return session{id: id, version: legacyVersions()[n], until: until}, nil
}

// code is over the parts and whose they are, each with its length before it.
func (s sealer) code(head []byte, tenant, actor string) []byte {
	m := hmac.New(sha256.New, s.key)
	for _, part := range [][]byte{[]byte("counterfoil mcp session"), head, []byte(tenant), []byte(actor)} {
		_, _ = m.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // a hash takes everything
		_, _ = m.Write(part)
	}
	return m.Sum(nil)
}
