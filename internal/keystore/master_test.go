package keystore_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/keystore"
	"github.com/counterfoil/counterfoil/internal/vault"
)

func private(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keys")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A key file is made once, by one of all that start at once, and then it stays.
func TestOpenMasters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(private(t), "vault.key")
	var made sync.Map
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			keys, is, err := keystore.OpenMasters(path, rand.Reader)
			if err != nil || len(keys) != 1 {
				t.Error(len(keys), err)
				return
			}
			if _, had := made.LoadOrStore(keys[0].ID, is); had && is {
				t.Error("made twice")
			}
		})
	}
	wg.Wait()
	n := 0
	made.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Fatalf("%d keys", n)
	}
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	// A second line is a newer key.
	b := read(t, path)
	write(t, append(b, []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32)))...), path)
	if _, _, err := keystore.OpenMasters(path, nil); err == nil {
		t.Fatal("without randomness")
	}
	if keys, is, err := keystore.OpenMasters(path, rand.Reader); err != nil || is || len(keys) != 2 {
		t.Fatal(len(keys), is, err)
	}
}

func TestOpenMasters_rejects(t *testing.T) {
	t.Parallel()
	good := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32)) + "\n"
	for name, content := range map[string]string{"empty": "", "a line end": "\n", "short": "AAAA\n", "more": good + "x", "blank": " " + good, "a passphrase": "correct horse battery staple 123\n"} {
		path := filepath.Join(private(t), "vault.key")
		write(t, []byte(content), path)
		if _, made, err := keystore.OpenMasters(path, rand.Reader); !errors.Is(err, counterfoil.CodeIntegrityFailed) || made {
			t.Errorf("%s: %v", name, err)
		}
		if string(read(t, path)) != content {
			t.Errorf("%s: the file was replaced", name)
		}
	}
	if _, _, err := keystore.OpenMasters(filepath.Join(private(t), "vault.key"), iotest.ErrReader(errors.New("none"))); !errors.Is(err, counterfoil.CodeUnavailable) {
		t.Errorf("no randomness: %v", err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	open := private(t)
	path := filepath.Join(open, "vault.key")
	write(t, []byte(good), path)
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, _, err := keystore.OpenMasters(path, rand.Reader); !errors.Is(err, counterfoil.CodeIntegrityFailed) {
		t.Errorf("a file that others read: %v", err)
	}
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := keystore.OpenMasters(path, rand.Reader); !errors.Is(err, counterfoil.CodeIntegrityFailed) {
		t.Errorf("a directory that others read: %v", err)
	}
}

func TestRotateVault(t *testing.T) {
	t.Parallel()
	dir := state(t)
	k := open(t, dir)
	l := vault.Label{Tenant: "local", Kind: "k", Name: "n"}
	sealed, err := k.Vault().Seal(l, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	id, err := k.RotateVault()
	if err != nil {
		t.Fatal(err)
	}
	next := open(t, dir)
	ids := next.Vault().KeyIDs()
	if len(ids) != 2 || ids[1] != id || ids[0] != k.Vault().KeyIDs()[0] {
		t.Fatalf("%v", ids)
	}
	if plain, err := next.Vault().Open(l, sealed); err != nil || string(plain) != "x" {
		t.Fatal(err)
	}
	newer, err := next.Vault().Seal(l, []byte("x"))
	if err != nil || vault.KeyID(newer) != id {
		t.Fatal(vault.KeyID(newer), err)
	}
	if err := next.DropVaultKey(id); !errors.Is(err, counterfoil.CodeInvalidInput) {
		t.Fatalf("dropped the key that seals: %v", err)
	}
	if err := next.DropVaultKey("v-none"); !errors.Is(err, counterfoil.CodeInvalidInput) {
		t.Fatalf("dropped what isn't there: %v", err)
	}
	if err := next.DropVaultKey(ids[0]); err != nil {
		t.Fatal(err)
	}
	if left := open(t, dir).Vault().KeyIDs(); len(left) != 1 || left[0] != id {
		t.Fatalf("%v", left)
	}
	// Keys from elsewhere seal, those of the file open.
	master, err := vault.NewKey(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Masters = []vault.Key{master}
	with, err := keystore.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	outer, err := with.Vault().Seal(l, []byte("x"))
	if err != nil || vault.KeyID(outer) != master.ID {
		t.Fatal(vault.KeyID(outer), err)
	}
	if plain, err := with.Vault().Open(l, newer); err != nil || string(plain) != "x" {
		t.Fatal(err)
	}
}
