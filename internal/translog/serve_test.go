package translog_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// serve serves the tenant's log below /log/ and returns the log's own prefix.
func (w *world) serve() string {
	w.t.Helper()
	l := w.logs()
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		l.Serve(rw, r, tenant, strings.TrimPrefix(r.URL.Path, "/log/"))
	}))
	w.t.Cleanup(server.Close)
	id, err := translog.LogID(audience, tenant)
	if err != nil {
		w.t.Fatal(err)
	}
	return server.URL + "/log/" + id
}

// verifier is what another program checks the log's signatures with.
func (w *world) verifier() note.Verifier {
	w.t.Helper()
	vkey, err := counterfoil.VerifierKey(w.key.Public(), w.origin())
	if err != nil {
		w.t.Fatal(err)
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// TestServe_torchwood reads a log with a client that is not ours: the checkpoint with the note package of the Go project,
// tiles, entries and proofs with torchwood.
func TestServe_torchwood(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 256, 700} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.refusals(size)
			w.publish()
			w.refusals(3) // not published
			fetcher, err := torchwood.NewTileFetcher(w.serve())
			if err != nil {
				t.Fatal(err)
			}
			signed, err := fetcher.ReadEndpoint(w.ctx(), "checkpoint")
			if err != nil {
				t.Fatal(err)
			}
			n, err := note.Open(signed, note.VerifierList(w.verifier()))
			if err != nil {
				t.Fatal(err)
			}
			c, err := torchwood.ParseCheckpoint(n.Text)
			if err != nil || c.Origin != w.origin() || c.N != int64(size) {
				t.Fatal(c, err)
			}
			client, err := torchwood.NewClient(fetcher)
			if err != nil {
				t.Fatal(err)
			}
			read := int64(0)
			for read < c.N {
				from := read
				for i, entry := range client.Entries(w.ctx(), c.Tree, read) {
					if want := w.store.log(tenant).events[i].Body; !bytes.Equal(entry, want) {
						t.Fatalf("entry %d is %s, want %s", i, entry, want)
					}
					read++
				}
				if err := client.Err(); err != nil || read == from {
					t.Fatal("the client stopped at", read, err)
				}
			}
			if _, proof, err := client.Entry(w.ctx(), c.Tree, c.N-1); err != nil {
				t.Fatal(err)
			} else if err := tlog.CheckRecord(proof, c.N, c.Hash, c.N-1, tlog.Hash(w.store.log(tenant).events[c.N-1].Leaf)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestServe_headers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.refusals(700)
	w.publish()
	w.refusals(1)
	prefix := w.serve()
	const text, binary = "text/plain; charset=utf-8", "application/octet-stream"
	const fresh, forever = "no-cache", "private, max-age=31536000, immutable"
	for _, tt := range []struct {
		method, path string
		status       int
		kind, cache  string
		size         int
	}{
		{"GET", "/checkpoint", 200, text, fresh, -1},
		{"HEAD", "/checkpoint", 200, text, fresh, 0},
		{"GET", "/tile/0/000", 200, binary, forever, 8192},
		{"GET", "/tile/0/002.p/188", 200, binary, forever, 188 * 32},
		{"GET", "/tile/0/002.p/7", 200, binary, forever, 7 * 32},
		{"GET", "/tile/0/000.p/7", 200, binary, forever, 7 * 32},
		{"GET", "/tile/1/000.p/2", 200, binary, forever, 64},
		{"GET", "/tile/entries/000", 200, binary, forever, -1},
		{"GET", "/tile/entries/002.p/188", 200, binary, forever, -1},
		{"GET", "/tile/0/002.p/189", 404, "", "", -1}, // there, but not published
		{"GET", "/tile/entries/002.p/189", 404, "", "", -1},
		{"GET", "/tile/0/002", 404, "", "", -1},
		{"GET", "/tile/0/003.p/1", 404, "", "", -1},
		{"GET", "/tile/1/000", 404, "", "", -1},
		{"GET", "/tile/2/000.p/1", 404, "", "", -1},
		{"GET", "/tile/7/000", 404, "", "", -1},
		{"GET", "/tile/63/000", 404, "", "", -1},
		{"GET", "/tile/0/0", 404, "", "", -1},
		{"GET", "/tile/0/x000/000", 404, "", "", -1},
		{"GET", "/tile/00/000", 404, "", "", -1},
		{"GET", "/tile/-1/000", 404, "", "", -1},
		{"GET", "/tile/data/000", 404, "", "", -1},
		{"GET", "/tile/0/000.p/0", 404, "", "", -1},
		{"GET", "/tile/0/000.p/256", 404, "", "", -1},
		{"GET", "/tile/0/x999/x999/x999/x999/x999/x999/x999/999", 404, "", "", -1},
		{"GET", "/tile/", 404, "", "", -1},
		{"GET", "/", 404, "", "", -1},
		{"GET", "/checkpoint/", 404, "", "", -1},
		{"POST", "/checkpoint", 405, "", "", -1},
		{"DELETE", "/tile/0/000", 405, "", "", -1},
	} {
		req, err := http.NewRequestWithContext(w.ctx(), tt.method, prefix+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		h := resp.Header
		if err != nil || resp.StatusCode != tt.status || tt.status == 200 && (h.Get("Content-Type") != tt.kind || h.Get("Cache-Control") != tt.cache) ||
			tt.size >= 0 && len(body) != tt.size || tt.status != 200 && strings.Contains(h.Get("Cache-Control"), "immutable") {
			t.Errorf("%s %s: %d %q %q, %d bytes (%v)", tt.method, tt.path, resp.StatusCode, h.Get("Content-Type"), h.Get("Cache-Control"), len(body), err)
		}
	}
}

// status returns what a request for a part of the log is answered with.
func (w *world) status(path string) int {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.logs().Serve(rec, httptest.NewRequestWithContext(w.ctx(), http.MethodGet, "/", nil), tenant, path)
	return rec.Code
}

func TestServe_refuses(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id, err := translog.LogID(audience, tenant)
	if err != nil {
		t.Fatal(err)
	}
	other, err := translog.LogID(audience, "other")
	if err != nil {
		t.Fatal(err)
	}
	if got := w.status(id + "/checkpoint"); got != http.StatusNotFound {
		t.Error("an empty log:", got)
	}
	w.refusals(300)
	w.appendIn("other", counterfoil.PhaseRefused, "r")
	w.publish()
	for path, want := range map[string]int{
		id + "/checkpoint": 200, "checkpoint": 404, other + "/checkpoint": 404, "": 404, id: 404, id + "/tile/entries/000": 200,
	} {
		if got := w.status(path); got != want {
			t.Errorf("%q: %d, want %d", path, got, want)
		}
	}
	l := w.store.log(tenant)
	l.events[7].Body = nil
	if got := w.status(id + "/tile/entries/000"); got != http.StatusGone {
		t.Error("entries of which one was dropped:", got)
	}
	l.events = append(l.events[:7], l.events[8:]...)
	if got := w.status(id + "/tile/entries/000"); got != http.StatusInternalServerError {
		t.Error("entries of which one is missing:", got)
	}
	l.tiles = map[translog.TileID][]byte{}
	if got := w.status(id + "/tile/0/000"); got != http.StatusInternalServerError {
		t.Error("a tile that is missing:", got)
	}
}
