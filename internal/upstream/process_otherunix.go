//go:build unix && !linux

package upstream

import "syscall"

// childAttributes puts the child into a group of its own.
func childAttributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
