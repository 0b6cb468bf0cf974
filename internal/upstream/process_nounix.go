//go:build !unix

package upstream

import (
	"os"
	"syscall"
)

// childAttributes asks for nothing special: there are no process groups to end here.
//
// BUG(upstream): on Windows the grandchildren of a server can outlive it; a job object would be needed.
func childAttributes(bool) *syscall.SysProcAttr { return nil }

func terminateGroup(pid int) { killGroup(pid) }

func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill() // it has ended already
	}
}

// Supervise is not available here.
func Supervise([]string) int { return 2 }

// Supervises reports whether Supervise works on this platform.
func Supervises() bool { return false }
