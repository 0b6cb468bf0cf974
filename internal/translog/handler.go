package translog

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/counterfoil/counterfoil"
)

// Headers of what a log is served as (c2sp.org/tlog-tiles).
const (
	textPlain   = "text/plain; charset=utf-8"
	octetStream = "application/octet-stream"
	mutable     = "no-cache"
	immutable   = "private, max-age=31536000, immutable"
)

// Serve answers one request for a part of a tenant's log, read-only: path is the log's id and then "/checkpoint" or
// "/tile/…", as c2sp.org/tlog-tiles has them. Who may read which tenant's log is the caller's to decide. Nothing beyond the
// published checkpoint is served.
func (l *Logs) Serve(w http.ResponseWriter, r *http.Request, tenant, path string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	body, kind, cache, err := l.part(r, tenant, path)
	switch {
	case errors.Is(err, ErrNotLogged):
		http.Error(w, "not found", http.StatusNotFound)
		return
	case errors.Is(err, ErrDropped):
		http.Error(w, "dropped by retention", http.StatusGone)
		return
	case errors.Is(err, counterfoil.CodeUnavailable):
		http.Error(w, "unavailable", http.StatusServiceUnavailable)
		return
	case err != nil:
		l.c.Logger.LogAttrs(r.Context(), slog.LevelError, "a part of a log can't be served", slog.String("tenant", tenant),
			slog.String("code", string(counterfoil.CodeOf(err))), slog.Any("error", err))
		http.Error(w, "the log can't be served", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", cache)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) //nolint:gosec // it has a type that no browser runs, and nosniff; a reader that went away is nobody's fault
	}
}

// LogID returns the id of a tenant's log: the last part of its origin, which does not show the tenant's name.
func LogID(audience, tenant string) (string, error) {
	origin, err := counterfoil.LogOrigin(audience, tenant)
	return idOf(origin), err
}

func idOf(origin string) string { return origin[strings.LastIndexByte(origin, '/')+1:] }

// part returns what is at a path, and how it is served.
func (l *Logs) part(r *http.Request, tenant, path string) (body []byte, kind, cache string, err error) {
	id, err := LogID(l.c.Audience, tenant)
	if err != nil {
		return nil, "", "", err
	}
	s, err := l.c.Store.Log(r.Context(), tenant)
	if err != nil {
		return nil, "", "", err
	}
	path, ok := strings.CutPrefix(path, id+"/")
	if s.Published == 0 || !ok {
		return nil, "", "", ErrNotLogged
	}
	if path == "checkpoint" {
		return s.Note, textPlain, mutable, nil
	}
	t, ok := parseTilePath(path)
	if !ok || t.N > s.Published || int64(t.W) > tileHashes(t, s.Published) {
		return nil, "", "", ErrNotLogged
	}
	if t.L < 0 {
		body, err = l.bundle(r, tenant, t)
	} else {
		var found [][]byte
		found, err = readTiles(r.Context(), l.c.Store, tenant, []TileID{{Level: t.L, Index: t.N}}, func(TileID) int { return t.W })
		if err == nil {
			body = found[0]
		}
	}
	return body, octetStream, immutable, err
}

// parseTilePath reads "tile/<L>/<N>[.p/<W>]" and "tile/entries/<N>[.p/<W>]" in their one spelling. Entries are at level -1.
func parseTilePath(path string) (tlog.Tile, bool) {
	rest, ok := strings.CutPrefix(path, "tile/")
	if !ok {
		return tlog.Tile{}, false
	}
	if entries, ok := strings.CutPrefix(rest, "entries/"); ok {
		rest = "data/" + entries
	} else if strings.HasPrefix(rest, "data/") {
		return tlog.Tile{}, false
	}
	t, err := tlog.ParseTilePath("tile/" + strconv.Itoa(tileHeight) + "/" + rest)
	return t, err == nil && t.L < 63/tileHeight && t.N >= 0
}

// tileHashes returns how many hashes, or entries, of a tile there are in a tree of that size.
func tileHashes(t tlog.Tile, size int64) int64 {
	return size>>(tileHeight*max(0, t.L)) - t.N<<tileHeight
}

// bundle returns entries as c2sp.org/tlog-tiles has them: each after its length, in two bytes.
func (l *Logs) bundle(r *http.Request, tenant string, t tlog.Tile) ([]byte, error) {
	first := t.N << tileHeight
	events, err := l.c.Store.Events(r.Context(), tenant, first, t.W)
	if err != nil {
		return nil, err
	}
	if len(events) != t.W {
		return nil, broken(tenant, "an event is missing")
	}
	var out []byte
	for i, e := range events {
		switch {
		case e.Sequence != first+int64(i)+1:
			return nil, broken(tenant, "an event is missing")
		case e.Body == nil:
			return nil, ErrDropped
		case len(e.Body) > 1<<16-1:
			return nil, invalid("an event is too long for a bundle")
		}
		out = binary.BigEndian.AppendUint16(out, uint16(len(e.Body))) //nolint:gosec // it was compared with the bound
		out = append(out, e.Body...)
	}
	return out, nil
}
