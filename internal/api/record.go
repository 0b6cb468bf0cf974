package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/redact"
)

// A recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// WriteHeader remembers the first status that is final.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write counts.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	if r.status == http.StatusNoContent && len(b) == 0 {
		return 0, nil
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// Flush flushes, where that can be done.
func (r *recorder) Flush() {
	if f, ok := r.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// patient is a body that lifts the time limit on reading once it is read: the call may then take as long as it takes.
type patient struct {
	io.ReadCloser
	control *http.ResponseController
	done    bool
}

// Read reads.
func (p *patient) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if err == io.EOF && !p.done {
		p.done = true
		_ = p.control.SetReadDeadline(time.Time{}) // where it can't be set there is none
	}
	return n, err
}

// unhurry lifts the time limit on reading for a request without a body: else it would end the call that waits.
func (a *API) unhurry(x *exchange) {
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Time{}) // where it can't be set there is none
}

// endless lifts the time limit on writing, for streams.
func endless(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // where it can't be set there is none
}

// patternOf is the name of a request's route: never the path, which has names in it.
func patternOf(x *exchange) string {
	if x.route == nil {
		return "none"
	}
	return x.route.path
}

// methodOf is a request's method, if it is one that there is.
func methodOf(x *exchange) string {
	switch m := x.r.Method; m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "other"
}

// record writes the one record of a request. It has no path, no query, no header and no body.
func (a *API) record(x *exchange, rec *recorder) {
	level := slog.LevelInfo
	if rec.status >= http.StatusInternalServerError {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("request", x.id), slog.String("method", methodOf(x)), slog.String("route", patternOf(x)), slog.Int("status", rec.status),
		slog.Duration("duration", a.o.Now().Sub(x.began)), slog.Int64("in", max(x.r.ContentLength, 0)), slog.Int64("out", rec.bytes),
	}
	if x.addr.IsValid() {
		attrs = append(attrs, slog.String("address", x.addr.String()))
	}
	if p := x.principal; p != nil {
		attrs = append(attrs, slog.String("tenant", p.Tenant), slog.String("principal", p.Actor()), slog.String("credential", p.Credential))
	}
	for _, n := range [][2]string{{"gate", x.gate}, {"approval", x.approval}, {"receipt", x.receipt}, {"trace", x.trace}} {
		if n[1] != "" {
			attrs = append(attrs, slog.String(n[0], n[1]))
		}
	}
	if p := x.problem; p != nil {
		attrs = append(attrs, slog.String("code", string(p.Code)))
		attrs = append(attrs, causeOf(p)...)
	}
	for _, n := range x.notes {
		attrs = append(attrs, slog.Group("hook", slog.String("id", n.hook), slog.String(n.name, n.value)))
	}
	a.o.Logger.LogAttrs(context.WithoutCancel(x.r.Context()), level, "request", attrs...)
}

const maxCause = 512

// causeOf says why we failed. What a caller did wrong has its code, and no words that could be theirs.
func causeOf(p *problem) []slog.Attr {
	if e, ok := errors.AsType[*identity.Error](p.cause); ok && e.Why != "" {
		return []slog.Attr{slog.String("why", e.Why)}
	}
	if p.Status < http.StatusInternalServerError || p.cause == nil || p.call {
		return nil
	}
	text, _ := redact.Text(p.cause.Error())
	if len(text) > maxCause {
		text = text[:maxCause]
	}
	return []slog.Attr{slog.String("cause", text)}
}
