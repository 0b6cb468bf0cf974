package mcpserver

import (
	"net/http"
	"slices"
	"strings"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
	"github.com/counterfoil/counterfoil/internal/upstream"
)

// standsAlone reports whether a request is one of the revision in which each describes itself. A client shows it by what
// it opens with: initialize, unless it says more, is the older way.
func standsAlone(r *http.Request, m *jsonrpc.Message) bool {
	if member(object(member(object(m.Params), "_meta")), metaVersion) != nil {
		return true
	}
	said := r.Header.Get(headerVersion)
	return m.Method != "initialize" && said != "" && !slices.Contains(legacyVersions(), said)
}

// alone takes a message of the modern revision.
func (v *visit) alone(m *jsonrpc.Message) *httpError {
	if e := v.checkAlone(m); e != nil {
		return e
	}
	if m.Kind == jsonrpc.Notification {
		v.cancel(nil)
		return v.accepted() // none has a meaning here: a call is cancelled by ending its response
	}
	if !isOffered(m.Method, true) {
		return &httpError{status: http.StatusNotFound, number: jsonrpc.MethodNotFound, msg: "the server does not offer this method"}
	}
	if e := v.checkName(m); e != nil {
		return e
	}
	if e := v.permitted(m.Method); e != nil {
		return e
	}
	fl := newFlights(1)
	v.run(func() {}, func() { v.begin(fl, m, v.send) })
	return nil
}

// accepted answers what gets no answer.
func (v *visit) accepted() *httpError {
	_ = v.out.finish(http.StatusAccepted, nil) // a client that has gone is noticed elsewhere
	return nil
}

// checkAlone checks that headers and body say the same, so that whoever reads only the headers and we who read the body
// see one request.
func (v *visit) checkAlone(m *jsonrpc.Message) *httpError {
	if m.Kind == jsonrpc.Response {
		return badRequest("there is no request that this could answer")
	}
	params := object(m.Params)
	raw := member(params, "_meta")
	meta := object(raw)
	if jsonrpc.Ambiguous(params, "_meta") || jsonrpc.Ambiguous(meta, metaVersion, metaCapabilities) {
		return invalidMeta("a member name in params is ambiguous")
	}
	said := v.r.Header.Get(headerVersion)
	body := member(meta, metaVersion)
	version, isText := jsonrpc.Unquote(body)
	switch {
	case body != nil && (!isText || version != said):
		return mismatch("the protocol version is not the same in header and body")
	case said != modernVersion:
		return unsupported(said)
	case v.r.Header.Get(headerMethod) != m.Method:
		return mismatch("the method is not the same in header and body")
	case m.Kind == jsonrpc.Notification:
		return nil
	case body == nil:
		return invalidMeta("_meta does not name the protocol version")
	}
	if c := member(meta, metaCapabilities); c == nil || c[0] != '{' {
		return invalidMeta("_meta does not name the client's capabilities")
	}
	return nil
}

func invalidMeta(msg string) *httpError {
	return &httpError{status: http.StatusBadRequest, number: jsonrpc.InvalidParams, msg: msg}
}

// unsupported is the error of a revision that we don't speak.
func unsupported(version string) *httpError {
	return &httpError{
		status: http.StatusBadRequest, number: unsupportedVersion, msg: "the server does not speak this version of the protocol",
		data: jsonrpc.Object([]jsonrpc.Member{
			{Name: "supported", Value: quoteAll(supportedVersions())},
			{Name: "requested", Value: jsonrpc.Quote(strings.ToValidUTF8(clip(version), "?"))},
		}),
	}
}

func supportedVersions() []string { return append([]string{modernVersion}, legacyVersions()...) }

func quoteAll(list []string) []byte {
	items := make([][]byte, len(list))
	for i, s := range list {
		items[i] = jsonrpc.Quote(s)
	}
	return jsonrpc.Batch(items)
}

// checkName checks the header that names what a request is about.
func (v *visit) checkName(m *jsonrpc.Message) *httpError {
	name := "name"
	switch m.Method {
	case "tools/call", "prompts/get":
	case "resources/read":
		name = "uri"
	default:
		return nil
	}
	params := object(m.Params)
	if jsonrpc.Ambiguous(params, name) {
		return invalidMeta("a member name in params is ambiguous")
	}
	body, ok := jsonrpc.Unquote(member(params, name))
	said := v.r.Header.Get(headerName)
	decoded, isCoded := upstream.DecodeHeader(said)
	if !ok || said == "" || said != body && (!isCoded || decoded != body) {
		return mismatch("the name is not the same in header and body")
	}
	return nil
}

// inSession takes a message of an older revision.
func (v *visit) inSession(m *jsonrpc.Message) *httpError {
	if m.Method == "initialize" && m.Kind == jsonrpc.Request {
		fl := newFlights(1)
		v.run(func() {}, func() { v.begin(fl, m, v.send) })
		return nil
	}
	s, e := v.session()
	if e != nil {
		return e
	}
	v.version = s.version
	fl, done, e := v.enterSession(s)
	if e != nil {
		return e
	}
	if m.Kind != jsonrpc.Request {
		v.notified(fl, m)
		done()
		v.cancel(nil)
		return v.accepted()
	}
	if e := v.permitted(m.Method); e != nil {
		done()
		return e
	}
	v.run(done, func() { v.begin(fl, m, v.send) })
	return nil
}

// session returns the session that the request names.
func (v *visit) session() (session, *httpError) { return v.sessionOf(v.r, v.p) }

// enterSession counts the visit in.
func (v *visit) enterSession(s session) (*flights, func(), *httpError) {
	fl, done, err := v.callers.use(keyOf(v.p), s, v.opts.Now())
	if err != nil {
		return nil, nil, noSession()
	}
	return fl, done, nil
}

func noSession() *httpError {
	return &httpError{status: http.StatusNotFound, number: jsonrpc.InvalidRequest, msg: "there is no such session; begin a new one with initialize"}
}
