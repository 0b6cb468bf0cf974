package idempotency_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/idempotency"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
	"github.com/counterfoil/counterfoil/internal/vault"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// watched is a store that keeps what was stored as an answer.
type watched struct {
	idempotency.Store
	answer []byte
}

func (w *watched) EndKey(ctx context.Context, tenant, id string, answer []byte) error {
	w.answer = answer
	return w.Store.EndKey(ctx, tenant, id, answer)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), sqlite.Options{
		Audience: storetest.Audience, Signer: storetest.Key(counterfoil.RoleLedger), Now: clock.Now, Names: storetest.Names(),
	})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	key, err := vault.ParseKeys("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	must(t, err)
	v, err := vault.New(rand.Reader, key...)
	must(t, err)
	store, now := &watched{Store: db}, clock.Now()
	keys, err := idempotency.New(idempotency.Options{Store: store, Vault: v, Now: func() time.Time { return now }})
	must(t, err)
	r := idempotency.Request{Tenant: "acme", Principal: "agent:a", Key: "k", Subject: "tool", Body: []byte(`{}`)}
	run, _, err := keys.Begin(t.Context(), r)
	must(t, err)
	if _, _, err := keys.Begin(t.Context(), r); !errors.Is(err, idempotency.ErrRunning) {
		t.Fatalf("while it runs: %v", err)
	}
	must(t, run.End(t.Context(), []byte("planted-answer")))
	if len(store.answer) == 0 || bytes.Contains(store.answer, []byte("planted")) {
		t.Fatalf("stored in clear: %q", store.answer)
	}
	again, answer, err := keys.Begin(t.Context(), r)
	if err != nil || again != nil || string(answer) != "planted-answer" {
		t.Fatalf("%v %q %v", again, answer, err)
	}
	// The parts are never joined: another cut of the same text is another key, or another request.
	other := r
	other.Subject, other.Body = "tool{", []byte("}")
	if _, _, err := keys.Begin(t.Context(), other); !errors.Is(err, idempotency.ErrReused) {
		t.Fatalf("another request: %v", err)
	}
	other = r
	other.Principal, other.Key = "agent:", "ak"
	run, _, err = keys.Begin(t.Context(), other)
	must(t, err)
	must(t, run.End(t.Context(), nil)) // nothing happened
	// It runs again, and its process dies: nobody runs it any more, until the key is forgotten.
	if run, _, err = keys.Begin(t.Context(), other); err != nil || run == nil {
		t.Fatalf("%v %v", run, err)
	}
	now = now.Add(idempotency.Life - time.Second)
	if _, _, err := keys.Begin(t.Context(), other); !errors.Is(err, idempotency.ErrRunning) {
		t.Fatalf("after a crash: %v", err)
	}
	now = now.Add(2 * time.Second)
	if run, _, err = keys.Begin(t.Context(), other); err != nil || run == nil {
		t.Fatalf("after its life: %v %v", run, err)
	}
	for name, bad := range map[string]string{"empty": "", "a line break": "a\nb", "not ASCII": "é"} {
		r.Key = bad
		if _, _, err := keys.Begin(t.Context(), r); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
