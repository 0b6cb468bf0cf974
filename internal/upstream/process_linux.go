package upstream

import "syscall"

// childAttributes puts the child into a group of its own. Without a supervisor it is killed when we die; a supervisor
// sees the end of its control pipe instead and needs to live long enough to clean up.
func childAttributes(supervised bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if !supervised {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}
