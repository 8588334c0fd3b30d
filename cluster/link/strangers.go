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
	// strangersMax bounds the connections of strangers: those that have shown no certificate of
	// the cluster's authority, or not yet. One more ends the oldest. So strangers keep each other
	// out, and a node only with so many new connections during its handshake.
	strangersMax = 128
	// guestsMax bounds the connections of nodes that are no members, in the same way: nodes that
	// were removed, or that this node does not know yet.
	guestsMax = 16
	// visitTime is how long the connection of a stranger or a guest lasts.
	visitTime = 30 * time.Second
	// strangerBytesMax bounds what a stranger may ask in one request, windowBytes what it may
	// send before that is read, which is the least that gRPC allows.
	strangerBytesMax, windowBytes = 8 << 10, 64 << 10
	// guestBytesMax bounds a batch of a guest. A node learns from the answer to its calls that it was
	// removed, and its batches also hold what its clients ask.
	guestBytesMax = 4 << 20
	// guestAnswersMax bounds the answers that wait for a guest to take them.
	guestAnswersMax = 64 << 10
	// farewell is how long a node that was removed may use the connections that it has, in which
	// others may be answered by it.
	farewell = 30 * time.Second
)

// acceptor tells members, guests and strangers apart when a connection comes in. That of a member
// goes to the server of Links, the others go to servers that take little.
type acceptor struct {
	credentials.TransportCredentials
	// caller returns the node that has shown a certificate, an error if none has.
	caller func(credentials.AuthInfo) (id uint64, err error)
	member func(id uint64) bool

	strangers, guests *lobby

	mu sync.Mutex
	// members are the connections of members, with their nodes.
	members map[net.Conn]uint64
}

func newAcceptor(c credentials.TransportCredentials, caller func(credentials.AuthInfo) (uint64, error), member func(uint64) bool) *acceptor {
	return &acceptor{
		TransportCredentials: c, caller: caller, member: member,
		strangers: newLobby(strangersMax), guests: newLobby(guestsMax), members: map[net.Conn]uint64{},
	}
}

// lobbyServer returns a server for connections that have passed the handshake.
func lobbyServer(requestBytesMax int, streams uint32) *grpc.Server {
	return grpc.NewServer(
		grpc.Creds(visitorCredentials{insecure.NewCredentials()}),
		grpc.ForceServerCodecV2(rawCodec{}), grpc.MaxRecvMsgSize(requestBytesMax), grpc.MaxHeaderListSize(strangerBytesMax),
		grpc.StaticStreamWindowSize(windowBytes), grpc.StaticConnWindowSize(windowBytes), grpc.ReadBufferSize(strangerBytesMax),
		grpc.MaxConcurrentStreams(streams), grpc.ConnectionTimeout(connectTimeout), grpc.WaitForHandlers(true),
	)
}

// visitorCredentials are those that visitors have shown to the acceptor.
type visitorCredentials struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (visitorCredentials) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	v, ok := c.(*visitor)
	if !ok {
		return nil, nil, net.ErrClosed
	}
	return v, v.info, nil
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
		a.acceptor.strangers.enter(conn)
	}
	return conn, err
}

// ServerHandshake implements credentials.TransportCredentials.
func (a *acceptor) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := a.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		a.strangers.leave(raw)
		return nil, nil, err
	}
	id, unknown := a.caller(info)
	if unknown != nil {
		a.strangers.serve(raw, conn, info)
		return nil, nil, credentials.ErrConnDispatched
	}
	a.strangers.leave(raw)
	if !a.member(id) {
		a.guests.enter(raw)
		a.guests.serve(raw, conn, info)
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

// changed means that members came or went. Guests connect again, as what they are now. Those who
// are members no more have to in a while, if they are none then.
func (a *acceptor) changed(ctx context.Context) {
	a.guests.end()
	former := a.former()
	if len(former) == 0 {
		return
	}
	time.AfterFunc(farewell, func() {
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

// lobby is a listener for connections that the acceptor has accepted, of which it keeps few.
type lobby struct {
	max    int
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu sync.Mutex
	// open are the connections before their handshakes, the oldest first.
	open []net.Conn
}

func newLobby(most int) *lobby {
	return &lobby{max: most, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// enter counts a connection.
func (l *lobby) enter(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.max {
		_ = l.open[0].Close()
		l.open = l.open[1:]
	}
	l.open = append(l.open, c)
}

// leave means that a connection has ended, or does not belong here.
func (l *lobby) leave(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = slices.DeleteFunc(l.open, func(o net.Conn) bool { return o == c })
}

// end ends all connections.
func (l *lobby) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		_ = c.Close()
	}
	l.open = nil
}

// serve hands a connection to the server, after its handshake.
func (l *lobby) serve(raw, conn net.Conn, info credentials.AuthInfo) {
	v := &visitor{Conn: conn, info: info, leave: func() { l.leave(raw) }}
	v.end = time.AfterFunc(visitTime, func() { _ = conn.Close() }) // the server then closes it too
	select {
	case l.conns <- v:
	case <-l.closed:
		_ = v.Close()
	}
}

// visitor is the connection of a stranger or a guest after the handshake.
type visitor struct {
	net.Conn
	info  credentials.AuthInfo
	leave func()
	end   *time.Timer
}

// Close implements net.Conn.
func (v *visitor) Close() error {
	v.end.Stop()
	v.leave()
	return v.Conn.Close()
}

// Accept implements net.Listener.
func (l *lobby) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *lobby) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (*lobby) Addr() net.Addr { return &net.TCPAddr{} }
