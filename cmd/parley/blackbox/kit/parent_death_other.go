//go:build !linux

package kit

import "syscall"

// DieWithParent does nothing: only Linux knows how.
func DieWithParent() *syscall.SysProcAttr { return nil }
