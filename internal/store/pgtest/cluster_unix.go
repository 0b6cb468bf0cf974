//go:build unix

package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// A cluster is the server's files and its process. The zero cluster is none.
type cluster struct {
	parent string // of dir; "" for the usual one
	dir    string // of the socket, the log and the data
	bin    string
	as     *syscall.Credential // whom the server runs as; nil for the same user
	ended  chan struct{}       // closed when the server's process has; nil before the first start
	proc   *os.Process
	keeper *exec.Cmd
	life   io.Closer // the keeper waits for its end
}

// keep is the program that outlives the test binary: when its input ends, by Close or by whatever ended the binary, it
// ends the server and removes its files.
const keep = `read -r _
if read -r pid _ <"$1/data/postmaster.pid"; then
	kill -QUIT "$pid"
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
		[ -e "$1/data/postmaster.pid" ] || break
		sleep 0.1
	done
	[ ! -e "$1/data/postmaster.pid" ] || kill -KILL "$pid"
fi 2>/dev/null
rm -rf "$1"`

// create makes a cluster and starts its server.
func (c *cluster) create(settings []string) error {
	var err error
	if c.bin, err = binaries(); err != nil {
		return err
	}
	if c.as, err = unprivileged(); err != nil {
		return err
	}
	// The path of a socket must be short, and another user must get there: os.TempDir may be anywhere.
	if c.dir, err = os.MkdirTemp(cmp.Or(c.parent, os.Getenv("PGTEST_DIR"), "/tmp"), "pgtest-"); err != nil {
		return err
	}
	if err := c.guard(); err != nil {
		return errors.Join(err, os.RemoveAll(c.dir))
	}
	if c.as != nil {
		if err := os.Chown(c.dir, int(c.as.Uid), int(c.as.Gid)); err != nil {
			return err
		}
	}
	if err := c.init(); err != nil {
		return err
	}
	return c.start(settings)
}

// init makes the files. Where it can, the server sorts as people do: a store that means bytes must say so. An empty cluster
// is not worth a flush; what is written later is.
func (c *cluster) init() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	data := filepath.Join(c.dir, "data")
	args := []string{"-D", data, "-U", superuser, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"}
	people := c.command(ctx, "initdb", append(args, "--locale-provider=icu", "--icu-locale=en-US")...)
	if people.Run() == nil {
		return nil
	}
	// It is older than that option, or was built without it.
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	if out, err := c.command(ctx, "initdb", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// guard starts the keeper.
func (c *cluster) guard() error {
	//nolint:gosec,noctx // a fixed script; it must outlive every context
	c.keeper = exec.Command("/bin/sh", "-c", keep, "keeper", c.dir)
	c.keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the keyboard is not for it
	life, err := c.keeper.StdinPipe()
	if err != nil {
		return err
	}
	c.life = life
	return c.keeper.Start()
}

// remove ends the server and removes everything.
func (c *cluster) remove() {
	if c.life == nil {
		return
	}
	_ = c.life.Close()
	_ = c.keeper.Wait()
	if c.ended != nil {
		<-c.ended
	}
	*c = cluster{}
}

// command runs one of PostgreSQL's programs, which refuse to run as root.
func (c *cluster) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...) //nolint:gosec // of PostgreSQL's own directory
	cmd.Dir = c.dir
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH"), "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as, Setpgid: true}
	return cmd
}

// start starts the server and waits until it answers.
func (c *cluster) start(settings []string) error {
	args := []string{
		"-D", filepath.Join(c.dir, "data"), "-k", c.dir, "-c", "listen_addresses=", "-c", "max_connections=400",
		"-c", "fsync=on", "-c", "synchronous_commit=on", "-c", "log_min_messages=error",
		// No checkpoint while tests run: it would flush thousands of files. What is committed is in the log.
		"-c", "checkpoint_timeout=1h", "-c", "max_wal_size=16GB",
	}
	if runtime.GOOS == "linux" { // after a crash: one flush of the file system, not one for each file
		args = append(args, "-c", "recovery_init_sync_method=syncfs")
	}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := c.command(context.Background(), "postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := errors.Join(cmd.Start(), log.Close()); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { // until the server ends; remove and crash wait for it
		defer close(ended)
		_ = cmd.Wait()
	}()
	c.proc, c.ended = cmd.Process, ended
	return c.await()
}

// await waits until the server answers.
func (c *cluster) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, c.url("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-c.ended:
			err = errors.New("the server has ended")
		case <-ctx.Done():
		case <-tick.C:
			continue
		}
		said, _ := os.ReadFile(filepath.Join(c.dir, "log"))
		return fmt.Errorf("PostgreSQL does not start: %w\n%s", err, said)
	}
}

// crash ends the server at once.
func (c *cluster) crash() error {
	if err := c.proc.Signal(syscall.SIGQUIT); err != nil {
		return err
	}
	<-c.ended
	return nil
}

// binaries returns the directory of the newest PostgreSQL, or of the one that was asked for.
func binaries() (string, error) {
	if dir := os.Getenv("PGTEST_BIN"); dir != "" {
		_, err := os.Stat(filepath.Join(dir, "postgres")) //nolint:gosec // who runs the tests says where
		return dir, err
	}
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	version := func(dir string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		return n
	}
	slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	for _, dir := range dirs {
		_, noServer := os.Stat(filepath.Join(dir, "postgres"))
		_, noInit := os.Stat(filepath.Join(dir, "initdb"))
		if noServer == nil && noInit == nil {
			return dir, nil
		}
	}
	return "", errMissing
}

// unprivileged returns whom the server is to run as: nil for ourselves.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // there is nothing to change
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no other user: %w", err)
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
