package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/vault"
)

// sealedRows reads all sealed values, by place and label.
func sealedRows(t testing.TB, s Store, page int) map[string]vault.SealedRow {
	t.Helper()
	all := map[string]vault.SealedRow{}
	for from := ""; ; {
		p, err := s.Sealed(t.Context(), "none", from, page)
		must(t, err)
		if p.Looked > page || len(p.Rows) > p.Looked {
			t.Fatalf("%d rows of %d in a page of %d", len(p.Rows), p.Looked, page)
		}
		for _, r := range p.Rows {
			name := strings.Join([]string{r.Place, r.Label.Tenant, r.Label.Kind, r.Label.Name, r.Label.Version}, " ")
			if _, twice := all[name]; twice {
				t.Fatalf("%s comes twice", name)
			}
			all[name] = r
		}
		if from = p.Next; from == "" {
			return all
		}
	}
}

// Two sealed values that somebody who writes to the database exchanges, between tenants, names, versions and kinds, are
// refused, and the refusal is recorded without a byte of them.
func testSealedSwapped(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	secrets := newSecrets(t, s, newVault(t, "k1"), clock.Now)
	putSecret(t, secrets, Tenant, "key", "value one")
	putSecret(t, secrets, Tenant, "key", "value two")
	putSecret(t, secrets, Tenant, "yek", "value three")
	putSecret(t, secrets, OtherTenant, "key", "value four")
	rows := sealedRows(t, s, 100)
	put := func(name string, value []byte) {
		r := rows[name]
		now := sealedRows(t, s, 100)[name]
		if n, err := s.Reseal(t.Context(), []vault.Resealed{{SealedRow: now, New: value}}); err != nil || n != 1 || r.Sealed == nil {
			t.Fatalf("%s: %d, %v", name, n, err)
		}
	}
	const mine = "secret " + Tenant + " secret key 2"
	for name, from := range map[string]string{
		"tenant": "secret " + OtherTenant + " secret key 1", "name": "secret " + Tenant + " secret yek 1",
		"version": "secret " + Tenant + " secret key 1", "kind": "metadata " + Tenant + " secret-metadata key 2",
	} {
		put(mine, rows[from].Sealed)
		put(from, rows[mine].Sealed)
		before := len(check(t, s))
		text, err := secretText(t.Context(), secrets, Tenant, "key")
		if !errors.Is(err, counterfoil.CodeIntegrityFailed) || text != "" {
			t.Fatalf("%s: got %q, %v", name, text, err)
		}
		for _, secret := range []string{"value one", "value two", string(rows[mine].Sealed[len("cf1.k1."):])} {
			if strings.Contains(err.Error(), secret) {
				t.Fatalf("%s: the error tells: %v", name, err)
			}
		}
		all := events(t, s, Tenant)
		if len(all) != before+1 || !bytes.Contains(all[before].Body, []byte(`"code":"integrity-failed/secret"`)) {
			t.Fatalf("%s: not recorded: %s", name, all[len(all)-1].Body)
		}
		if name == "kind" {
			if _, err := secrets.Versions(t.Context(), Tenant, "key"); !errors.Is(err, counterfoil.CodeIntegrityFailed) {
				t.Fatalf("the secret comes as metadata: %v", err)
			}
		}
		put(mine, rows[mine].Sealed)
		put(from, rows[from].Sealed)
		wantSecret(t, secrets, Tenant, "key", "value two")
	}
	// Under another key's name, cut, and not sealed at all.
	body := string(rows[mine].Sealed[len("cf1.k1."):])
	for _, bad := range []string{"cf1.k2." + body, "cf1.k1." + body[:len(body)-2], "cf1.k1.", "value two"} {
		put(mine, []byte(bad))
		if text, err := secretText(t.Context(), secrets, Tenant, "key"); !errors.Is(err, counterfoil.CodeIntegrityFailed) || text != "" {
			t.Fatalf("%s: got %q, %v", bad, text, err)
		}
		put(mine, rows[mine].Sealed)
	}
}

// fillSealed makes a store with a value in every place, under the vault's newest key, and returns what each holds.
func fillSealed(t *testing.T, s Store, clock *Clock, v *vault.Vault) map[string]string {
	t.Helper()
	want := map[string]string{}
	seal := func(kind, name string) []byte {
		sealed, err := v.Seal(vault.Label{Tenant: Tenant, Kind: kind, Name: name, Version: "1"}, []byte(kind+" of "+name))
		must(t, err)
		want[strings.Join([]string{kind, Tenant, kind, name, "1"}, " ")] = kind + " of " + name
		return sealed
	}
	for i := range 3 {
		key := fmt.Sprintf("k%d", i)
		a := attachment(t, clock, key, "1")
		a.New.Details = seal("request", "apr-"+key+"1")
		must(t, second(s.Attach(t.Context(), a)))
		must(t, s.Rule(t.Context(), ruling(t, clock, "apr-"+key+"1", gateway.Approved)))
		l := &Ledger{Store: s, Case: Approved(t, key, clock.Now()), Spending: gateway.Spending{Request: "apr-" + key + "1"}}
		l.Settling = gateway.Settling{Request: "apr-" + key + "1", Answer: seal("answer", "apr-"+key+"1"), KeepUntil: clock.Now().Add(time.Hour)}
		l.Operation = seal("operation", "run-"+key)
		claim, err := l.Claim(t.Context(), "run-"+key)
		must(t, err)
		must(t, second(l.Finish(t.Context(), claim, clock.Now())))
	}
	secrets := newSecrets(t, s, v, clock.Now)
	for _, tenant := range []string{Tenant, OtherTenant} {
		for i, text := range []string{"value one", "value two"} {
			text = tenant + " " + text
			putSecret(t, secrets, tenant, "key", text)
			want[fmt.Sprintf("secret %s secret key %d", tenant, i+1)] = text
			want[fmt.Sprintf("metadata %s secret-metadata key %d", tenant, i+1)] = "about " + text
		}
	}
	return want
}

// All that is sealed is found, with the label that it was sealed under, in pages of any size.
func testSealedPages(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	if rows := sealedRows(t, s, 10); len(rows) != 0 {
		t.Fatalf("%d in an empty store", len(rows))
	}
	v := newVault(t, "k1")
	want := fillSealed(t, s, clock, v)
	for _, page := range []int{1, 2, 3, 100} {
		got := map[string]string{}
		for name, r := range sealedRows(t, s, page) {
			plain, err := v.Open(r.Label, r.Sealed)
			must(t, err)
			got[name] = string(plain)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("pages of %d: %s", page, d)
		}
	}
	for _, from := range []string{"x", "-1/0/", "99/0/", "0/x/", "0/-1/"} {
		if _, err := s.Sealed(t.Context(), "k1", from, 10); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Fatalf("from %s: %v", from, err)
		}
	}
	wantCode(t, second(s.Sealed(t.Context(), "k1", "", 0)), counterfoil.CodeInvalidInput)
}

// A rotation: the new key seals, the old values still open, are sealed again page by page with a stop in between and others
// at work, and only then can the old key go. After it nothing is lost.
func testRotation(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	old, both, newer := newVault(t, "k1"), newVault(t, "k1", "k2"), newVault(t, "k2")
	must(t, old.Admit(t.Context(), s, clock.Now()))
	want := fillSealed(t, s, clock, old)
	must(t, old.Admit(t.Context(), s, clock.Now())) // another start
	wantCode(t, newer.Admit(t.Context(), s, clock.Now()), counterfoil.CodeIntegrityFailed)
	must(t, both.Admit(t.Context(), s, clock.Now()))
	wantCode(t, old.Admit(t.Context(), other, clock.Now()), counterfoil.CodeIntegrityFailed) // a start with the old configuration
	wantCode(t, both.Retire(t.Context(), s, "k1"), counterfoil.CodePolicyDenied)
	wantCode(t, both.Retire(t.Context(), s, "k2"), counterfoil.CodeInvalidInput)
	wantCode(t, both.Retire(t.Context(), s, "k9"), counterfoil.CodeInvalidInput)
	wantSecret(t, newSecrets(t, s, both, clock.Now), Tenant, "key", Tenant+" value two")

	ctx, stop := context.WithCancel(t.Context())
	stopped, err := both.Rewrap(ctx, s, vault.RewrapOptions{Page: 2, Report: func(p vault.Progress) {
		if p.Rewrapped >= 4 {
			stop()
		}
	}})
	if counterfoil.CodeOf(err) != counterfoil.CodeAborted && counterfoil.CodeOf(err) != counterfoil.CodeUnavailable || stopped.Rewrapped != 5 || stopped.Next == "" {
		t.Fatalf("%+v, %v", stopped, err)
	}
	wantCode(t, both.Retire(t.Context(), s, "k1"), counterfoil.CodePolicyDenied)
	// Meanwhile one that still has the old key alone stores a value, and another is deleted.
	putSecret(t, newSecrets(t, other, old, clock.Now), Tenant, "late", "a late value")
	want["secret "+Tenant+" secret late 1"], want["metadata "+Tenant+" secret-metadata late 1"] = "a late value", "about a late value"
	must(t, newSecrets(t, other, both, clock.Now).Delete(t.Context(), actor, OtherTenant, "key", 1))
	delete(want, "secret "+OtherTenant+" secret key 1")
	delete(want, "metadata "+OtherTenant+" secret-metadata key 1")
	rest, err := both.Rewrap(t.Context(), other, vault.RewrapOptions{From: stopped.Next, Page: 2})
	must(t, err)
	if rest.Rewrapped != len(want)-stopped.Rewrapped || rest.Failed != 0 || rest.Moved != 0 || rest.Next != "" {
		t.Fatalf("%+v for %d values", rest, len(want))
	}
	again, err := both.Rewrap(t.Context(), s, vault.RewrapOptions{})
	must(t, err)
	if again.Rewrapped != 0 || again.Looked < len(want) {
		t.Fatalf("%+v: it was not done", again)
	}
	must(t, both.Retire(t.Context(), s, "k1"))
	must(t, newer.Admit(t.Context(), s, clock.Now()))
	wantCode(t, old.Admit(t.Context(), s, clock.Now()), counterfoil.CodeIntegrityFailed)
	got := map[string]string{}
	for name, r := range sealedRows(t, other, 3) {
		plain, err := newer.Open(r.Label, r.Sealed)
		must(t, err)
		got[name] = string(plain)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	check(t, s)
}

// A value is replaced only if it is the one that was read, and all of a page or nothing.
func testReseal(t *testing.T, b Backend) {
	clock := NewClock()
	armed := false
	s := b.Open(t, clock.Now, func(at Stage) error {
		if armed && at == Commit {
			return errors.New("injected")
		}
		return nil
	})
	v := newVault(t, "k1")
	secrets := newSecrets(t, s, v, clock.Now)
	putSecret(t, secrets, Tenant, "key", "value one")
	row := sealedRows(t, s, 10)["secret "+Tenant+" secret key 1"]
	next, err := v.Seal(row.Label, []byte("value two"))
	must(t, err)
	stale := row
	stale.Sealed = next
	if n, err := s.Reseal(t.Context(), []vault.Resealed{{SealedRow: stale, New: next}}); err != nil || n != 0 {
		t.Fatalf("replaced %d, %v", n, err)
	}
	armed = true
	wantCode(t, second(s.Reseal(t.Context(), []vault.Resealed{{SealedRow: row, New: next}})), counterfoil.CodeUnavailable)
	armed = false
	wantSecret(t, secrets, Tenant, "key", "value one")
	if n, err := s.Reseal(t.Context(), []vault.Resealed{{SealedRow: stale, New: next}, {SealedRow: row, New: next}}); err != nil || n != 1 {
		t.Fatalf("replaced %d, %v", n, err)
	}
	wantSecret(t, secrets, Tenant, "key", "value two")
	row.Place = "elsewhere"
	wantCode(t, second(s.Reseal(t.Context(), []vault.Resealed{{SealedRow: row, New: next}})), counterfoil.CodeInvalidInput)
	if n, err := s.Reseal(t.Context(), nil); err != nil || n != 0 {
		t.Fatal(n, err)
	}
}

// A store is not started with other keys than it was sealed under: none of them is replaced in silence.
func testAdmit(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	// Sealed before its keys were written down.
	putSecret(t, newSecrets(t, s, newVault(t, "k1"), clock.Now), Tenant, "key", "value one")
	wantCode(t, newVault(t, "k2").Admit(t.Context(), s, clock.Now()), counterfoil.CodeIntegrityFailed)
	if keys, err := s.VaultKeys(t.Context()); err != nil || len(keys) != 0 {
		t.Fatalf("a refused start left %v, %v", keys, err)
	}
	must(t, newVault(t, "k1", "k2").Admit(t.Context(), s, clock.Now()))
	keys, err := s.VaultKeys(t.Context())
	must(t, err)
	if len(keys) != 2 || keys[0].ID != "k1" || keys[1].ID != "k2" || !keys[0].Created.Equal(clock.Now()) {
		t.Fatalf("%v", keys)
	}
	wantCode(t, newVault(t, "k2").Admit(t.Context(), s, clock.Now()), counterfoil.CodeIntegrityFailed)
	// Another key that goes by the old one's name.
	other := vaultKey("k1")
	other.Master = bytes.Repeat([]byte{7}, vault.MasterSize)
	v, err := vault.New(bytes.NewReader(make([]byte, 100)), other, vaultKey("k2"))
	must(t, err)
	wantCode(t, v.Admit(t.Context(), s, clock.Now()), counterfoil.CodeIntegrityFailed)
	// What is written down first, stays.
	must(t, s.AddVaultKey(t.Context(), vault.KeyRecord{ID: "k1", Proof: []byte("other"), Created: clock.Now()}))
	must(t, newVault(t, "k1", "k2").Admit(t.Context(), s, clock.Now()))
	wantCode(t, s.AddVaultKey(t.Context(), vault.KeyRecord{Proof: []byte("x")}), counterfoil.CodeInvalidInput)
}
