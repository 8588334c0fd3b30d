package limits

import (
	"net"
	"syscall"
	"unsafe"
)

// dropIncoming makes a connection drop all incoming packets without acknowledging them:
// to the other end, this one has vanished.
func dropIncoming(conn *net.TCPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	program := []syscall.SockFilter{{Code: syscall.BPF_RET | syscall.BPF_K, K: 0}}
	filter := syscall.SockFprog{Len: 1, Filter: &program[0]}
	var code syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, code = syscall.Syscall6(syscall.SYS_SETSOCKOPT, fd, syscall.SOL_SOCKET, syscall.SO_ATTACH_FILTER,
			uintptr(unsafe.Pointer(&filter)), unsafe.Sizeof(filter), 0)
	})
	if err == nil && code != 0 {
		return code
	}
	return err
}

// openFilesMax is the number of files that this process may open.
func openFilesMax() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1024
	}
	return int(min(limit.Cur, 1<<30))
}
