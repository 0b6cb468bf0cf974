package redact

import (
	"strings"
	"unicode/utf8"
)

// isHarmless reports whether what stands under a secret's name is no secret: nothing, a mask, a place for one to be filled
// in, a status, or a digest or id of ours.
func isHarmless(s string) bool {
	if isFilled(s) || isPublicID(s) {
		return true
	}
	if strings.Contains(s, "${") && !looks(outside(s)) || strings.HasPrefix(s, "urn:") {
		return true
	}
	if rest, ok := besides(s); ok && !looks(rest) {
		return true
	}
	if len(s) > 16 {
		return false
	}
	if len(s) < 3 && run(s, 0, func(c byte) bool { return '0' <= c && c <= '9' }) == len(s) {
		return true // a count
	}
	switch strings.ToLower(s) {
	case "true", "false", "null", "nil", "none", "undefined", "required", "optional", "string", "str", "int", "integer", "number",
		"float", "boolean", "bool", "any", "object", "bytes", "enabled", "disabled", "yes", "no", "on", "off", "expired", "invalid",
		"missing", "valid", "unset", "redacted", "masked", "incorrect", "wrong", "secretstr", "n/a", "!0", "!1":
		return true
	}
	return false
}

// secretPlace returns the end of a place for a secret in a template of ours, {{secret:name}} or {{secret:name@version}}, that begins at i; 0
// if none does.
func secretPlace(s string, i int) int {
	const opening = "{{secret:"
	if !strings.HasPrefix(s[i:], opening) {
		return 0
	}
	name := i + len(opening)
	end := run(s[:min(len(s), name+maxName)], name, isDotted)
	if end > name && peek(s, end) == '@' {
		end = run(s[:min(len(s), end+20)], end+1, func(c byte) bool { return '0' <= c && c <= '9' })
	}
	if end == name || !strings.HasPrefix(s[end:], "}}") {
		return 0
	}
	return end + 2
}

// besides returns what stands besides such places, if there is one.
func besides(s string) (rest string, ok bool) {
	var b strings.Builder
	for {
		i := strings.Index(s, "{{secret:")
		if i < 0 {
			break
		}
		end := secretPlace(s, i)
		if end == 0 {
			return "", false
		}
		b.WriteString(s[:i])
		s, ok = s[end:], true
	}
	b.WriteString(s)
	return b.String(), ok
}

// outside returns what stands outside of the ${…} of a template.
func outside(s string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "${")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		if _, s, ok = strings.Cut(rest, "}"); !ok && !isPlaceholder(rest) {
			return rest // it isn't closed, and no name
		}
	}
}

// isFilled reports whether s is empty, a mask of somebody's, or a template's place.
func isFilled(s string) bool {
	if s == "" || strings.Trim(s, "*") == "" || len(s) > 2 && strings.Trim(s, "xX") == "" || strings.Trim(s, ".…•-") == "" {
		return true
	}
	inner := func(open, end string) (string, bool) {
		t, ok := strings.CutPrefix(s, open)
		if !ok {
			return "", false
		}
		return strings.CutSuffix(t, end)
	}
	for _, p := range [...][2]string{{"${", "}"}, {"{{", "}}"}, {"${{", "}}"}, {"<", ">"}, {"{", "}"}, {"%(", ")s"}, {"%", "%"}, {"$(", ")"}} {
		if t, ok := inner(p[0], p[1]); ok && isPlaceholder(t) {
			return true
		}
	}
	if t, ok := inner("[", "]"); ok && len(t) <= 16 {
		switch strings.ToLower(t) {
		case "redacted", "filtered", "masked", "hidden", "removed", "secret", "omitted":
			return true
		}
	}
	if t, ok := strings.CutPrefix(s, "$"); ok && run(t, 0, func(c byte) bool { return isUpper(c) || c == '_' }) == len(t) && hasLetter(t) {
		return true
	}
	return len(s) == 2 && s[0] == '%' && strings.Contains("svqdw", s[1:])
}

// isPlaceholder reports whether s, found in brackets, is the name of what belongs there.
func isPlaceholder(s string) bool {
	s = strings.TrimSpace(s)
	return len(s) <= 64 && run(s, 0, func(c byte) bool { return isDotted(c) || c == ' ' || c == ':' }) == len(s)
}

// isPublicID reports whether s is a digest in our text form, or the id of a receipt or an approval.
func isPublicID(s string) bool {
	for _, prefix := range [...]string{"sha256:", "run-", "apr-"} {
		if t, ok := strings.CutPrefix(s, prefix); ok && len(t) >= 16 && isHex(t) {
			return true
		}
	}
	return false
}

func isHex(s string) bool {
	return run(s, 0, func(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }) == len(s)
}

// isCode reports whether an unquoted value is an expression of a program: a call, an index, a member, or a variable that
// is named like a secret. It holds the place of a secret and is none.
func isCode(v string) bool {
	head := strings.TrimLeft(v, "&*!")
	if isCall(v, 0) || head != v && len(head) < 3 {
		return true
	}
	if run(head, 0, func(c byte) bool { return isWord(c) || c == '.' || c == '$' }) < len(head) || letterOf(peek(head, 0)) == digit {
		return false
	}
	if first, _, ok := strings.Cut(head, "."); ok {
		switch first {
		case "self", "this", "config", "cfg", "settings", "os", "process", "env", "args", "opts", "options", "params", "req",
			"request", "ctx", "user", "app", "data", "props", "state", "body", "input", "event", "conf", "context":
			return true
		}
	}
	switch head {
	case "await", "new", "not", "self", "this", "input", "function", "async", "lambda", "if", "else", "return", "typeof", "yield":
		return true
	}
	c := classify(head)
	return c != classNone && c != classShort
}

// isCall reports whether a call, an index, a literal or a generic type of a program begins at i.
func isCall(s string, i int) bool {
	i = run(s[:min(len(s), i+2)], i, func(c byte) bool { return c == '&' || c == '*' || c == '!' })
	if i >= len(s) || letterOf(s[i]) == digit {
		return false
	}
	end := run(s, i, func(c byte) bool { return isDotted(c) || c == '$' })
	if end > i && strings.HasPrefix(s[end:], "->") {
		end = run(s, end+2, isWord)
	}
	return end > i && strings.IndexByte("([{<", peek(s, end)) >= 0 && end < len(s)
}

// isProse reports whether a word that follows a flag's name goes on with a sentence.
func isProse(s string) bool {
	switch strings.ToLower(strings.TrimRight(s, ".,;:)")) {
	case "to", "for", "and", "or", "is", "in", "with", "flag", "option", "as", "the", "a", "an", "if", "from", "instead", "was",
		"when", "must", "via", "argument", "has", "can", "will", "should", "are", "be", "text", "value", "that", "which", "by", "of",
		"not", "does", "file", "token", "password", "key", "secret", "may", "at", "so", "because", "then", "but", "it", "this":
		return true
	}
	return false
}

// isLowerWord reports whether s is one word of small letters.
func isLowerWord(s string) bool {
	return run(s, 0, func(c byte) bool { return 'a' <= c && c <= 'z' }) == len(s)
}

// decodePercent undoes percent-encoding, up to three times over, as a chain of servers would.
func decodePercent(s string) string {
	for range 3 {
		if !strings.Contains(s, "%") {
			break
		}
		b := make([]byte, 0, len(s))
		for i := 0; i < len(s); i++ {
			if s[i] == '%' && i+2 < len(s) && unhex(s[i+1]) >= 0 && unhex(s[i+2]) >= 0 {
				b = append(b, byte(unhex(s[i+1])<<4|unhex(s[i+2]))) //nolint:gosec // two digits
				i += 2
				continue
			}
			b = append(b, s[i])
		}
		if len(b) == len(s) || !utf8.Valid(b) {
			break
		}
		s = string(b)
	}
	return s
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func isSchemaType(s string) bool {
	switch s {
	case "string", "number", "integer", "boolean", "object", "array", "null":
		return true
	}
	return false
}

// isAboutName reports whether a member of something secret only says what it is, or whose.
func isAboutName(raw []byte) bool {
	var w words
	if len(raw) < 2 || !w.split(string(raw[1:len(raw)-1])) || w.n == 0 {
		return false
	}
	switch s := w.at(w.n - 1); s {
	case "hostname", "region", "alg", "site", "secure", "secured":
		return true
	default:
		return isAbout(s)
	}
}
