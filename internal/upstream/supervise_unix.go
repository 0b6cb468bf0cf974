//go:build unix

package upstream

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	controlFD       = 3 // the read end of a pipe whose write end only the gateway holds
	superviseGrace  = 2 * time.Second
	superviseRepeat = 50 * time.Millisecond
	exitNotStarted  = 127
)

// Supervises reports whether Supervise works on this platform.
func Supervises() bool { return true }

// Supervise runs argv with this process's standard streams and returns its exit code (128 and the signal's number, if a
// signal ended it) when it and, on Linux, all its descendants have ended. It must be called from the main goroutine of a
// process that does nothing else, started by Start with Options.Supervisor.
//
// When descriptor 3 ends, which it does when the gateway dies in whatever way, or when argv's own process ends, what is
// left is asked to end and after 2 s killed. Should this process be killed, Linux kills argv's process.
func Supervise(argv []string) int {
	runtime.LockOSThread() // the child's parent-death signal is bound to the thread that starts it
	syscall.CloseOnExec(controlFD)
	if err := becomeReaper(); err != nil {
		return superviseFailed(err)
	}
	// Taken, not ignored: an ignored signal stays ignored in the child.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	child, err := startSupervised(argv)
	if err != nil {
		return superviseFailed(err)
	}
	// These belong to the child alone now: its closing of one must be seen at the other end.
	_, _ = os.Stdin.Close(), os.Stdout.Close()

	k := &killer{child: child, done: make(chan struct{})}
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(controlFD, "control")) // any end of it means the same
		k.begin()
	}()
	go func() {
		<-signals
		k.begin()
	}()
	code := reapAll(child, k.begin)
	k.end()
	return code
}

func superviseFailed(err error) int {
	fmt.Fprintf(os.Stderr, "counterfoil: error: the tool server could not be started: %v\n", err)
	return exitNotStarted
}

func startSupervised(argv []string) (pid int, err error) {
	if len(argv) == 0 {
		return 0, errors.New("there is no command")
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return 0, err
	}
	p, err := os.StartProcess(path, argv, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   childAttributes(false),
	})
	if err != nil {
		return 0, err
	}
	pid = p.Pid
	return pid, p.Release() // reapAll waits for it among all others
}

// reapAll waits for children until none is left and returns the exit code of child. A descendant whose parent has ended
// is our child too, where we are a reaper.
func reapAll(child int, childEnded func()) int {
	code := exitNotStarted
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil: // ECHILD: nothing is left
			return code
		case pid == child && ws.Signaled():
			code = 128 + int(ws.Signal())
			childEnded()
		case pid == child && ws.Exited():
			code = ws.ExitStatus()
			childEnded()
		}
	}
}

// killer ends what is left of the child, once.
type killer struct {
	child int
	once  sync.Once
	wait  sync.WaitGroup
	done  chan struct{}
}

func (k *killer) begin() { k.once.Do(func() { k.wait.Go(k.run) }) }

// end must be called when nothing is left.
func (k *killer) end() {
	k.once.Do(func() {})
	close(k.done)
	k.wait.Wait()
}

func (k *killer) run() {
	signalRest(k.child, syscall.SIGTERM)
	timer := time.NewTimer(superviseGrace)
	defer timer.Stop()
	for {
		select {
		case <-k.done:
			return
		case <-timer.C:
			// Again and again: one that was forking is seen the next time.
			signalRest(k.child, syscall.SIGKILL)
			timer.Reset(superviseRepeat)
		}
	}
}
