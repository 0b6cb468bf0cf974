package redact

import "strings"

// Text masks the credentials in a text: those in URLs, in assignments and headers, and those of published forms. A text
// that is one JSON document is masked as such. What bytes s holds doesn't matter; its length isn't bounded.
func Text(s string) (string, Report) {
	var rep Report
	for range maxPasses {
		out, one := pass(s)
		if one.Clean() {
			return s, rep
		}
		s = out
		rep.merge(one)
	}
	return Mask, rep
}

// maxPasses bounds how often masked text is looked through again, until nothing more is found: a mask may be what makes a
// neighbour plain to see. What takes more is made to, and nothing of it is worth showing.
const maxPasses = 6

// pass looks through a text once.
func pass(s string) (string, Report) {
	var rep Report
	if isDocument(s) {
		if out, spots, err := document([]byte(s), 0); err == nil {
			for _, f := range spots {
				rep.add(f.Kind, f.Pointer, f.Count)
			}
			return string(out), rep
		}
	}
	spans := scan(s)
	if len(spans) == 0 {
		return s, rep
	}
	for _, p := range spans {
		rep.add(p.kind, "", 1)
	}
	return masked(s, spans), rep
}

// A scanner goes through a text once, from left to right. Whatever it looks ahead at is bounded or becomes a span.
type scanner struct {
	s     string
	spans []span

	// The word that holds the last URL looked at, and its last @: looked for once per word, however many URLs are in it.
	wordEnd, lastAt int
	// The place after the last header looked at, and where its line ends.
	lineFrom, lineTo int
}

func scan(s string) []span {
	c := scanner{s: s}
	inWord := false
	for i := 0; i < len(s); {
		next := i
		switch b := s[i]; {
		case isWord(b):
			if !inWord {
				next = c.word(i)
			}
			if inWord = true; next == i {
				next = i + 1
			} else {
				inWord = isWord(peek(s, next))
			}
			i = next
			continue
		case b == '=', b == ':':
			next = c.delimiter(i)
		case b == '/':
			if peek(s, i+1) == '/' && (i == 0 || s[i-1] != ':' && s[i-1] != '/') {
				next = c.authority(i+2, i)
			}
		case b == '@':
			next = c.dataSource(i)
		case b == '-':
			next = c.dash(i)
		case b == '<':
			next = c.element(i)
		case b == '{':
			next = secretPlace(s, i)
		case b == '%':
			next = c.percent(i)
		case b == '\\':
			next = c.backslash(i)
		}
		inWord = false
		i = max(next, i+1)
	}
	return c.spans
}

// mask adds a span and returns its end. One that reaches back swallows those before it.
func (c *scanner) mask(from, to int, k Kind) int {
	for n := len(c.spans); n > 0 && c.spans[n-1].to > from; n = len(c.spans) {
		from = min(from, c.spans[n-1].from)
		c.spans = c.spans[:n-1]
	}
	c.spans = append(c.spans, span{from, to, k})
	return to
}

// word looks for a credential where a word begins.
func (c *scanner) word(i int) int {
	switch c.s[i] {
	case 'b', 'B':
		if end := c.scheme(i); end > i {
			return end
		}
	case 'p':
		if end := c.netrc(i); end > i {
			return end
		}
	case 'S':
		if at, ok := c.starts(i, "SharedAccessSignature "); ok {
			if end := run(c.s, at, func(b byte) bool { return !isWordEnd(b) && b != '\'' }); strings.Contains(c.s[at:end], "=") {
				return c.mask(at, end, KindAuthorization)
			}
		}
	case 'I', 'P':
		if end := c.sql(i); end > i {
			return end
		}
	case 'i':
		if at, ok := c.starts(i, "invalid port \":"); ok { // net/url repeats what stands in the port's place
			if end := closing(c.s, at, "\""); end > at && !isFilled(c.s[at:end]) {
				return c.mask(at, end, KindUserInfo)
			}
		}
	}
	if end := c.stated(i); end > i {
		return end
	}
	if i > 0 && c.s[i-1] == '-' {
		return i // within a longer name
	}
	if p := shape(c.s, i); p.to > p.from {
		return c.mask(p.from, p.to, p.kind)
	}
	return i
}

// starts reports whether s stands at i, and where it ends.
func (c *scanner) starts(i int, s string) (end int, ok bool) {
	return i + len(s), strings.HasPrefix(c.s[i:], s) && i+len(s) < len(c.s)
}

// stated masks a credential that a sentence tells: the password is …
func (c *scanner) stated(i int) int {
	s := c.s
	to := run(s[:min(len(s), i+24)], i, isWord)
	if peek(s, to) != ' ' || to-i < 3 {
		return i
	}
	switch string([]byte{s[to-3] | 0x20, s[to-2] | 0x20, s[to-1] | 0x20}) { // most words are none of these
	case "ord", "swd", "pwd", "ase", "ode", "ret", "ial", "key", "ken", "jwt", "ass", "dpw", "uth", "dsn":
	default:
		return i
	}
	word := s[i:to]
	found := classify(word)
	secret := found == classSecret || word == "AUTH" || word == "requirepass" || word == "masterauth"
	if !secret && found != classToken {
		return i
	}
	for _, verb := range [...]string{" is ", " was ", " is: ", " set to ", " "} {
		v, ok := c.starts(to, verb)
		if !ok {
			continue
		}
		q := quote(s, v)
		v += len(q)
		end := c.valueEnd(v, false, false)
		if q != "" {
			end = closing(s, v, q)
		}
		// Without a verb it may be prose: a password of letters and digits is told from a word.
		val := s[v:end]
		if strings.ContainsAny(val, " ([{</=:") || isHarmless(val) || !looks(val) || !hasDigit(val) || verb == " " && (len(val) < 8 || !secret) {
			return i
		}
		return c.mask(v, end, KindNamed)
	}
	return i
}

// sql masks the password of statements that make a user: IDENTIFIED BY '…', PASSWORD FOR u = '…'.
func (c *scanner) sql(i int) int {
	for _, words := range [...][2]string{{"IDENTIFIED ", "BY '"}, {"PASSWORD FOR ", "= '"}} {
		at, ok := c.starts(i, words[0])
		if !ok {
			continue
		}
		if k := strings.Index(c.s[at:min(len(c.s), at+maxName)], words[1]); k >= 0 {
			from := at + k + len(words[1])
			if end := closing(c.s, from, "'"); !isHarmless(c.s[from:end]) {
				return c.mask(from, end, KindNamed)
			}
		}
	}
	return i
}

// scheme looks for Bearer or Basic and the credential after it.
func (c *scanner) scheme(i int) int {
	for _, name := range [...]string{"bearer", "basic"} {
		at := i + len(name)
		if at >= len(c.s) || !strings.EqualFold(c.s[i:at], name) {
			continue
		}
		from := run(c.s, at, func(b byte) bool { return b == ' ' || b == '\t' })
		if strings.HasPrefix(c.s[at:], "%20") {
			from = at + 3
		}
		if from == at || from-at > 8 {
			continue
		}
		to := run(c.s, from, isBearer)
		v := strings.TrimRight(c.s[from:to], ".")
		if name == "basic" && isBasic(v) || name == "bearer" && len(v) >= 8 && (hasDigit(v) || len(v) >= 32 && !strings.Contains(v, "/")) {
			return c.mask(from, from+len(v), KindAuthorization)
		}
	}
	return i
}

// dash looks for a private key in PEM, and for a command's flag.
func (c *scanner) dash(i int) int {
	const begin, end, key = "-----BEGIN ", "-----END ", "PRIVATE KEY"
	s := c.s
	if strings.HasPrefix(s[i:], begin) {
		label, _, ok := strings.Cut(s[i+len(begin):min(len(s), i+len(begin)+64)], "-----")
		if !ok || !strings.Contains(label, key) {
			return i + len(begin)
		}
		to := strings.Index(s[i:], end)
		if to < 0 {
			return c.mask(i, len(s), KindPrivateKey) // it was cut off: nobody knows where it ends
		}
		to += i + len(end)
		if rest := strings.Index(s[to:min(len(s), to+64)], "-----"); rest >= 0 {
			to += rest + len("-----")
		}
		return c.mask(i, to, KindPrivateKey)
	}
	if i > 0 && isToken(s[i-1]) {
		return i
	}
	if end := c.curl(i); end > i {
		return end
	}
	if strings.HasPrefix(s[i:], "--") {
		return c.flag(i + 2)
	}
	return i
}

// curl masks the password in curl -u name:password.
func (c *scanner) curl(i int) int {
	s := c.s
	if end := c.client(i); end > i {
		return end
	}
	for _, flag := range [...]string{"-u ", "--user ", "--proxy-user ", "-U "} {
		if !strings.HasPrefix(s[i:], flag) || !strings.Contains(s[max(0, i-256):i], "curl") {
			continue
		}
		v := i + len(flag)
		v += len(quote(s, v))
		end := c.valueEnd(v, false, false)
		if user, pass, ok := strings.Cut(s[v:end], ":"); ok && !isFilled(pass) {
			return c.mask(v+len(user)+1, end, KindUserInfo)
		}
	}
	return i
}

// client masks the password in the arguments of a database's client, and of sshpass.
func (c *scanner) client(i int) int {
	s := c.s
	if i == 0 || s[i-1] != ' ' {
		return i
	}
	for _, f := range [...]struct{ flag, program string }{{"-p", "mysql"}, {"-p", "mariadb"}, {"-p ", "sshpass"}, {"-p", "sshpass"}, {"-a ", "redis-cli"}, {"-p ", "mongo"}} {
		v, ok := c.starts(i, f.flag)
		if !ok || !strings.Contains(s[max(0, i-256):i], f.program) {
			continue
		}
		v += len(quote(s, v))
		end := c.valueEnd(v, false, false)
		if val := s[v:end]; val != "" && val[0] != '-' && !isHarmless(val) && !isProse(val) {
			return c.mask(v, end, KindNamed)
		}
	}
	return i
}

// netrc masks the password in a line of .netrc: login NAME password SECRET.
func (c *scanner) netrc(i int) int {
	const word = "password "
	s := c.s
	if !strings.HasPrefix(s[i:], word) || !strings.Contains(s[max(0, i-256):i], "machine ") {
		return i
	}
	if before := strings.Fields(s[max(0, i-256):i]); len(before) < 2 || before[len(before)-2] != "login" {
		return i
	}
	end := c.valueEnd(i+len(word), false, false)
	if v := s[i+len(word) : end]; isHarmless(v) || isProse(v) {
		return i
	}
	return c.mask(i+len(word), end, KindNamed)
}

// element masks the text of an XML element with a secret's name.
func (c *scanner) element(i int) int {
	s := c.s
	to := run(s[:min(len(s), i+maxName)], i+1, func(b byte) bool { return isDotted(b) || b == ':' })
	if peek(s, to) != '>' || to-i < 4 {
		return i
	}
	switch classify(s[i+1 : to]) {
	case classSecret, classSecrets, classToken:
	case classNone, classTokens, classAuth, classCookie, classSigned, classShort:
		return i
	}
	size := strings.IndexByte(s[to:], '<')
	if size < 0 || !strings.HasPrefix(s[to+size:], "</"+s[i+1:to]) {
		return i
	}
	if v := strings.TrimSpace(s[to+1 : to+size]); isHarmless(v) {
		return i
	}
	return c.mask(to+1, to+size, KindNamed)
}

// flag looks for the value of --name, after a blank. One after = is an assignment.
func (c *scanner) flag(name int) int {
	s := c.s
	to := run(s[:min(len(s), name+maxName)], name, isToken)
	switch classify(s[name:to]) {
	case classSecret, classSecrets, classToken, classTokens:
	case classNone, classAuth, classCookie, classSigned, classShort:
		return to
	}
	v := run(s, to, func(b byte) bool { return b == ' ' })
	if v == to || v == len(s) || v-to > maxBlank {
		return to
	}
	if q := quote(s, v); q != "" {
		from := v + len(q)
		end := closing(s, from, q)
		if isHarmless(s[from:end]) {
			return end
		}
		return c.mask(from, end, KindNamed)
	}
	end := c.valueEnd(v, false, false)
	val := s[v:end]
	if val == "" || val[0] == '-' || isHarmless(val) || isProse(val) || strings.ToUpper(val) == val && !hasDigit(val) || isCode(val) {
		return v
	}
	return c.mask(v, end, KindNamed)
}

// percent looks for a delimiter that is encoded, as in a URL inside of a URL.
func (c *scanner) percent(i int) int {
	switch s := c.s; {
	case i+2 >= len(s) || unhex(s[i+1]) < 0 || unhex(s[i+2]) < 0:
		return i
	case s[i+1:i+3] == "3D" || s[i+1:i+3] == "3d":
		return max(c.assign(i, i+3), i+3)
	case i+9 <= len(s) && strings.EqualFold(s[i:i+9], "%3A%2F%2F"):
		return c.encodedAuthority(i + 9)
	}
	return i + 3 // a new word begins after it
}

// encodedAuthority masks the password of a URL inside of a URL, whose authority begins at i.
func (c *scanner) encodedAuthority(i int) int {
	s := c.s
	colon, at := -1, -1
	for k := i; k+2 < len(s) && k-i < 1024 && !isWordEnd(s[k]) && s[k] != '&' && s[k] != '#'; k++ {
		if s[k] != '%' {
			continue
		}
		switch code := strings.ToUpper(s[k+1 : k+3]); {
		case code == "2F" || code == "3F" || code == "23":
			k = len(s)
		case code == "3A" && colon < 0:
			colon = k
		case code == "40":
			at = k
		}
	}
	if colon < 0 || at < colon || isFilled(s[colon+3:at]) {
		return i
	}
	return c.mask(colon+3, at, KindUserInfo)
}

// backslash steps over an escape, so that a word begins after \n.
func (c *scanner) backslash(i int) int {
	switch peek(c.s, i+1) {
	case 'n', 'r', 't':
		return i + 2
	case 'u':
		if i+5 < len(c.s) && run(c.s[:i+6], i+2, func(b byte) bool { return unhex(b) >= 0 }) == i+6 {
			return i + 6
		}
	}
	return i
}
