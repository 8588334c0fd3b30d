package kit

import (
	"syscall"
)

// DieWithParent makes the kernel kill the server when the test process dies.
func DieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
