package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Security proves who this node is, and says who a peer is.
type Security interface {
	// Server is the configuration for incoming connections. It may admit those without a
	// certificate: they can call nothing but what Options.Register registers.
	Server() *tls.Config
	// Client is the configuration for connections to a peer. It refuses any other node.
	Client(to uint64) *tls.Config
	// NodeOf returns whose certificate it is. The chain was verified before.
	NodeOf(c *x509.Certificate) (uint64, error)
}

// Options of Links. All are required but Register.
type Options struct {
	Security Security
	Handler  Handler
	// Member reports whether a node may send something.
	Member func(id uint64) bool
	Clock  func() time.Time
	Logger *slog.Logger
	// Register registers services for unauthenticated peers at the same address: for those who show no
	// certificate.
	Register func(*grpc.Server)
}

// Links are the connections of a node with its peers.
type Links struct {
	Options
	acceptor *acceptor
	server   *grpc.Server
	// unauthenticated and nonMembers serve the connections of those who are no members.
	unauthenticated, nonMembers *grpc.Server
	ctx                         context.Context
	stop                        context.CancelFunc
	work                        sync.WaitGroup
	// answering counts the calls of peers whose answers gRPC does not have yet.
	answering atomic.Int64

	mu    sync.Mutex
	peers map[uint64]*remote
	// traffic has the counters of all nodes that were peers.
	traffic map[uint64]*traffic
}

const (
	// connectTimeout bounds one try to reach a peer, reconnectMax the pause between two.
	connectTimeout, reconnectMin, reconnectMax = 2 * time.Second, 50 * time.Millisecond, 500 * time.Millisecond
	// keepaliveEvery and keepaliveTimeout find a peer that is gone without a word.
	keepaliveEvery, keepaliveTimeout = 10 * time.Second, 3 * time.Second
)

// New returns links without peers.
func New(o Options) *Links {
	l := &Links{Options: o, peers: map[uint64]*remote{}, traffic: map[uint64]*traffic{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.acceptor = newAcceptor(credentials.NewTLS(o.Security.Server()), l.node, o.Member)
	l.unauthenticated, l.nonMembers = limitedServer(unauthenticatedBytesMax, 1), limitedServer(nonMemberBytesMax, 2)
	l.server = grpc.NewServer(
		grpc.Creds(l.acceptor), grpc.ForceServerCodecV2(rawCodec{}),
		grpc.MaxRecvMsgSize(batchBytesMax), grpc.InitialWindowSize(8<<20), grpc.InitialConnWindowSize(16<<20),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveEvery, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveEvery / 2, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(connectTimeout), grpc.MaxConcurrentStreams(64), grpc.WaitForHandlers(true),
	)
	l.server.RegisterService(l.describe(waitingBytesMax), nil)
	l.nonMembers.RegisterService(l.describe(nonMemberAnswersMax), nil)
	if o.Register != nil {
		o.Register(l.unauthenticated)
	}
	l.work.Go(func() { _ = l.unauthenticated.Serve(l.acceptor.unauthenticated) }) // they end with Close
	l.work.Go(func() { _ = l.nonMembers.Serve(l.acceptor.nonMembers) })
	return l
}

// Serve takes connections until Close.
func (l *Links) Serve(ln net.Listener) error {
	return l.server.Serve(arrivals{ln, l.acceptor})
}

// lastAnswers is how long the last answers may take from gRPC onto the wire.
const lastAnswers = 100 * time.Millisecond

// Drain returns when no call of a peer is being answered, or ctx is done, so that Close cuts
// off no answer.
func (l *Links) Drain(ctx context.Context) {
	for l.answering.Load() > 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(lastAnswers)
}

// Close ends all connections. Nothing is handled any more when it returns.
func (l *Links) Close() {
	l.stop()
	l.unauthenticated.Stop()
	l.nonMembers.Stop()
	l.server.Stop()
	l.mu.Lock()
	for _, p := range l.peers {
		p.close()
	}
	l.peers = map[uint64]*remote{}
	l.mu.Unlock()
	l.work.Wait()
}

// SetPeers sets the addresses of all peers. Members may have changed with them.
func (l *Links) SetPeers(addresses map[uint64]string) {
	defer l.acceptor.changed(l.ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return
	}
	kept := maps.Clone(l.peers)
	for id, p := range l.peers {
		if addresses[id] != p.address {
			p.close()
			delete(kept, id)
		}
	}
	for id, address := range addresses {
		if kept[id] != nil {
			continue
		}
		p, err := l.dial(id, address)
		if err != nil {
			l.Logger.Error("a node of the cluster has an address that cannot be used", "node", fmt.Sprintf("%016x", id), "address", address, "error", err)
			continue
		}
		kept[id] = p
	}
	l.peers = kept
}

// dial prepares the connection to a peer. mu is held.
func (l *Links) dial(id uint64, address string) (*remote, error) {
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(credentials.NewTLS(l.Security.Client(id))),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(batchBytesMax), grpc.MaxCallSendMsgSize(batchBytesMax)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: reconnectMin, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectMax},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveEvery, Timeout: keepaliveTimeout, PermitWithoutStream: true}),
		grpc.WithInitialWindowSize(8<<20), grpc.WithInitialConnWindowSize(16<<20), grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(l.ctx)
	p := &remote{
		id: id, address: address, conn: conn, ctx: ctx, stop: stop, messages: newOutbox(waitingBytesMax), calls: newOutbox(waitingBytesMax),
		pending: map[uint64]*call{}, traffic: l.trafficOf(id), logger: l.Logger,
		malformed: func(err error) error { return l.dropped(id, err) },
	}
	l.work.Go(p.sendMessages)
	l.work.Go(p.sendCalls)
	return p, nil
}

// peer returns a peer, nil if it is none.
func (l *Links) peer(id uint64) *remote {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peers[id]
}

// Send sends a message to a peer. It never blocks, and the message may be lost.
func (l *Links) Send(to uint64, message []byte) {
	if p := l.peer(to); p != nil {
		if !p.messages.put(frame{id: sumOf(message), body: message}) {
			p.dropped.Add(1)
		}
	}
}

// Call has a peer answer a request. ErrUnreached means that the peer did not get it.
func (l *Links) Call(ctx context.Context, to uint64, request []byte) ([]byte, error) {
	return l.CallUntil(ctx, nil, to, request)
}

// CallUntil is a Call that is also given up when over is closed.
func (l *Links) CallUntil(ctx context.Context, over <-chan struct{}, to uint64, request []byte) ([]byte, error) {
	p := l.peer(to)
	if p == nil {
		return nil, ErrUnreached
	}
	return p.call(ctx, over, request)
}

// Malformed says that an answer of a peer cannot be read. The stream of its answers ends.
func (l *Links) Malformed(from uint64, err error) {
	if p := l.peer(from); p != nil {
		p.malformedAnswer(err)
	}
}

// Transfer sends a content to a peer. It returns when the peer is done with it.
func (l *Links) Transfer(ctx context.Context, to uint64, header []byte, content io.WriterTo) error {
	p := l.peer(to)
	if p == nil {
		return ErrUnreached
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(p.ctx, stop)()
	stream, err := p.conn.NewStream(ctx, &contentStream, path(&contentStream))
	if err != nil {
		return errors.Join(ErrUnreached, err)
	}
	err = stream.SendMsg(&header)
	if err == nil {
		_, err = content.WriteTo(streamWriter{stream, p.traffic})
	}
	if err != nil && !errors.Is(err, io.EOF) { // with io.EOF the answer says why
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	var answer []byte
	return stream.RecvMsg(&answer)
}

var errNoMember = status.Error(codes.PermissionDenied, ErrNoMember.Error())

// caller returns the node at the other end of a connection.
func (l *Links) caller(ctx context.Context) (uint64, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return 0, status.Error(codes.Unauthenticated, "no connection")
	}
	return l.node(p.AuthInfo)
}

// node returns the node that has shown its certificate.
func (l *Links) node(auth credentials.AuthInfo) (uint64, error) {
	info, ok := auth.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return 0, status.Error(codes.Unauthenticated, "a node of the cluster shows its certificate")
	}
	id, err := l.Security.NodeOf(info.State.PeerCertificates[0])
	if err != nil {
		return 0, status.Error(codes.Unauthenticated, err.Error())
	}
	return id, nil
}
