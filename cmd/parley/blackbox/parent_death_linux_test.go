package blackbox

import "syscall"

// dieWithParent makes the kernel kill the server when the test process dies.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
