package counterfoil

import (
	"bytes"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A Citation names a resource that a source's observation rests on.
type Citation struct {
	URI    string // canonical: see ParseCitation
	Digest Digest // of the resource, as the observer says; zero for none
}

// maxDecodings is how often a path is percent-decoded: one time for each hand that may have encoded it.
const maxDecodings = 3

// ParseCitation returns the canonical form of a citation's URI: https, a host in lower-case ASCII, the port unless it is
// 443, and the path, decoded as often as it was encoded, in Unicode normal form C and encoded once, with every character but
// letters, digits and - _ . ! ~ * ' ( ) escaped.
//
// What a lenient parser would repair is refused: two programs that repair differently would see two resources. That is
// another scheme or spelling of "https://", user information (an empty one too), a query or a fragment (empty ones too),
// a backslash, a space, characters that belong escaped, a host that has another spelling (a final dot, a number that is no
// dotted address, letters that are mapped to others), and a path with "." or ".." in it, however it is encoded.
func ParseCitation(uri string) (string, error) {
	c, msg := canonicalCitation(uri)
	if msg != "" {
		return "", fail(CodeInvalidInput, msg)
	}
	return c, nil
}

func canonicalCitation(uri string) (canonical, fault string) {
	if msg := faultInText(uri); msg != "" {
		return "", msg
	}
	origin, path, msg := splitCitation(uri)
	if msg == "" {
		origin, msg = canonicalOrigin(origin)
	}
	if msg == "" {
		path, msg = canonicalPath(path)
	}
	if msg == "" && len(origin)+len(path) > maxTextBytes {
		msg = "the citation is too long"
	}
	if msg != "" {
		return "", msg
	}
	return origin + path, ""
}

const citationScheme = "https://"

// splitCitation cuts a URI behind its authority. No path is the root.
func splitCitation(uri string) (origin, path, fault string) {
	rest, ok := strings.CutPrefix(uri, citationScheme)
	if !ok {
		return "", "", "a citation begins with https://"
	}
	end := strings.IndexByte(rest, '/')
	if end < 0 {
		return uri, "/", ""
	}
	return uri[:len(citationScheme)+end], rest[end:], ""
}

// canonicalOrigin checks an origin: https://, a host, and a port if it is another than 443.
func canonicalOrigin(origin string) (canonical, fault string) {
	host := strings.TrimPrefix(origin, citationScheme)
	port := ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		host, port = host[:i], host[i+1:]
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65_535 || strconv.Itoa(n) != port {
			return "", "the citation's port is not one"
		}
	}
	ascii, msg := canonicalHost(host)
	if msg != "" {
		return "", msg
	}
	if port == "" || port == "443" {
		return citationScheme + ascii, ""
	}
	return citationScheme + ascii + ":" + port, ""
}

const (
	badHost      = "the citation's host is not one"
	maxHostBytes = 253
)

// canonicalHost returns the one spelling of a host name, or of an IPv4 address in four decimal numbers. It is ASCII: a name
// of other letters is written in its ASCII form ("xn--…"), which is compared and not looked into. That costs no more than its
// length, and does not depend on the version of anybody's tables.
func canonicalHost(host string) (ascii, fault string) {
	if len(host) > maxHostBytes {
		return "", badHost
	}
	ascii = strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, host)
	if !isDomain(ascii) {
		return "", badHost
	}
	// Lenient parsers take a host whose last label is a number for an address, in octal, hexadecimal and shortened forms.
	if last := ascii[strings.LastIndexByte(ascii, '.')+1]; last >= '0' && last <= '9' {
		if a, err := netip.ParseAddr(ascii); err != nil || !a.Is4() {
			return "", badHost
		}
	}
	return ascii, ""
}

const traversal = "the citation's path leaves itself"

// canonicalPath decodes a path and encodes it once. Empty segments and the case of letters are kept.
func canonicalPath(path string) (canonical, fault string) {
	for i := range len(path) {
		if c := path[i]; c >= utf8.RuneSelf || strings.IndexByte(" \"#<>?[\\]^`{|}", c) >= 0 {
			return "", "the citation's path has a character that must be escaped or left out"
		}
	}
	plain := path
	for pass := 0; strings.Contains(plain, "%"); pass++ {
		if pass == maxDecodings {
			return "", "the citation's path is encoded too often"
		}
		var ok bool
		if plain, ok = percentDecoded(plain); !ok {
			return "", "the citation's path has a percent sign that encodes nothing"
		}
	}
	if !utf8.ValidString(plain) || strings.ContainsAny(plain, `\?#`) || strings.ContainsFunc(plain, invisible) {
		return "", "the citation's path hides a character that it may not have"
	}
	plain = norm.NFC.String(plain)
	for segment := range strings.SplitSeq(plain, "/") {
		// A server that folds look-alikes would see the dots that we do not.
		if s := norm.NFKC.String(segment); s == "." || s == ".." {
			return "", traversal
		}
	}
	return percentEncoded(plain), ""
}

// percentDecoded decodes every escape once. ok is false for a percent sign without two hexadecimal digits.
func percentDecoded(s string) (plain string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), true
}

func percentEncoded(plain string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(plain) {
		switch c := plain[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("/-_.!~*'()", c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// readCitation reads {uri, digest?}. A URI that is not canonical is noted down to be rewritten, where that is allowed.
func readCitation(r *reader, n value) Citation {
	var m [2]value
	r.members(n, m[:], "digest?", "uri")
	c := Citation{Digest: r.digest(m[0])}
	uri := r.text(m[1])
	if !r.has(m[1]) {
		return c
	}
	canonical, msg := canonicalCitation(uri)
	switch {
	case msg != "":
		r.fail(m[1], msg)
	case canonical != uri && r.edits == nil:
		r.fail(m[1], "this citation is not in its canonical form")
	case canonical != uri:
		*r.edits = append(*r.edits, edit{m[1], canonical})
	}
	c.URI = canonical
	return c
}

func writeCitations(w *writer, all []Citation) {
	w.name("citations")
	w.open('[')
	for _, c := range all {
		w.open('{')
		w.maybeDigest("digest", c.Digest)
		w.text("uri", c.URI)
		w.close('}')
	}
	w.close(']')
}

// An edit replaces a string of a document.
type edit struct {
	at   value
	text string
}

// edits are in the document's order.
type edits []edit

// edited reports whether something is to be rewritten.
func (r *reader) edited() bool { return r.edits != nil && len(*r.edits) > 0 }

// apply returns the document with every edit made.
func (e edits) apply(b []byte) []byte {
	var out bytes.Buffer
	from := 0
	for _, x := range e {
		out.Write(b[from:x.at.from])
		out.Write(appendString(nil, x.text))
		from = x.at.to
	}
	out.Write(b[from:])
	return out.Bytes()
}

// readCitationRules reads the origins and the path prefixes that a source's citations may have, each in the one form in
// which it is compared. One without the other would admit nothing or anything.
func readCitationRules(r *reader, n, origins, prefixes value) (o, p []string) {
	if !r.has(origins) || !r.has(prefixes) {
		r.fail(n, "citationOrigins and citationResourcePrefixes belong together")
		return nil, nil
	}
	o, p = r.list(origins, 1, maxCitations), r.list(prefixes, 1, maxCitations)
	for _, s := range o {
		origin, path, msg := splitCitation(s)
		if c, bad := canonicalOrigin(origin); msg != "" || bad != "" || c != s || path != "/" {
			r.fail(origins, "an origin is written https://host or https://host:port, in lower case and without a path")
		}
	}
	for _, s := range p {
		if c, bad := canonicalPath(s); bad != "" || c != s || s[0] != '/' {
			r.fail(prefixes, "a prefix is a path that begins with a slash, in canonical form")
		}
	}
	return o, p
}

// cites returns the first fault of what a source cites. A source policy that names no origins allows no citation.
func (p *Policy) cites(s *Source) string {
	if int64(len(s.Citations)) > p.maxCitations {
		return "the source has more citations than the policy allows"
	}
	src := p.sources[s.ID]
	for _, c := range s.Citations {
		origin, path, _ := splitCitation(c.URI)
		if !slices.Contains(src.citationOrigins, origin) {
			return "the policy does not allow citations of this origin"
		}
		if !slices.ContainsFunc(src.citationPrefixes, func(prefix string) bool { return below(path, prefix) }) {
			return "the policy does not allow citations of this path"
		}
	}
	return ""
}

// below reports whether a path is the prefix or lies below it. "/a/" does not cover "/a", nor does "/a" cover "/ab".
func below(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/")
}

// citationRules returns the narrowest rules that allow the citations. What is no citation is left out: the plan that has
// it is refused for it.
func citationRules(all []Citation) (origins, prefixes []string) {
	for _, c := range all {
		if uri, msg := canonicalCitation(c.URI); msg == "" {
			origin, path, _ := splitCitation(uri)
			origins, prefixes = append(origins, origin), append(prefixes, path)
		}
	}
	sorted := func(s []string) []string {
		slices.SortFunc(s, compareUTF16)
		return slices.Compact(s)
	}
	return sorted(origins), sorted(prefixes)
}
