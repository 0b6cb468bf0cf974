package identity

import (
	"net/http"
	"net/url"
	"strings"
)

// The places of credentials, in the form that net/http gives header names.
const (
	headerBearer = "Authorization"
	headerAPIKey = "X-Api-Key" //nolint:gosec // the name of a header
)

// A credential is the one that a request brings.
type credential struct {
	text  string
	isKey bool // from X-API-Key
}

// oneCredential finds the request's only credential. Two are refused whatever each is worth, so that no two readers of the
// same request can take it for different principals. One in the query is never read, as addresses are written to logs; it
// still counts.
func oneCredential(r *http.Request) (credential, error) {
	var found []credential
	for _, v := range r.Header[headerBearer] {
		if v != "" {
			found = append(found, credential{text: v})
		}
	}
	for _, v := range r.Header[headerAPIKey] {
		if v != "" {
			found = append(found, credential{text: v, isKey: true})
		}
	}
	inQuery := r.URL != nil && queryHasCredential(r.URL.RawQuery)
	switch {
	case len(found) > 1 || len(found) == 1 && inQuery:
		return credential{}, &Error{Reason: ReasonAmbiguous, Why: "two", Err: nil}
	case inQuery:
		return credential{}, &Error{Reason: ReasonMissing, Why: "query", Err: nil}
	case len(found) == 0:
		return credential{}, &Error{Reason: ReasonMissing, Why: "none", Err: nil}
	case found[0].isKey:
		return found[0], nil
	}
	return bearer(found[0].text)
}

// bearer takes the token out of an Authorization header (RFC 6750 section 2.1; the scheme in any letter case).
func bearer(value string) (credential, error) {
	scheme, token, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return credential{}, invalid("scheme")
	}
	return credential{text: strings.TrimLeft(token, " ")}, nil
}

// queryHasCredential reports whether a parameter has a name that others send credentials under.
func queryHasCredential(query string) bool {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, _, _ := strings.Cut(pair, "=")
		if strings.ContainsAny(name, "%+") {
			plain, err := url.QueryUnescape(name)
			if err != nil {
				continue // nobody reads it under that name
			}
			name = plain
		}
		for _, known := range []string{"access_token", "token", "api_key", "x-api-key"} {
			if strings.EqualFold(name, known) {
				return true
			}
		}
	}
	return false
}
