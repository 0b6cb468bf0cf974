package redact

import "strings"

// isWordEnd reports whether a byte ends every URL and every unquoted value.
func isWordEnd(b byte) bool {
	return b <= ' ' || b == '"' || b == '<' || b == '>' || b == '`' || b == 0x7f
}

// delimiter looks at a colon or an equals sign: it may begin a URL's authority or end a name.
func (c *scanner) delimiter(i int) int {
	s := c.s
	if s[i] == ':' {
		for _, slashes := range [...]string{"//", `\/\/`} {
			if strings.HasPrefix(s[i+1:], slashes) {
				return c.authority(i+1+len(slashes), i)
			}
		}
	}
	return c.assign(i, i+1)
}

// authority masks the credential of the URL whose authority begins at i; its scheme ends at mark. It returns where to go
// on: what follows the user info is looked at like any other text.
func (c *scanner) authority(i, mark int) int {
	s := c.s
	end := c.authorityEnd(i, mark)
	at := strings.LastIndexByte(s[i:end], '@')
	if at >= 0 {
		at += i
	} else if at = c.strayAt(i, end, mark); at < 0 {
		return c.strayPort(i, end)
	}
	user, pass := s[i:at], ""
	colon := strings.IndexByte(user, ':')
	if colon >= 0 {
		user, pass = user[:colon], user[colon+1:]
	} else if k := strings.Index(strings.ToLower(user), "%3a"); k >= 0 {
		user, pass, colon = user[:k], user[k+3:], k+2
	}
	scheme := s[mark] == ':'
	switch {
	case isPublicID(user), user == "" && pass == "", !scheme && (pass == "" || !isAlnum(peek(s, at+1)) && peek(s, at+1) != '['):
		return i
	case looks(user) && len(user) >= 16 && !isFilled(user), shape(s, i).to > i:
		c.mask(i, i+len(user), KindUserInfo)
	}
	if !isFilled(pass) {
		c.mask(i+colon+1, at, KindUserInfo)
	}
	return at + 1
}

// strayPort masks what stands in the place of a port and can't be one: the beginning of a password that broke the URL.
func (c *scanner) strayPort(i, end int) int {
	user, port, ok := strings.Cut(c.s[i:end], ":")
	if !ok || user == "" || !looks(port) || isFilled(port) || strings.ContainsAny(port, ",:$[({") {
		return i
	}
	return c.mask(i+len(user)+1, end, KindUserInfo)
}

// authorityEnd returns where the authority that begins at i ends.
func (c *scanner) authorityEnd(i, mark int) int {
	s := c.s
	var closer byte
	if start := schemeStart(s, mark); start > 0 {
		switch s[start-1] {
		case '\'':
			closer = '\''
		case '(':
			closer = ')'
		case '[':
			closer = ']'
		}
	}
	end, list := i, false
	for end < len(s) && !isWordEnd(s[end]) && !strings.ContainsRune(`/?#\`, rune(s[end])) {
		if s[end] == closer && closer != 0 && strings.IndexByte(s[i:end], '[') < 0 {
			break
		}
		if b := s[end]; !list && (b == ',' || b == ';') {
			if list = true; isHost(s[i:end]) {
				break // the next entry of a list is no part of this one
			}
		}
		end++
	}
	return end
}

// isHost reports whether s can only be a host, with or without a port.
func isHost(s string) bool {
	host, port, ok := strings.Cut(s, ":")
	return strings.Contains(host, ".") && (!ok || port != "" && run(port, 0, func(b byte) bool { return '0' <= b && b <= '9' }) == len(port))
}

// strayAt finds the @ after an authority that can't be one: what stands in the place of its port is no number, so the
// slash belongs to a password that should have been encoded. It returns -1 for none.
func (c *scanner) strayAt(i, end, mark int) int {
	s := c.s
	user, port, ok := strings.Cut(s[i:end], ":")
	if !ok || user == "" || strings.ContainsAny(user, "[${*") || strings.ContainsAny(port[:min(1, len(port))], "${*") {
		return -1 // a literal address, or a template
	}
	if run(port, 0, func(b byte) bool { return '0' <= b && b <= '9' }) == len(port) {
		return -1
	}
	if c.wordEnd <= i {
		c.wordEnd, c.lastAt = i, -1
		for c.wordEnd < len(s) && !isWordEnd(s[c.wordEnd]) {
			if s[c.wordEnd] == '@' {
				c.lastAt = c.wordEnd
			}
			c.wordEnd++
		}
	}
	if c.lastAt >= end {
		return c.lastAt
	}
	// In an error's quotes a blank may be the fault.
	start := schemeStart(s, mark)
	if start == 0 || s[start-1] != '"' && s[start-1] != '`' {
		return -1
	}
	rest := s[end:min(len(s), end+maxDataSource)]
	if k := strings.IndexByte(rest, s[start-1]); k > 0 && !strings.Contains(rest[:k], "\n") {
		if at := strings.LastIndexByte(rest[:k], '@'); at >= 0 {
			return end + at
		}
	}
	return -1
}

// schemeStart returns where the scheme begins that ends at mark.
func schemeStart(s string, mark int) int {
	start := mark
	for start > 0 && mark-start < 32 && (isDotted(s[start-1]) || s[start-1] == '+') {
		start--
	}
	return start
}

// maxDataSource bounds the name and the password before @tcp(.
const maxDataSource = 256

// dataSource masks the password in a data source name of the form user:password@tcp(host)/database or user:password@/database,
// and in Oracle's user/password@//host/service.
func (c *scanner) dataSource(i int) int {
	s := c.s
	proto := run(s[:min(len(s), i+16)], i+1, isWord)
	slash := strings.HasPrefix(s[i:], "@//") || strings.Contains(s[max(0, i-maxDataSource):i], "jdbc:oracle:")
	if peek(s, proto) != '(' && (peek(s, i+1) != '/' || !isWord(peek(s, i+2))) && !slash {
		return i
	}
	from := i
	for from > 0 && i-from < maxDataSource && !isWordEnd(s[from-1]) && s[from-1] != '\'' {
		from--
	}
	mark := ":"
	if slash {
		mark = "/"
		if colon := strings.LastIndexByte(s[from:i], ':'); colon >= 0 {
			from += colon + 1 // jdbc:oracle:thin:
		}
	}
	user, pass, ok := strings.Cut(s[from:i], mark)
	if !ok || user == "" || isFilled(pass) || strings.Contains(pass, "//") {
		return i
	}
	return c.mask(from+len(user)+1, i, KindUserInfo)
}
