package reach

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxURL is the longest URL, in bytes: what servers commonly take.
const maxURL = 8192

// The schemes that calls may use.
const (
	schemeHTTP  = "http"
	schemeHTTPS = "https"
)

// A URL is an absolute http or https URL of which every parser gets the same host. The zero URL is no URL.
type URL struct {
	scheme string
	host   string // the one spelling that parseHost returns
	port   uint16
	rest   string // path and query as they were written
}

// ParseURL reads an absolute URL with the scheme http or https. It doesn't repair: what parsers differ about is refused.
// These are user info, backslashes, blanks, control and invisible characters, characters that look like slashes, a missing
// or doubled host, an empty port, percent signs in the host or such as begin no escape, numbers that are hosts in old C
// libraries ("0x7f.1", "2130706433", "127.1", "010.0.0.1"), zones, IPv4 inside IPv6, and international names with
// characters that stand for others or with mixed scripts. A fragment is dropped: it is never sent.
// Errors carry [counterfoil.CodeInvalidInput] and never repeat the URL.
func ParseURL(s string) (URL, error) {
	if len(s) > maxURL {
		return URL{}, bad("the URL is too long")
	}
	scheme, rest, ok := strings.Cut(s, "://")
	switch {
	case ok && strings.EqualFold(scheme, schemeHTTPS):
		scheme = schemeHTTPS
	case ok && strings.EqualFold(scheme, schemeHTTP):
		scheme = schemeHTTP
	default:
		return URL{}, bad("the URL doesn't begin with http:// or https://")
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, rest = rest[:i], rest[i:]
	} else {
		rest = ""
	}
	host, port, err := parseAuthority(authority)
	if err != nil {
		return URL{}, err
	}
	if err := checkRest(rest); err != nil {
		return URL{}, err
	}
	if port == 0 {
		port = defaultPort(scheme)
	}
	rest, _, _ = strings.Cut(rest, "#")
	return URL{scheme: scheme, host: host, port: port, rest: rest}, nil
}

// parseAuthority reads "host" or "host:port". Without a port it returns 0.
func parseAuthority(s string) (string, uint16, error) {
	if strings.Contains(s, "@") {
		return "", 0, bad("the URL has user info before its host")
	}
	text, number := s, ""
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, ']') {
		if text, number = s[:i], s[i+1:]; number == "" {
			return "", 0, bad("the port is empty")
		}
	}
	host, err := parseHost(text)
	if err != nil || number == "" {
		return host, 0, err
	}
	port, err := parsePort(number)
	return host, port, err
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || s[0] == '0' {
		return 0, bad("the port is not a number from 1 to 65535")
	}
	return uint16(n), nil
}

func defaultPort(scheme string) uint16 {
	if scheme == schemeHTTPS {
		return 443
	}
	return 80
}

// checkRest checks what follows the host: path, query and fragment.
func checkRest(s string) error {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= utf8.RuneSelf:
			return checkRunes(s)
		case c <= ' ' || c == 0x7f || c == '\\':
			return bad("the URL contains a blank, a control character or a backslash")
		case c == '%' && (i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2])):
			return bad("the URL contains a percent sign that begins no escape")
		}
	}
	return nil
}

// checkRunes is checkRest for texts that aren't ASCII.
func checkRunes(s string) error {
	if !utf8.ValidString(s) {
		return bad("the URL isn't valid UTF-8")
	}
	for _, r := range s {
		if r >= utf8.RuneSelf && (isSlashLike(r) || unicode.In(r, unicode.Z, unicode.C, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)) {
			return bad("the URL contains an invisible character or one that looks like a separator")
		}
	}
	return checkRest(strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return -1
		}
		return r
	}, s))
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// String returns the URL as it is asked for: scheme and host in their one spelling, the port unless it is the scheme's own,
// path and query as they were given, no fragment. The zero URL is "".
func (u URL) String() string {
	if u.IsZero() {
		return ""
	}
	return u.Origin() + u.rest
}

// Origin returns scheme, host and port alone. Credentials for one origin must not go to another.
func (u URL) Origin() string {
	if u.IsZero() {
		return ""
	}
	return u.scheme + "://" + u.authority()
}

func (u URL) authority() string {
	host := u.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if u.port == defaultPort(u.scheme) {
		return host
	}
	return host + ":" + strconv.FormatUint(uint64(u.port), 10)
}

// Scheme returns "http" or "https".
func (u URL) Scheme() string { return u.scheme }

// Host returns the name in ASCII and lower case without a dot at its end, or the address, without brackets.
func (u URL) Host() string { return u.host }

// Port returns the port, the scheme's own if the URL names none.
func (u URL) Port() uint16 { return u.port }

// IsZero reports whether u is no URL.
func (u URL) IsZero() bool { return u.host == "" }

// addr returns the address that the host is, if it is one.
func (u URL) addr() (netip.Addr, bool) {
	a, err := netip.ParseAddr(u.host)
	return a, err == nil
}
