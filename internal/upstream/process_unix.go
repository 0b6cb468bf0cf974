//go:build unix

package upstream

import "syscall"

// An error of kill means that nothing is left to be killed, or that it is not ours to kill.

func terminateGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
