package scan

import (
	"strings"
	"unicode/utf8"
)

// markerReach is how far a marker is read: long enough for every name, short enough that a text full of openers costs
// nothing to speak of.
const markerReach = 40

// marker looks for a piece of a chat template, or of markup that poses as one, at i, where c stands; the text goes on at next.
func (t *tokenizer) marker(c byte, i, next int) {
	m := markerReader{t: t, at: next}
	var f Finding
	switch c {
	case '<':
		if !t.opensName(next) {
			return
		}
		f = m.angle()
	case '[':
		f = m.bracket()
	case '#':
		if i > 0 && t.s[i-1] == '#' {
			return // read from the first one
		}
		f = m.heading(t.lineStart(i))
	case '!':
		f = m.image()
	case '`', '~':
		if i > 0 && t.s[i-1] == c {
			return
		}
		f = m.fence(c)
	}
	if f.Pattern == "" {
		return
	}
	if f.Severity >= SeverityMedium && t.l.path == "" && t.quotedMarker(i, m.at) {
		f.Severity = SeverityLow
	}
	t.r.report(t.l, f, i, m.at, "")
}

// opensName reports whether what follows "<" can be the beginning of a marker. It spares most of them a closer look.
func (t *tokenizer) opensName(i int) bool {
	for n := 0; n < 5 && i < len(t.s); n, i = n+1, i+1 {
		switch c := t.s[i]; {
		case alnum(c) || c >= utf8.RuneSelf:
			return true
		case c != '<' && c != '/' && c != '|' && c != ' ' && !invisible(rune(c)):
			return false
		}
	}
	return false
}

// lineStart reports whether only blanks stand between the start of the line and i.
func (t *tokenizer) lineStart(i int) bool {
	for i--; i >= 0; i-- {
		switch t.s[i] {
		case ' ', '\t', '>', '*':
		case '\n', '\r':
			return true
		default:
			return false
		}
	}
	return true
}

// A markerReader reads folded characters from a short stretch of text.
type markerReader struct {
	t    *tokenizer
	at   int
	size int // characters read
}

// peek returns the next folded ASCII character and where the one after it stands; 0 at the end, or for anything else.
func (m *markerReader) peek() (byte, int) {
	at := m.at
	for at < len(m.t.s) && m.size < markerReach {
		if c := m.t.s[at]; c < utf8.RuneSelf {
			if !invisible(rune(c)) {
				return lower(c), at + 1
			}
			at++
			continue
		}
		r, n := utf8.DecodeRuneInString(m.t.s[at:])
		var space [64]byte
		k, out := m.t.foldRune(space[:0], r)
		at += n
		switch {
		case len(out) == 1:
			return out[0], at
		case r == '▁': // stands for a space in some templates
			return '_', at
		case k != kindInvisible && k != kindMark:
			return 0, at
		}
	}
	return 0, at
}

// eat consumes c if it comes next.
func (m *markerReader) eat(c byte) bool {
	got, next := m.peek()
	if got != c {
		return false
	}
	m.at = next
	m.size++
	return true
}

func (m *markerReader) blanks() {
	for m.eat(' ') || m.eat('\t') {
	}
}

// name reads letters, digits, underscores and single spaces or hyphens between them, all spelled with underscores.
func (m *markerReader) name() string {
	var b [markerReach]byte
	n := 0
	for n < len(b) {
		c, next := m.peek()
		if c == ' ' || c == '-' || c == '\t' {
			c = '_'
		}
		if !alnum(c) && c != '_' {
			break
		}
		b[n], m.at = c, next
		n++
		m.size++
	}
	return strings.Trim(string(b[:n]), "_")
}

// angle reads after "<": <|im_start|>, <<SYS>>, </system>.
func (m *markerReader) angle() Finding {
	double := m.eat('<')
	m.eat('/')
	m.blanks()
	bar := m.eat('|')
	m.blanks()
	m.eat('/')
	m.blanks()
	name := m.name()
	if name == "" {
		return Finding{}
	}
	bar = m.eat('|') || bar
	m.blanks()
	if !m.eat('>') || double && !m.eat('>') {
		return Finding{}
	}
	f := Finding{Family: FamilyDelimiterInjection, Severity: SeverityHigh}
	switch {
	case double && name == "sys":
		f.Pattern = "llama_system_marker"
	case bar && templateToken(name):
		f.Pattern = "chat_template_token"
	case !bar && !double:
		return tagMarker(name)
	}
	return f
}

// templateToken reports whether name stands between bars in a model's chat template.
func templateToken(name string) bool {
	switch name {
	case "system", "user", "assistant", "im_start", "im_end", "im_sep", "endoftext", "end_of_text", "begin_of_text",
		"begin_of_sentence", "end_of_sentence", "start_header_id", "end_header_id", "eot_id", "eom_id", "python_tag",
		"end", "tool", "tool_call", "developer", "start", "channel", "message", "endofprompt", "start_of_role",
		"end_of_role", "start_of_turn", "end_of_turn", "start_of_turn_token", "system_token", "user_token", "chatbot_token",
		"end_of_turn_token", "observation", "constrain", "call", "eos", "bos", "sep", "header_start", "header_end", "eot":
		return true
	}
	return false
}

// tagMarker judges a tag by its name.
func tagMarker(name string) Finding {
	f := Finding{Family: FamilyDelimiterInjection, Severity: SeverityHigh}
	switch name {
	case "system", "im_start", "im_end", "endoftext", "system_prompt", "system_message", "system_mode", "system_override",
		"start_of_turn", "end_of_turn", "system_instruction", "system_instructions":
		f.Pattern = "system_tag"
	case "important", "hidden", "secret_instructions", "hidden_instructions", "important_instructions":
		f = Finding{Pattern: "instruction_tag", Family: FamilyToolPoisoning, Severity: SeverityHigh}
	case "function_calls", "tool_call", "tool_calls", "function_results", "tool_response", "function_call":
		f.Pattern, f.Severity = "tool_call_tag", SeverityLow
	default:
		return Finding{}
	}
	return f
}

// bracket reads after "[": [INST], [/INST], [SYSTEM], [system](#...).
func (m *markerReader) bracket() Finding {
	open := m.at
	slash := m.eat('/')
	name := m.name()
	if name == "" || !m.eat(']') {
		return Finding{}
	}
	f := Finding{Family: FamilyDelimiterInjection, Severity: SeverityHigh}
	switch name {
	case "inst", "sys", "system_prompt", "available_tools", "tool_results", "tool_calls":
		f.Pattern = "instruction_bracket"
	case "system", "system_message", "system_override", "system_note", "admin_override":
		f.Pattern = "system_bracket"
		// In configuration files [system] heads a section: nothing follows it on its line.
		if !slash && (m.lineEnds() || m.t.s[open] == '"') {
			f.Severity = SeverityLow
		}
	default:
		return Finding{}
	}
	return f
}

// lineEnds reports whether nothing but blanks follows on the line.
func (m *markerReader) lineEnds() bool {
	rest := m.t.s[m.at:]
	rest = strings.TrimLeft(rest[:min(len(rest), markerReach)], " \t\r")
	return rest == "" || rest[0] == '\n'
}

// heading reads after "#": ### System, ### Instruction:.
func (m *markerReader) heading(lineStart bool) Finding {
	n := 1
	for m.eat('#') {
		n++
	}
	if n < 3 {
		return Finding{}
	}
	m.blanks()
	bracketed := m.eat('(') || m.eat('[')
	name := m.name()
	f := Finding{Pattern: "heading_marker", Family: FamilyDelimiterInjection, Severity: SeverityLow}
	switch name {
	case "system", "system_message", "system_prompt", "system_override", "instruction", "instructions", "response":
		closed := bracketed && (m.eat(')') || m.eat(']'))
		// A heading in a document isn't a chat template; a role with a colon, or in brackets, in the middle of a line is one.
		if strings.HasPrefix(name, "system") && (closed || m.eat(':') || !lineStart) {
			f.Severity = SeverityHigh
		}
		return f
	}
	if strings.HasPrefix(name, "system") || strings.HasPrefix(name, "instruction") {
		return f
	}
	return Finding{}
}

// fence reads after the first of three backticks or tildes: the name of what is fenced.
func (m *markerReader) fence(c byte) Finding {
	n := 1
	for m.eat(c) {
		n++
	}
	if n < 3 {
		return Finding{}
	}
	m.blanks()
	name := m.name()
	if name == "system" || name == "system_prompt" || name == "system_message" || strings.HasPrefix(name, "system_") {
		return Finding{Pattern: "system_fence", Family: FamilyDelimiterInjection, Severity: SeverityHigh}
	}
	return Finding{}
}

// image reads after "!": a Markdown image whose address has a place to be filled in, such as ![x](https://host/p?q=[DATA]),
// sends whatever is filled in to its host as soon as it is shown.
func (m *markerReader) image() Finding {
	const most = 300
	s := m.t.s[m.at:min(len(m.t.s), m.at+most)]
	if !strings.HasPrefix(s, "[") {
		return Finding{}
	}
	open := strings.Index(s, "](http")
	if open < 0 {
		return Finding{}
	}
	end := strings.IndexByte(s[open:], ')')
	if end < 0 {
		return Finding{}
	}
	address := s[open+2 : open+end]
	_, query, ok := strings.Cut(address, "?")
	if !ok || !strings.Contains(query, "=[") && !strings.Contains(query, "={") && !strings.Contains(query, "=<") {
		return Finding{}
	}
	m.at += open + end + 1
	return Finding{Pattern: "image_exfiltration", Family: FamilyExfiltration, Severity: SeverityHigh}
}
