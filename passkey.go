package counterfoil

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// A Passkey binds an approver's key to WebAuthn (www.w3.org/TR/webauthn-3): it signs in a browser, for one relying party
// and from known origins alone. A key with a Passkey makes no plain signatures, and one without makes no others.
type Passkey struct {
	RPID    string   // the relying party's id: a domain in lower case
	Origins []string // the origins that may ask it to sign, sorted; never empty
}

// An Assertion is what navigator.credentials.get brings back, in the bytes of the authenticator.
type Assertion struct {
	AuthenticatorData []byte
	ClientDataJSON    []byte
	Signature         []byte // in DER, of either half; FixedSignature makes it the one that envelopes hold
}

// Bounds of an assertion. Authenticators make 37 bytes unless they have extensions, browsers a few hundred.
const (
	authDataSize     = 37
	maxAuthData      = 1024
	maxClientData    = 4096
	maxOrigins       = 16
	flagUserPresent  = 0x01
	flagUserVerified = 0x04
	flagEligible     = 0x08 // for backup
	flagBackedUp     = 0x10
	flagExtensions   = 0x80
)

// check returns a sentence about what is wrong with the binding, or "". It sorts the origins.
func (p *Passkey) check() string {
	if len(p.RPID) > maxIdentityBytes || !isDomain(p.RPID) {
		return "a passkey's relying party is a domain in lower case"
	}
	if len(p.Origins) == 0 || len(p.Origins) > maxOrigins {
		return "a passkey has 1 to " + strconv.Itoa(maxOrigins) + " origins"
	}
	slices.SortFunc(p.Origins, compareUTF16)
	for i, o := range p.Origins {
		if i > 0 && o == p.Origins[i-1] {
			return "a passkey names an origin twice"
		}
		if len(o) > maxIdentityBytes || !originOf(o, p.RPID) {
			return "a passkey's origin is https, with the relying party's domain or one below it"
		}
	}
	return ""
}

// isDomain reports whether s is labels of lower-case letters, digits and hyphens.
func isDomain(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		if strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return true
}

// originOf reports whether s is a serialised origin that may act for the relying party. Browsers count http on localhost
// as secure.
func originOf(s, rpID string) bool {
	usual := "443" // which a browser leaves out
	host, ok := strings.CutPrefix(s, "https://")
	if rpID == "localhost" && !ok {
		usual = "80"
		host, ok = strings.CutPrefix(s, "http://")
	}
	host, port, hasPort := strings.Cut(host, ":")
	if hasPort {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port || port == usual {
			return false
		}
	}
	return ok && isDomain(host) && (host == rpID || strings.HasSuffix(host, "."+rpID))
}

// Challenge returns what a passkey signs in place of the message: SHA-256 of it. The browser writes it in base64url.
func (m Message) Challenge() [32]byte { return sha256.Sum256(m.pae) }

// verify checks a passkey's signature of a message (WebAuthn level 3, section 7.2), as far as it is not about who the user
// is: the ring says that. Relying party and origins are the key's, never the message's. The counter proves nothing
// offline and is not looked at; what extensions say is signed and not used.
func (p *Passkey) verify(k curveKey, m Message, s signature) string {
	d := s.authData
	if len(d) < authDataSize || len(d) > maxAuthData {
		return "the authenticator data has another form"
	}
	if party := sha256.Sum256([]byte(p.RPID)); string(d[:32]) != string(party[:]) {
		return "the passkey signed for another relying party"
	}
	flags := d[32]
	const known = flagUserPresent | flagUserVerified | flagEligible | flagBackedUp | flagExtensions
	switch {
	case flags&flagUserPresent == 0 || flags&flagUserVerified == 0:
		return "the passkey did not verify its user"
	case flags&^known != 0, flags&flagBackedUp != 0 && flags&flagEligible == 0, (flags&flagExtensions != 0) != (len(d) > authDataSize):
		return "the authenticator data has another form"
	}
	if msg := p.checkClientData(s.clientData, m.Challenge()); msg != "" {
		return msg
	}
	sum := sha256.Sum256(s.clientData)
	if !k.verify(slices.Concat(d, sum[:]), s.sig) {
		return doesNotFit
	}
	return ""
}

// checkClientData reads what the browser says that it asked for. Members that are not known are tolerated, because
// browsers add some on purpose (WebAuthn, section 5.8.1); a name that stands twice is not.
func (p *Passkey) checkClientData(b []byte, challenge [32]byte) string {
	const form = "the client data has another form"
	r, err := newReaderBy(b, limits{bytes: maxClientData, nodes: 256, depth: 8, width: 64}, numbersRounded)
	if err != nil || r.b[0] != '{' {
		return form
	}
	var typ, given, origin string
	for name, v := range r.entries(r.root()) {
		switch string(unquote(nil, name)) {
		case "type":
			typ = string(r.content(v))
		case "challenge":
			given = string(r.content(v))
		case "origin":
			origin = string(r.content(v))
		case "crossOrigin":
			if r.boolean(v) {
				return "the passkey signed in a page inside another"
			}
		case "topOrigin":
			return "the passkey signed in a page inside another"
		}
	}
	switch {
	case r.err != nil:
		return form
	case typ != "webauthn.get":
		return "the passkey was asked for something else"
	case given != base64.RawURLEncoding.EncodeToString(challenge[:]):
		return "the passkey signed something else"
	case !slices.Contains(p.Origins, origin):
		return "the passkey signed for another origin"
	}
	return ""
}
