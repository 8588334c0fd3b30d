package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"parley/client/parley"
	"parley/cluster/consensus"
	"parley/cluster/link"
	"parley/journal"
)

// Transport connects a member and its node with their peers.
type Transport struct {
	links  *link.Links
	self   uint64
	member *Member
	node   atomic.Pointer[Node]
	logger *slog.Logger
	clock  parley.Clock
	ctx    context.Context
	stop   context.CancelFunc
	// taking lets one content at a time come in: each is as large as the store.
	taking chan struct{}
	// met are members that the node's state may not have yet; mu serializes what connects to them.
	met      atomic.Pointer[met]
	mu       sync.Mutex
	contents contents
}

// NewTransport returns the transport of a node. Peers are those of the group that are
// described, and until then those of seeds.
func NewTransport(self uint64, member *Member, security link.Security, seeds map[uint64]string, clock parley.Clock, logger *slog.Logger, register func(*grpc.Server)) *Transport {
	t := &Transport{self: self, member: member, clock: clock, logger: logger, taking: make(chan struct{}, 1)}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.links = link.New(link.Options{Security: security, Handler: t, Member: t.isMember, Clock: clock, Logger: logger, Register: register})
	t.links.SetPeers(seeds)
	return t
}

// LastContact is when a node last sent something, zero if it did not since the start.
func (t *Transport) LastContact(id uint64) time.Time { return t.links.LastContact(id) }

// Links are the connections.
func (t *Transport) Links() *link.Links { return t.links }

// Serve has a node answer the calls of peers.
func (t *Transport) Serve(n *Node) { t.node.Store(n) }

// Close ends all connections.
func (t *Transport) Close() {
	t.stop()
	t.links.Close()
}

// met are the members as of an index. They count until the node's state has come to that index.
type met struct {
	table Table
	upTo  uint64
}

// Met takes over members as of an index: those of the node's log, or of a node that has more.
func (t *Transport) Met(members Table, upTo uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.met.Load(); now != nil && now.upTo >= upTo {
		return
	}
	t.met.Store(&met{members, upTo})
	var own Table
	if r := t.member.roster.Load(); r != nil {
		own = r.table
	}
	t.connect(own)
}

// Changed takes over the members of the node's state.
func (t *Transport) Changed(members Table) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.connect(members)
}

// connect takes over the addresses of members, and of those that the node's state does not have
// yet.
func (t *Transport) connect(members Table) {
	addresses := map[uint64]string{}
	for _, table := range []Table{members, t.ahead()} {
		for id, d := range table {
			if id != t.self && d.Address != "" {
				addresses[id] = d.Address
			}
		}
	}
	t.links.SetPeers(addresses)
}

// ahead are the members that were met, if the state does not go as far. The loop calls it: it must
// not wait for a batch that is being applied.
func (t *Transport) ahead() Table {
	met := t.met.Load()
	if met == nil || t.member.roster.Load() != nil && t.member.replica.Visible() >= met.upTo {
		return nil
	}
	return met.table
}

// isMember reports whether a node is a member. A blank node does not know, and takes what the
// authority of the cluster has certified.
func (t *Transport) isMember(id uint64) bool {
	r := t.member.roster.Load()
	if r != nil {
		if _, member := r.table[id]; member {
			return true
		}
	}
	ahead := t.ahead()
	_, member := ahead[id]
	return member || r == nil && ahead == nil
}

const (
	// leaderPatience is how long calls to a former leader may still be answered.
	leaderPatience = 500 * time.Millisecond
	// floorBytes precede the message of raft.
	floorBytes = 8
)

// Leader is Options.Leader.
func (t *Transport) Leader() (Peer, error) {
	f := t.member.follows.Load()
	switch {
	case f.takes:
		return nil, nil
	case f.leader == 0, f.leader == t.self:
		return nil, journal.ErrNotLeader
	}
	return leaderPeer{peer{t.links, f.leader}, f}, nil
}

// Peer is another node.
func (t *Transport) Peer(id uint64) Peer { return peer{t.links, id} }

type peer struct {
	links *link.Links
	id    uint64
}

// Call implements Peer.
func (p peer) Call(ctx context.Context, request []byte) ([]byte, error) {
	return p.links.Call(ctx, p.id, request)
}

// Malformed implements Peer.
func (p peer) Malformed(err error) { p.links.Malformed(p.id, err) }

// leaderPeer is the leader. Calls end soon after it stops leading: a process that was halted
// keeps its connections.
type leaderPeer struct {
	peer
	as *following
}

// Call implements Peer.
func (p leaderPeer) Call(ctx context.Context, request []byte) ([]byte, error) {
	return p.links.CallUntil(ctx, p.as.cut, p.id, request)
}

// Send implements consensus.Links.
func (t *Transport) Send(messages []consensus.Message) {
	for _, m := range messages {
		encoded, err := encodeMessage(m)
		if err != nil {
			t.logger.Error("a message of the cluster cannot be encoded", "error", err)
			continue
		}
		if m.Content != nil {
			go t.transfer(m, encoded)
			continue
		}
		t.links.Send(m.Raft.GetTo(), encoded)
	}
}

// encodeMessage returns the floor and the message of raft, with one more field: what the sender
// knows of the members.
func encodeMessage(m consensus.Message) ([]byte, error) {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, floorBytes+proto.Size(m.Raft)+knownBytes*len(m.Known)), m.Floor)
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m.Raft)
	if err != nil || len(m.Known) == 0 {
		return b, err
	}
	return protowire.AppendBytes(protowire.AppendTag(b, knownField, protowire.BytesType), m.Known.Append(nil)), nil
}

// decodeMessage decodes what encodeMessage returned. The entries share the memory of b.
func decodeMessage(from uint64, b []byte) (consensus.Message, error) {
	m := consensus.Message{Raft: &raftpb.Message{}}
	if len(b) < floorBytes {
		return m, errors.New("it is too short")
	}
	m.Floor = binary.BigEndian.Uint64(b)
	rest, err := cutFields(b[floorBytes:], func(number protowire.Number, value []byte) (bool, error) {
		switch number {
		case entriesField:
			if len(m.Raft.Entries) == entriesMax {
				return true, errTooMuch
			}
			e := &raftpb.Entry{}
			rest, err := cutFields(value, func(number protowire.Number, data []byte) (bool, error) {
				if number == dataField {
					e.Data = data
				}
				return number == dataField, nil
			})
			if len(rest) > otherBytesMax {
				return true, errTooMuch
			}
			m.Raft.Entries = append(m.Raft.Entries, e)
			return true, errors.Join(err, proto.UnmarshalOptions{Merge: true}.Unmarshal(rest, e))
		case knownField:
			var err error
			m.Known, err = consensus.DecodeKnown(value)
			return true, err
		}
		return false, nil
	})
	if len(rest) > otherBytesMax {
		return m, errTooMuch
	}
	if err = errors.Join(err, proto.UnmarshalOptions{Merge: true}.Unmarshal(rest, m.Raft)); err != nil {
		return m, err
	}
	if m.Raft.GetFrom() != from {
		return m, errors.New("it claims to come from another node")
	}
	return m, nil
}

// Numbers of the fields of raft's messages and entries that hold payloads.
const entriesField, dataField protowire.Number = 7, 4

const (
	// entriesMax is far more than the entries of a message, which are bounded by their bytes.
	entriesMax = 1 << 18
	// otherBytesMax bounds the other fields of a message and of an entry. They may take a hundred
	// times as much memory as they have bytes.
	otherBytesMax = 64 << 10
)

var errTooMuch = errors.New("it has more than a member sends")

// knownField is none of raft's. Each standing in it takes at most knownBytes, the field itself
// too.
const (
	knownField protowire.Number = 1000
	knownBytes int              = 40
)

// cutFields calls take with each value of a field of bytes, in a message of protobuf, and returns
// the fields that take left.
func cutFields(b []byte, take func(number protowire.Number, value []byte) (taken bool, err error)) (others []byte, err error) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		size := protowire.ConsumeFieldValue(number, kind, b[n:])
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		taken := false
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b[n:])
			if taken, err = take(number, slices.Clip(value)); err != nil {
				return nil, err
			}
		}
		if !taken {
			others = append(others, b[:n+size]...)
		}
		b = b[n+size:]
	}
	return others, nil
}

// transfer sends a content, and reports how that went. It ends with the leadership: members drop
// the content of a former leader, and take that of the next one when no other comes in.
func (t *Transport) transfer(m consensus.Message, header []byte) {
	to := m.Raft.GetTo()
	ctx, stop := context.WithCancel(t.ctx)
	defer stop()
	defer context.AfterFunc(t.member.follows.Load().over, stop)()
	err := t.contents.wait(ctx, to, t.clock)
	began := t.clock()
	if err == nil {
		err = t.links.Transfer(ctx, to, header, m.Content)
	}
	err = errors.Join(err, m.Content.Close())
	t.contents.note(err)
	if err != nil {
		t.logger.Warn("the content of the cluster could not be sent to a node", "node", nodeName(to), "error", err)
	} else {
		t.logger.Info("the content of the cluster was sent to a node", "node", nodeName(to), "took", t.clock().Sub(began).Round(time.Millisecond).String())
	}
	t.member.Runner().ReportSnapshot(to, err == nil)
}

// Receive implements link.Handler. The links name the node whose message is malformed in the log.
func (t *Transport) Receive(from uint64, messages [][]byte, refuse func(error)) error {
	r := t.member.Runner()
	if r == nil {
		return nil // it has not started
	}
	decoded := make([]consensus.Message, 0, len(messages))
	for _, b := range messages {
		m, err := decodeMessage(from, b)
		if err != nil {
			return fmt.Errorf("a message of another node cannot be read: %w", err)
		}
		decoded = append(decoded, m)
	}
	r.Receive(decoded, refuse)
	return nil
}

// Answer implements link.Handler.
func (t *Transport) Answer(ctx context.Context, from uint64, request []byte) ([]byte, error) {
	node := t.node.Load()
	if node == nil {
		return nil, journal.ErrNotLeader
	}
	return node.Answer(ctx, from, t.isMember(from), request)
}

// errBusy means that another content is coming in.
var errBusy = errors.New("another content is being received")

// Take implements link.Handler. It returns when the content is installed, or of no use.
func (t *Transport) Take(ctx context.Context, from uint64, header []byte, content io.Reader) error {
	r := t.member.Runner()
	if r == nil {
		return journal.ErrNotLeader
	}
	select {
	case t.taking <- struct{}{}:
		defer func() { <-t.taking }()
	default:
		return errBusy
	}
	m, err := decodeMessage(from, header)
	if err == nil && m.Raft.GetType() != raftpb.MsgSnap {
		err = errors.New("its header announces none")
	}
	began := t.clock()
	if err == nil {
		m.Content, err = t.member.Receive(content)
	}
	if err != nil {
		t.logger.Error("the content of another node cannot be taken", "node", nodeName(from), "error", err)
		return err
	}
	closed, refused := make(chan struct{}), make(chan error, 1)
	m.Closed = func() { close(closed) }
	r.Receive([]consensus.Message{m}, func(err error) { refused <- err })
	select {
	case <-closed: // also if it was refused
	case <-ctx.Done():
		return ctx.Err()
	case <-t.ctx.Done():
		return t.ctx.Err()
	}
	select {
	case err := <-refused:
		t.logger.Error("the content of another node cannot be taken", "node", nodeName(from), "error", err)
		return err
	default:
		t.contents.received.Add(1)
		t.logger.Info("the content of another node was taken", "node", nodeName(from), "took", t.clock().Sub(began).Round(time.Millisecond).String())
		return nil
	}
}
