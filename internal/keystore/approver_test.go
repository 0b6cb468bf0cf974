package keystore_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/keystore"
)

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
		if !has(ring, p.ID) || len(ring.Keys()) != 5 {
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
	for name, pause := range map[string]time.Duration{"later": time.Hour, "in the same instant": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, now := state(t), start
			o := options()
			o.Now = func() time.Time { return now }
			k, err := keystore.Open(dir, o)
			if err != nil {
				t.Fatal(err)
			}
			other := open(t, dir)
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
				now = now.Add(pause)
			}
			for name, ring := range rings(t, dir, other) {
				checkRetired(t, name, ring, ids, pause)
			}
		})
	}
}

// checkRetired checks that each key but the last ends when the next begins.
func checkRetired(t *testing.T, name string, ring *counterfoil.KeyRing, ids []counterfoil.KeyID, pause time.Duration) {
	t.Helper()
	for i, id := range ids {
		key := find(ring, id)
		if key == nil {
			t.Errorf("%s: key %d is gone", name, i)
			continue
		}
		var end time.Time
		if i < len(ids)-1 {
			end = key.NotBefore.Add(max(pause, time.Millisecond)) // a key lives for a moment at least
		}
		if !key.NotAfter.Equal(end) {
			t.Errorf("%s: key %d ends at %v, not at %v", name, i, key.NotAfter, end)
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
