package link

import (
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

const (
	// strangersMax bounds the connections of strangers: those that have shown no certificate of
	// the cluster's authority, or not yet. One more ends the oldest. So strangers keep each other
	// out, and a node only with so many new connections during its handshake.
	strangersMax = 128
	// strangerTime is how long the connection of a stranger lasts.
	strangerTime = 30 * time.Second
	// requestBytesMax bounds what a stranger may ask in one request, windowBytes what it may
	// send before that is read, which is the least that gRPC allows.
	requestBytesMax, windowBytes = 8 << 10, 64 << 10
)

// acceptor tells nodes from strangers when a connection comes in. That of a node goes to the
// server of Links. That of a stranger, who may be anyone, goes to a server that takes little.
type acceptor struct {
	credentials.TransportCredentials
	strangers *handedOver

	mu sync.Mutex
	// open are the connections of strangers, the oldest first.
	open []net.Conn
}

func newAcceptor(c credentials.TransportCredentials) *acceptor {
	return &acceptor{TransportCredentials: c, strangers: &handedOver{conns: make(chan net.Conn), closed: make(chan struct{})}}
}

// strangerServer returns the server for strangers. Its connections have passed the handshake.
func strangerServer() *grpc.Server {
	return grpc.NewServer(
		grpc.ForceServerCodecV2(rawCodec{}), grpc.MaxRecvMsgSize(requestBytesMax), grpc.MaxHeaderListSize(requestBytesMax),
		grpc.StaticStreamWindowSize(windowBytes), grpc.StaticConnWindowSize(windowBytes), grpc.ReadBufferSize(requestBytesMax),
		grpc.MaxConcurrentStreams(1), grpc.ConnectionTimeout(connectTimeout), grpc.WaitForHandlers(true),
	)
}

// arrivals is a listener whose connections are those of strangers at first.
type arrivals struct {
	net.Listener
	acceptor *acceptor
}

// Accept implements net.Listener.
func (a arrivals) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err == nil {
		a.acceptor.enter(conn)
	}
	return conn, err
}

func (a *acceptor) enter(c net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.open) >= strangersMax {
		_ = a.open[0].Close()
		a.open = a.open[1:]
	}
	a.open = append(a.open, c)
}

// leave means that a connection has ended, or is that of a node.
func (a *acceptor) leave(c net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open = slices.DeleteFunc(a.open, func(o net.Conn) bool { return o == c })
}

// ServerHandshake implements credentials.TransportCredentials.
func (a *acceptor) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := a.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		a.leave(raw)
		return nil, nil, err
	}
	if shown, ok := info.(credentials.TLSInfo); ok && len(shown.State.VerifiedChains) > 0 {
		a.leave(raw)
		return conn, info, nil
	}
	end := time.AfterFunc(strangerTime, func() { _ = conn.Close() }) // the server then closes it too
	s := &stranger{Conn: conn, end: end, leave: func() { a.leave(raw) }}
	if !a.strangers.put(s) {
		_ = s.Close()
	}
	return nil, nil, credentials.ErrConnDispatched
}

// stranger is the connection of a stranger after the handshake.
type stranger struct {
	net.Conn
	leave func()
	end   *time.Timer
}

// Close implements net.Conn.
func (s *stranger) Close() error {
	s.end.Stop()
	s.leave()
	return s.Conn.Close()
}

// handedOver is a listener for connections that another server has accepted.
type handedOver struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// put hands a connection over. It returns false if the listener is closed.
func (h *handedOver) put(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.closed:
		return false
	}
}

// Accept implements net.Listener.
func (h *handedOver) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handedOver) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements net.Listener.
func (*handedOver) Addr() net.Addr { return &net.TCPAddr{} }
