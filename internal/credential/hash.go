package credential

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"

	"github.com/counterfoil/counterfoil"
)

// Cost is what one password costs to hash with Argon2id (RFC 9106).
type Cost struct {
	Memory  uint32 // in KiB
	Time    uint32 // passes over it
	Threads uint8
}

// DefaultCost is the second choice of RFC 9106, section 4: for where 2 GiB a login are too much.
func DefaultCost() Cost { return Cost{Memory: 64 << 10, Time: 3, Threads: 4} }

// The bounds of what is made and of what is accepted from the database: a row that was tampered with can't take all memory.
const (
	leastMemory = 8 << 10
	mostMemory  = 256 << 10
	mostTime    = 10
	mostThreads = 16
	saltSize    = 16
	sumSize     = 32
)

func (c Cost) check() error {
	if c.Memory < leastMemory || c.Memory > mostMemory || c.Time < 1 || c.Time > mostTime || c.Threads < 1 || c.Threads > mostThreads {
		return fail("a password's cost is 8 to 256 MiB, 1 to 10 passes and 1 to 16 threads")
	}
	return nil
}

// HasherOptions are what a Hasher is made of. Every field is required.
type HasherOptions struct {
	Cost Cost
	// AtOnce is how many passwords are hashed at a time, Waiting how many more may wait for their turn: who comes behind them
	// is told that the server is busy. AtOnce times the cost's memory is what logins can take of the machine.
	AtOnce, Waiting int
	Rand            io.Reader
}

// A Hasher hashes and verifies passwords. It is safe for concurrent use.
type Hasher struct {
	o     HasherOptions
	queue chan struct{} // who is in: at work or waiting
	slots chan struct{} // who is at work
}

// NewHasher returns a hasher, or says what its options lack.
func NewHasher(o HasherOptions) (*Hasher, error) {
	if err := o.Cost.check(); err != nil {
		return nil, err
	}
	if o.AtOnce < 1 || o.Waiting < 0 || o.Rand == nil {
		return nil, fail("a hasher works on at least one password at a time, and needs randomness")
	}
	return &Hasher{o: o, queue: make(chan struct{}, o.AtOnce+o.Waiting), slots: make(chan struct{}, o.AtOnce)}, nil
}

// The bounds of a password's length: in characters and in bytes.
const (
	leastPassword = 12
	mostPassword  = 1024
)

// checkPassword says what is wrong with a new password.
func checkPassword(name, password string) error {
	switch {
	case len(password) > mostPassword || !utf8.ValidString(password):
		return failAt("/password", "a password is UTF-8 of at most 1024 bytes")
	case utf8.RuneCountInString(password) < leastPassword:
		return failAt("/password", "a password has at least 12 characters")
	case strings.Contains(strings.ToLower(password), name):
		return failAt("/password", "a password does not have the user's name in it")
	default:
		return nil
	}
}

// hash returns what is kept of a password: "$argon2id$v=19$m=…,t=…,p=…$salt$sum".
func (h *Hasher) hash(ctx context.Context, password Secret) (string, error) {
	var salt [saltSize]byte
	if err := fill(h.o.Rand, salt[:]); err != nil {
		return "", err
	}
	sum, err := h.sum(ctx, password, salt[:], h.o.Cost)
	if err != nil {
		return "", err
	}
	return stored{h.o.Cost, salt[:], sum}.String(), nil
}

// verify reports whether a password is the one that was hashed, and whether the hash has the cost of new ones. With "", which
// is nobody's hash, it does the same work and says no.
func (h *Hasher) verify(ctx context.Context, hashed string, password Secret) (ok, current bool, err error) {
	s, known := parseStored(hashed)
	if !known {
		s = stored{h.o.Cost, make([]byte, saltSize), make([]byte, sumSize)}
	}
	if len(password.text) > mostPassword {
		known, password = false, Secret{}
	}
	sum, err := h.sum(ctx, password, s.salt, s.cost)
	if err != nil {
		return false, false, err
	}
	return subtle.ConstantTimeCompare(sum, s.sum) == 1 && known, s.cost == h.o.Cost, nil
}

// sum does the work when its turn has come.
func (h *Hasher) sum(ctx context.Context, password Secret, salt []byte, c Cost) ([]byte, error) {
	select {
	case h.queue <- struct{}{}:
		defer func() { <-h.queue }()
	default:
		return nil, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "too many logins are under way; try again"}
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return nil, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "cancelled", Err: context.Cause(ctx)}
	}
	return argon2.IDKey([]byte(norm.NFC.String(password.text)), salt, c.Time, c.Memory, c.Threads, sumSize), nil
}

// stored is what is kept of a password.
type stored struct {
	cost      Cost
	salt, sum []byte
}

// String returns the form of the Argon2 reference implementation.
func (s stored) String() string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, s.cost.Memory, s.cost.Time, s.cost.Threads,
		base64.RawStdEncoding.EncodeToString(s.salt), base64.RawStdEncoding.EncodeToString(s.sum))
}

// parseStored reads that form, in exactly the spelling that String has.
func parseStored(text string) (stored, bool) {
	parts := strings.Split(text, "$")
	if len(text) > 256 || len(parts) != 6 {
		return stored{}, false
	}
	costs := strings.Split(parts[3], ",")
	if len(costs) != 3 {
		return stored{}, false
	}
	var n [3]uint64
	for i, name := range []string{"m=", "t=", "p="} {
		digits, ok := strings.CutPrefix(costs[i], name)
		var err error
		if n[i], err = strconv.ParseUint(digits, 10, 32); err != nil || !ok {
			return stored{}, false
		}
	}
	if n[2] > mostThreads {
		return stored{}, false
	}
	salt, err1 := base64.RawStdEncoding.Strict().DecodeString(parts[4])
	sum, err2 := base64.RawStdEncoding.Strict().DecodeString(parts[5])
	s := stored{Cost{uint32(n[0]), uint32(n[1]), uint8(n[2])}, salt, sum} //nolint:gosec // ParseUint and the line above bound them
	if err1 != nil || err2 != nil || len(salt) != saltSize || len(sum) != sumSize || s.cost.check() != nil || s.String() != text {
		return stored{}, false
	}
	return s, true
}
