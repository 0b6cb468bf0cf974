package ratelimit

import (
	"errors"
	"io"
	"net/http"
	"strings"
)

// DefaultMaxBody is how many bytes a request may have where its tenant has no other limit.
const DefaultMaxBody = 16 << 20

// A Reason is the stable name of why a body is refused.
type Reason string

// The reasons.
const (
	ReasonLength   Reason = "bad-length"           // 400: the length that the request states is none
	ReasonTooLarge Reason = "body-too-large"       // 413
	ReasonEncoding Reason = "unsupported-encoding" // 415: bodies are sent as they are
	ReasonUnread   Reason = "body-not-admitted"    // a fault of ours: it was read before anybody allowed it
)

// A BodyError is why a body is not read, or not any further.
type BodyError struct {
	Reason Reason
	Limit  int64 // for ReasonTooLarge, in bytes
}

// Error is safe to send.
func (e *BodyError) Error() string {
	switch e.Reason {
	case ReasonLength:
		return "the request's length is not a number of bytes"
	case ReasonTooLarge:
		return "the request is too large"
	case ReasonEncoding:
		return "the request's content encoding is not supported; send it as it is"
	case ReasonUnread:
		return "the request's body is not to be read yet"
	default:
		return "the request's body is refused"
	}
}

// Hold takes a request's body out of reach until it is admitted: who reads it before fails. It is what comes first, so that
// no byte of a caller who isn't known is read or inflated.
func Hold(r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = held{r.Body}
	}
}

type held struct{ io.ReadCloser }

// Read implements io.Reader.
func (held) Read([]byte) (int, error) { return 0, &BodyError{Reason: ReasonUnread} }

// Admit gives a request its body back, which then ends with a BodyError after so many bytes (DefaultMaxBody for 0, none for
// fewer). It fails at once, with a BodyError, for a body that says to be longer, for one with a content encoding, because what
// it would inflate to can't be known, and for a length that is none. Nothing was read then.
func Admit(w http.ResponseWriter, r *http.Request, limit int64) error {
	if limit == 0 {
		limit = DefaultMaxBody
	}
	limit = max(limit, 0)
	if err := checkLength(r); err != nil {
		return err
	}
	for _, line := range r.Header["Content-Encoding"] {
		for e := range strings.SplitSeq(line, ",") {
			if e = strings.Trim(e, " \t"); e != "" && !strings.EqualFold(e, "identity") {
				w.Header().Set("Accept-Encoding", "identity")
				return &BodyError{Reason: ReasonEncoding}
			}
		}
	}
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close") // the rest is not worth reading
		return &BodyError{Reason: ReasonTooLarge, Limit: limit}
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	body := r.Body
	if h, ok := body.(held); ok {
		body = h.ReadCloser
	}
	r.Body = &counted{http.MaxBytesReader(w, body, limit)}
	return nil
}

// checkLength compares what the request says of its length with what the server has made of it.
func checkLength(r *http.Request) error {
	if r.ContentLength < -1 {
		return &BodyError{Reason: ReasonLength}
	}
	lines := r.Header["Content-Length"]
	for _, s := range lines {
		if s == "" || len(s) > 18 || strings.Trim(s, "0123456789") != "" || s != lines[0] {
			return &BodyError{Reason: ReasonLength}
		}
	}
	return nil
}

// counted gives the end of what is allowed its reason.
type counted struct{ io.ReadCloser }

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err = &BodyError{Reason: ReasonTooLarge, Limit: e.Limit}
	}
	return n, err
}
