package keystore_test

import (
	"bytes"
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
		{k.Policy(), counterfoil.RolePolicy, "policy:local"},
		{k.Ledger(), counterfoil.RoleLedger, "ledger:local"},
		{k.Receipt(), counterfoil.RoleReceipt, "receipt:local"},
	} {
		p := c.key.Public()
		if p.Role != c.role || p.Owner != c.owner || p.Custody != counterfoil.CustodyGateway || len(p.Tenants) != 1 || p.Tenants[0] != "local" {
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
	if err != nil || len(ring.Keys()) != 3 {
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

const (
	pass  = "correct horse"
	owner = "person:ada"
)

func TestEnrol(t *testing.T) {
	t.Parallel()
	dir := state(t)
	k, other := open(t, dir), open(t, dir)
	if k.Enrolled() {
		t.Fatal("enrolled at birth")
	}
	if _, err := k.Unlock([]byte(pass)); !errors.Is(err, keystore.ErrNotEnrolled) {
		t.Fatal(err)
	}
	if err := k.EnrolCheaply([]byte(pass), owner, false); err != nil {
		t.Fatal(err)
	}
	if err := k.EnrolCheaply([]byte(pass), owner, false); !errors.Is(err, keystore.ErrEnrolled) {
		t.Fatalf("enrolled twice: %v", err)
	}
	s, err := other.Unlock([]byte(pass))
	if err != nil {
		t.Fatal(err)
	}
	p := s.Public()
	if p.Role != counterfoil.RoleApprover || p.Owner != owner || p.Custody != counterfoil.CustodyHolder || !p.NotAfter.IsZero() {
		t.Errorf("%+v", p)
	}
	if who, err := other.Approver(); who != owner || err != nil {
		t.Errorf("%q, %v", who, err)
	}
	// A running process and the file with the public keys learn of it.
	for name, ring := range rings(t, dir, other) {
		if !has(ring, p.ID) || len(ring.Keys()) != 4 {
			t.Errorf("%s: %v", name, ring.Keys())
		}
	}
	if file := read(t, dir, "approver.json"); bytes.Contains(file, []byte(pass)) {
		t.Error("the passphrase is in the file")
	}
	if runtime.GOOS != "windows" {
		checkModes(t, dir)
	}
}

func rings(t *testing.T, dir string, k *keystore.Keystore) map[string]*counterfoil.KeyRing {
	t.Helper()
	running, err := k.Ring()
	if err != nil {
		t.Fatal(err)
	}
	file, err := counterfoil.ParseKeyRing(read(t, dir, keystore.PublicKeys))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*counterfoil.KeyRing{"running": running, "file": file}
}

func has(r *counterfoil.KeyRing, id counterfoil.KeyID) bool { return find(r, id) != nil }

func find(r *counterfoil.KeyRing, id counterfoil.KeyID) *counterfoil.PublicKey {
	for _, k := range r.Keys() {
		if k.ID == id {
			return &k
		}
	}
	return nil
}

func TestReplace(t *testing.T) {
	t.Parallel()
	dir := state(t)
	k, other := open(t, dir), open(t, dir)
	var ids []counterfoil.KeyID
	for i := range 3 {
		if err := k.EnrolCheaply([]byte(pass), owner, i > 0); err != nil {
			t.Fatal(err)
		}
		s, err := k.Unlock([]byte(pass))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.Public().ID)
	}
	for name, ring := range rings(t, dir, other) {
		for i, id := range ids {
			key := find(ring, id)
			if key == nil || key.NotAfter.IsZero() != (i == 2) {
				t.Errorf("%s: key %d: %+v", name, i, key)
			}
		}
	}
}

func TestEnrol_rejects(t *testing.T) {
	t.Parallel()
	k := open(t, state(t))
	rows := map[string]struct{ pass, owner string }{
		"no passphrase":   {"", owner},
		"seven":           {"1234567", owner},
		"seven, composed": {"abcdef" + "e\u0301", owner}, // eight code points, seven characters
		"huge":            {strings.Repeat("x", 1025), owner},
		"not text":        {"12345678\xff", owner},
		"no owner":        {pass, ""},
		"no name":         {pass, "person:"},
		"an agent":        {pass, "agent:ada"},
		"bare":            {pass, "ada"},
		"invisible":       {pass, "person:a\u200bda"},
	}
	for name, r := range rows {
		if err := k.EnrolCheaply([]byte(r.pass), r.owner, false); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if k.Enrolled() {
		t.Error("enrolled")
	}
}

func TestUnlock_wrong(t *testing.T) {
	t.Parallel()
	dir := state(t)
	k := open(t, dir)
	if err := k.EnrolCheaply([]byte("caf\u00e9 au lait"), owner, false); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Unlock([]byte("cafe\u0301 au lait")); err != nil {
		t.Errorf("the same passphrase in another normal form: %v", err)
	}
	good := string(read(t, dir, "approver.json"))
	messages := map[string]bool{}
	try := func(name, pass string) {
		t.Helper()
		s, err := k.Unlock([]byte(pass))
		if !errors.Is(err, keystore.ErrWrongPassphrase) || s != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		messages[err.Error()] = true
	}
	try("another", "cafe au lait")
	try("empty", "")
	try("short", "x")
	try("space", "caf\u00e9 au lait ")
	for name, edit := range map[string][2]string{
		"seal":      {`"sealed": ".{8}`, `"sealed": "AAAAAAAA`},
		"cut seal":  {`"sealed": "[^"]*"`, `"sealed": "AAAA"`},
		"owner":     {"person:ada", "person:eve"},
		"salt":      {`"salt": ".{8}`, `"salt": "AAAAAAAA`},
		"cost":      {`"time": 1`, `"time": 2`},
		"beginning": {`"notBefore": "2026`, `"notBefore": "2025`},
	} {
		bad := regexp.MustCompile(edit[0]).ReplaceAllString(good, edit[1])
		if bad == good {
			t.Fatalf("%s: nothing was changed in %s", name, good)
		}
		write(t, []byte(bad), dir, "approver.json")
		try(name, "caf\u00e9 au lait")
	}
	if len(messages) != 1 {
		t.Errorf("the causes can be told apart: %v", messages)
	}
}

func TestUnlock_hostileFile(t *testing.T) {
	t.Parallel()
	dir := state(t)
	k := open(t, dir)
	if err := k.EnrolCheaply([]byte(pass), owner, false); err != nil {
		t.Fatal(err)
	}
	good := string(read(t, dir, "approver.json"))
	for name, edit := range map[string][2]string{
		"memory":         {`"memoryKiB": 8`, `"memoryKiB": 4294967295`},
		"memory 2":       {`"memoryKiB": 8`, `"memoryKiB": 1048577`},
		"no memory":      {`"memoryKiB": 8`, `"memoryKiB": 0`},
		"time":           {`"time": 1`, `"time": 11`},
		"no time":        {`"time": 1`, `"time": 0`},
		"threads":        {`"threads": 1`, `"threads": 255`},
		"no threads":     {`"threads": 1`, `"threads": 0`},
		"salt":           {`"salt": "[^"]*"`, `"salt": ""`},
		"other function": {`argon2id`, `argon2i`},
		"role":           {`"role": "approver"`, `"role": "policy"`},
		"current":        {`"current": "[^"]*"`, `"current": "x"`},
		"no keys":        {`(?s)"keys": \[.*?\]\n`, `"keys": []`},
		"unknown member": {`"version"`, `"private": true, "version"`},
		"version":        {`"version": 1`, `"version": 0`},
	} {
		bad := regexp.MustCompile(edit[0]).ReplaceAllString(good, edit[1])
		if bad == good {
			t.Fatalf("%s: nothing was changed in %s", name, good)
		}
		write(t, []byte(bad), dir, "approver.json")
		for what, err := range map[string]error{
			"unlock": second(k.Unlock([]byte(pass))),
			"ring":   second(k.Ring()),
			"enrol":  k.EnrolCheaply([]byte(pass), owner, true),
			"open":   second(keystore.Open(dir, options())),
		} {
			if !errors.Is(err, counterfoil.CodeIntegrityFailed) || !strings.Contains(err.Error(), "approver.json") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		if k.Enrolled() {
			t.Errorf("%s: enrolled", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// The cost that people get is the one that is promised.
func TestEnrol_usualCost(t *testing.T) {
	t.Parallel()
	dir := state(t)
	k := open(t, dir)
	if err := k.Enrol([]byte(pass), owner); err != nil {
		t.Fatal(err)
	}
	if err := k.Enrol([]byte(pass), owner); !errors.Is(err, keystore.ErrEnrolled) {
		t.Fatal(err)
	}
	file := string(read(t, dir, "approver.json"))
	for _, want := range []string{`"argon2id"`, `"time": 3`, `"memoryKiB": 65536`, `"threads": 2`} {
		if !strings.Contains(file, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if err := k.Replace([]byte(pass+"!"), owner); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Unlock([]byte(pass + "!")); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Unlock([]byte(pass)); !errors.Is(err, keystore.ErrWrongPassphrase) {
		t.Fatal(err)
	}
}

func FuzzApprover(f *testing.F) {
	dir := f.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		f.Fatal(err)
	}
	k, err := keystore.Open(dir, options())
	if err != nil {
		f.Fatal(err)
	}
	if err := k.EnrolCheaply([]byte(pass), owner, false); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, "approver.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, "approver.json"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		ring, err := k.Ring()
		if (ring == nil) == (err == nil) {
			t.Fatalf("%v, %v", ring, err)
		}
		if err != nil && counterfoil.CodeOf(err) != counterfoil.CodeIntegrityFailed {
			t.Fatal(err)
		}
	})
}
