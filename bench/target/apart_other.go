//go:build !linux

package target

import (
	"os"
	"syscall"
)

func apart() *syscall.SysProcAttr { return nil }

func killGroup(p *os.Process) { _ = p.Kill() }
