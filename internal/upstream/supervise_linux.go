package upstream

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// becomeReaper makes descendants whose parent ends our children, so that none gets out of sight by leaving its process
// group or by forking twice.
func becomeReaper() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// signalRest signals every descendant of this process, or the child's group if none can be seen.
func signalRest(child int, s syscall.Signal) {
	rest := descendants()
	if len(rest) == 0 {
		rest = []int{-child}
	}
	for _, pid := range rest {
		_ = syscall.Kill(pid, s) // an error means that it has ended already
	}
}

// descendants lists the living descendants of this process, as far as /proc tells.
func descendants() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := make(map[int][]int)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, ok := parentOf(pid); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	var out []int
	next := []int{os.Getpid()}
	for len(next) > 0 {
		kids := children[next[0]]
		next = append(next[1:], kids...)
		out = append(out, kids...)
	}
	return out
}

// parentOf reads the parent's pid from /proc/PID/stat, whose second field, in brackets, is text of the process's own.
func parentOf(pid int) (int, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
