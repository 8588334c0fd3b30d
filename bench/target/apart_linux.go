package target

import (
	"os"
	"syscall"
)

// apart returns attributes that put a child into its own process group and make it die
// with the bench. An interrupt on the terminal then reaches only the bench, which stops
// the child itself.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
}
