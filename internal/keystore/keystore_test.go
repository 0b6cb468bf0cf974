package keystore_test

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/keystore"
	"github.com/counterfoil/counterfoil/internal/vault"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func options() keystore.Options {
	return keystore.Options{Now: func() time.Time { return start }, Rand: rand.Reader}
}

func open(t *testing.T, dir string) *keystore.Keystore {
	t.Helper()
	k, err := keystore.Open(dir, options())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func state(t *testing.T) string { return filepath.Join(t.TempDir(), "state") }

func read(t *testing.T, parts ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, b []byte, parts ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(parts...), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpen_makesAndFindsKeys(t *testing.T) {
	t.Parallel()
	dir := state(t)
	k := open(t, dir)
	if !regexp.MustCompile(`^counterfoil-[0-9a-f]{16}$`).MatchString(k.Audience()) {
		t.Errorf("audience %q", k.Audience())
	}
	for _, c := range []struct {
		key   counterfoil.Signer
		role  counterfoil.Role
		owner string
	}{
		{k.Policy(), counterfoil.RolePolicy, "policy:" + k.Audience()},
		{k.Ledger(), counterfoil.RoleLedger, "ledger:" + k.Audience()},
		{k.Receipt(), counterfoil.RoleReceipt, "receipt:" + k.Audience()},
		{k.Checkpoint(), counterfoil.RoleCheckpoint, "checkpoint:" + k.Audience()},
	} {
		p := c.key.Public()
		if p.Role != c.role || p.Owner != c.owner || p.Custody != counterfoil.CustodyGateway || len(p.Tenants) != 1 || p.Tenants[0] != counterfoil.AllTenants {
			t.Errorf("%s: %+v", c.role, p)
		}
	}
	l := vault.Label{Tenant: "local", Kind: "k", Name: "n"}
	sealed, err := k.Vault().Seal(l, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	again := open(t, dir)
	if again.Audience() != k.Audience() || again.Ledger().Public().ID != k.Ledger().Public().ID ||
		again.Pseudonyms().Of("actor", "a") != k.Pseudonyms().Of("actor", "a") {
		t.Error("the second opening has other keys")
	}
	if plain, err := again.Vault().Open(l, sealed); err != nil || string(plain) != "x" {
		t.Errorf("opened %q, %v", plain, err)
	}
	ring, err := counterfoil.ParseKeyRing(read(t, dir, keystore.PublicKeys))
	if err != nil || len(ring.Keys()) != 4 {
		t.Errorf("public keys: %v, %v", ring, err)
	}
	if other := open(t, state(t)); other.Audience() == k.Audience() || other.Policy().Public().ID == k.Policy().Public().ID {
		t.Error("two states have the same keys")
	}
	if runtime.GOOS != "windows" {
		checkModes(t, dir)
	}
}

func checkModes(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
}

func TestOpen_atOnce(t *testing.T) {
	t.Parallel()
	dir := state(t)
	names := make([]string, 8)
	var wg sync.WaitGroup
	for i := range names {
		wg.Go(func() {
			if k, err := keystore.Open(dir, options()); err != nil {
				t.Error(err)
			} else {
				names[i] = k.Audience() + string(k.Ledger().Public().ID)
			}
		})
	}
	wg.Wait()
	for _, n := range names {
		if n != names[0] {
			t.Fatalf("%q and %q", n, names[0])
		}
	}
}

func TestOpen_refusesDirectory(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no modes")
	}
	rows := map[string]func(dir string) error{
		"group may look":  func(dir string) error { return os.Chmod(dir, 0o750) },
		"others may look": func(dir string) error { return os.Chmod(dir, 0o701) },
		"file open":       func(dir string) error { return os.Chmod(filepath.Join(dir, "private.json"), 0o640) },
		"file a link": func(dir string) error {
			p := filepath.Join(dir, "private.json")
			return errors.Join(os.Rename(p, p+".real"), os.Symlink("private.json.real", p))
		},
		"directory a link": func(dir string) error { return errors.Join(os.Rename(dir, dir+".real"), os.Symlink(dir+".real", dir)) },
		"file a directory": func(dir string) error {
			p := filepath.Join(dir, "private.json")
			return errors.Join(os.Remove(p), os.Mkdir(p, 0o700))
		},
		"another owner": func(dir string) error {
			if os.Geteuid() != 0 {
				return errSkip
			}
			return os.Chown(filepath.Join(dir, "private.json"), 12345, 12345)
		},
		"directory of another": func(dir string) error {
			if os.Geteuid() != 0 {
				return errSkip
			}
			return os.Chown(dir, 12345, 12345)
		},
	}
	for name, spoil := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := state(t)
			open(t, dir)
			if err := spoil(dir); errors.Is(err, errSkip) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			_, err := keystore.Open(dir, options())
			if c := counterfoil.CodeOf(err); c != counterfoil.CodeIntegrityFailed && c != counterfoil.CodeUnavailable {
				t.Fatalf("opened: %v", err)
			}
		})
	}
}

var errSkip = errors.New("only root can do that")

func TestOpen_refusesFile(t *testing.T) {
	t.Parallel()
	dir := state(t)
	open(t, dir)
	good := string(read(t, dir, "private.json"))
	rows := map[string]string{
		"empty":          "",
		"half":           good[:len(good)/2],
		"not JSON":       "hello",
		"unknown member": strings.Replace(good, `"version"`, `"extra": 1, "version"`, 1),
		"letter case":    strings.Replace(good, `"audience"`, `"Audience"`, 1),
		"twice":          strings.Replace(good, `"version": 1`, `"version": 1, "version": 1`, 1),
		"newer":          strings.Replace(good, `"version": 1`, `"version": 2`, 1),
		"no audience":    regexp.MustCompile(`"audience": "[^"]*"`).ReplaceAllString(good, `"audience": ""`),
		"no seed":        regexp.MustCompile(`"ledgerSeed": "[^"]*"`).ReplaceAllString(good, `"ledgerSeed": ""`),
		"short seed":     regexp.MustCompile(`"ledgerSeed": "[^"]*"`).ReplaceAllString(good, `"ledgerSeed": "AAAA"`),
		"no vault key":   regexp.MustCompile(`(?s)"vaultKeys": \[.*?\]`).ReplaceAllString(good, `"vaultKeys": []`),
		"trailing":       good + "{}",
		"huge":           good + strings.Repeat(" ", 2<<20),
	}
	for name, content := range rows {
		if content == good {
			t.Fatalf("%s: nothing was spoilt", name)
		}
		write(t, []byte(content), dir, "private.json")
		_, err := keystore.Open(dir, options())
		if !errors.Is(err, counterfoil.CodeIntegrityFailed) || !strings.Contains(err.Error(), "private.json") {
			t.Errorf("%s: %v", name, err)
		}
		if got := read(t, dir, "private.json"); string(got) != content {
			t.Errorf("%s: the file was replaced", name)
		}
	}
	write(t, []byte(good), dir, "private.json")
	open(t, dir)
}

func TestOpen_missingKeys(t *testing.T) {
	t.Parallel()
	for _, beside := range []string{keystore.Database, "other.db", keystore.PublicKeys, "approver.json"} {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, []byte("x"), dir, beside)
		_, err := keystore.Open(dir, options())
		if !errors.Is(err, counterfoil.CodeIntegrityFailed) || !strings.Contains(err.Error(), "restore them") {
			t.Errorf("%s: %v", beside, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "private.json")); err == nil {
			t.Errorf("%s: keys were made", beside)
		}
	}
}

func TestOpen_noRandomness(t *testing.T) {
	t.Parallel()
	dir := state(t)
	o := options()
	o.Rand = iotest.ErrReader(errors.New("no entropy"))
	if _, err := keystore.Open(dir, o); !errors.Is(err, counterfoil.CodeUnavailable) {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "private.json")); err == nil {
		t.Fatal("a file was made")
	}
}
