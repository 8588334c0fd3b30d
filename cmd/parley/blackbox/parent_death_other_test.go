//go:build !linux

package blackbox

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
