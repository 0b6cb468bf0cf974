package redact

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mask stands in the place of what was masked.
const Mask = "***"

// A Kind says why something was masked. The zero Kind is none.
type Kind string

// The kinds.
const (
	KindNamed         Kind = "named"          // the value of a name such as password, api_key or Client-Secret
	KindParameter     Kind = "url-parameter"  // the same in a URL's query or fragment, and signatures of signed URLs
	KindUserInfo      Kind = "url-user-info"  // the password before a URL's host, or a token in its place
	KindAuthorization Kind = "authorization"  // what follows Bearer, Basic and the like
	KindCookie        Kind = "cookie"         // what Cookie and Set-Cookie carry
	KindPrivateKey    Kind = "private-key"    // PEM, and the private members of a JSON Web Key
	KindJWT           Kind = "jwt"            // JSON Web Tokens
	KindCounterfoil   Kind = "counterfoil"    // our own API keys, refresh and bootstrap credentials, and sealed values
	KindAnthropic     Kind = "anthropic"      // API keys
	KindAWS           Kind = "aws"            // access key ids
	KindGitHub        Kind = "github"         // tokens
	KindGoogle        Kind = "google"         // API keys, OAuth tokens and client secrets
	KindOpenAI        Kind = "openai"         // API keys, and those of services that took over their form
	KindSlack         Kind = "slack"          // tokens and webhooks
	KindStripe        Kind = "stripe"         // secret, restricted and webhook keys
	KindProvider      Kind = "provider-token" // the published forms of other services
)

// A Finding says how often something of one kind was masked at one place.
type Finding struct {
	Kind    Kind
	Pointer string // JSON pointer to the string, number or object, its names redacted too and bounded; "" in text
	Count   int
}

// maxFindings and maxPointer bound a Report: neither a secret-ridden document nor a hostile name may blow up a log.
const (
	maxFindings = 100
	maxPointer  = 256
)

// A Report says what was masked, never what it was. The zero Report says: nothing.
type Report struct {
	Findings []Finding // in the order of the document, at most 100
	Total    int       // of all that was masked, also beyond the first 100 findings
}

// Clean reports whether nothing was masked.
func (r Report) Clean() bool { return r.Total == 0 }

// merge adds the findings of a further pass.
func (r *Report) merge(more Report) {
	total := r.Total + more.Total
	for _, f := range more.Findings {
		r.add(f.Kind, f.Pointer, f.Count)
	}
	r.Total = total
}

func (r *Report) add(k Kind, pointer string, n int) {
	r.Total += n
	at := func(f Finding) bool { return f.Kind == k && f.Pointer == pointer }
	if i := slices.IndexFunc(r.Findings, at); i >= 0 {
		r.Findings[i].Count += n
	} else if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, Finding{Kind: k, Pointer: pointer, Count: n})
	}
}

// appendPointer appends one step to a JSON pointer that is safe to print, and stops at the bound.
func appendPointer(p []byte, step string) []byte {
	p = append(p, '/')
	for _, r := range step {
		if len(p) >= maxPointer {
			return append(p, "…"...)
		}
		switch {
		case r == '~':
			p = append(p, "~0"...)
		case r == '/':
			p = append(p, "~1"...)
		case !unicode.IsPrint(r):
			p = utf8.AppendRune(p, utf8.RuneError)
		default:
			p = utf8.AppendRune(p, r)
		}
	}
	return p
}

// A span is a piece of a text that is to be masked.
type span struct {
	from, to int
	kind     Kind
}

// masked returns s with its spans masked. They don't overlap and are in order.
func masked(s string, spans []span) string {
	var b strings.Builder
	b.Grow(len(s))
	at := 0
	for _, p := range spans {
		b.WriteString(s[at:p.from])
		b.WriteString(Mask)
		at = p.to
	}
	b.WriteString(s[at:])
	return b.String()
}
