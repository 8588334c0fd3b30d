package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"parley/actors/host"
	"parley/client/parley"
	"parley/cluster/consensus"
	"parley/cluster/identity"
	"parley/cluster/link"
	"parley/journal"
)

// attacked are three members over mutual TLS. Each other member sends each of them what the members
// send each other, mutated.
type attacked struct {
	t *testing.T
	*group
	transports []*Transport
	nodes      []*Node
	security   []numbered
	addresses  map[uint64]string
	logged     *counting
	failed     atomic.Pointer[error]
	written    atomic.Int64
	// lies says that messages get their checksums after they were mutated.
	lies bool

	mu sync.Mutex
	// sent are the newest messages by sender, receiver and type.
	sent map[route][][]byte
}

type route struct {
	from, to int
	kind     raftpb.MessageType
}

// numbered is a node whose number in the test is its id.
type numbered struct {
	*identity.Identity
	all []*identity.Identity
}

func (s numbered) NodeOf(c *x509.Certificate) (uint64, error) {
	id, err := s.Identity.NodeOf(c)
	for i, one := range s.all {
		if uint64(one.ID) == id {
			return uint64(i + 1), err
		}
	}
	return 0, errors.Join(err, errors.New("an unauthenticated peer"))
}

func (s numbered) Client(to uint64) *tls.Config { return s.Identity.Client(uint64(s.all[to-1].ID)) }

// counting counts the lines of a log that name a node as malformed.
type counting struct {
	dropped, unnamed atomic.Int64
	// damaged are those of messages without their checksum.
	damaged atomic.Int64
}

func (c *counting) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("malformed")) || bytes.Contains(b, []byte("cannot be taken")) {
		if c.dropped.Add(1); !bytes.Contains(b, []byte("node=000000000000000")) || !bytes.Contains(b, []byte("error=")) {
			c.unnamed.Add(1)
		}
	}
	if bytes.Contains(b, []byte(link.ErrDamaged.Error())) {
		c.damaged.Add(1)
	}
	return len(b), nil
}

// identities returns those of the members of a cluster.
func identities(t *testing.T, count int) (all []*identity.Identity) {
	t.Helper()
	now := time.Now()
	first, err := identity.Create(t.TempDir(), "a", "a:1", now, func(identity.NodeID) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for all = append(all, first); len(all) < count; {
		token, err := first.NewToken(now, 0)
		if err != nil {
			t.Fatal(err)
		}
		data := t.TempDir()
		applicant, err := identity.NewApplicant(data, token)
		if err != nil {
			t.Fatal(err)
		}
		admission, err := first.Admit(applicant.Request, "1", now)
		if err != nil {
			t.Fatal(err)
		}
		next, err := applicant.Write(data, "b", "b:1", admission)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, next)
	}
	return all
}

// recorder keeps what a member sends.
type recorder struct {
	*Transport
	from int
	of   *attacked
}

const recordedMost = 32

// Send implements consensus.Links.
func (r recorder) Send(messages []consensus.Message) {
	for _, m := range messages {
		b, err := encodeMessage(m)
		if to := int(m.Raft.GetTo()); err == nil && to >= 1 && to <= 3 {
			at := route{r.from, to - 1, m.Raft.GetType()}
			r.of.mu.Lock()
			if r.of.sent[at] = append(r.of.sent[at], b); len(r.of.sent[at]) > recordedMost {
				r.of.sent[at] = r.of.sent[at][1:]
			}
			r.of.mu.Unlock()
		}
	}
	r.Transport.Send(messages)
}

// attack opens a group.
func attack(t *testing.T, ids []*identity.Identity, logged *counting) *attacked {
	t.Helper()
	a := &attacked{t: t, addresses: map[uint64]string{}, sent: map[route][][]byte{}, logged: logged}
	s := &replicas{t: t, journals: 2, dir: "group", tick: 3 * time.Millisecond}
	s.failed = func(err error) { a.failed.CompareAndSwap(nil, &err) }
	var listeners []net.Listener
	for n, id := range ids {
		s.disks = append(s.disks, vfs.NewMem())
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, ln)
		a.addresses[uint64(n+1)], a.security = ln.Addr().String(), append(a.security, numbered{id, ids})
	}
	a.group = s.openAll()
	logger := slog.New(slog.NewTextHandler(logged, nil))
	for n, m := range a.members {
		seeds := map[uint64]string{}
		for id, address := range a.addresses {
			if id != uint64(n+1) {
				seeds[id] = address
			}
		}
		transport := NewTransport(uint64(n+1), m, a.security[n], seeds, time.Now, logger, nil)
		a.transports = append(a.transports, transport)
		go func() { _ = transport.links.Serve(listeners[n]) }()
	}
	s.links = func(n int, _ *Member) consensus.Links { return recorder{a.transports[n], n, a} }
	if err := a.Start(ignoreQueue, ignoreTimer); err != nil {
		t.Fatal(err)
	}
	a.leader = nil // it changes
	for n, m := range a.members {
		node, err := NewNode(Options{
			Store: a.stores[n], Types: registeredTypes(), Clock: time.Now, Leader: a.transports[n].Leader,
			Group: NewGroup(m, uint64(n+1), time.Now, func() NodeState { return NodeState{State: "ready"} }, nil), Gossiped: func([]byte) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		replica, err := a.stores[n].Replica()
		if err != nil {
			t.Fatal(err)
		}
		if err := node.Group.Open(a.logs[n], replica, Description{Name: "a", Address: "a:1"}); err != nil {
			t.Fatal(err)
		}
		node.Serve(func(host.Request) (any, error) { return nil, parley.ErrInternal })
		a.transports[n].Serve(node)
		a.nodes = append(a.nodes, node)
	}
	return a
}

// close ends the group.
func (a *attacked) close() {
	for _, transport := range a.transports {
		transport.Close()
	}
	_ = a.group.Close()
}

// write has the members agree on something, so that there is something to record.
func (a *attacked) write(ctx context.Context) {
	for n := uint64(0); ctx.Err() == nil; n++ {
		key := binary.BigEndian.AppendUint64(nil, n)
		e := appendEntry{Effects: []journal.Effect{journal.PutRow{Row: journal.Row{Table: journal.OnceTable, Key: append([]byte{0, 0, 0, 1, 16}, key...), Value: make([]byte, n%300)}}}}
		wait, stop := context.WithTimeout(ctx, time.Second)
		if a.appends(wait, e) {
			a.written.Add(1)
		}
		stop()
	}
}

// appends has the member that leads append an entry.
func (a *attacked) appends(ctx context.Context, e appendEntry) bool {
	return slices.ContainsFunc(a.nodes, func(n *Node) bool { return n.append(ctx, e, 400) == nil })
}

// record returns a message that a member sent another one lately.
func (a *attacked) record(rng *rand.Rand, from, to int) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []route
	for kind := range raftpb.MsgPreVoteResp + 3 {
		if at := (route{from, to, kind}); len(a.sent[at]) > 0 {
			all = append(all, at)
		}
	}
	if len(all) == 0 {
		return nil
	}
	some := a.sent[all[rng.IntN(len(all))]]
	return bytes.Clone(some[rng.IntN(len(some))])
}

// batchOf is a batch of one frame.
func batchOf(id uint64, body []byte) []byte {
	b := binary.AppendUvarint(nil, id)
	b = binary.AppendUvarint(append(b, 0), uint64(len(body)))
	return append(b, body...)
}

// dial connects as one member to another one.
func (a *attacked) dial(from, to int) *grpc.ClientConn {
	conn, err := grpc.NewClient("passthrough:///"+a.addresses[uint64(to+1)],
		grpc.WithTransportCredentials(credentials.NewTLS(a.security[from].Client(uint64(to+1)))), grpc.WithDisableServiceConfig())
	if err != nil {
		a.t.Fatal(err)
	}
	return conn
}

// send sends messages on a stream of their own, and waits for its end.
func send(conn *grpc.ClientConn, name string, messages ...[]byte) {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/parley.Link/"+name, link.Raw())
	if err != nil {
		return
	}
	for _, b := range messages {
		if stream.SendMsg(&b) != nil {
			break
		}
	}
	_ = stream.CloseSend()
	for err == nil {
		var answer []byte
		err = stream.RecvMsg(&answer)
	}
}

// requests are the calls that members send each other, encoded.
func (a *attacked) requests() (all [][]byte) {
	row := journal.Row{Table: journal.OnceTable, Key: []byte{0, 0, 0, 1, 16, 9}, Value: []byte("b")}
	for _, r := range []any{
		ask{Stream: journal.Stream{Kind: journal.AgentStream}, Size: 9, Content: settle{}},
		settle{},
		askState{},
		hand{},
		gossip{[]byte("content")},
		appendEntry{Rows: []journal.Row{row}, Effects: []journal.Effect{
			journal.AppendFeed{Kind: journal.MessageEntry, Note: []byte("note")},
			journal.Fanout{},
			journal.RecordReceipt{},
			journal.EnqueueFor{},
			journal.PutRow{Row: row},
			journal.AddToList{},
			journal.DropFeed{},
			journal.CreateStream{},
		}},
		appendEntry{Records: []journal.Record{{Data: []byte("record")}}, Counts: []journal.Count{{}}, Gather: true},
		changeKey{},
		addMember{ID: 9, Described: Description{Name: "n", Address: "n:1"}.Encode(), Token: "t"},
		removeMember{9},
		askAcknowledged{ID: 2, Index: 5, Term: 1, YourIndex: 3, YourTerm: 1, Sum: 7, YourSum: 8, Member: true},
	} {
		b, err := a.nodes[0].Types.Append(nil, r)
		if err != nil {
			a.t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

// content returns the header and the content that a member sends to one that lags.
func (a *attacked) content(from, to int) (header, content []byte) {
	snapshot, err := a.members[from].Snapshot()
	if err != nil {
		return nil, nil
	}
	defer func() { _ = snapshot.Close() }()
	m := consensus.Message{Raft: &raftpb.Message{Type: raftpb.MsgSnap.Enum(), From: new(uint64(from + 1)), To: new(uint64(to + 1)), Term: new(a.members[from].Runner().Stats().Term)}}
	consensus.Attach(&m, snapshot)
	m.Content = nil
	var b bytes.Buffer
	_, err = snapshot.WriteTo(&b)
	header, failed := encodeMessage(m)
	if errors.Join(err, failed) != nil {
		return nil, nil
	}
	return header, b.Bytes()
}

// malformedAnswer is a peer whose answers are mutated.
type malformedAnswer struct {
	rng *rand.Rand
	to  *Node
}

func (malformedAnswer) Malformed(error) {}

func (p malformedAnswer) Call(ctx context.Context, request []byte) ([]byte, error) {
	b, err := p.to.Answer(ctx, 2, true, request)
	return mutateBytes(p.rng, b), err
}
