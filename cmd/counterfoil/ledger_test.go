package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// logged puts n more events into the log of the state, and publishes it.
func (f *fixture) logged(n int) {
	f.t.Helper()
	a := &app{out: f.t.Output(), err: f.t.Output(), stateDir: f.dir, storeURL: f.store}
	must(f.t, a.unguarded(f.t.Context(), func(s *state) error {
		for i := range n {
			e, err := counterfoil.NewEvent(counterfoil.PhaseRefused, s.keys.Pseudonyms(), counterfoil.EventParams{
				Tenant: tenant, Audience: s.keys.Audience(), ExecutionID: fmt.Sprintf("call-%d", i), Code: "decide/denied_by_policy",
			})
			must(f.t, err)
			must(f.t, s.store.Record(f.t.Context(), e))
		}
		return s.logs.Publish(f.t.Context())
	}))
}

// tamper changes the database as somebody with write access would: what guards it is taken away and put back.
func (f *fixture) tamper(change func(db *sql.DB)) {
	f.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(f.dir, databaseFile))
	must(f.t, err)
	defer func() { must(f.t, db.Close()) }()
	rows, err := db.QueryContext(f.t.Context(), `SELECT name, sql FROM sqlite_master WHERE type = 'trigger'`)
	must(f.t, err)
	defer func() { must(f.t, rows.Close()) }()
	triggers := map[string]string{}
	for rows.Next() {
		var name, text string
		must(f.t, rows.Scan(&name, &text))
		triggers[name] = text
	}
	must(f.t, rows.Err())
	for name := range triggers {
		f.exec(db, `DROP TRIGGER `+name)
	}
	change(db)
	for _, text := range triggers {
		f.exec(db, text)
	}
}

func (f *fixture) exec(db *sql.DB, query string, args ...any) {
	f.t.Helper()
	_, err := db.ExecContext(f.t.Context(), query, args...)
	must(f.t, err)
}

const onlySequence = `place & 0xffffffffff`

// rewrite changes the body of an event, and its leaf hash with it.
func (f *fixture) rewrite(db *sql.DB, sequence int, change func(body string) string) {
	f.t.Helper()
	var body []byte
	must(f.t, db.QueryRowContext(f.t.Context(), `SELECT body FROM events WHERE `+onlySequence+` = ?`, sequence).Scan(&body))
	after := change(string(body))
	if after == string(body) {
		f.t.Fatalf("nothing changed in %s", body)
	}
	leaf := counterfoil.LeafHash([]byte(after))
	var inside struct {
		Time time.Time `json:"time"`
	}
	must(f.t, json.Unmarshal([]byte(after), &inside))
	f.exec(db, `UPDATE events SET body = ?, leaf = ?, at = ? WHERE `+onlySequence+` = ?`, []byte(after), leaf[:], inside.Time.UnixMilli(), sequence)
}

// verdict runs "audit verify" and returns what it says, which its exit code must agree with.
func (f *fixture) verdict(args ...string) verdictJSON {
	f.t.Helper()
	out, stderr, code := f.try(append([]string{"audit", "verify", "--json"}, args...)...)
	var v verdictJSON
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		f.t.Fatalf("%v: %s%s", err, out, stderr)
	}
	if want := map[bool]int{true: 0, false: 1}[v.Verified]; code != want || !v.Verified && !strings.Contains(stderr, "the log does not verify") {
		f.t.Fatalf("exit %d, verified %v: %s", code, v.Verified, stderr)
	}
	return v
}

func (v verdictJSON) kinds() []string {
	var out []string
	for _, f := range v.Findings {
		out = append(out, f.Kind)
	}
	return out
}

// Whatever somebody with write access to the database does to the log, the verifier says what.
func TestAudit_tampered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(f *fixture, db *sql.DB)
		kind   translog.Kind
		text   string
		starts bool // the start alone does not notice
	}{
		{"nothing", func(*fixture, *sql.DB) {}, "", "", true},
		{"the last three deleted", func(f *fixture, db *sql.DB) { f.exec(db, `DELETE FROM events WHERE `+onlySequence+` > 9`) },
			translog.KindShortened, "the log has 9 events, and its checkpoint has 12", false},
		{"the last three deleted, and the checkpoint with them", func(f *fixture, db *sql.DB) {
			f.exec(db, `DELETE FROM events WHERE `+onlySequence+` > 9`)
			f.exec(db, `UPDATE logs SET published = 0, root = NULL, note = NULL`)
			f.exec(db, `DELETE FROM tiles`)
		}, translog.KindShortened, "the log has 9 events, and its checkpoint has 12", false},
		{"all deleted", func(f *fixture, db *sql.DB) {
			f.exec(db, `DELETE FROM events`)
			f.exec(db, `DELETE FROM tiles`)
			f.exec(db, `DELETE FROM logs`)
		}, translog.KindShortened, "the log has 0 events, and its checkpoint has 12", false},
		{"the first two deleted", func(f *fixture, db *sql.DB) { f.exec(db, `DELETE FROM events WHERE `+onlySequence+` < 3`) },
			translog.KindHeadless, "", true},
		{"one in the middle deleted", func(f *fixture, db *sql.DB) { f.exec(db, `DELETE FROM events WHERE `+onlySequence+` = 5`) },
			translog.KindGap, "", true},
		{"one edited", func(f *fixture, db *sql.DB) {
			f.rewrite(db, 5, func(b string) string { return strings.Replace(b, "denied_by_policy", "internal", 1) })
		}, translog.KindEdited, "5", true},
		{"a time set back, and signed anew", func(f *fixture, db *sql.DB) {
			f.rewrite(db, 5, func(b string) string {
				i := strings.Index(b, `"time":"`) + len(`"time":"`)
				return b[:i] + "2001" + b[i+4:]
			})
			f.resign(db)
		}, translog.KindTime, "5", false},
		{"two swapped", func(f *fixture, db *sql.DB) {
			for _, s := range [][2]string{{"= 4", "900"}, {"= 5", "4"}, {"= 900", "5"}} {
				f.exec(db, `UPDATE events SET place = place - (`+onlySequence+`) + `+s[1]+` WHERE `+onlySequence+` `+s[0])
			}
		}, translog.KindReordered, "", true},
		{"spliced from another installation", func(f *fixture, db *sql.DB) {
			other := setup(f.t)
			other.logged(12)
			from, err := sql.Open("sqlite", "file:"+filepath.Join(other.dir, databaseFile))
			must(f.t, err)
			defer func() { must(f.t, from.Close()) }()
			var body []byte
			must(f.t, from.QueryRowContext(f.t.Context(), `SELECT body FROM events WHERE `+onlySequence+` = 6`).Scan(&body))
			f.rewrite(db, 6, func(string) string { return string(body) })
		}, translog.KindEdited, "6", true},
		{"spliced and signed anew", func(f *fixture, db *sql.DB) {
			f.rewrite(db, 6, func(b string) string {
				return strings.Replace(b, `"audience":"counterfoil-`, `"audience":"staging-`, 1)
			})
			f.resign(db)
		}, translog.KindAudience, "6", false},
		{"a head of its own", func(f *fixture, db *sql.DB) {
			// With the key of the gateway: two signed heads are the proof of it.
			f.rewrite(db, 5, func(b string) string { return strings.Replace(b, "denied_by_policy", "internal", 1) })
			f.resign(db)
		}, translog.KindForked, "does not continue the signed one of the size 12", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.logged(12)
			f.tamper(func(db *sql.DB) { c.change(f, db) })
			v := f.verdict()
			if c.kind == "" && (!v.Verified || v.Proven != 12) || c.kind != "" && !slices.Contains(v.kinds(), string(c.kind)) {
				t.Errorf("want %q, got %+v", c.kind, v)
			}
			if text := fmt.Sprint(v.Findings); !strings.Contains(text, c.text) {
				t.Errorf("want %q, got %s", c.text, text)
			}
			_, stderr, code := f.try("approvals", "list")
			if (code == 0) != c.starts || !c.starts && !strings.Contains(stderr, "integrity-failed") {
				t.Errorf("a start: exit %d, %s", code, stderr)
			}
		})
	}
}

// resign publishes what is in the table as the gateway itself would.
func (f *fixture) resign(db *sql.DB) {
	f.t.Helper()
	f.exec(db, `UPDATE logs SET published = 0, root = NULL, note = NULL`)
	f.exec(db, `DELETE FROM tiles`)
	a := &app{out: f.t.Output(), err: f.t.Output(), stateDir: f.dir, storeURL: f.store}
	must(f.t, a.unguarded(f.t.Context(), func(s *state) error {
		logs, err := translog.New(translog.Config{
			Store: s.store, Audience: s.keys.Audience(), Ring: must1(f.t)(s.keys.Ring()), Signer: s.keys.Checkpoint(), Logger: s.log,
		})
		must(f.t, err)
		return logs.Publish(f.t.Context())
	}))
}

func must1(t *testing.T) func(*counterfoil.KeyRing, error) *counterfoil.KeyRing {
	return func(r *counterfoil.KeyRing, err error) *counterfoil.KeyRing {
		t.Helper()
		must(t, err)
		return r
	}
}

// A command that adds to the log publishes it, though no gateway runs that would.
func TestAudit_afterCommand(t *testing.T) {
	t.Parallel()
	f := setup(t, "hold: 100ms")
	server, _ := f.fake(t, "plain")
	c := f.connect(server...)
	if _, code, _ := c.call(t.Context(), "append", map[string]any{"line": "x"}); code != "approval_pending" {
		t.Fatal(code)
	}
	must(t, c.Close())
	s := f.open()
	f.run("approvals", "deny", f.awaitPending(s), "--passphrase-file", f.passFile)
	now, err := s.store.Log(t.Context(), tenant)
	must(t, err)
	if now.Size < 2 || now.Published != now.Size {
		t.Fatalf("%d events, %d published", now.Size, now.Published)
	}
	if v := f.verdict(); v.Proven != now.Size {
		t.Fatalf("%+v", v)
	}
}

// An auditor with an export, the keys and a checkpoint of their own needs nothing else.
func TestAudit_export(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.logged(5)
	dir := t.TempDir()
	early, late, export, keys := filepath.Join(dir, "early"), filepath.Join(dir, "late"), filepath.Join(dir, "log.jsonl"), filepath.Join(f.dir, "keys.json")
	write(t, early, f.run("audit", "checkpoint"))
	f.logged(7)
	f.run("audit", "export", "--out", export)
	alone := func(args ...string) (string, int) {
		out, stderr, code := f.try(append([]string{"audit", "verify", "--file", export, "--keys", keys}, args...)...)
		return out + stderr, code
	}
	if out, code := alone("--checkpoint", early); code != 0 || !strings.Contains(out, "VERIFIED\n") || strings.Count(out, "signed, and the events are those") != 2 {
		t.Fatalf("exit %d: %s", code, out)
	}
	if v := f.verdict("--file", export); !v.Verified || v.Proven != 12 {
		t.Fatalf("%+v", v)
	}
	f.logged(3)
	write(t, late, f.run("audit", "checkpoint"))
	if out, code := alone("--checkpoint", late); code != 1 || !strings.Contains(out, "shortened") || !strings.Contains(out, "12 events, and its checkpoint has 15") {
		t.Fatalf("exit %d: %s", code, out)
	}
	whole, err := os.ReadFile(export)
	must(t, err)
	write(t, export, strings.Replace(string(whole), "denied_by_policy", "internal", 1))
	if out, code := alone(); code != 1 || !strings.Contains(out, "DOES NOT VERIFY") {
		t.Fatalf("exit %d: %s", code, out)
	}
	write(t, export, string(whole))
	if out, _, code := f.try("audit", "verify", "--file", export, "--keys", export); code != 1 || out != "" {
		t.Fatalf("keys that are none: exit %d, %s", code, out)
	}
	if _, stderr, code := f.try("audit", "verify", "--keys", keys); code != 1 || !strings.Contains(stderr, "--file") {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if csv := f.run("audit", "export", "--format", "csv"); strings.Count(csv, "\n") != 16 {
		t.Fatalf("csv: %s", csv)
	}
}

// A key whose time is over signs nothing that counts, though it signed for this log once.
func TestAudit_retiredKey(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.logged(4)
	old, err := counterfoil.NewPrivateKey(make([]byte, 32), counterfoil.KeyParams{
		Role: counterfoil.RoleCheckpoint, Owner: "checkpoint:local", Custody: counterfoil.CustodyGateway, Tenants: []string{tenant},
		NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC),
	})
	must(t, err)
	s := f.open()
	c, err := s.logs.Latest(t.Context(), tenant)
	must(t, err)
	forged, err := counterfoil.SignCheckpoint(t.Context(), s.keys.Audience(), tenant, c.Size(), c.Root(), old)
	must(t, err)
	ring, err := s.keys.Ring()
	must(t, err)
	ring, err = counterfoil.NewKeyRing(append(ring.Keys(), old.Public())...)
	must(t, err)
	dir := t.TempDir()
	export, keys := filepath.Join(dir, "log.jsonl"), filepath.Join(dir, "keys.json")
	write(t, keys, string(ring.JSON()))
	file, err := os.Create(export)
	must(t, err)
	must(t, translog.Export(t.Context(), file, translog.ExportParams{
		Store: s.store, Tenant: tenant, Audience: s.keys.Audience(), Checkpoint: forged, Format: translog.FormatLines,
	}))
	must(t, file.Close())
	if v := f.verdict("--file", export, "--keys", keys); !slices.Contains(v.kinds(), string(translog.KindRetiredKey)) {
		t.Fatalf("%+v", v)
	}
}

// A database that was set back to an older copy is refused, with both sizes, until a person accepts that; then nothing that was
// approved before counts any more.
func TestStore_restored(t *testing.T) {
	t.Parallel()
	f := setup(t, "hold: 100ms")
	server, file := f.fake(t, "plain")
	old := filepath.Join(t.TempDir(), "old.db")
	func() {
		s := f.open()
		c := f.connect(server...)
		if _, code, _ := c.call(t.Context(), "append", map[string]any{"line": "x"}); code != "approval_pending" {
			t.Fatal(code)
		}
		f.approveNext(s) // approved, and not yet used
		f.run("store", "backup", old)
		if _, code, err := c.call(t.Context(), "append", map[string]any{"line": "x"}); code != "" || effects(t, file) != 1 {
			t.Fatalf("%q %v", code, err)
		}
		must(t, c.Close())
		must(t, s.close())
	}()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(filepath.Join(f.dir, databaseFile+suffix))
	}
	f.run("store", "restore", old)
	var now statusJSON
	out, _, code := f.try("store", "status", "--json")
	must(t, json.Unmarshal([]byte(out), &now))
	if code != 1 || len(now.Doubts) != 1 || now.Kept <= now.Events || !strings.Contains(now.Doubts[0], fmt.Sprint(now.Kept)) ||
		!strings.Contains(now.Doubts[0], fmt.Sprint(now.Events)) {
		t.Fatalf("exit %d: %+v", code, now)
	}
	out, stderr, code := output(t, f.command("wrap", "--no-console", "--", "true"))
	if code != 1 || out != "" || !strings.Contains(stderr, "shortened") || !strings.Contains(stderr, "accept-restore") {
		t.Fatalf("exit %d: %s%s", code, out, stderr)
	}
	if v := f.verdict(); !slices.Contains(v.kinds(), string(translog.KindShortened)) {
		t.Fatalf("%+v", v)
	}
	if out := f.run("store", "accept-restore"); !strings.Contains(out, "1 requests are void") {
		t.Fatal(out)
	}
	f.run("store", "status")
	// The approval that was used after the copy was made is not used again.
	c := f.connect(server...)
	if _, code, _ := c.call(t.Context(), "append", map[string]any{"line": "x"}); code != "approval_pending" || effects(t, file) != 1 {
		t.Fatalf("%q, %d effects", code, effects(t, file))
	}
	must(t, c.Close())
	if v := f.verdict(); !v.Verified {
		t.Fatalf("%+v", v)
	}
	kept, err := filepath.Glob(filepath.Join(f.dir, checkpointDir, "*.replaced"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("%v %v", kept, err)
	}
	if v := f.verdict("--checkpoint", kept[0]); v.Verified {
		t.Fatal("the checkpoint that was set aside does not show what is missing")
	}
}

// Retention exports, checks and then drops: the log still verifies, and uses stay used.
func TestStore_retain(t *testing.T) {
	t.Parallel()
	f := setup(t)
	server, _ := f.fake(t, "plain")
	s := f.open()
	c := f.connect(server...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = c.call(t.Context(), "append", map[string]any{"line": "x"})
	}()
	f.approveNext(s)
	<-done
	must(t, c.Close())
	list, err := s.store.Executions(t.Context(), tenant, "", 10)
	must(t, err)
	export := filepath.Join(t.TempDir(), "old.jsonl")
	a := &app{out: t.Output(), err: t.Output(), stateDir: f.dir}
	must(t, a.retain(t.Context(), s, time.Now().Add(time.Minute), export)) // the flag would refuse what is so young
	b, err := os.ReadFile(export + receiptsSuffix)
	must(t, err)
	ring, err := s.keys.Ring()
	must(t, err)
	if r, err := counterfoil.VerifyBundle([]byte(strings.TrimSuffix(string(b), "\n")), ring, time.Now()); err != nil || r.ExecutionID != list[0].ID {
		t.Fatalf("%v %v", r, err)
	}
	if v := f.verdict("--file", export); !v.Verified || v.Dropped != 0 {
		t.Fatalf("%+v", v)
	}
	if v := f.verdict(); !v.Verified || v.Dropped == 0 {
		t.Fatalf("%+v", v)
	}
	if _, stderr, code := f.try("store", "retain", "--before", "2020-01-01", "--export", export); code != 1 || !strings.Contains(stderr, "exists") {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	f.run("store", "check")
}
