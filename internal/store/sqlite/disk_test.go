package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/sqlite"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// smallDisk mounts a file system of a few megabytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size="+size+",mode=0700", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("mount: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.Background(), "umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	return dir
}

// On a full disk nothing is recorded, and everybody is told so; with room again the store goes on by itself.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "2m")
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 600<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "test.db")
	s := open(t, path, options(storetest.Start))
	spend := func(n int) error {
		l := &storetest.Ledger{Store: s, Case: storetest.Approved(t, fmt.Sprint(n), storetest.Start())}
		claim, err := l.Claim(t.Context(), fmt.Sprintf("run-%d", n))
		if err == nil {
			_, err = l.Finish(t.Context(), claim, storetest.Start())
		}
		return err
	}
	full, refused := 0, 0
	for n := 0; refused < 20; n++ {
		if n > 2000 {
			t.Fatal("the disk is never full")
		}
		err := spend(n)
		switch {
		case err == nil && refused > 0:
			t.Fatal("it came back by itself")
		case err == nil:
			full++
		case !errors.Is(err, counterfoil.CodeUnavailable):
			t.Fatalf("use %d on a full disk: %v", n, err)
		default:
			refused++
		}
	}
	events := len(readLog(t, s))
	if events != 2*full && events != 2*full+1 { // the last may have been spent and not settled
		t.Fatalf("%d events of %d uses", events, full)
	}
	// A page or two may still fit, where a larger record failed: both answers are right, and no other.
	if err := s.Ready(t.Context()); err != nil && !errors.Is(err, counterfoil.CodeUnavailable) {
		t.Errorf("ready on a full disk: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Ready(t.Context()), spend(10_000)); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	for i, e := range readLog(t, s) {
		if e.Sequence != int64(i+1) || counterfoil.LeafHash(e.Body) != e.Leaf {
			t.Fatalf("event %d is out of place", i+1)
		}
	}
	if n := len(readLog(t, s)); n != events+2 {
		t.Fatalf("%d events, after %d and two more", n, events)
	}
}

func TestDiskFull_new(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "64k")
	path := filepath.Join(dir, "test.db")
	if _, err := sqlite.Open(t.Context(), path, options(storetest.Start)); !errors.Is(err, counterfoil.CodeUnavailable) {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Fatal("half a database was left")
	}
}

func walSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// An export that reads slowly does not keep the write-ahead log from being reset.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path, options(storetest.Start))
	write := func(times int) {
		t.Helper()
		for range times {
			if err := s.Write(`INSERT INTO policies (sha256, body) VALUES (randomblob(32), zeroblob(100000))`); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 20 {
		if err := s.Record(t.Context(), storetest.Refused(t, "call")); err != nil {
			t.Fatal(err)
		}
	}
	after := int64(0)
	for range 20 { // a page, then a long time nothing
		page, err := s.Events(t.Context(), storetest.Tenant, after, 1)
		if err != nil || len(page) != 1 {
			t.Fatal(page, err)
		}
		after = page[0].Sequence
		write(20)
	}
	if size := walSize(t, path); size > 17<<20 {
		t.Fatalf("the log has %d bytes after 40 MB of writes", size)
	}

	// A foreign program that holds a read transaction open makes it grow, and once that is gone it shrinks again.
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, db)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRowContext(t.Context(), `SELECT count(*) FROM events`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	write(300)
	grown := walSize(t, path)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	write(200)
	if size := walSize(t, path); grown < 20<<20 || size > 17<<20 {
		t.Fatalf("the log had %d bytes with a reader, and has %d without", grown, size)
	}
}

// A writer that another program blocks is told after a bounded time that nothing was recorded.
func TestBusy(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for five seconds")
	}
	path := newPath(t)
	s := open(t, path, options(storetest.Start))
	db, err := sql.Open("sqlite", path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, db)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	err = s.Record(t.Context(), storetest.Refused(t, "call"))
	if took := time.Since(began); !errors.Is(err, counterfoil.CodeUnavailable) || took < 4*time.Second || took > 15*time.Second {
		t.Fatalf("after %v: %v", took, err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := s.Record(t.Context(), storetest.Refused(t, "call")); err != nil {
		t.Fatal(err)
	}
	if n := len(readLog(t, s)); n != 1 {
		t.Fatalf("%d events", n)
	}
}

// A disk that takes nothing is refused at the start, and nothing is left on it.
func TestDiskReadOnly(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "4m")
	path := filepath.Join(dir, "test.db")
	s := open(t, path, options(storetest.Start))
	must(t, errors.Join(use(t, s, "a"), s.Close()))
	remount := func(mode string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "mount", "-o", "remount,"+mode, dir).CombinedOutput(); err != nil {
			t.Skipf("mount: %s", out)
		}
	}
	remount("ro")
	for _, path := range []string{path, filepath.Join(dir, "new.db")} {
		if _, err := sqlite.Open(t.Context(), path, options(storetest.Start)); !errors.Is(err, counterfoil.CodeUnavailable) {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
	}
	remount("rw")
	s = open(t, path, options(storetest.Start))
	if err := use(t, s, "a"); !errors.Is(err, counterfoil.CodeAlreadyUsed) {
		t.Fatal(err)
	}
	healthy(t, s)
}
