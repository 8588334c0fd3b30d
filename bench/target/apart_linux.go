package target

import (
	"os"
	"syscall"
)

// apart gives a child a process group of its own, so that an interrupt on the
// terminal reaches the bench alone, which then ends the child when it is ready
// to, and has the child die with the bench.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
}
