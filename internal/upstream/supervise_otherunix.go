//go:build unix && !linux

package upstream

import "syscall"

// becomeReaper has no counterpart here.
//
// BUG(upstream): outside Linux a descendant that left the child's process group is out of reach.
func becomeReaper() error { return nil }

func signalRest(child int, s syscall.Signal) { _ = syscall.Kill(-child, s) }
