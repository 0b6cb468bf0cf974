package mcpserver

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/counterfoil/counterfoil/internal/identity"
)

// sessionOf returns the session that a request names, if it is the principal's own.
func (h *Handler) sessionOf(r *http.Request, p *identity.Principal) (session, *httpError) {
	id := r.Header.Get(headerSession)
	if id == "" {
		return session{}, badRequest("the request names no session; begin one with initialize")
	}
	s, err := h.seal.read(id, p.Tenant, p.Actor(), h.opts.Now())
	if err != nil || h.callers.hasEnded(keyOf(p), s) {
		return session{}, noSession()
	}
	if said := r.Header.Get(headerVersion); said != "" && said != s.version {
		if !slices.Contains(legacyVersions(), said) {
			return session{}, unsupported(said)
		}
		return session{}, badRequest("the protocol version is not the session's")
	}
	return s, nil
}

// listen takes a GET: a stream on which the client is told what it did not ask for.
func (h *Handler) listen(w http.ResponseWriter, r *http.Request, p *identity.Principal) {
	if r.Header.Get(headerVersion) == modernVersion {
		notAllowed(w)
		return
	}
	if _, stream := accepted(r); !stream {
		refuse(w, &httpError{status: http.StatusNotAcceptable, number: -32600, msg: "the client must accept text/event-stream"})
		return
	}
	s, e := h.sessionOf(r, p)
	if e != nil {
		refuse(w, e)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.until.Sub(h.opts.Now()))
	defer cancel()
	l := &listener{session: s.id, cancel: cancel, messages: make(chan []byte, 1)}
	if e := h.callers.listen(keyOf(p), l); e != nil {
		refuse(w, e)
		return
	}
	defer h.callers.leave(keyOf(p), l)
	out := &response{w: w, rc: http.NewResponseController(w), now: h.opts.Now, stream: true}
	_ = out.rc.SetReadDeadline(time.Time{}) // the server's own is for the request, not for its stream
	out.alive()
	t := time.NewTicker(h.opts.KeepAlive)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-l.messages:
			if out.event(m) != nil {
				return
			}
		case <-t.C:
			out.alive()
		}
	}
}

// end takes a DELETE: the client ends its session.
func (h *Handler) end(w http.ResponseWriter, r *http.Request, p *identity.Principal) {
	if r.Header.Get(headerVersion) == modernVersion {
		notAllowed(w)
		return
	}
	s, e := h.sessionOf(r, p)
	if e != nil {
		refuse(w, e)
		return
	}
	h.callers.end(keyOf(p), s)
	w.WriteHeader(http.StatusNoContent)
}
