package link

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// unauthenticatedMax bounds the connections of unauthenticated peers: those that have shown no certificate of
	// the cluster's authority, or not yet. One more ends the oldest. So unauthenticated peers keep each other
	// out, and a node only with so many new connections during its handshake.
	unauthenticatedMax = 128
	// nonMembersMax bounds the connections of nodes that are no members, in the same way: nodes that
	// were removed, or that this node does not know yet.
	nonMembersMax = 16
	// limitedConnTime is how long a connection lasts that is no member's.
	limitedConnTime = 30 * time.Second
	// unauthenticatedBytesMax bounds what an unauthenticated peer may ask in one request, windowBytes what it may
	// send before that is read, which is the least that gRPC allows.
	unauthenticatedBytesMax, windowBytes = 8 << 10, 64 << 10
	// nonMemberBytesMax bounds a batch of a node that is no member. A node learns from the answer to its calls that it was
	// removed, and its batches also hold what its clients ask.
	nonMemberBytesMax = 4 << 20
	// nonMemberAnswersMax bounds the answers that wait for such a node to take them.
	nonMemberAnswersMax = 64 << 10
	// removedGrace is how long a node that was removed keeps its connections: calls that are under way
	// are answered.
	removedGrace = 30 * time.Second
)

// acceptor tells members, nodes that are no members, and unauthenticated peers apart when a connection comes in. That of a member
// goes to the server of Links, the others go to servers that take little.
type acceptor struct {
	credentials.TransportCredentials
	// caller returns the node that has shown a certificate, an error if none has.
	caller func(credentials.AuthInfo) (id uint64, err error)
	member func(id uint64) bool

	unauthenticated, nonMembers *limitedListener

	mu sync.Mutex
	// members are the connections of members, with their nodes.
	members map[net.Conn]uint64
}

func newAcceptor(c credentials.TransportCredentials, caller func(credentials.AuthInfo) (uint64, error), member func(uint64) bool) *acceptor {
	return &acceptor{
		TransportCredentials: c, caller: caller, member: member,
		unauthenticated: newLimitedListener(unauthenticatedMax), nonMembers: newLimitedListener(nonMembersMax), members: map[net.Conn]uint64{},
	}
}

// limitedServer returns a server for connections that have passed the handshake.
func limitedServer(requestBytesMax int, streams uint32) *grpc.Server {
	return grpc.NewServer(
		grpc.Creds(limitedCredentials{insecure.NewCredentials()}),
		grpc.ForceServerCodecV2(rawCodec{}), grpc.MaxRecvMsgSize(requestBytesMax), grpc.MaxHeaderListSize(unauthenticatedBytesMax),
		grpc.StaticStreamWindowSize(windowBytes), grpc.StaticConnWindowSize(windowBytes), grpc.ReadBufferSize(unauthenticatedBytesMax),
		grpc.MaxConcurrentStreams(streams), grpc.ConnectionTimeout(connectTimeout), grpc.WaitForHandlers(true),
	)
}

// limitedCredentials are those that clients have shown to the acceptor.
type limitedCredentials struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (limitedCredentials) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	v, ok := c.(*limitedConn)
	if !ok {
		return nil, nil, net.ErrClosed
	}
	return v, v.info, nil
}

// arrivals is a listener whose connections are those of unauthenticated peers at first.
type arrivals struct {
	net.Listener
	acceptor *acceptor
}

// Accept implements net.Listener.
func (a arrivals) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err == nil {
		a.acceptor.unauthenticated.enter(conn)
	}
	return conn, err
}

// ServerHandshake implements credentials.TransportCredentials.
func (a *acceptor) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := a.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		a.unauthenticated.leave(raw)
		return nil, nil, err
	}
	id, unknown := a.caller(info)
	if unknown != nil {
		a.unauthenticated.serve(raw, conn, info)
		return nil, nil, credentials.ErrConnDispatched
	}
	a.unauthenticated.leave(raw)
	if !a.member(id) {
		a.nonMembers.enter(raw)
		a.nonMembers.serve(raw, conn, info)
		return nil, nil, credentials.ErrConnDispatched
	}
	m := &memberConn{conn, a}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.members[m] = id
	return m, info, nil
}

// memberConn is the connection of a member.
type memberConn struct {
	net.Conn
	acceptor *acceptor
}

// Close implements net.Conn.
func (m *memberConn) Close() error {
	m.acceptor.mu.Lock()
	delete(m.acceptor.members, m)
	m.acceptor.mu.Unlock()
	return m.Conn.Close()
}

// changed means that members came or went. The connections of non-members end, so that they connect
// again as what they are now. Those of former members end after removedGrace, unless these are members
// again.
func (a *acceptor) changed(ctx context.Context) {
	a.nonMembers.end()
	former := a.former()
	if len(former) == 0 {
		return
	}
	time.AfterFunc(removedGrace, func() {
		if ctx.Err() != nil {
			return
		}
		for _, c := range a.former() {
			if slices.Contains(former, c) {
				_ = c.Close()
			}
		}
	})
}

// former returns the connections of nodes that were members.
func (a *acceptor) former() []net.Conn {
	a.mu.Lock()
	open := maps.Clone(a.members)
	a.mu.Unlock()
	maps.DeleteFunc(open, func(_ net.Conn, id uint64) bool { return a.member(id) })
	return slices.Collect(maps.Keys(open))
}

// limitedListener is a listener for connections that the acceptor has accepted, of which it keeps few.
type limitedListener struct {
	max    int
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu sync.Mutex
	// open are the connections below TLS, the oldest first.
	open []net.Conn
}

func newLimitedListener(most int) *limitedListener {
	return &limitedListener{max: most, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// enter counts a connection.
func (l *limitedListener) enter(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.max {
		_ = l.open[0].Close()
		l.open = l.open[1:]
	}
	l.open = append(l.open, c)
}

// leave means that a connection has ended, or does not belong here.
func (l *limitedListener) leave(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = slices.DeleteFunc(l.open, func(o net.Conn) bool { return o == c })
}

// end ends all connections.
func (l *limitedListener) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		_ = c.Close()
	}
	l.open = nil
}

// serve hands a connection to the server, after its handshake.
func (l *limitedListener) serve(raw, conn net.Conn, info credentials.AuthInfo) {
	v := &limitedConn{Conn: conn, info: info, leave: func() { l.leave(raw) }}
	v.end = time.AfterFunc(limitedConnTime, func() { _ = conn.Close() }) // the server then closes it too
	select {
	case l.conns <- v:
	case <-l.closed:
		_ = v.Close()
	}
}

// limitedConn is the connection that is not of a member after the handshake.
type limitedConn struct {
	net.Conn
	info  credentials.AuthInfo
	leave func()
	end   *time.Timer
}

// Close implements net.Conn.
func (v *limitedConn) Close() error {
	v.end.Stop()
	v.leave()
	return v.Conn.Close()
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (*limitedListener) Addr() net.Addr { return &net.TCPAddr{} }
