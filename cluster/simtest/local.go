package simtest

import (
	"errors"
	"io"
	"sync"

	"google.golang.org/protobuf/proto"

	"parley/cluster/consensus"
)

// LocalNetwork connects runners in one process. Messages are copied, as a real link
// would do: raft shares entries between messages and its log.
type LocalNetwork struct {
	// Lost, if not nil, decides whether a message is lost.
	Lost func(from, to uint64) bool
	// Refused, if not nil, is called for each message that its receiver refuses.
	Refused func(from uint64, err error)

	mu    sync.Mutex
	nodes map[uint64]local
}

type local struct {
	*consensus.Runner
	state consensus.State
}

// Join makes a runner reachable, in the place of a former one with its id. What was
// being transferred to that one is lost.
func (n *LocalNetwork) Join(id uint64, r *consensus.Runner, state consensus.State) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nodes == nil {
		n.nodes = map[uint64]local{}
	}
	n.nodes[id] = local{r, state}
	for _, other := range n.nodes {
		other.ReportSnapshot(id, false)
	}
}

// reach returns the node that a message from another one reaches.
func (n *LocalNetwork) reach(from, to uint64) (local, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.Lost != nil && n.Lost(from, to) {
		return local{}, false
	}
	node, ok := n.nodes[to]
	return node, ok
}

// Links returns the links of a node.
func (n *LocalNetwork) Links(id uint64) consensus.Links { return localLinks{n, id} }

type localLinks struct {
	*LocalNetwork
	from uint64
}

// Send implements consensus.Links.
func (l localLinks) Send(messages []consensus.Message) {
	for _, m := range messages {
		to, ok := l.reach(l.from, m.Raft.GetTo())
		content := m.Content
		m.Raft, m.Content = proto.CloneOf(m.Raft), nil
		switch {
		case content != nil:
			go l.transfer(to, ok, m, content)
		case ok:
			to.Receive([]consensus.Message{m}, l.refused)
		}
	}
}

// refused is called for a message that is malformed. A correct node sends none.
func (l localLinks) refused(err error) {
	if l.Refused != nil {
		l.Refused(l.from, err)
	}
}

// transfer passes a content on and reports how that went.
func (l localLinks) transfer(to local, ok bool, m consensus.Message, content consensus.Snapshot) {
	report := func(ok bool) {
		if from, here := l.reach(l.from, l.from); here {
			from.ReportSnapshot(m.Raft.GetTo(), ok)
		}
	}
	reader, writer := io.Pipe()
	go func() {
		_, err := content.WriteTo(writer)
		writer.CloseWithError(errors.Join(err, content.Close()))
	}()
	if ok {
		var err error
		m.Content, err = to.state.Receive(reader)
		ok = err == nil
	}
	reader.Close() // ends the writer, if nobody has read all
	if !ok {
		report(false)
		return
	}
	m.Closed = func() { report(true) }
	to.Receive([]consensus.Message{m}, l.refused)
}
