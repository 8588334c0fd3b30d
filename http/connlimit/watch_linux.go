package connlimit

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// watcher watches hijacked connections with one goroutine and one epoll set. A goroutine
// for each connection that waits in Read would take 2.6 KiB, half of an idle stream.
type watcher struct {
	mu sync.Mutex
	// watched are the connections by their numbers. A number is never used again, so an
	// event of a connection that has left meanwhile finds none, although a new connection
	// may have its descriptor.
	watched map[uint64]*Conn
	last    uint64
	set     *epollSet // nil while nothing is watched
}

// add begins to watch a connection. It returns false if that is not possible: because it is
// not a kernel socket, because it is closed, or for lack of descriptors.
func (w *watcher) add(l *Conn, gone func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.set == nil {
		set, err := newEpollSet()
		if err != nil {
			return false
		}
		w.set, w.watched = set, map[uint64]*Conn{}
		go w.run(set)
	}
	number := w.last + 1
	if !w.set.add(l, number) {
		w.rest()
		return false
	}
	// The connection was open while it was added. When it is closed, remove is called
	// afterwards, and waits for mu. The kernel removes a closed socket from the set.
	w.last, w.watched[number] = number, l
	l.number, l.gone = number, gone
	return true
}

// remove ends the watch of a connection and returns its gone, nil if the connection is not
// watched.
func (w *watcher) remove(l *Conn) (gone func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.forget(l)
}

// forget is remove for a caller that holds mu.
func (w *watcher) forget(l *Conn) (gone func()) {
	if l.gone == nil {
		return nil
	}
	gone, l.gone = l.gone, nil
	delete(w.watched, l.number)
	w.rest()
	return gone
}

// rest ends the goroutine if nothing is watched. The caller holds mu.
func (w *watcher) rest() {
	if len(w.watched) == 0 {
		_ = w.set.file.Close()
		w.set, w.watched = nil, nil
	}
}

// run calls gone for each connection that has ended, until the set is closed.
func (w *watcher) run(set *epollSet) {
	for {
		events, err := set.wait()
		if err != nil {
			return
		}
		for i := range events {
			if gone := w.happened(set, numberOf(&events[i])); gone != nil {
				gone()
			}
		}
	}
}

// happened handles an event of a connection. If the connection has ended, it ends the watch
// and returns gone.
func (w *watcher) happened(set *epollSet, number uint64) (gone func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.watched[number]; l != nil && set.ended(l) {
		return w.forget(l)
	}
	return nil
}

// epollSet is a set of sockets. The runtime's poller waits for it, so that a wait occupies
// no thread.
type epollSet struct {
	file   *os.File
	raw    syscall.RawConn
	events [128]syscall.EpollEvent

	// The watcher's mu guards what follows. It also keeps the file open, which is closed
	// only when nothing is watched.
	fd            int
	number        uint64
	sink          []byte
	failed, over  bool
	insert, drain func(fd uintptr) // methods of the set, made once
}

func newEpollSet() (*epollSet, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	err = syscall.SetNonblock(fd, true) // otherwise os.NewFile would have it wait in a thread
	s := &epollSet{fd: fd, file: os.NewFile(uintptr(fd), "epoll"), sink: make([]byte, 16<<10)}
	s.insert, s.drain = s.insertSocket, s.drainSocket
	if err == nil {
		s.raw, err = s.file.SyscallConn()
	}
	if err != nil {
		_ = s.file.Close()
		return nil, err
	}
	return s, nil
}

// wait waits for events. What it returns is valid until the next wait.
func (s *epollSet) wait() (events []syscall.EpollEvent, err error) {
	n := 0
	closed := s.raw.Read(func(set uintptr) bool {
		n, err = syscall.EpollWait(int(set), s.events[:], 0)
		if errors.Is(err, syscall.EINTR) {
			n, err = 0, nil
		}
		return n > 0 || err != nil
	})
	return s.events[:max(n, 0)], errors.Join(closed, err)
}

func numberOf(e *syscall.EpollEvent) uint64 { return uint64(uint32(e.Pad))<<32 | uint64(uint32(e.Fd)) }

// add adds a connection to the set, if it is an open socket.
func (s *epollSet) add(l *Conn, number uint64) bool {
	s.number, s.failed = number, false
	return control(l, s.insert) && !s.failed
}

func (s *epollSet) insertSocket(fd uintptr) {
	e := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLRDHUP, Fd: int32(uint32(s.number)), Pad: int32(uint32(s.number >> 32))}
	s.failed = syscall.EpollCtl(s.fd, syscall.EPOLL_CTL_ADD, int(fd), &e) != nil
}

// ended reports whether there is nothing more to read from a connection for good. It drops
// what can be read, no more than the sink holds: other connections wait for their turn, and
// the set reports the rest again.
func (s *epollSet) ended(l *Conn) bool {
	s.over = false
	return !control(l, s.drain) || s.over
}

func (s *epollSet) drainSocket(fd uintptr) {
	n, err := syscall.Read(int(fd), s.sink)
	s.over = n == 0 || err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	if s.over { // the set would report it until it is closed, which may take a while
		_ = syscall.EpollCtl(s.fd, syscall.EPOLL_CTL_DEL, int(fd), nil)
	}
}

// control calls do with the descriptor of a connection, which stays open meanwhile. It
// returns false if the connection is closed or is no socket.
func control(l *Conn, do func(fd uintptr)) bool {
	kernel, ok := l.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	socket, err := kernel.SyscallConn()
	return err == nil && socket.Control(do) == nil
}
