package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"
)

// Connections are thousands of HTTP/1.1 connections to one address, served by one
// goroutine: a connection needs no goroutine, timer or buffer of its own, and a request
// needs one system call in each direction. This keeps the load generator cheap, because
// it shares its processors with the server.
//
// A connection has one request in progress at a time. A connection that breaks is dialled
// again after a pause.
type Connections struct {
	address syscall.Sockaddr
	family  int
	poll    int
	members []member
	idle    queue
	away    queue
	dialled int // members that are connecting
	parser  Parser
	buffer  []byte
	events  []syscall.EpollEvent
}

const (
	connectionBuffer = 64 << 10
	connectionEvents = 256
)

// DialConnections connects n members to address, host:port with a numeric host.
func DialConnections(ctx context.Context, address string, n int) (*Connections, error) {
	where, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &Connections{
		members: make([]member, n), idle: newQueue(n), away: newQueue(n),
		buffer: make([]byte, connectionBuffer), events: make([]syscall.EpollEvent, connectionEvents),
	}
	if four := where.IP.To4(); four != nil {
		c.family, c.address = syscall.AF_INET, &syscall.SockaddrInet4{Port: where.Port, Addr: [4]byte(four)}
	} else {
		c.family, c.address = syscall.AF_INET6, &syscall.SockaddrInet6{Port: where.Port, Addr: [16]byte(where.IP.To16())}
	}
	if c.poll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	for i := range c.members {
		c.members[i].fd = -1
		c.away.push(i)
	}
	if err := c.gather(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// gather waits until all members are connected.
func (c *Connections) gather(ctx context.Context) error {
	var failed error
	for deadline := time.Now().Add(Patience); c.idle.count < len(c.members); {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wire: only %d of %d connections could be made within %v (%w)", c.idle.count, len(c.members), Patience, failed)
		}
		if err := c.Hear(10*time.Millisecond, func(h Heard) { failed = h.Err }); err != nil {
			return err
		}
	}
	return nil
}

// Idle returns how many members are ready for a request.
func (c *Connections) Idle() int { return c.idle.count }

// Take returns the member that has been idle longest. The caller must then call Ask or
// Release for it.
func (c *Connections) Take() (i int, ok bool) { return c.idle.pop() }

// Release makes a member idle that was taken and not used.
func (c *Connections) Release(i int) { c.idle.push(i) }

// Ask sends a request on a member that was taken, without waiting, and returns the time
// of sending. Hear reports failures. The caller may reuse the request at once.
func (c *Connections) Ask(i int, request []byte) time.Time {
	m := &c.members[i]
	m.condition, m.since = asked, time.Now()
	n, err := ignoringEINTR(func() (int, error) { return syscall.Write(m.fd, request) })
	if err != nil && !errors.Is(err, syscall.EAGAIN) {
		m.rest = m.rest[:0]
		return m.since // the broken connection is reported as an event
	}
	if n = max(n, 0); n < len(request) {
		m.rest = append(m.rest[:0], request[n:]...)
		c.want(i, true)
	}
	return m.since
}

// Hear waits for at most the duration wait until there are outcomes, and passes all of
// them to each. Members whose answer it reported are idle again when it returns.
func (c *Connections) Hear(wait time.Duration, each func(Heard)) error {
	c.dial(each)
	n, err := c.ready(wait)
	if err != nil {
		return os.NewSyscallError("epoll_pwait2", err)
	}
	for _, e := range c.events[:n] {
		c.happened(int(e.Fd), e.Events, each)
	}
	return nil
}

// Break drops the members whose requests were sent before a time, and reports these
// requests as late.
func (c *Connections) Break(before time.Time, each func(Heard)) {
	for i := range c.members {
		if m := &c.members[i]; m.condition == asked && m.since.Before(before) {
			c.leave(i, ErrLate, each)
		}
	}
}

// Asked returns how many requests are in progress.
func (c *Connections) Asked() (n int) {
	for i := range c.members {
		if c.members[i].condition == asked {
			n++
		}
	}
	return n
}

// Close closes every connection.
func (c *Connections) Close() {
	for i := range c.members {
		if fd := c.members[i].fd; fd >= 0 {
			_ = syscall.Close(fd)
			c.members[i].fd = -1
		}
	}
	_ = syscall.Close(c.poll)
}

// dial starts to connect members that are away, except those that broke recently.
func (c *Connections) dial(each func(Heard)) {
	for c.away.count > 0 && c.dialled < dialsAtOnce {
		i := int(c.away.ring[c.away.head])
		m := &c.members[i]
		if !m.since.IsZero() && time.Since(m.since) < redialPause {
			return
		}
		c.away.pop()
		if err := c.connect(i); err != nil {
			c.leave(i, err, each)
			return
		}
	}
}

func (c *Connections) connect(i int) error {
	m := &c.members[i]
	m.condition, m.since = connecting, time.Now()
	c.dialled++
	fd, err := syscall.Socket(c.family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	m.fd = fd
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Connect(fd, c.address); err != nil && !errors.Is(err, syscall.EINPROGRESS) {
		return os.NewSyscallError("connect", err)
	}
	m.writing = true
	event := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLOUT, Fd: int32(i)}
	return os.NewSyscallError("epoll_ctl", syscall.EpollCtl(c.poll, syscall.EPOLL_CTL_ADD, fd, &event))
}

// want switches write events for a member on or off.
func (c *Connections) want(i int, writing bool) {
	m := &c.members[i]
	if m.writing == writing {
		return
	}
	m.writing = writing
	event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}
	if writing {
		event.Events |= syscall.EPOLLOUT
	}
	_ = syscall.EpollCtl(c.poll, syscall.EPOLL_CTL_MOD, m.fd, &event)
}

// leave closes a member and schedules a new dial. It reports its request as failed, and
// likewise a connection that could not be established.
func (c *Connections) leave(i int, err error, each func(Heard)) {
	m := &c.members[i]
	if m.fd >= 0 {
		_ = syscall.Close(m.fd) // which also removes it from the poll
	}
	was, since := m.condition, m.since
	m.fd, m.condition, m.since = -1, away, time.Now()
	m.rest, m.kept = m.rest[:0], m.kept[:0]
	switch was {
	case connecting:
		c.dialled--
	case idle:
		c.forget(i)
	}
	c.away.push(i)
	if was == asked || was == connecting {
		each(Heard{Member: i, Sent: since, At: m.since, Err: err})
	}
}

// forget removes a member from the idle ones. It is slow, but rare.
func (c *Connections) forget(i int) {
	for range c.idle.count {
		if other, _ := c.idle.pop(); other != i {
			c.idle.push(other)
		}
	}
}

func (c *Connections) happened(i int, events uint32, each func(Heard)) {
	m := &c.members[i]
	if m.fd < 0 {
		return // it left in the same round
	}
	if m.condition == connecting {
		if code, err := syscall.GetsockoptInt(m.fd, syscall.SOL_SOCKET, syscall.SO_ERROR); err != nil || code != 0 {
			c.leave(i, errors.Join(err, syscall.Errno(code)), each)
			return
		}
		c.dialled--
		m.condition = idle
		c.idle.push(i)
		c.want(i, false)
		return
	}
	if events&syscall.EPOLLOUT != 0 && len(m.rest) > 0 {
		n, err := ignoringEINTR(func() (int, error) { return syscall.Write(m.fd, m.rest) })
		if err == nil {
			m.rest = slices.Delete(m.rest, 0, n)
		}
		if err != nil && !errors.Is(err, syscall.EAGAIN) {
			c.leave(i, os.NewSyscallError("write", err), each)
			return
		}
	}
	if len(m.rest) == 0 {
		c.want(i, false)
	}
	if events&^syscall.EPOLLOUT != 0 {
		c.read(i, each)
	}
}

// read reads the received data of a member. Unexpected bytes and invalid answers end its
// connection.
func (c *Connections) read(i int, each func(Heard)) {
	m := &c.members[i]
	n, err := ignoringEINTR(func() (int, error) { return syscall.Read(m.fd, c.buffer) })
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return
	case err != nil:
		c.leave(i, os.NewSyscallError("read", err), each)
		return
	case n == 0:
		c.leave(i, io.ErrUnexpectedEOF, each)
		return
	case m.condition != asked:
		c.leave(i, malformed("an answer that nobody asked for", c.buffer[:n]), each)
		return
	}
	received := c.buffer[:n]
	if len(m.kept) > 0 {
		m.kept = append(m.kept, received...)
		received = m.kept
	}
	answer, length, err := c.parser.Answer(received)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		if len(m.kept) == 0 {
			m.kept = append(m.kept, received...)
		}
		return
	case err == nil && length < len(received):
		err = malformed("more than one answer", received[length:])
	}
	if err != nil {
		c.leave(i, err, each)
		return
	}
	m.kept = m.kept[:0]
	each(Heard{Member: i, Sent: m.since, At: time.Now(), Answer: answer})
	m.condition = idle
	c.idle.push(i)
	if answer.Closing {
		c.leave(i, nil, each)
	}
}

// epollPwait2 is the number of the system call on every architecture of Linux. Its
// timeout is in nanoseconds.
const epollPwait2 = 441

func (c *Connections) ready(wait time.Duration) (int, error) {
	patience := syscall.NsecToTimespec(max(0, wait).Nanoseconds())
	n, _, code := syscall.Syscall6(epollPwait2, uintptr(c.poll), uintptr(unsafe.Pointer(&c.events[0])),
		uintptr(len(c.events)), uintptr(unsafe.Pointer(&patience)), 0, 0)
	switch {
	case code == 0:
		return int(n), nil
	case code == syscall.EINTR:
		return 0, nil
	case code != syscall.ENOSYS:
		return 0, code
	}
	got, err := syscall.EpollWait(c.poll, c.events, int((max(0, wait)+time.Millisecond-1)/time.Millisecond))
	if errors.Is(err, syscall.EINTR) {
		return 0, nil
	}
	return got, err
}

func ignoringEINTR(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}
