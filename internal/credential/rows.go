package credential

import (
	"strings"

	"github.com/counterfoil/counterfoil/internal/identity"
)

// JoinNames writes a list of names as the stores keep it: one a line. A name that is empty or has a line break is refused.
func JoinNames(list []string) (string, error) {
	for _, s := range list {
		if s == "" || strings.Contains(s, "\n") {
			return "", fail("a name in a list is empty or has a line break")
		}
	}
	return strings.Join(list, "\n"), nil
}

// SplitNames reads what JoinNames wrote.
func SplitNames(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// Check reports what is missing of a key: stores refuse such rows.
func (k *KeyRow) Check() error {
	switch k.Kind {
	case identity.KindAgent, identity.KindPerson, identity.KindService:
	default:
		return fail("the key's kind is not known")
	}
	if k.Hash == (Hash{}) || k.Created.IsZero() || k.CreatedBy == "" || !k.Expires.IsZero() && !k.Expires.After(k.Created) {
		return fail("the key is not complete")
	}
	return nil
}

// Check reports what is missing of a user: stores refuse such rows.
func (r *UserRow) Check() error {
	if _, ok := parseStored(r.Password); !ok || r.Version < 1 || r.Created.IsZero() || r.Changed.Before(r.Created) {
		return fail("the user is not complete")
	}
	return nil
}

// Check reports what is missing of a family: stores refuse such rows.
func (f *Family) Check() error {
	if f.ID == (Hash{}) || f.Newest == (Hash{}) || f.Created.IsZero() || f.Issued.IsZero() || !f.Expires.After(f.Created) {
		return fail("the family of refresh credentials is not complete")
	}
	return nil
}
