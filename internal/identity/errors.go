package identity

import (
	"errors"
	"strings"
)

// A Reason says why a request was not let in. The words are stable; internal/api maps them to status codes.
type Reason string

// The reasons.
const (
	ReasonMissing     Reason = "credential-missing"   // 401: there is no credential where one is read
	ReasonAmbiguous   Reason = "credential-ambiguous" // 400: there is more than one
	ReasonInvalid     Reason = "credential-invalid"   // 401: it is not good; which rule it broke is not told
	ReasonScope       Reason = "scope-insufficient"   // 403: it is good, but not for this
	ReasonUnavailable Reason = "identity-unavailable" // 503: whether it is good can't be learned now
)

// Error is what authentication fails with. Its text is the same for every credential that is refused for one Reason.
type Error struct {
	Reason Reason
	Why    string // the rule that was broken, one word of a fixed list: to be logged and counted, never sent
	Err    error  // the cause: to be logged, never sent
}

// Error returns a sentence that is safe to send.
func (e *Error) Error() string {
	switch e.Reason {
	case ReasonMissing:
		return "this needs a credential: a bearer token in Authorization, or a key in X-API-Key"
	case ReasonAmbiguous:
		return "there is more than one credential; send one"
	case ReasonInvalid:
		return "the credential is not valid"
	case ReasonScope:
		return "the credential does not have the scope that this needs"
	case ReasonUnavailable:
		return "credentials can't be checked at the moment"
	default:
		return "the request is not let in"
	}
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf returns the reason that err carries. An error that carries none is ReasonUnavailable: a fault of ours, which lets
// nobody in.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ReasonUnavailable
}

func invalid(why string) error { return &Error{Reason: ReasonInvalid, Why: why, Err: nil} }

func unavailable(why string, err error) error {
	return &Error{Reason: ReasonUnavailable, Why: why, Err: err}
}

// Challenge returns the WWW-Authenticate header's value for a reason (RFC 6750 section 3, RFC 9728 section 5.1), and "" for
// one that has none. need are all scopes that the request takes.
func (a *Authenticator) Challenge(r Reason, need ...Scope) string {
	var params []string
	add := func(name, value string) {
		if value != "" {
			params = append(params, name+`="`+value+`"`) // none has a quote: they are ours, or were checked by New
		}
	}
	switch r {
	case ReasonMissing:
	case ReasonInvalid:
		add("error", "invalid_token")
	case ReasonAmbiguous:
		add("error", "invalid_request")
	case ReasonScope:
		add("error", "insufficient_scope")
	case ReasonUnavailable:
		return ""
	default:
		return ""
	}
	names := make([]string, len(need))
	for i, s := range need {
		names[i] = string(s)
	}
	add("scope", strings.Join(names, " "))
	add("resource_metadata", a.o.ResourceMetadata)
	if len(params) == 0 {
		return "Bearer"
	}
	return "Bearer " + strings.Join(params, ", ")
}
