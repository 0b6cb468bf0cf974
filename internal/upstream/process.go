package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil"
)

// Options say how to start a child.
type Options struct {
	Argv []string // the command and its arguments; the command is looked up in PATH
	Dir  string   // working directory, "" for ours
	// Env is the child's whole environment. Nil hands on our own: the person who configured the server in their client
	// configured it for the server.
	Env []string
	// Supervisor is the command, in full, of a program that calls Supervise with the arguments after these. The child
	// then runs under it, and on Linux no descendant outlives this process. Empty runs the child directly.
	Supervisor []string
	Grace      time.Duration // how long the child may take to end, per step of Close; zero is 2 s
	Stderr     io.Writer     // where the child's standard error also goes, as far as it keeps up; nil for nowhere
	Logger     *slog.Logger  // nil for none
}

const (
	defaultGrace = 2 * time.Second
	drainTime    = time.Second // how long what an ended child left in its pipes may still be read
)

// A Process is a running child. It is an io.ReadWriteCloser over the child's standard output and input.
type Process struct {
	opts   Options
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	// control is held open for the supervisor: its end tells the supervisor that we are gone. Nil without supervisor.
	control *os.File
	stderr  *stderrDrain

	sawEOF     chan struct{} // closed when Read met the end of standard output
	sawEOFOnce sync.Once
	exited     chan struct{} // closed when the child was waited for
	exitErr    error         // valid once exited is closed
	wait       sync.WaitGroup
	closeOnce  sync.Once
	closeErr   error
}

// Start starts a child in a process group of its own. When ctx ends the child is killed; Close ends it in good order and
// must be called in either case.
func Start(ctx context.Context, o Options) (*Process, error) {
	if len(o.Argv) == 0 || o.Argv[0] == "" {
		return nil, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "there is no command to run"}
	}
	if o.Grace <= 0 {
		o.Grace = defaultGrace
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Env == nil && !strings.ContainsRune(o.Argv[0], os.PathSeparator) {
		if _, err := exec.LookPath(o.Argv[0]); err != nil {
			return nil, startError(err)
		}
	}
	p := &Process{opts: o, sawEOF: make(chan struct{}), exited: make(chan struct{})}
	argv := slices.Concat(o.Supervisor, o.Argv)
	p.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...) // #nosec G204 -- running the person's command is the duty
	p.cmd.Dir, p.cmd.Env = o.Dir, o.Env
	p.cmd.Cancel = p.kill
	p.cmd.SysProcAttr = childAttributes(len(o.Supervisor) > 0)
	childEnds, err := p.openPipes()
	if err != nil {
		return nil, startError(err)
	}
	started := make(chan error, 1)
	p.wait.Go(func() { p.run(started) })
	err = <-started
	closeAll(childEnds)
	if err != nil {
		p.wait.Wait()
		closeAll([]*os.File{p.stdin, p.stdout, p.control})
		p.stderr.close()
		return nil, startError(err)
	}
	return p, nil
}

func startError(err error) error {
	return &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "the upstream's command could not be started", Err: err}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // nothing is written through these ends any more
		}
	}
}

// openPipes makes the pipes and returns the child's ends of them.
func (p *Process) openPipes() (childEnds []*os.File, err error) {
	var all []*os.File
	pipe := func() (r, w *os.File) {
		if err != nil {
			return nil, nil
		}
		if r, w, err = os.Pipe(); err == nil {
			all = append(all, r, w)
		}
		return r, w
	}
	inR, inW := pipe()
	outR, outW := pipe()
	errR, errW := pipe()
	childEnds = []*os.File{inR, outW, errW}
	if len(p.opts.Supervisor) > 0 {
		var ctlR *os.File
		ctlR, p.control = pipe()
		childEnds = append(childEnds, ctlR)
		p.cmd.ExtraFiles = []*os.File{ctlR} // descriptor 3: see Supervise
	}
	if err != nil {
		closeAll(all)
		return nil, err
	}
	p.stdin, p.stdout = inW, outR
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = inR, outW, errW
	p.stderr = drainStderr(errR, p.opts.Stderr)
	return childEnds, nil
}

// run starts the child, waits for it and cleans up after it. It stays on one thread because the kernel takes the end of
// the thread that started a child for the death of its parent.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		close(p.exited)
		started <- err
		return
	}
	started <- nil
	p.exitErr = p.cmd.Wait()
	// What the child left in its group ends with it. The group's number can't be another's yet: the kernel has only just
	// freed it and hands numbers out in turn.
	killGroup(p.cmd.Process.Pid)
	close(p.exited)
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-p.sawEOF:
	case <-timer.C: // a process outside the group still holds the other end
	}
	closeAll([]*os.File{p.stdin, p.stdout, p.control})
	p.stderr.close()
}

// kill ends the child without waiting for it.
func (p *Process) kill() error {
	if p.control != nil {
		return p.control.Close()
	}
	killGroup(p.cmd.Process.Pid)
	return nil
}

// Read reads the child's standard output.
func (p *Process) Read(b []byte) (int, error) {
	n, err := p.stdout.Read(b)
	if err != nil {
		p.sawEOFOnce.Do(func() { close(p.sawEOF) })
		if errors.Is(err, os.ErrClosed) {
			err = io.EOF
		}
	}
	return n, err
}

// Write writes to the child's standard input.
func (p *Process) Write(b []byte) (int, error) { return p.stdin.Write(b) }

// Exited is closed when the child has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// ExitErr returns how the child ended, as exec.Cmd.Wait does, or nil while it runs.
func (p *Process) ExitErr() error {
	select {
	case <-p.exited:
		return p.exitErr
	default:
		return nil
	}
}

// StderrTail returns the last 64 KiB of what the child wrote to its standard error. It is the child's text: not to be
// trusted, and it may hold secrets.
func (p *Process) StderrTail() []byte { return p.stderr.tail() }

// Close ends the child: it closes its standard input, waits for Grace, asks its process group to end, waits again, kills
// the group. It returns when nothing of it is left, or with an error if even that did not help.
func (p *Process) Close() error {
	p.closeOnce.Do(func() { p.closeErr = p.shutDown() })
	return p.closeErr
}

func (p *Process) shutDown() error {
	_ = p.stdin.Close() // what could not be written is known to its writer
	grace := p.opts.Grace
	if p.waitExit(grace) {
		return p.finish()
	}
	if p.control != nil {
		_ = p.control.Close()        // the supervisor now does what the other branch does, and more
		grace += 2*grace + drainTime // it waits for its own grace first
	} else {
		terminateGroup(p.cmd.Process.Pid)
	}
	if p.waitExit(grace) {
		return p.finish()
	}
	killGroup(p.cmd.Process.Pid)
	if p.waitExit(grace) {
		return p.finish()
	}
	return fmt.Errorf("the upstream's process %d does not end", p.cmd.Process.Pid)
}

// finish releases the pipes at once: nobody reads any more once Close was called.
func (p *Process) finish() error {
	p.sawEOFOnce.Do(func() { close(p.sawEOF) })
	p.wait.Wait()
	return nil
}

func (p *Process) waitExit(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}
