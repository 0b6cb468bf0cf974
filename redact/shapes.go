package redact

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// isAlnum, isWord and isToken are the alphabets of credentials.
func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func isWord(c byte) bool { return isAlnum(c) || c == '_' }

func isToken(c byte) bool { return isAlnum(c) || c == '_' || c == '-' }

func isDotted(c byte) bool { return isToken(c) || c == '.' }

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' }

// isBearer is the alphabet of RFC 6750.
func isBearer(c byte) bool { return isDotted(c) || c == '~' || c == '+' || c == '/' || c == '=' }

// run returns the end of the longest run of an alphabet from i on.
func run(s string, i int, in func(byte) bool) int {
	for i < len(s) && in(s[i]) {
		i++
	}
	return i
}

// after returns where a credential ends that begins at i with a prefix and goes on with at least so many bytes of an
// alphabet; 0 for none.
func after(s string, i int, prefix string, atLeast int, in func(byte) bool) int {
	if !strings.HasPrefix(s[i:], prefix) {
		return 0
	}
	end := run(s, i+len(prefix), in)
	if end-i-len(prefix) < atLeast {
		return 0
	}
	return end
}

// anyOf is after for the first of several prefixes that fits.
func anyOf(s string, i, atLeast int, in func(byte) bool, prefixes ...string) int {
	for _, p := range prefixes {
		if end := after(s, i, p, atLeast, in); end > 0 {
			return end
		}
	}
	return 0
}

// shape recognises a credential by its published form at i, where a word begins. Its span is empty for none.
func shape(s string, i int) span {
	p := span{from: i, to: 0, kind: ""}
	if !mayBegin(s[i:min(len(s), i+2)]) {
		return p
	}
	switch s[i] {
	case 's':
		return shapeS(s, i)
	case 'g':
		if p.to, p.kind = anyOf(s, i, 20, isWord, "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"), KindGitHub; p.to > 0 {
			return p
		}
		if p.to, p.kind = anyOf(s, i, 20, isToken, "glpat-", "glptt-", "gldt-", "glrt-", "glcbt-", "gsk_", "glsa_"), KindProvider; p.to == 0 {
			p.to = fernet(s, i)
		}
	case 'x':
		if p.to, p.kind = after(s, i, "xapp-", 10, isToken), KindSlack; p.to == 0 && len(s) > i+5 && s[i:i+3] == "xox" && s[i+4] == '-' {
			p.to = after(s, i, s[i:i+5], 10, isToken)
		}
		if p.to > 0 && hasDigit(s[i+5:p.to]) {
			return p
		}
		p.to, p.kind = after(s, i, "xai-", 20, isToken), KindProvider
	case 'A':
		if p.to, p.kind = anyOf(s, i, 16, isUpper, "AKIA", "ASIA"), KindAWS; p.to-i == 20 && !isWord(peek(s, p.to)) {
			return p
		}
		if p.to, p.kind = after(s, i, "AIza", 30, isToken), KindGoogle; p.to > 0 {
			return p
		}
		p.to, p.kind = after(s, i, "AGE-SECRET-KEY-1", 20, isUpper), KindProvider
	case 'y':
		p.to, p.kind = after(s, i, "ya29.", 20, isDotted), KindGoogle
	case 'G':
		p.to, p.kind = after(s, i, "GOCSPX-", 20, isToken), KindGoogle
	case 'e':
		p.to, p.kind = jwt(s, i), KindJWT
	case 'c':
		if p.to, p.kind = anyOf(s, i, 16, isDotted, "cfk_", "cfr_", "cfb_"), KindCounterfoil; p.to == 0 {
			p.to = sealed(s, i)
		}
	case 'r':
		if p.to, p.kind = anyOf(s, i, 16, isWord, "rk_live_", "rk_test_"), KindStripe; p.to > 0 {
			return p
		}
		p.to, p.kind = after(s, i, "r8_", 20, isAlnum), KindProvider
	case 'w':
		p.to, p.kind = after(s, i, "whsec_", 16, isBearer), KindStripe
	case 'h':
		return shapeH(s, i)
	case 'n', 'p', 'd', 'S', 'a', 't', 'l', 'b':
		p.to, p.kind = provider(s, i), KindProvider
	}
	return p
}

// mayBegin reports whether a form begins with these two bytes: most words don't.
func mayBegin(s string) bool {
	switch s {
	case "sk", "sh", "sq", "gh", "gi", "gl", "gs", "gA", "xo", "xa", "AK", "AS", "AI", "AG", "ya", "GO", "ey", "cf", "rk", "r8", "wh", "ho", "hf",
		"hv", "np", "nt", "py", "pp", "pu", "ph", "di", "do", "dc", "da", "dp", "SG", "a3", "ts", "li", "ls", "bo":
		return true
	}
	return false
}

// shapeS knows the forms that begin with an s. CSS classes do so too (sk-container-id-1), so that one long run with a
// digit is asked for where the form has no marker of its own.
func shapeS(s string, i int) span {
	if end := after(s, i, "sk-ant-", 16, isToken); end > 0 {
		return span{i, end, KindAnthropic}
	}
	if end := anyOf(s, i, 16, isWord, "sk_live_", "sk_test_"); end > 0 {
		return span{i, end, KindStripe}
	}
	if end := anyOf(s, i, 16, isToken, "sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-v1-", "sk-lf-"); end > 0 && hasDigit(s[i:end]) {
		return span{i, end, KindOpenAI}
	}
	if end := after(s, i, "sk-", 20, isToken); end > 0 {
		for _, part := range strings.Split(s[i+3:end], "-") {
			if len(part) >= 16 && hasDigit(part) && hasLetter(part) {
				return span{i, end, KindOpenAI}
			}
		}
	}
	if end := anyOf(s, i, 20, isToken, "shpat_", "shpss_", "shpca_", "sq0atp-", "sq0csp-"); end > 0 {
		return span{i, end, KindProvider}
	}
	return span{i, 0, KindProvider}
}

// shapeH knows tokens and webhook addresses that begin with an h. The place after the host is the secret of a webhook.
func shapeH(s string, i int) span {
	for _, host := range [...]string{"hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/"} {
		if end := after(s, i, host, 16, func(c byte) bool { return isToken(c) || c == '/' }); end > 0 {
			return span{i + len(host), end, KindSlack}
		}
	}
	return span{i, anyOf(s, i, 20, isDotted, "hf_", "hvs.", "hvb."), KindProvider}
}

func provider(s string, i int) int {
	switch s[i] {
	case 'n':
		return anyOf(s, i, 30, isAlnum, "npm_", "ntn_")
	case 'p':
		return anyOf(s, i, 20, isToken, "pypi-AgE", "pplx-", "pul-", "phx_")
	case 'd':
		if end := discord(s, i); end > 0 {
			return end
		}
		return anyOf(s, i, 20, isToken, "dop_v1_", "doo_v1_", "dor_v1_", "dckr_pat_", "dapi0", "dp.pt.")
	case 'S':
		return after(s, i, "SG.", 20, isDotted)
	case 'a':
		return after(s, i, "a33_", 16, isToken)
	case 't':
		return after(s, i, "tskey-", 16, isToken)
	case 'l':
		return anyOf(s, i, 20, isToken, "lin_api_", "lsv2_pt_", "lsv2_sk_")
	case 'b': // a chat bot's address: bot123456:secret
		if id := after(s, i, "bot", 6, func(c byte) bool { return '0' <= c && c <= '9' }); id > 0 && peek(s, id) == ':' {
			if end := run(s, id+1, isToken); end-id > 30 {
				return end
			}
		}
	}
	return 0
}

// discord recognises a webhook's address: the number and the secret after it.
func discord(s string, i int) int {
	for _, host := range [...]string{"discord.com/api/webhooks/", "discordapp.com/api/webhooks/"} {
		if end := after(s, i, host, 30, func(c byte) bool { return isToken(c) || c == '/' }); end > 0 {
			return end
		}
	}
	return 0
}

// jwt returns the end of a JSON Web Token in compact form (RFC 7519): three parts, or five when encrypted.
func jwt(s string, i int) int {
	at := after(s, i, "eyJ", 8, isToken)
	if at == 0 || peek(s, at) != '.' {
		return 0
	}
	end := run(s, at+1, isToken)
	if peek(s, end) != '.' { // not even an empty signature
		return 0
	}
	for range 3 {
		if peek(s, end) != '.' {
			break
		}
		end = run(s, end+1, isToken)
	}
	return end
}

// sealed returns the end of a sealed value of ours: cf1, key id, body.
func sealed(s string, i int) int {
	id := after(s, i, "cf1.", 1, isToken)
	if id == 0 || peek(s, id) != '.' {
		return 0
	}
	if end := run(s, id+1, isToken); end-id > 16 {
		return end
	}
	return 0
}

// fernet returns the end of a Fernet token: base64 of the version, the upper half of the time, and at least one block and a
// tag.
func fernet(s string, i int) int {
	end := after(s, i, "gAAAAA", 90, isToken)
	if end == 0 {
		return 0
	}
	return run(s[:min(len(s), end+2)], end, func(c byte) bool { return c == '=' })
}

// peek returns the byte at i, 0 past the end.
func peek(s string, i int) byte {
	if i < len(s) {
		return s[i]
	}
	return 0
}

func hasDigit(s string) bool { return strings.ContainsAny(s, "0123456789") }

func hasLetter(s string) bool {
	for i := range len(s) {
		if isAlnum(s[i]) && s[i] > '9' {
			return true
		}
	}
	return false
}

// looks reports whether a value looks like a credential rather than like a word: letters and digits, or marks that no
// word has.
func looks(s string) bool {
	return len(s) >= 6 && hasLetter(s) && (hasDigit(s) || strings.ContainsAny(s, "!#$%^&*+=~"))
}

// isBasic reports whether s is what follows Basic: the base64 of a name, a colon and a password.
func isBasic(s string) bool {
	s = strings.TrimRight(s, "=")
	if len(s) > 4096 {
		return true // nothing else is so long
	}
	b, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil {
		b, err = base64.RawURLEncoding.DecodeString(s)
	}
	return err == nil && strings.Contains(string(b), ":") && utf8.Valid(b)
}
