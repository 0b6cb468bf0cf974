package mcpserver

import (
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// The headers that mean something to us.
const (
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerParam   = "Mcp-Param-"
	headerSession = "Mcp-Session-Id"
)

// The error numbers that MCP adds to those of JSON-RPC.
const (
	headerMismatch     = -32020
	missingCapability  = -32021
	unsupportedVersion = -32022
)

// An httpError is the end of a request over HTTP. Its body is an error of JSON-RPC whatever the status, because a client
// takes a bare one for a sign that the server is an old one.
type httpError struct {
	status int
	number int
	msg    string
	data   []byte     // raw JSON; nil for none
	id     jsonrpc.ID // of the request, if that could be read

	challenge string // of a credential that does not suffice
}

func closingDown() *httpError {
	return &httpError{status: http.StatusServiceUnavailable, number: jsonrpc.InternalError, msg: "the server is shutting down"}
}

func refuse(w http.ResponseWriter, e *httpError) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if e.challenge != "" {
		w.Header().Set("WWW-Authenticate", e.challenge)
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(e.status)
	_, _ = w.Write(jsonrpc.NewError(e.id, jsonrpc.ErrorObject(e.number, e.msg, e.data))) //nolint:gosec,nolintlint // JSON, and said to be (found by some runs only); the client may be gone
}

func notAllowed(w http.ResponseWriter) {
	w.Header().Set("Allow", "POST, GET, DELETE")
	refuse(w, &httpError{status: http.StatusMethodNotAllowed, number: jsonrpc.InvalidRequest, msg: "the endpoint does not know this HTTP method"})
}

func badRequest(msg string) *httpError {
	return &httpError{status: http.StatusBadRequest, number: jsonrpc.InvalidRequest, msg: msg}
}

func mismatch(msg string) *httpError {
	return &httpError{status: http.StatusBadRequest, number: headerMismatch, msg: msg}
}

// hostNames reads the names that the endpoint is reached by.
func hostNames(list []string) (map[string]bool, error) {
	hosts := make(map[string]bool, len(list))
	for _, s := range list {
		name, port, ok := splitHost(s)
		if !ok {
			return nil, errors.New("a name of the endpoint is not a host name, with or without a port")
		}
		hosts[joinHost(name, port)] = true
	}
	return hosts, nil
}

// splitHost takes a Host header apart. The name comes in lower case and without brackets.
func splitHost(s string) (name, port string, ok bool) {
	if s == "" || strings.ContainsAny(s, "@/\\?# \t") || strings.HasSuffix(s, ":") {
		return "", "", false
	}
	name = s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && (s[0] != '[' || strings.Contains(s, "]:")) {
		var err error
		if name, port, err = net.SplitHostPort(s); err != nil {
			return "", "", false
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
			return "", "", false
		}
	} else if s[0] == '[' {
		if !strings.HasSuffix(s, "]") {
			return "", "", false
		}
		name = s[1 : len(s)-1]
	}
	return strings.ToLower(name), port, name != ""
}

func joinHost(name, port string) string { return name + "|" + port }

// knows reports whether the endpoint is reached by this host name: a page that has its own name lead here is none of ours.
func (h *Handler) knows(host string) bool {
	name, port, ok := splitHost(host)
	return ok && (h.hosts[joinHost(name, "")] || h.hosts[joinHost(name, port)])
}

// admit checks what can be checked before the body is read.
func (h *Handler) admit(r *http.Request, p *identity.Principal) *httpError {
	for name, values := range r.Header {
		if len(values) > 1 && single(name) {
			return mismatch("a header is there more than once: " + name)
		}
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		var allowed []string
		if h.opts.Origins != nil {
			allowed = h.opts.Origins(p.Tenant)
		}
		if origin == "null" || !slices.Contains(allowed, origin) {
			return &httpError{status: http.StatusForbidden, number: jsonrpc.InvalidRequest, msg: "pages of this origin may not use the endpoint"}
		}
	}
	return nil
}

// single reports whether two headers of this name could be read in two ways.
func single(name string) bool {
	switch name {
	case headerVersion, headerMethod, headerName, headerSession, "Origin", "Content-Type", "Content-Encoding", "Authorization", "Last-Event-Id":
		return true
	}
	return strings.HasPrefix(name, headerParam)
}

// admitBody checks what kind of body a POST has, and reads it.
func (h *Handler) admitBody(w http.ResponseWriter, r *http.Request) ([]byte, *httpError) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := params["charset"]
	if err != nil || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return nil, &httpError{status: http.StatusUnsupportedMediaType, number: jsonrpc.InvalidRequest, msg: "the body must be application/json"}
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return nil, &httpError{status: http.StatusUnsupportedMediaType, number: jsonrpc.InvalidRequest, msg: "the body must not be encoded"}
	}
	tooLarge := &httpError{status: http.StatusRequestEntityTooLarge, number: jsonrpc.InvalidRequest, msg: "the body is larger than is accepted"}
	if r.ContentLength > int64(h.opts.MaxBytes) {
		return nil, tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(h.opts.MaxBytes)))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge
	}
	if err != nil {
		return nil, badRequest("the body could not be read")
	}
	return body, nil
}

// accepted reads the Accept headers: whether the client takes a JSON text, and whether it takes a stream of events. A
// request without the header takes both.
func accepted(r *http.Request) (text, stream bool) {
	values := r.Header.Values("Accept")
	if len(values) == 0 {
		return true, true
	}
	for _, part := range strings.Split(strings.Join(values, ","), ",") {
		kind, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil && q <= 0 {
			continue
		}
		switch kind {
		case "*/*":
			text, stream = true, true
		case "application/json", "application/*":
			text = true
		case "text/event-stream", "text/*":
			stream = true
		}
	}
	return text, stream
}
