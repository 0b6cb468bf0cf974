package redact

import "strings"

// maxBlank bounds the blanks around a delimiter.
const maxBlank = 40

// maxHarmless is how long a value may be that isn't masked for its look: no word of any language is as long.
const maxHarmless = 1024

// A binding is a name, a delimiter and the place of the value: password=…, "token": …, X-Api-Key: …
type binding struct {
	class  class
	quoted bool // the name stands in quotes
	query  bool // in a URL's query or fragment, or in a form
	colon  bool // the delimiter is a colon
	tight  bool // there is no blank around the delimiter
	loud   bool // the name is in capitals, as in an environment
	inCall bool // the name follows a parenthesis or a comma
	before byte // what stands before the name
	coded  bool // the delimiter is percent-encoded, and so is the next
	start  int  // where the name begins
	value  int  // where the value begins
}

// assign masks the value of a name that ends before i, where a delimiter stands that ends at after. It returns where to
// go on, or i.
func (c *scanner) assign(i, after int) int {
	s := c.s
	next := peek(s, after)
	var last byte
	if i > 0 {
		last = s[i-1]
	}
	switch s[i] {
	case '=':
		if next == '=' || strings.IndexByte("=!<>~", last) >= 0 || next == '~' {
			return i // a comparison
		}
		if next == '>' {
			after++ // 'name' => value
		}
	case ':':
		if next == ':' || last == ':' {
			return i // a path of names
		}
		if next == '=' {
			after++
		}
	}
	b, ok := c.name(i)
	if !ok {
		return i
	}
	b.colon = s[i] == ':' && next != '='
	b.coded = s[i] == '%'
	b.value = run(s[:min(len(s), after+maxBlank)], after, func(c byte) bool {
		return c == ' ' || c == '\t' || b.quoted && (c == '\n' || c == '\r') // JSON, laid out
	})
	b.tight = b.tight && b.value == after
	if b.value == len(s) {
		return i
	}
	return max(c.bound(b), i)
}

// name reads the name before a delimiter at i, from its end.
func (c *scanner) name(i int) (binding, bool) {
	s, b := c.s, binding{}
	end := i
	for end > 0 && i-end < maxBlank && (s[end-1] == ' ' || s[end-1] == '\t') {
		end--
	}
	b.tight = end == i
	if end > 0 && s[end-1] == ']' { // form[name]=
		end--
	}
	if end > 0 && strings.IndexByte("\"'`", s[end-1]) >= 0 {
		b.quoted = true
		for end--; end > 0 && i-end < maxBlank && s[end-1] == '\\'; {
			end--
		}
	}
	from := end
	for from > 0 && end-from < maxName && (isDotted(s[from-1]) || s[from-1] == '%' || s[from-1] == '$' || s[from-1] >= 0x80) {
		from--
	}
	b.start = from
	raw := s[from:end]
	if len(raw) < 2 {
		return b, false
	}
	name := decodePercent(raw)
	if k := strings.LastIndexAny(name, "?&#;=/ \"'"); k >= 0 {
		b.query = strings.IndexByte("?&#;", name[k]) >= 0
		name = name[k+1:]
	} else if from > 0 && !b.quoted {
		b.query = strings.IndexByte("?&#;", s[from-1]) >= 0 || s[from-1] == '[' && s[i-1] == ']'
		b.inCall = s[from-1] == '(' || s[from-1] == ',' || from > 1 && s[from-1] == ' ' && s[from-2] == ','
	}
	if from > 0 {
		b.before = s[from-1]
	}
	if name == "PWD" && b.before != ';' {
		return b, false // the working directory
	}
	if s[i] == ':' && !b.quoted && strings.EqualFold(name, "pass") {
		return b, false // the outcome of a test
	}
	b.class = classify(noun(name))
	if b.class == classShort && b.before == ' ' && !b.query {
		first := from - 1
		for first > 0 && from-first < maxBlank && isAlnum(s[first-1]) {
			first--
		}
		b.class = classify(s[first:end]) // API key: …
	}
	b.loud = b.class != classNone && strings.ToUpper(name) == name
	return b, b.class != classNone && (b.query || b.class != classSigned && b.class != classShort)
}

// noun returns the last part of a name with dots, unless that says nothing alone.
func noun(name string) string {
	switch k := strings.LastIndexByte(name, '.'); name[k+1:] {
	case "value", "data", "text", "key", "string", "":
		return name
	default:
		return name[k+1:]
	}
}

// bound masks the value of a binding, and returns where to go on; 0 when nothing is to be masked.
func (c *scanner) bound(b binding) int {
	s, v := c.s, b.value
	if !b.query && !b.quoted && strings.IndexByte("fbruFBRU@", s[v]) >= 0 && quote(s, v+1) != "" {
		v++ // f"…"
	}
	if b.colon && s[v] == '[' && b.tight && v+1 < len(s) {
		v++ // a header as Go prints it: map[Authorization:[…]]
	}
	q := quote(s, v)
	if q != "" && b.tight && !b.quoted && q == string(b.before) {
		return 0 // "password=": the mark ends a text that began before the name
	}
	from := v + len(q)
	var end int
	switch b.class {
	case classAuth, classCookie:
		switch {
		case q != "":
			end = closing(s, from, q)
		case b.query:
			end = c.valueEnd(v, true, b.coded)
		default:
			end = c.lineEnd(from)
		}
		if b.class == classCookie {
			return c.cookie(b, from, end)
		}
		return c.header(b, q != "", from, end)
	case classNone, classSecret, classSecrets, classToken, classTokens, classSigned, classShort:
	}
	if q != "" {
		end = closing(s, from, q)
		if !b.inQuotes(s[from:end]) {
			return 0
		}
	} else {
		if !b.query && isCall(s, v) {
			return 0
		}
		if to := max(c.block(b), c.nextLine(b)); to > 0 {
			return to
		}
		end = c.valueEnd(v, b.query, b.coded)
		if !b.bare(s[from:end], s[end:min(len(s), end+maxBlank)]) {
			return 0
		}
	}
	if b.query {
		return c.mask(from, end, KindParameter)
	}
	return c.mask(from, end, KindNamed)
}

// block masks a block scalar of YAML, whose lines follow and are further in than the name. It returns 0 for none.
func (c *scanner) block(b binding) int {
	s := c.s
	end := run(s[:min(len(s), b.value+4)], b.value, func(c byte) bool { return strings.IndexByte("|>+-", c) >= 0 })
	if !b.colon || end == b.value || s[b.value] != '|' && s[b.value] != '>' || peek(s, end) != '\n' {
		return 0
	}
	indent := func(i int) int { return run(s, i, func(c byte) bool { return c == ' ' }) - i }
	outer := c.indent(b)
	from := end + 1 + indent(end+1)
	to := from
	for at := end + 1; at < len(s) && (indent(at) > outer || s[at] == '\n'); {
		size := strings.IndexByte(s[at:], '\n')
		if size < 0 {
			size = len(s) - at
		}
		if size > indent(at) {
			to = at + size
		}
		at += size + 1
	}
	if to == from || isFilled(s[from:to]) {
		return 0
	}
	return c.mask(from, to, KindNamed)
}

// indent returns how far in the line of a binding's name begins.
func (c *scanner) indent(b binding) int {
	from := max(0, b.start-maxName)
	from += strings.LastIndexByte(c.s[from:b.start], '\n') + 1
	return run(c.s[:b.start], from, func(c byte) bool { return c == ' ' }) - from
}

// nextLine masks a value of YAML that stands on the line after its name, further in. It returns 0 for none.
func (c *scanner) nextLine(b binding) int {
	s := c.s
	if !b.colon || s[b.value] != '\n' || b.class != classSecret && b.class != classToken {
		return 0
	}
	from := run(s[:min(len(s), b.value+maxBlank)], b.value+1, func(c byte) bool { return c == ' ' })
	end := run(s[:min(len(s), from+maxHarmless)], from, func(c byte) bool { return !isWordEnd(c) })
	if v := s[from:end]; from-b.value-1 <= c.indent(b) || peek(s, end) != '\n' && end < len(s) || isHarmless(v) || !looks(v) || strings.ContainsAny(v, ":([{") {
		return 0
	}
	return c.mask(from, end, KindNamed)
}

// inQuotes decides on a value in quotes.
func (b *binding) inQuotes(v string) bool {
	if isHarmless(v) {
		return false
	}
	switch b.class {
	case classSecret, classSecrets, classSigned:
		return true
	case classToken:
		if isAddress(v) {
			return false
		}
		return b.quoted || b.loud || looks(v) || len(v) >= 12 && !strings.Contains(v, " ")
	case classTokens, classShort:
		return looks(v) && len(v) >= 16
	case classNone, classAuth, classCookie:
	}
	return false
}

// bare decides on a value without quotes; rest is what follows it.
func (b *binding) bare(v, rest string) bool {
	if isHarmless(v) || !b.query && isAddress(v) {
		return false
	}
	if len(v) > maxHarmless {
		return true
	}
	if b.query {
		return b.class != classShort && b.class != classTokens || looks(v) && len(v) >= 16
	}
	if isCode(v) || !b.tight && strings.IndexByte("([{", v[0]) >= 0 {
		return false
	}
	line, _, _ := strings.Cut(rest, "\n")
	ends := strings.Trim(line, " \t\r,}])") == "" || strings.HasPrefix(strings.TrimLeft(line, " \t"), "#")
	switch b.class {
	case classSecret, classSecrets:
		return looks(v) || b.tight && (!b.colon || isPrinted(line)) || b.loud && !b.colon || ends && !strings.ContainsAny(v, "([{")
	case classToken:
		return looks(v) || len(v) >= 20 || !b.colon && (b.loud || b.tight && !b.inCall)
	case classTokens:
		return looks(v) && len(v) >= 16
	case classNone, classAuth, classCookie, classSigned, classShort:
	}
	return false
}

// isPrinted reports whether what follows a value is the next field of a structure as Go prints it: " Name:value".
func isPrinted(rest string) bool {
	name, ok := strings.CutPrefix(rest, " ")
	end := run(name, 0, isWord)
	return ok && end > 0 && peek(name, end) == ':' && peek(name, end+1) > ' '
}

// header masks what follows the scheme of an Authorization header, or the whole value where there is none.
func (c *scanner) header(b binding, quoted bool, from, end int) int {
	s := c.s
	at := run(s[:end], from, isToken)
	blank := run(s[:end], at, func(b byte) bool { return b == ' ' })
	if at > from && blank > at && isScheme(s[from:at]) {
		to := run(s[:end], blank, isBearer)
		if isList(s[from:at]) {
			to = listEnd(s, blank, quoted)
		}
		v := s[blank:to]
		prose := isLowerWord(v) && to < end && s[to] == ' ' && len(strings.TrimSpace(s[to:end])) > 0
		if v == "" || prose || isHarmless(v) || isProse(v) && !quoted || strings.HasPrefix(s[blank:end], "$") && isFilled(strings.TrimSpace(s[blank:end])) {
			return 0
		}
		return c.mask(blank, to, KindAuthorization)
	}
	if !quoted {
		if !b.query && isCall(s, from) {
			return 0
		}
		end = c.valueEnd(from, b.query, b.coded)
	}
	v := s[from:end]
	if isHarmless(v) || isAddress(v) || isScheme(v) || !quoted && isCode(v) || len(v) <= maxHarmless && strings.ContainsAny(v, " {") {
		return 0
	}
	if b.query || len(v) > maxHarmless || b.quoted && quoted || looks(v) || b.tight && b.loud && !b.colon {
		return c.mask(from, end, KindAuthorization)
	}
	return 0
}

// cookie masks the cookies of a header: names too, for they tell as much.
func (c *scanner) cookie(b binding, from, end int) int {
	v := strings.TrimRight(c.s[from:end], " \t\r")
	if b.query && !isHarmless(v) {
		return c.mask(from, from+len(v), KindParameter)
	}
	at := run(v, 0, isDotted)
	if at == 0 || peek(v, at) != '=' {
		return 0
	}
	value := v[at+1:]
	if isFilled(strings.TrimRight(value, ";")) || value[0] == '=' || value[0] == ' ' {
		return 0
	}
	return c.mask(from, from+len(v), KindCookie)
}

// isAddress reports whether a value is a URL. What is secret in it is looked for in its parts.
func isAddress(s string) bool {
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

// isScheme reports whether s is the name of an HTTP authentication scheme.
func isScheme(s string) bool {
	switch strings.ToLower(s) {
	case "bearer", "basic", "token", "negotiate", "ntlm", "apikey", "api-key", "jwt", "dpop", "splunk", "oauth2", "saml", "mutual", "mtls",
		"tls", "password", "key", "api_key", "none", "session", "oidc", "iam", "ldap", "kerberos", "anonymous", "public", "private":
		return true
	}
	return isList(s)
}

// isList reports whether a scheme's credential is a list of parameters rather than one word.
func isList(s string) bool {
	switch strings.ToLower(s) {
	case "digest", "hawk", "signature", "oauth", "aws4-hmac-sha256", "aws4-hmac-sha1", "aws", "googlelogin", "mac", "sharedaccesssignature",
		"sharedkey", "sharedkeylite":
		return true
	}
	return false
}

// listEnd returns where a list of parameters ends: a="b", c=d. Only a quotation mark after = belongs to it.
func listEnd(s string, i int, quoted bool) int {
	in := false
	k := i
loop:
	for ; k < len(s) && s[k] != '\n' && s[k] != '\r'; k++ {
		switch s[k] {
		case '"':
			if !in && (quoted || s[k-1] != '=') {
				break loop
			}
			in = !in
		case '\'', '`', '\\':
			break loop
		}
	}
	return k
}

// quote returns the quotation mark at i, with the backslashes before it; "" for none.
func quote(s string, i int) string {
	to := run(s[:min(len(s), i+16)], i, func(b byte) bool { return b == '\\' })
	if to < len(s) && strings.IndexByte("\"'`", s[to]) >= 0 {
		return s[i : to+1]
	}
	return ""
}

// closing returns where a quoted text ends that begins at i: before the same mark, or at the end of the line.
func closing(s string, i int, q string) int {
	mark := q[len(q)-1]
	for k := i; k < len(s); k++ {
		switch s[k] {
		case '\n':
			return k
		case '\\':
			if len(q) > 1 && strings.HasPrefix(s[k:], q) {
				return k
			}
			k++ // what it escapes is no end
			for len(q) > 1 && k < len(s) && s[k] == '\\' {
				k++
			}
		case mark:
			return k
		}
	}
	return len(s)
}

// lineEnd returns where a header's value ends: with the line, or with the quotes around the header. It goes over a line
// once, however many headers seem to be in it.
func (c *scanner) lineEnd(i int) int {
	s := c.s
	if c.lineFrom <= i && i <= c.lineTo && c.lineTo > 0 {
		return c.lineTo
	}
	k := i
loop:
	for ; k < len(s); k++ {
		switch s[k] {
		case '\n', '"', '\'', '`':
			break loop
		case '\\':
			if b := peek(s, k+1); b == '"' || b == '\'' || b == 'n' || b == 'r' {
				break loop
			}
		}
	}
	c.lineFrom, c.lineTo = i, k
	return k
}

// valueEnd returns where an unquoted value ends that begins at i. Marks that may be part of a password end it only where
// another name follows, or nothing.
func (c *scanner) valueEnd(i int, query, coded bool) int {
	s, k, from := c.s, i, i
loop:
	for ; k < len(s) && !isWordEnd(s[k]); k++ {
		switch s[k] {
		case '{':
			if end := secretPlace(s, k); end > 0 {
				k, from = end-1, end
			}
		case '&', '#':
			if query || s[k] == '&' && endsValue(s, k+1) {
				break loop
			}
		case '%':
			if coded && k+2 < len(s) && s[k+1] == '2' && s[k+2] == '6' {
				break loop
			}
		case ',', ';', '|':
			if endsValue(s, k+1) {
				break loop
			}
		case '\'':
			if !isAlnum(peek(s, k+1)) {
				break loop
			}
		case '\\':
			if peek(s, k+1) == '\'' && isAlnum(peek(s, k+2)) {
				k++ // as libpq escapes it
			} else if strings.IndexByte("\"'nrt\\", peek(s, k+1)) >= 0 {
				break loop
			}
		}
	}
	for n := 0; n < 3 && k > from && strings.IndexByte(")]}.,;:", s[k-1]) >= 0; n++ {
		k--
	}
	return k
}

// endsValue reports whether what follows a mark at i is the next name with its value, or nothing.
func endsValue(s string, i int) bool {
	if i >= len(s) || isWordEnd(s[i]) || s[i] == '\'' {
		return true
	}
	end := run(s[:min(len(s), i+maxName)], i, func(b byte) bool { return isDotted(b) || b == ' ' && b != s[i] })
	return end > i && (peek(s, end) == '=' || peek(s, end) == ':')
}
