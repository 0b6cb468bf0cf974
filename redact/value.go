package redact

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
)

// The bounds of a document. What is larger or deeper is an error: the caller must withhold it.
const (
	MaxBytes = 64 << 20
	MaxDepth = 256
)

// maxEmbedded bounds how deep documents in strings of documents are read as documents; below, they are text.
const maxEmbedded = 3

// Value masks the credentials in one strict JSON document (RFC 7493): values under names that say they are secret, and in
// every string, names included, what Text masks. A document in a string is masked as a document. What isn't masked stays
// byte for byte; without anything to mask, doc itself is returned. A name that changes stays unique in its object. Errors
// carry counterfoil.CodeInvalidInput and repeat nothing of doc.
func Value(doc []byte) ([]byte, Report, error) {
	var rep Report
	if len(doc) > MaxBytes {
		return nil, rep, invalid("the document is too large to look through")
	}
	for range maxPasses {
		out, found, err := document(doc, 0)
		switch {
		case err != nil:
			return nil, Report{}, err
		case len(found) == 0:
			return doc, rep, nil
		}
		doc = out
		for _, f := range found {
			rep.add(f.Kind, f.Pointer, f.Count)
		}
	}
	return nil, Report{}, invalid("the document holds credentials that can't be told from its text")
}

func invalid(msg string) error {
	return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: msg}
}

// isDocument reports whether a text may be one JSON object or array.
func isDocument(s string) bool {
	s = strings.TrimSpace(s)
	return len(s) > 1 && len(s) <= MaxBytes && (s[0] == '{' && s[len(s)-1] == '}' || s[0] == '[' && s[len(s)-1] == ']')
}

// An edit replaces one token of a document.
type edit struct {
	from, to int
	text     []byte
	whole    bool // it leaves nothing of the token
	found    []Finding
}

// A place is a token of a document: where it is, and the pointer to it.
type place struct {
	from, to int
	name     []byte // of the member it is, where that is needed later
	pointer  []byte // built only when something is found
}

// A walker goes through a document once. Its edits are spliced into the original bytes at the end.
type walker struct {
	doc      []byte
	d        *jsontext.Decoder
	embedded int
	frames   []frame
	names    []place // of the members of open objects, outermost first
	edits    []edit
}

// A frame is an open object or array.
type frame struct {
	object    bool
	index     int
	name      []byte // of the current member, as it is in the document
	class     class  // of the current member's name
	inherited class  // what the container stands under; classNone for nothing

	names     int     // where its members begin in walker.names
	renames   []edit  // of members whose names hold a credential
	pending   []place // strings under an inherited class; plain text after all if this is a schema
	schema    bool
	jwk       bool
	private   []place // members that are private if this is a key
	valueName class   // of the text that stands in the member name: {"name":"API_KEY","value":"…"}
	value     place   // the member value
	first     class   // of the text that is the first element of a list in a list: [["X-Api-Key","…"]]
	second    place   // the second element, if there is such a first
	flag      bool    // the last element was a secret's flag: ["--password","…"]
}

func document(doc []byte, embedded int) ([]byte, []Finding, error) {
	w := &walker{doc: doc, d: jsontext.NewDecoder(bytes.NewBuffer(doc)), embedded: embedded}
	if err := w.walk(); err != nil {
		return nil, nil, err
	}
	if len(w.edits) == 0 {
		return doc, nil, nil
	}
	slices.SortStableFunc(w.edits, func(a, b edit) int {
		switch {
		case a.from == b.from && a.whole && !b.whole:
			return -1
		case a.from == b.from && b.whole && !a.whole:
			return 1
		}
		return cmp.Compare(a.from, b.from)
	})
	out := make([]byte, 0, len(doc))
	var found []Finding
	at := 0
	for _, e := range w.edits {
		if e.from < at {
			continue // the same token, for a second reason
		}
		out = append(append(out, doc[at:e.from]...), e.text...)
		found = append(found, e.found...)
		at = e.to
	}
	return append(out, doc[at:]...), found, nil
}

func (w *walker) walk() error {
	for {
		switch byte(w.d.PeekKind()) {
		case '{', '[':
			if _, err := w.d.ReadToken(); err != nil {
				return w.syntax()
			}
			if len(w.frames) == MaxDepth {
				return invalid("the document is nested too deep to look through")
			}
			w.open(w.doc[w.d.InputOffset()-1] == '{')
			continue
		case '}', ']':
			if _, err := w.d.ReadToken(); err != nil {
				return w.syntax()
			}
			w.close()
		default:
			v, err := w.d.ReadValue()
			if err != nil {
				return w.syntax()
			}
			to := int(w.d.InputOffset())
			if w.scalar(place{from: to - len(v), to: to}) {
				continue // a name: its value follows
			}
		}
		if len(w.frames) == 0 {
			break
		}
		w.top().index++
	}
	if _, err := w.d.ReadToken(); err == nil || len(bytes.Trim(w.doc[w.d.InputOffset():], " \t\r\n")) > 0 {
		return invalid("something follows the document")
	}
	return nil
}

func (w *walker) syntax() error {
	return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Path: string(w.pointer()), Msg: "this is not strict JSON"}
}

func (w *walker) top() *frame { return &w.frames[len(w.frames)-1] }

// open enters a container. One that stands under a secret's name hands the name down.
func (w *walker) open(object bool) {
	f := frame{object: object, names: len(w.names)}
	if len(w.frames) > 0 {
		up := w.top()
		switch {
		case up.object && (up.class == classSecret || up.class == classSecrets || up.class == classCookie):
			f.inherited = classSecrets
		case up.object && (up.class == classToken || up.class == classTokens):
			f.inherited = classTokens
		case up.inherited != classNone && (!up.object || !isAboutName(up.name)):
			f.inherited = up.inherited
		}
	}
	w.frames = append(w.frames, f)
}

// close leaves a container and decides what its members could not decide alone.
func (w *walker) close() {
	top := w.top()
	if top.jwk {
		for _, p := range top.private {
			if top.name = p.name; isFilled(unquote(w.doc[p.from:p.to])) {
				continue
			}
			w.edits = append(w.edits, whole(w.placed(p), KindPrivateKey))
		}
	}
	if top.value.to > 0 && top.valueName != classNone {
		top.name = top.value.name
		w.under(top.valueName, top.value)
	}
	if top.index == 2 && top.second.to > 0 {
		w.under(top.first, top.second)
	}
	w.rename(top)
	f := *top
	w.frames = w.frames[:len(w.frames)-1]
	w.names = w.names[:f.names]
	switch {
	case len(f.pending) == 0:
	case f.schema:
		for _, p := range f.pending {
			w.text(p)
		}
	case len(w.frames) > 0 && w.top().inherited != classNone:
		w.top().pending = append(w.top().pending, f.pending...) // a schema further out decides
	default:
		for _, p := range f.pending {
			w.under(f.inherited, p)
		}
	}
}

// scalar looks at a string, number or literal. It returns true for a member's name.
func (w *walker) scalar(p place) bool {
	if len(w.frames) == 0 {
		w.text(p)
		return false
	}
	f := w.top()
	if f.object && len(w.names) == f.names+f.index {
		w.member(f, p)
		return true
	}
	kind := w.doc[p.from]
	if kind != '"' && (kind == 't' || kind == 'f' || kind == 'n') {
		f.flag = false
		return false
	}
	if f.object {
		w.inObject(f, p)
	} else {
		w.inArray(f, p)
	}
	return false
}

// member begins a member. The name itself may hold a credential.
func (w *walker) member(f *frame, p place) {
	w.names = append(w.names, p)
	f.name = w.doc[p.from:p.to]
	name := unquote(f.name)
	f.class = classify(name)
	if name == "kty" {
		f.jwk = true
	}
	if spans := scan(name); len(spans) > 0 {
		f.renames = append(f.renames, edit{
			from: p.from, to: p.to, text: []byte(masked(name, spans)), whole: false, found: w.located(spans, p),
		})
	}
}

func (w *walker) inObject(f *frame, p place) {
	name := unquote(f.name)
	if w.doc[p.from] == '"' {
		switch name {
		case "type", "$ref":
			f.schema = f.schema || name == "$ref" || isSchemaType(string(w.doc[p.from+1:p.to-1]))
		case "d", "p", "q", "dp", "dq", "qi", "k":
			f.private = append(f.private, place{from: p.from, to: p.to, name: f.name, pointer: nil})
		case "name", "key", "header", "field", "Name", "Key":
			if c := classify(unquote(w.doc[p.from:p.to])); c == classSecret || c == classSecrets || c == classToken || c == classAuth || c == classCookie {
				f.valueName = c
			}
		}
	}
	if name == "value" || name == "Value" {
		f.value = place{from: p.from, to: p.to, name: f.name, pointer: nil}
	}
	switch {
	case w.under(f.class, p):
	case f.inherited != classNone && !isAboutName(f.name) && w.doc[p.from] == '"':
		p.pointer = w.pointer()
		f.pending = append(f.pending, p)
	default:
		w.text(p)
	}
}

func (w *walker) inArray(f *frame, p place) {
	flag := f.flag
	f.flag = false
	switch {
	case w.doc[p.from] != '"':
	case flag && w.under(classSecret, p):
	case f.inherited != classNone:
		p.pointer = w.pointer()
		f.pending = append(f.pending, p)
	case f.index == 1 && f.first != classNone && looks(unquote(w.doc[p.from:p.to])):
		p.pointer = w.pointer()
		f.second = p
		w.text(p)
	default:
		if f.index == 0 && len(w.frames) > 1 && !w.frames[len(w.frames)-2].object {
			f.first = pairClass(unquote(w.doc[p.from:p.to]))
		}
		if s := w.doc[p.from+1 : p.to-1]; len(s) > 2 && len(s) < maxName && s[0] == '-' && !bytes.ContainsAny(s, "= ") {
			c := classify(string(s))
			f.flag = c == classSecret || c == classSecrets || c == classToken
		}
		w.text(p)
	}
}

// pairClass classifies the first element of what may be a pair of name and value.
func pairClass(name string) class {
	switch c := classify(name); c {
	case classSecret, classToken, classAuth, classCookie:
		return c
	case classNone, classSecrets, classTokens, classSigned, classShort:
	}
	return classNone
}

// under masks a value because of the class of what it stands under. It returns false when that is no reason to.
func (w *walker) under(c class, p place) bool {
	raw := w.doc[p.from:p.to]
	if raw[0] != '"' {
		if c == classSecret {
			w.edits = append(w.edits, whole(w.placed(p), KindNamed))
		}
		return c == classSecret
	}
	if c == classNone || c == classSigned || c == classShort {
		return false
	}
	v := unquote(raw)
	kind := KindNamed
	switch c {
	case classTokens:
		if !looks(v) || len(v) < 8 {
			return false
		}
	case classAuth:
		if first, rest, ok := strings.Cut(v, " "); isScheme(v) || ok && !isScheme(first) && !looks(rest) {
			return false
		}
		kind = KindAuthorization
	case classCookie:
		if !looks(v) {
			return false
		}
		kind = KindCookie
	case classNone, classSecret, classSecrets, classToken, classSigned, classShort:
	}
	if isHarmless(v) {
		return false
	}
	w.edits = append(w.edits, whole(w.placed(p), kind))
	return true
}

// text masks what is secret in a string by itself.
func (w *walker) text(p place) {
	if w.doc[p.from] != '"' {
		return
	}
	s := unquote(w.doc[p.from:p.to])
	if w.embedded < maxEmbedded && isDocument(s) {
		if b, found, err := document([]byte(s), w.embedded+1); err == nil {
			if p = w.placed(p); len(found) > 0 {
				for i := range found {
					found[i].Pointer = string(p.pointer)
				}
				w.edits = append(w.edits, edit{from: p.from, to: p.to, text: quoted(string(b)), whole: false, found: found})
			}
			return
		}
	}
	if spans := scan(s); len(spans) > 0 {
		w.edits = append(w.edits, edit{from: p.from, to: p.to, text: quoted(masked(s, spans)), whole: false, found: w.located(spans, p)})
	}
}

// rename gives the members whose names held a credential names that no other member has.
func (w *walker) rename(f *frame) {
	if len(f.renames) == 0 {
		return
	}
	taken := map[string]bool{}
	for _, n := range w.names[f.names:] {
		taken[unquote(w.doc[n.from:n.to])] = true
	}
	last := map[string]int{}
	for _, e := range f.renames {
		name := string(e.text)
		for base := name; taken[name]; {
			last[base]++
			name = base + " (" + strconv.Itoa(last[base]+1) + ")"
		}
		taken[name] = true
		e.text = quoted(name)
		w.edits = append(w.edits, e)
	}
}

// placed returns p with its pointer: the one it has, or that of where the walker is.
func (w *walker) placed(p place) place {
	if p.pointer == nil {
		p.pointer = w.pointer()
	}
	return p
}

// located makes findings of the spans of the string at p.
func (w *walker) located(spans []span, p place) []Finding {
	pointer := string(w.placed(p).pointer)
	out := make([]Finding, 0, len(spans))
	for _, s := range spans {
		out = append(out, Finding{Kind: s.kind, Pointer: pointer, Count: 1})
	}
	return out
}

// pointer returns the JSON pointer to where the walker is. Names in it are redacted and bounded.
func (w *walker) pointer() []byte {
	p := []byte{}
	for i := range w.frames {
		f := &w.frames[i]
		switch {
		case len(p) >= maxPointer:
			return p
		case !f.object:
			p = appendPointer(p, strconv.Itoa(f.index))
		case f.name != nil:
			name := unquote(f.name)
			if spans := scan(name); len(spans) > 0 {
				name = masked(name, spans)
			}
			p = appendPointer(p, name)
		}
	}
	return p
}

func whole(p place, k Kind) edit {
	return edit{from: p.from, to: p.to, text: []byte(`"` + Mask + `"`), whole: true, found: []Finding{{Kind: k, Pointer: string(p.pointer), Count: 1}}}
}

// unquote returns the text of a JSON string that is known to be valid.
func unquote(raw []byte) string {
	if len(raw) >= 2 && bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	b, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return ""
	}
	return string(b)
}

// quoted returns a JSON string. s is valid UTF-8: it was cut out of a valid string between whole characters.
func quoted(s string) []byte {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		return []byte(`"` + Mask + `"`)
	}
	return b
}
