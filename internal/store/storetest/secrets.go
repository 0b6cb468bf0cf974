package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/vault"
)

func vaultKey(id string) vault.Key {
	return vault.Key{ID: id, Master: bytes.Repeat([]byte(id), vault.MasterSize)[:vault.MasterSize]}
}

func newVault(t testing.TB, ids ...string) *vault.Vault {
	t.Helper()
	keys := make([]vault.Key, len(ids))
	for i, id := range ids {
		keys[i] = vaultKey(id)
	}
	v, err := vault.New(rand.Reader, keys...)
	must(t, err)
	return v
}

func newSecrets(t testing.TB, s Store, v *vault.Vault, now func() time.Time) *vault.Secrets {
	t.Helper()
	secrets, err := vault.NewSecrets(vault.SecretsOptions{Vault: v, Store: s, Names: Names(), Audience: Audience, Now: now, Rand: rand.Reader})
	must(t, err)
	return secrets
}

func putSecret(t testing.TB, secrets *vault.Secrets, tenant, name, text string) int64 {
	t.Helper()
	v, err := vault.NewValue([]byte(text))
	must(t, err)
	n, err := secrets.Put(context.WithoutCancel(t.Context()), actor, tenant, name, v, []byte("about "+text))
	must(t, err)
	return n
}

// secretText returns what a template with the reference is filled with.
func secretText(ctx context.Context, secrets *vault.Secrets, tenant, ref string) (string, error) {
	sheet, err := vault.ParseSheet(map[string]string{"/headers/X-Key": "{{secret:" + ref + "}}"})
	if err != nil {
		return "", err
	}
	name, _, _ := strings.Cut(ref, "@")
	f, err := secrets.Fill(ctx, sheet, vault.Target{
		Tenant: tenant, Upstream: "up", URL: &url.URL{Scheme: "https", Host: "up.test"},
		Grants: []vault.Grant{{Tenant: tenant, Secret: name, Upstream: "up", Pointers: []string{"/headers/X-Key"}, Hosts: []string{"up.test"}}},
	})
	if err != nil {
		return "", err
	}
	text, _ := f.Reveal("/headers/X-Key")
	return text, nil
}

func wantSecret(t testing.TB, secrets *vault.Secrets, tenant, ref, want string) {
	t.Helper()
	got, err := secretText(t.Context(), secrets, tenant, ref)
	if want == "" {
		if !errors.Is(err, vault.ErrNotFound) {
			t.Fatalf("%s of %s: %q, %v, want none", ref, tenant, got, err)
		}
	} else if err != nil || got != want {
		t.Fatalf("%s of %s: %q, %v, want %q", ref, tenant, got, err, want)
	}
}

// Secrets have versions that come once, for one tenant alone, over handles and a restart.
func testSecrets(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	v := newVault(t, "k1")
	here, there := newSecrets(t, s, v, clock.Now), newSecrets(t, other, v, clock.Now)
	wantSecret(t, here, Tenant, "key", "")
	if err := here.Delete(t.Context(), actor, Tenant, "key", 0); !errors.Is(err, vault.ErrNotFound) {
		t.Fatalf("deleted what isn't there: %v", err)
	}
	if n := putSecret(t, here, Tenant, "key", "value one"); n != 1 {
		t.Fatalf("version %d", n)
	}
	if n := putSecret(t, there, Tenant, "key", "value two"); n != 2 {
		t.Fatalf("version %d", n)
	}
	putSecret(t, here, OtherTenant, "key", "of another")
	putSecret(t, here, OtherTenant, "alone", "of another alone")
	wantSecret(t, there, Tenant, "key", "value two")
	wantSecret(t, there, Tenant, "key@1", "value one")
	wantSecret(t, there, Tenant, "key@3", "")
	wantSecret(t, there, OtherTenant, "key", "of another")
	wantSecret(t, there, OtherTenant, "key@2", "")
	wantSecret(t, there, Tenant, "alone", "")
	for _, tenant := range []string{"", "none", Tenant + "\x00", "\xff"} {
		if text, err := secretText(t.Context(), here, tenant, "key"); err == nil {
			t.Fatalf("%q has %q", tenant, text)
		}
	}
	if err := here.Delete(t.Context(), actor, Tenant, "alone", 0); !errors.Is(err, vault.ErrNotFound) {
		t.Fatalf("deleted another tenant's: %v", err)
	}
	versions, err := there.Versions(t.Context(), Tenant, "key")
	must(t, err)
	created := clock.Now().UTC().Truncate(time.Millisecond)
	if d := cmp.Diff([]vault.Version{
		{Name: "key", Number: 2, Created: created, Metadata: []byte("about value two")},
		{Name: "key", Number: 1, Created: created, Metadata: []byte("about value one")},
	}, versions); d != "" {
		t.Fatal(d)
	}
	// The last is gone: nobody gets the one before unasked, and its number isn't used again.
	must(t, there.Delete(t.Context(), actor, Tenant, "key", 2))
	wantSecret(t, here, Tenant, "key", "")
	wantSecret(t, here, Tenant, "key@1", "value one")
	must(t, there.Delete(t.Context(), actor, Tenant, "key", 0))
	wantSecret(t, here, Tenant, "key@1", "")
	if _, err := here.Versions(t.Context(), Tenant, "key"); !errors.Is(err, vault.ErrNotFound) {
		t.Fatal(err)
	}
	must(t, s.Close())
	here = newSecrets(t, b.Open(t, clock.Now, nil), v, clock.Now)
	if n := putSecret(t, here, Tenant, "key", "value three"); n != 3 {
		t.Fatalf("version %d", n)
	}
	wantSecret(t, there, Tenant, "key", "value three")
	wantSecret(t, there, OtherTenant, "alone", "of another alone")
	wantPhases(t, other, "governed", "governed", "governed", "governed", "governed")
}

// Many store one secret at once: each gets a version of its own, and each value stands under its own number.
func testSecretContenders(t *testing.T, b Backend) {
	clock := NewClock()
	v := newVault(t, "k1")
	handles := []*vault.Secrets{newSecrets(t, b.Open(t, clock.Now, nil), v, clock.Now), newSecrets(t, b.Open(t, clock.Now, nil), v, clock.Now)}
	var mu sync.Mutex
	got := map[int64]string{}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			text := fmt.Sprintf("value %d of many", i)
			n := putSecret(t, handles[i%2], Tenant, "key", text)
			mu.Lock()
			defer mu.Unlock()
			got[n] = text
		})
	}
	wg.Wait()
	if len(got) != 16 {
		t.Fatalf("%d versions for 16", len(got))
	}
	for n, text := range got {
		wantSecret(t, handles[0], Tenant, fmt.Sprintf("key@%d", n), text)
	}
}

// A version that failed before its commit has left nothing; one that failed after it is there.
func testSecretFaults(t *testing.T, b Backend) {
	clock := NewClock()
	for i, stage := range []Stage{Begin, Write, Commit, Committed} {
		armed := false
		s := b.Open(t, clock.Now, func(at Stage) error {
			if armed && at == stage {
				return errors.New("injected")
			}
			return nil
		})
		secrets := newSecrets(t, s, newVault(t, "k1"), clock.Now)
		name := fmt.Sprintf("key%d", i)
		value, err := vault.NewValue([]byte("value one"))
		must(t, err)
		events := len(check(t, s))
		faulty := func(f func() error) {
			armed = true
			err := f()
			armed = false
			if stage == Committed {
				wantCode(t, err, counterfoil.CodeUnknownOutcome)
			} else {
				wantCode(t, err, counterfoil.CodeUnavailable)
			}
		}
		faulty(func() error { return second(secrets.Put(t.Context(), actor, Tenant, name, value, nil)) })
		want := int64(0)
		if stage == Committed {
			want = 1
		}
		if last, err := s.LastVersion(t.Context(), Tenant, name); err != nil || last != want || len(check(t, s)) != events+int(want) {
			t.Fatalf("%s: version %d, %v", stage, last, err)
		}
		if want == 0 {
			putSecret(t, secrets, Tenant, name, "value one")
		}
		faulty(func() error { return secrets.Delete(t.Context(), actor, Tenant, name, 0) })
		if stage == Committed {
			wantSecret(t, secrets, Tenant, name, "")
		} else {
			wantSecret(t, secrets, Tenant, name, "value one")
		}
		must(t, s.Close())
	}
}

// Pages of secrets are complete, in order, bounded, of one tenant, and have no values.
func testSecretPages(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	secrets := newSecrets(t, s, newVault(t, "k1"), clock.Now)
	for _, name := range []string{"c", "a", "b", "d"} {
		putSecret(t, secrets, Tenant, name, "value of "+name)
		putSecret(t, secrets, OtherTenant, name+"x", "value of "+name)
	}
	putSecret(t, secrets, Tenant, "b", "newer of b")
	putSecret(t, secrets, Tenant, "d", "newer of d")
	must(t, secrets.Delete(t.Context(), actor, Tenant, "d", 2))
	must(t, secrets.Delete(t.Context(), actor, Tenant, "c", 0))
	var got []string
	for after := ""; ; {
		page, err := secrets.List(t.Context(), Tenant, after, 2)
		must(t, err)
		if len(page) == 0 {
			break
		}
		if len(page) > 2 {
			t.Fatalf("a page of %d", len(page))
		}
		for _, x := range page {
			got = append(got, fmt.Sprintf("%s@%d %s", x.Name, x.Number, x.Metadata))
		}
		after = page[len(page)-1].Name
	}
	if d := cmp.Diff([]string{"a@1 about value of a", "b@2 about newer of b", "d@1 about value of d"}, got); d != "" {
		t.Fatal(d)
	}
	for _, limit := range []int{0, -1} {
		if page, err := secrets.List(t.Context(), Tenant, "", limit); err != nil || len(page) != 0 {
			t.Fatalf("%d rows, %v", len(page), err)
		}
	}
	rows, err := s.Secrets(t.Context(), Tenant, "", 10)
	must(t, err)
	more, err := s.SecretVersions(t.Context(), Tenant, "b")
	must(t, err)
	for _, r := range append(rows, more...) {
		if r.Value != nil || bytes.Contains(r.Metadata, []byte("about")) {
			t.Fatalf("a list has %q", r.Value)
		}
	}
}

// What is incomplete, out of its turn or too much is refused without a trace.
func testSecretRejects(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	row := vault.SecretRow{Tenant: Tenant, Name: "key", Version: 1, Created: clock.Now(), Value: []byte("sealed"), Metadata: []byte("sealed")}
	for name, change := range map[string]func(*vault.SecretRow){
		"no tenant": func(r *vault.SecretRow) { r.Tenant = "" }, "no name": func(r *vault.SecretRow) { r.Name = "" },
		"no version": func(r *vault.SecretRow) { r.Version = 0 }, "no time": func(r *vault.SecretRow) { r.Created = time.Time{} },
		"no value": func(r *vault.SecretRow) { r.Value = nil }, "no metadata": func(r *vault.SecretRow) { r.Metadata = nil },
		"another's event": func(r *vault.SecretRow) { r.Tenant = OtherTenant }, "NUL": func(r *vault.SecretRow) { r.Name = "a\x00" },
		"not UTF-8": func(r *vault.SecretRow) { r.Name = "a\xff" }, "long": func(r *vault.SecretRow) { r.Name = strings.Repeat("a", maxName+1) },
	} {
		r := row
		change(&r)
		if err := s.AddSecret(t.Context(), r, governed(t, Tenant)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Fatalf("%s: %v", name, err)
		}
	}
	add := func(version int64) error {
		r := row
		r.Version = version
		return s.AddSecret(t.Context(), r, governed(t, Tenant))
	}
	if err := add(2); !errors.Is(err, vault.ErrChanged) {
		t.Fatal(err)
	}
	for v := range int64(vault.MaxVersions) {
		must(t, add(v+1))
	}
	for _, v := range []int64{1, vault.MaxVersions, vault.MaxVersions + 2} {
		if err := add(v); !errors.Is(err, vault.ErrChanged) {
			t.Fatal(err)
		}
	}
	if err := add(vault.MaxVersions + 1); !errors.Is(err, vault.ErrTooMany) {
		t.Fatal(err)
	}
	if err := s.DeleteSecret(t.Context(), Tenant, "key", -1, governed(t, Tenant)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
		t.Fatal(err)
	}
	if err := s.DeleteSecret(t.Context(), OtherTenant, "key", 0, governed(t, OtherTenant)); !errors.Is(err, vault.ErrNotFound) {
		t.Fatal(err)
	}
	must(t, s.DeleteSecret(t.Context(), Tenant, "key", 7, governed(t, Tenant)))
	must(t, add(vault.MaxVersions+1))
	if n := len(check(t, s)); n != vault.MaxVersions+2 {
		t.Fatalf("%d events", n)
	}
	if log, err := s.Log(t.Context(), OtherTenant); err != nil || log.Size != 0 {
		t.Fatalf("a log of %d for a tenant without secrets, %v", log.Size, err)
	}
}
