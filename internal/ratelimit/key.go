package ratelimit

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"github.com/counterfoil/counterfoil"
)

// A Subject is who is counted: a principal of a tenant. Both names are needed.
type Subject struct {
	Tenant    string
	Principal string // the actor's name, with its kind
}

// A Kind is what is counted. The zero Kind is nothing.
type Kind string

// The kinds.
const (
	KindRequest Kind = "request" // requests at the door
	KindRead    Kind = "read"    // calls of a tool that read
	KindWrite   Kind = "write"   // calls of a tool that write or destroy
)

// A Key is what has a budget of its own. Its parts are never joined, so that two keys can't meet in one name.
type Key struct {
	Subject
	Kind Kind
	Tool string // "" for requests
}

// Compare orders keys by tenant, principal, kind and tool, byte by byte.
func (k Key) Compare(o Key) int {
	return cmp.Or(strings.Compare(k.Tenant, o.Tenant), strings.Compare(k.Principal, o.Principal),
		strings.Compare(string(k.Kind), string(o.Kind)), strings.Compare(k.Tool, o.Tool))
}

// maxKey bounds the bytes of a key: the stores find rows by it.
const maxKey = 2048

// Check reports what is wrong with a key, as a coded error. Stores that check it keep every key that passes.
func (k Key) Check() error {
	known := k.Kind == KindRequest && k.Tool == "" || (k.Kind == KindRead || k.Kind == KindWrite) && k.Tool != ""
	if k.Tenant == "" || k.Principal == "" || !known {
		return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "a rate is counted for a tenant, a principal and, if it is a tool's, the tool"}
	}
	if len(k.Tenant)+len(k.Principal)+len(k.Tool) > maxKey {
		return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "the names that a rate is counted for are too long"}
	}
	for _, s := range []string{k.Tenant, k.Principal, k.Tool} {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "a name that a rate is counted for is not plain text"}
		}
	}
	return nil
}
