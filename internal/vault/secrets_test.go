package vault_test

import (
	"crypto/rand"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
	"github.com/counterfoil/counterfoil/internal/vault"
)

const tenant, upstream = storetest.Tenant, "up"

func secrets(t testing.TB) *vault.Secrets {
	t.Helper()
	now := func() time.Time { return storetest.Start() }
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "a.db"), sqlite.Options{
		Audience: storetest.Audience, Signer: storetest.Key(counterfoil.RoleLedger), Now: now, Names: storetest.Names(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	out, err := vault.NewSecrets(vault.SecretsOptions{
		Vault: open(t, key("k", 1)), Store: s, Names: storetest.Names(), Audience: storetest.Audience, Now: now, Rand: rand.Reader,
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func put(t testing.TB, s *vault.Secrets, name, text string) {
	t.Helper()
	v, err := vault.NewValue([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "person:ada", tenant, name, v, nil); err != nil {
		t.Fatal(err)
	}
}

func target(t testing.TB, address string, grants ...vault.Grant) vault.Target {
	t.Helper()
	out := vault.Target{Tenant: tenant, Upstream: upstream, Grants: grants}
	if address != "" {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		out.URL = u
	}
	return out
}

// anyGrant covers a secret at the pointers and for the hosts.
func anyGrant(secret string, pointers, hosts []string) vault.Grant {
	return vault.Grant{Tenant: tenant, Secret: secret, Upstream: upstream, Pointers: pointers, Hosts: hosts}
}

func sheet(t testing.TB, fields map[string]string) *vault.Sheet {
	t.Helper()
	s, err := vault.ParseSheet(fields)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// filled fills a sheet, for the host up.test, with the one secret "key".
func filled(t testing.TB, fields map[string]string, text string) *vault.Filled {
	t.Helper()
	s := secrets(t)
	put(t, s, "key", text)
	sheet := sheet(t, fields)
	f, err := s.Fill(t.Context(), sheet, target(t, "https://up.test/mcp", anyGrant("key", sheet.Pointers(), []string{"up.test"})))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestPut_rejects(t *testing.T) {
	t.Parallel()
	s := secrets(t)
	for name, text := range map[string]string{
		"empty": "", "short": "1234567", "long": strings.Repeat("x", vault.MaxValue+1), "line end": "a value here\n", "CR": "a value\rhere", "LF": "a value\nhere",
		"NUL": "a value\x00here", "tab": "a value\there", "escape": "a value\x1bhere", "delete": "a value\x7fhere", "C1": "a value\u0085here",
		"line separator": "a value\u2028here", "not UTF-8": "a value \xff\xfe", "blank": " a value", "blank after": "a value ",
	} {
		v, err := vault.NewValue([]byte(text))
		if counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput || !v.IsZero() {
			t.Errorf("%s: %v", name, err)
		} else if text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%s: the error repeats it", name)
		}
	}
	good, err := vault.NewValue([]byte("pässwörd€ with blanks"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "-a", ".a", "_a", "a b", "a/b", "a@1", "a:b", "ä", "a\n", "a}}", strings.Repeat("a", 129)} {
		if _, err := s.Put(t.Context(), "person:ada", tenant, name, good, nil); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := s.Put(t.Context(), "person:ada", tenant, "a", vault.Value{}, nil); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
		t.Errorf("no value: %v", err)
	}
	if _, err := s.Put(t.Context(), "person:ada", tenant, "a", good, make([]byte, vault.MaxMetadata+1)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
		t.Errorf("metadata: %v", err)
	}
	if _, err := s.Put(t.Context(), "person:ada", "", "a", good, nil); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
		t.Errorf("no tenant: %v", err)
	}
	if page, err := s.List(t.Context(), tenant, "", 10); err != nil || len(page) != 0 {
		t.Errorf("%v, %v", page, err)
	}
	if _, err := vault.NewSecrets(vault.SecretsOptions{}); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
		t.Errorf("without anything: %v", err)
	}
}

// What a Fernet token of another system held becomes a sealed version; the token of another key, or one that holds no secret, doesn't.
func TestImport(t *testing.T) {
	t.Parallel()
	s := secrets(t)
	k := fernet(t)
	if _, err := s.Import(t.Context(), "person:ada", tenant, "old", []byte(fernetToken), k, nil); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
		t.Errorf("five bytes: %v", err)
	}
	pad := append([]byte("an old secret"), 3, 3, 3)
	token := []byte(makeFernet(t, 0x80, pad))
	if n, err := s.Import(t.Context(), "person:ada", tenant, "old", token, k, nil); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	token[30] ^= 1
	if _, err := s.Import(t.Context(), "person:ada", tenant, "old", token, k, nil); counterfoil.CodeOf(err) != counterfoil.CodeIntegrityFailed {
		t.Errorf("tampered: %v", err)
	}
	f, err := s.Fill(t.Context(), sheet(t, map[string]string{"/env/KEY": "{{secret:old}}"}), target(t, "", anyGrant("old", []string{"/env/KEY"}, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := f.Reveal("/env/KEY"); !ok || text != "an old secret" {
		t.Fatalf("%q", text)
	}
}
