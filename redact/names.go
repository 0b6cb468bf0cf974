package redact

import "strings"

// A class says what a name tells about the value that stands under it.
type class int

const (
	classNone    class = iota
	classSecret        // password, api_key: whatever it is, it is secret
	classSecrets       // the same of several: a number under it is a count
	classToken         // token: in program text it is often a harmless word
	classTokens        // tokens: words of a text as often as credentials
	classAuth          // authorization: a scheme, then a credential
	classCookie        // cookie
	classSigned        // sig, signature: secret in a URL only
	classShort         // key, code: secret in a URL if it looks like it
)

// maxName is how much of a name is looked at: its end, where the noun is.
const maxName = 128

// maxWords bounds the words of a name; a longer one is a sentence.
const maxWords = 12

// words are a name's words, in lower case: "X-Api-Key2" is x, api, key, 2. It holds its own memory: no allocation per name.
type words struct {
	text [maxName]byte
	ends [maxWords]uint8
	n    int
}

func (w *words) at(i int) string {
	if i < 0 || i >= w.n {
		return ""
	}
	from := uint8(0)
	if i > 0 {
		from = w.ends[i-1]
	}
	return string(w.text[from:w.ends[i]])
}

type letter int

const (
	other letter = iota
	lower
	upper
	digit
)

func letterOf(c byte) letter {
	switch {
	case 'a' <= c && c <= 'z', c >= 0x80:
		return lower
	case 'A' <= c && c <= 'Z':
		return upper
	case '0' <= c && c <= '9':
		return digit
	}
	return other
}

// split cuts a name into words, at what is no letter and where case or digits change. It returns false for a name of too
// many words.
func (w *words) split(name string) bool {
	if len(name) > maxName {
		name = name[len(name)-maxName:]
	}
	size := 0
	last := other
	for i := range len(name) {
		c := name[i]
		k := letterOf(c)
		starts := k != last && (k != lower || last != upper) || // Ab is one word
			k == upper && last == upper && i+1 < len(name) && letterOf(name[i+1]) == lower // APIKey
		if starts && size > 0 && (w.n == 0 || int(w.ends[w.n-1]) < size) {
			if w.n == maxWords {
				return false
			}
			w.ends[w.n] = uint8(size)
			w.n++
		}
		if last = k; k == other {
			continue
		}
		if k == upper {
			c += 'a' - 'A'
		}
		w.text[size] = c
		size++
	}
	if size > 0 && (w.n == 0 || int(w.ends[w.n-1]) < size) {
		if w.n == maxWords {
			return false
		}
		w.ends[w.n] = uint8(size)
		w.n++
	}
	return true
}

// classify says what the value under a name is. Whole words count: author, tokenizer and keyboard are harmless. The last
// word is the noun: tokenType and password_policy say something about a secret, they aren't one.
func classify(name string) class {
	var w words
	if strings.EqualFold(name, "pw") {
		return classSecret
	}
	if len(name) < 3 || !w.split(name) || strings.Count(name, " ") > 3 {
		return classNone
	}
	for w.n > 1 && letterOf(w.at(w.n - 1)[0]) == digit {
		w.n-- // password2
	}
	if w.n == 0 || isAbout(w.at(w.n-1)) {
		return classNone
	}
	if w.n > 1 && isQuestion(w.at(0)) {
		return classNone
	}
	found := classNone
	for i := range w.n {
		if c := w.class(i); c != classNone && (found == classNone || c < found) {
			found = c
		}
	}
	return found
}

// class classifies the i-th word among the others.
func (w *words) class(i int) class {
	s, before, last := w.at(i), w.at(i-1), i == w.n-1
	switch s {
	case "password", "passwd", "pwd", "bindpw", "rootpw", "passphrase", "passcode", "passwort", "secret", "credential", "apikey", "connectionstring",
		"connectionuri", "connstr", "privkey":
		return classSecret
	case "passwords", "secrets", "credentials", "creds", "apikeys", "passphrases":
		return classSecrets
	case "key", "keys", "string", "str", "uri", "word", "code", "signature":
		return w.pair(before, s, last)
	case "token", "jwt":
		if isWordOfText(before) {
			return classNone
		}
		return classToken
	case "tokens":
		return classTokens
	}
	for _, end := range [...]string{"password", "passwd", "passphrase", "secret", "apikey", "secretkey", "privatekey", "accesskey", "accountkey", "signingkey", "encryptionkey", "amzsignature", "googsignature",
		"accesssignature", "credential", "sshkey", "connectionstring"} {
		if strings.HasSuffix(s, end) {
			return classSecret
		}
	}
	if strings.HasSuffix(s, "pass") && len(s) > len("pass") && last && !isWay(s) {
		return classSecrets // dbpass
	}
	if strings.HasSuffix(s, "token") && s != "betoken" {
		return classToken
	}
	if last {
		return lastWord(s, before)
	}
	return classNone
}

// isWay reports whether a word ends in pass without being about a password.
func isWay(s string) bool {
	switch s {
	case "bypass", "compass", "encompass", "trespass", "surpass", "overpass", "underpass", "highpass", "lowpass", "bandpass", "multipass":
		return true
	}
	return false
}

// pair classifies a word that says something only with the one before it.
func (w *words) pair(before, s string, last bool) class {
	switch s {
	case "string", "str", "uri":
		if before == "connection" || before == "conn" {
			return classSecret
		}
		return classNone
	case "word":
		if before == "pass" {
			return classSecret
		}
		return classNone
	case "code":
		switch before {
		case "mfa", "otp", "totp", "fa", "verification", "recovery", "backup":
			return classSecret
		}
		if last {
			return classShort
		}
		return classNone
	case "signature":
		switch {
		case before == "amz" || before == "goog" || before == "access":
			return classSecret
		case last:
			return classSigned
		}
		return classNone
	}
	switch before {
	case "api", "access", "secret", "private", "signing", "encryption", "account", "shared", "master", "auth", "subscription",
		"storage", "deploy", "session", "ssh", "pragma", "hmac", "consumer", "decryption", "sealing":
		if s == "keys" {
			return classSecrets
		}
		return classSecret
	case "":
		if last && s == "key" {
			return classShort
		}
	}
	return classNone
}

// lastWord classifies words that count as the noun only.
func lastWord(s, before string) class {
	switch s {
	case "auth", "authorization", "proxyauthorization", "bearer":
		return classAuth
	case "cookie", "cookies":
		return classCookie
	case "dsn", "otp", "totp", "psk":
		return classSecret
	case "pass":
		switch before {
		case "low", "high", "band", "first", "second", "third", "last", "single", "multi", "one", "two", "boarding", "test", "did", "all":
			return classNone
		}
		return classSecrets // a number is a count of what passed
	case "sig", "sessionid", "phpsessid", "jsessionid", "sessid":
		return classSigned
	}
	return classNone
}

// isAbout reports whether a noun says something about a secret rather than being it.
func isAbout(s string) bool {
	switch s {
	case "type", "types", "name", "names", "id", "ids", "count", "counts", "url", "urls", "endpoint", "endpoints", "expires", "expiry",
		"expiration", "at", "in", "on", "ttl", "length", "size", "limit", "limits", "policy", "policies", "hint", "required", "enabled",
		"valid", "status", "state", "strength", "usage", "used", "ref", "reference", "method", "methods", "field", "fields",
		"label", "description", "format", "version", "rotation", "age", "created", "updated", "issuer", "scope", "scopes",
		"supported", "algorithm", "path", "file", "filename", "dir", "env", "var", "index", "position", "budget", "price", "cost",
		"prefix", "suffix", "present", "configured", "set", "exists", "manager", "store", "provider", "service", "digest",
		"fingerprint", "mode", "scheme", "consent", "domain", "location", "placeholder", "title", "message", "error", "errors",
		"header", "headers", "max", "min", "per", "rate", "bytes", "rows", "kind", "source", "class", "flow", "needed", "changed",
		"reset", "forgot", "failed", "middleware", "callback", "handler", "arn", "owner", "user", "username", "email",
		"host", "port", "address", "time", "date", "duration", "timeout", "schema", "validator", "pattern", "options", "params", "config", "configuration", "settings", "response", "request", "result",
		"generator", "parser", "table", "list", "map", "encoding", "rule", "rules", "regex":
		return true
	}
	return false
}

// isQuestion reports whether a name that begins so asks something about a secret, or bounds it.
func isQuestion(s string) bool {
	switch s {
	case "is", "has", "needs", "requires", "invalid", "missing", "max", "min", "num", "show", "hide", "allow", "enable", "disable":
		return true
	}
	return false
}

// isWordOfText reports whether a token of this sort is a place in a list or a piece of a text, not a credential.
func isWordOfText(s string) bool {
	switch s {
	case "page", "next", "previous", "prev", "continuation", "progress", "cancel", "cancellation", "max", "min", "total", "prompt",
		"completion", "input", "output", "num", "eos", "bos", "pad", "unk", "mask", "sep", "cls", "special", "stop", "end", "start",
		"last", "first", "per", "lookahead", "expected", "unexpected", "sync":
		return true
	}
	return false
}
