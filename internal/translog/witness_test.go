package translog_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// A witness is one that is strict about c2sp.org/tlog-witness. It knows one log, checks with tlog and signs with torchwood.
type witness struct {
	t      testing.TB
	signer *torchwood.CosignatureSigner
	log    note.Verifier
	origin string
	url    string

	mu    sync.Mutex
	size  int64
	root  tlog.Hash
	asked []int // the statuses that it answered with
	// answer, if set, is what it answers with instead.
	answer func(rw http.ResponseWriter)
}

func (w *world) witness(name string) *witness {
	w.t.Helper()
	seed := bytes.Repeat([]byte(name[:1]), ed25519.SeedSize)
	signer, err := torchwood.NewCosignatureSigner(name, ed25519.NewKeyFromSeed(seed))
	if err != nil {
		w.t.Fatal(err)
	}
	x := &witness{t: w.t, signer: signer, log: w.verifier(), origin: w.origin()}
	server := httptest.NewServer(x)
	w.t.Cleanup(server.Close)
	x.url = server.URL
	return x
}

// trusted adds the witnesses' keys to the ring and returns a configuration with them.
func (w *world) trusted(witnesses ...*witness) translog.Config {
	w.t.Helper()
	keys := []counterfoil.PublicKey{w.key.Public()}
	var configured []translog.Witness
	for _, x := range witnesses {
		k, err := counterfoil.NewWitnessKey(x.signer.Verifier().String(), counterfoil.KeyParams{
			Custody: counterfoil.CustodyHolder, Tenants: []string{tenant}, NotBefore: start(),
		})
		if err != nil {
			w.t.Fatal(err)
		}
		keys = append(keys, k)
		configured = append(configured, translog.Witness{Name: x.signer.Name(), URL: x.url + "/"})
	}
	w.ring = w.ringOf(keys...)
	c := w.config()
	c.Witnesses, c.Client = configured, http.DefaultClient
	return c
}

func (x *witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.answer != nil {
		x.answer(rw)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/add-checkpoint" {
		rw.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	status, answer := x.judge(string(body))
	x.asked = append(x.asked, status)
	if status == http.StatusConflict {
		rw.Header().Set("Content-Type", "text/x.tlog.size")
	}
	rw.WriteHeader(status)
	if _, err := rw.Write(answer); err != nil {
		x.t.Error(err)
	}
}

func (x *witness) judge(body string) (int, []byte) {
	head, signed, ok := strings.Cut(body, "\n\n")
	lines := strings.Split(head, "\n")
	text, isOld := strings.CutPrefix(lines[0], "old ")
	old, err := strconv.ParseInt(text, 10, 64)
	if !ok || !isOld || err != nil || strconv.FormatInt(old, 10) != text || len(lines) > 64 {
		return http.StatusBadRequest, nil
	}
	var proof tlog.TreeProof
	for _, line := range lines[1:] {
		h, err := tlog.ParseHash(line)
		if err != nil {
			return http.StatusBadRequest, nil
		}
		proof = append(proof, h)
	}
	if origin, _, _ := strings.Cut(signed, "\n"); origin != x.origin {
		return http.StatusNotFound, nil
	}
	n, err := note.Open([]byte(signed), note.VerifierList(x.log))
	if err != nil {
		return http.StatusForbidden, nil
	}
	c, err := torchwood.ParseCheckpoint(n.Text)
	switch {
	case err != nil || old > c.N:
		return http.StatusBadRequest, nil
	case old != x.size, old == c.N && c.Hash != x.root:
		return http.StatusConflict, fmt.Appendf(nil, "%d\n", x.size)
	case old == 0 && len(proof) > 0, old > 0 && old < c.N && tlog.CheckTree(proof, c.N, c.Hash, old, x.root) != nil:
		return http.StatusUnprocessableEntity, nil
	}
	x.size, x.root = c.N, c.Hash
	again, err := note.Sign(&note.Note{Text: n.Text}, x.signer)
	if err != nil {
		x.t.Error(err)
	}
	_, lines2, _ := bytes.Cut(again, []byte("\n\n"))
	return http.StatusOK, lines2
}

// signedBy lists the witnesses whose signatures a checkpoint has.
func (w *world) signedBy(c *counterfoil.Checkpoint) []string {
	w.t.Helper()
	signatures, err := c.Cosignatures(w.ring, tenant)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, s := range signatures {
		out = append(out, s.Witness)
	}
	slices.Sort(out)
	return out
}

func TestCosign(t *testing.T) {
	t.Parallel()
	w := setup(t)
	a, b := w.witness("a.example/w"), w.witness("b.example/w")
	l := w.open(w.trusted(a, b))
	if err := l.Cosign(w.ctx()); err != nil {
		t.Fatal("nothing to sign:", err)
	}
	for _, n := range []int{3, 300, 1} {
		w.refusals(n)
		if err := errors.Join(l.Publish(w.ctx()), l.Cosign(w.ctx()), l.Cosign(w.ctx())); err != nil {
			t.Fatal(err)
		}
		for what, c := range map[string]*counterfoil.Checkpoint{"published": w.published(), "kept outside": w.kept()} {
			if got := w.signedBy(c); !slices.Equal(got, []string{"a.example/w", "b.example/w"}) {
				t.Errorf("what is %s at %d is signed by %v", what, c.Size(), got)
			}
			if _, err := note.Open(c.Note(), note.VerifierList(w.verifier(), a.signer.Verifier(), b.signer.Verifier())); err != nil {
				t.Error(err)
			}
		}
	}
	if want := []int{200, 409, 200, 409, 200}; !slices.Equal(a.asked, want) {
		t.Errorf("it was asked %v, want %v: each process learns the size by a refusal", a.asked, want)
	}
	if r := w.report(w.check(), w.stored()); !r.OK() {
		t.Error(r.Findings)
	}
}

// TestRun_witnesses has witnesses sign while the log grows, and remembers what they have signed.
func TestRun_witnesses(t *testing.T) {
	t.Parallel()
	w := setup(t)
	a, b := w.witness("a.example/w"), w.witness("b.example/w")
	l := w.open(w.trusted(a, b))
	ctx, cancel := context.WithCancel(w.ctx())
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx) })
	for range 20 {
		w.refusals(5)
		time.Sleep(2 * time.Millisecond)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		s, err := w.store.Log(ctx, tenant)
		if err != nil {
			t.Fatal(err)
		}
		if s.Published == 100 && len(w.signedBy(w.parse(s.Note))) == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the last checkpoint has not got all signatures")
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	running.Wait()
}

// TestProve_witnessed proves under the checkpoint that a witness has signed, while the newest has no such signature.
func TestProve_witnessed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	l := w.open(w.trusted(w.witness("a.example/w")))
	w.run(100)
	if err := errors.Join(l.Publish(w.ctx()), l.Cosign(w.ctx())); err != nil {
		t.Fatal(err)
	}
	w.run(1)
	if err := l.Publish(w.ctx()); err != nil {
		t.Fatal(err)
	}
	for execution, size := range map[string]int64{"x-297": 300, "x-300": 303} {
		c, proofs, err := l.Prove(w.ctx(), tenant, mentions(execution, counterfoil.PhaseStarted)...)
		if err != nil {
			t.Fatal(err)
		}
		if c.Size() != size || proofs[0].Verify(c) != nil {
			t.Errorf("%s is proven under %d, want %d", execution, c.Size(), size)
		}
	}
}

func TestCosign_refused(t *testing.T) {
	t.Parallel()
	says := func(status int, body string) func(http.ResponseWriter) {
		return func(rw http.ResponseWriter) {
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, body)
		}
	}
	const unavailable, integrity, signature = counterfoil.CodeUnavailable, counterfoil.CodeIntegrityFailed, counterfoil.CodeSignatureInvalid
	for _, tt := range []struct {
		name string
		do   func(w *world, x *witness)
		code counterfoil.Code
		says []string
	}{
		{"it knows more than the log has", func(_ *world, x *witness) { x.size = 99 }, integrity, []string{"shortened", "30", "99"}},
		{"it knows another root", func(w *world, x *witness) {
			x.size, x.root = 30, tlog.Hash(w.rootOf(29))
		}, integrity, []string{"forked", "30"}},
		{"it knows another smaller root", func(w *world, x *witness) {
			x.size, x.root = 20, tlog.Hash(w.rootOf(19))
		}, integrity, []string{"forked", "30", "20"}},
		{"it does not know the key", func(w *world, x *witness) { x.log = x.signer.Verifier() }, unavailable, []string{"does not know"}},
		{"it does not know the log", func(_ *world, x *witness) { x.origin = "other" }, unavailable, []string{"does not know", audience}},
		{"it is broken", func(_ *world, x *witness) { x.answer = says(500, "") }, unavailable, []string{"500"}},
		{"it answers nothing", func(_ *world, x *witness) { x.answer = says(200, "") }, signature, []string{"believed"}},
		{"it answers rubbish", func(_ *world, x *witness) { x.answer = says(200, "— a.example/w rubbish\n") }, signature, []string{"believed"}},
		{"it answers for ever", func(_ *world, x *witness) { x.answer = says(200, strings.Repeat("x", 1<<20)) }, unavailable, []string{"does not answer"}},
		{"no size", func(_ *world, x *witness) { x.answer = says(409, "many\n") }, unavailable, []string{"no size"}},
		{"a size with a sign", func(_ *world, x *witness) { x.answer = says(409, "+3\n") }, unavailable, []string{"no size"}},
		{"a size below nothing", func(_ *world, x *witness) { x.answer = says(409, "-3\n") }, unavailable, []string{"no size"}},
		{"sizes that change", func(_ *world, x *witness) {
			n := 3
			x.answer = func(rw http.ResponseWriter) { n++; says(409, fmt.Sprintln(n))(rw) }
		}, unavailable, []string{"faster"}},
		{"another signs", func(w *world, x *witness) {
			stranger := w.witness("s.example/w")
			x.answer = func(rw http.ResponseWriter) {
				again, err := note.Sign(&note.Note{Text: noteText(w.published())}, stranger.signer)
				if err != nil {
					w.t.Error(err)
				}
				_, lines, _ := bytes.Cut(again, []byte("\n\n"))
				says(200, string(lines))(rw)
			}
		}, signature, []string{"believed"}},
		{"another signs in its name", func(w *world, x *witness) {
			forger, err := torchwood.NewCosignatureSigner("a.example/w", ed25519.NewKeyFromSeed(make([]byte, 32)))
			if err != nil {
				w.t.Fatal(err)
			}
			x.answer = func(rw http.ResponseWriter) {
				again, err := note.Sign(&note.Note{Text: noteText(w.published())}, forger)
				if err != nil {
					w.t.Error(err)
				}
				_, lines, _ := bytes.Cut(again, []byte("\n\n"))
				says(200, string(lines))(rw)
			}
		}, signature, []string{"believed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			x := w.witness("a.example/w")
			l := w.open(w.trusted(x))
			w.refusals(30)
			if err := l.Publish(w.ctx()); err != nil {
				t.Fatal(err)
			}
			before := string(w.published().Note())
			tt.do(w, x)
			err := l.Cosign(w.ctx())
			if !errors.Is(err, tt.code) {
				t.Fatalf("got %v, want %s", err, tt.code)
			}
			for _, s := range append(tt.says, tenant) {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
			if string(w.published().Note()) != before {
				t.Error("the published checkpoint has changed")
			}
		})
	}
}

func noteText(c *counterfoil.Checkpoint) string {
	text, _, _ := strings.Cut(string(c.Note()), "\n\n")
	return text + "\n"
}
