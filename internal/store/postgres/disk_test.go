package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/store/pgtest"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// smallDisk mounts a file system of some megabytes, which every user may pass.
func smallDisk(t *testing.T, megabytes int) string {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	dir, err := os.MkdirTemp("/tmp", "pgdisk-")
	must(t, err)
	t.Cleanup(func() { must(t, os.Remove(dir)) })
	size := "size=" + strconv.Itoa(megabytes) + "m,mode=0755"
	if out, err := osexec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("mount: %s", out)
	}
	t.Cleanup(func() {
		if out, err := osexec.CommandContext(context.Background(), "umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	return dir
}

// fill leaves so many bytes of a disk, and returns what gives the others back.
func fill(t *testing.T, dir string, left int64) (empty func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	must(t, err)
	var size int64
	for page := make([]byte, 64<<10); err == nil; {
		var n int
		n, err = f.Write(page)
		size += int64(n)
	}
	if size < left {
		t.Fatalf("there were only %d bytes: %v", size, err)
	}
	must(t, errors.Join(f.Truncate(size-left), f.Close()))
	return func() { must(t, os.Remove(path)) }
}

// When the server's disk is full nothing is acknowledged that is not kept, and nothing refused that is. With room again the
// store goes on by itself, after a restart of the server where that has given up.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left   int64 // bytes
		before []string
	}{
		// The file that the log is written to has room: the tables have none.
		"tables": {1 << 20, []string{`SELECT pg_switch_wal()`, `CHECKPOINT`}},
		// The log finds no room for its next file. That is the end of the server.
		"log": {15 << 20, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := smallDisk(t, 160)
			srv := pgtest.StartIn(t, disk)
			address := srv.Fresh(t)
			s := open(t, address, options(time.Now))
			exec(t, address, c.before...)
			var load load
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			empty := fill(t, disk, c.left)
			for i := range 4 {
				load.wg.Go(func() { load.run(ctx, t, s, i) })
			}
			load.full(t)
			if name == "tables" {
				// Between two of the others' tries there may be a little room.
				var refused error
				for i := 0; refused == nil && i < 1000; i++ {
					name := fmt.Sprint("full-", i)
					l := &storetest.Ledger{Store: s, Case: storetest.Approved(t, name, time.Now())}
					_, refused = l.Claim(t.Context(), "run-"+name)
				}
				if wantCode(t, refused, counterfoil.CodeUnavailable); !strings.Contains(chain(refused), "disk is full") {
					t.Error(chain(refused))
				}
			}
			// A probe changes a row where it stands, for which there may be room.
			err := s.Ready(t.Context())
			t.Logf("a full disk: %v; the server has ended: %v", err, srv.Ended())
			if err != nil && !errors.Is(err, counterfoil.CodeUnavailable) && !errors.Is(err, counterfoil.CodeUnknownOutcome) {
				t.Error(err)
			}
			empty()
			if srv.Ended() {
				wantCode(t, err, counterfoil.CodeUnavailable)
				srv.Restart(t)
			}
			load.grow(t, 40)
			stop()
			load.wg.Wait()
			must(t, s.Ready(t.Context()))
			load.audit(t, s)
			healthy(t, s)
		})
	}
}

// full waits until nothing was spent for a while.
func (l *load) full(t *testing.T) {
	t.Helper()
	began := time.Now()
	for n, since := l.acked.Load(), began; time.Since(since) < time.Second; <-time.After(10 * time.Millisecond) {
		if m := l.acked.Load(); m != n {
			n, since = m, time.Now()
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the disk is never full")
		}
	}
	if l.acked.Load() == 0 {
		t.Error("there never was room")
	}
}
