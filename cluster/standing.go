package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"parley/cluster/consensus"
	"parley/cluster/raftlog"
	"parley/journal"
	"parley/persistence"
)

// The reasons why a node must not take part in its cluster.
var (
	ErrOlderCopy = consensus.ErrOlderCopy
	ErrDiverged  = consensus.ErrDiverged
)

const (
	// exchangeTimeout bounds one exchange of claims, exchangeEvery is how often a node that runs
	// has one.
	exchangeTimeout, exchangeEvery = time.Second, 500 * time.Millisecond
	// othersGrace is how long a node that starts waits for further members once a majority has
	// answered: each of them may know that the node lacks something.
	othersGrace = time.Second
	// introduction is how long a node waits that is, as far as it knows, the only voter. If it is
	// an older copy, members that it does not know reach it within this time.
	introduction = 1500 * time.Millisecond
)

// standings is what a node that has not started yet knows of itself and of the others. Then its
// loop knows.
type standings struct {
	log *raftlog.Log
	// roster is that of the newest change in the log, which ended at last.
	roster *roster
	last   uint64
	// unfit takes the reason why this node must not start.
	unfit chan error
}

// Open has the group answer other members from the log, until the member has started. Self
// describes this node.
func (g *Group) Open(log *raftlog.Log, replica *persistence.Replica, self Description) error {
	at, err := appliedAt(replica.Applied())
	if err != nil {
		return err
	}
	last, err := log.LastIndex()
	if err != nil {
		return err
	}
	if at.Index == 0 && last > 0 { // the first member, before its first flush, has begun alone
		at = consensus.Applied{
			Index: 1, Term: 1, Conf: &raftpb.ConfState{Voters: []uint64{g.id}}, Described: map[uint64]string{g.id: self.Encode()},
		}
	}
	s := &standings{log: log, last: last, unfit: make(chan error, 1)}
	conf, described, err := consensus.NewestMembers(log, at, keptDescriptions)
	if err != nil {
		return err
	}
	s.roster = newRoster(conf, described)
	g.standings.Store(s)
	if g.Met != nil && len(s.roster.table) > 0 {
		g.Met(s.roster.table, last)
	}
	return nil
}

// Newest are the members as of the newest change in the node's log. Those of its replica are as
// old as its last flush, and may all be gone.
func (g *Group) Newest() Table {
	return g.roster(g.standings.Load()).table
}

// roster is the newest that this node knows. That of its state begins as old as its last flush. It
// does not wait for a batch that is being applied, because the loop calls it.
func (g *Group) roster(s *standings) *roster {
	if now := g.member.roster.Load(); now != nil && g.member.replica.Visible() >= s.last {
		return now
	}
	return s.roster
}

// look calls f with what this node knows of the members, and says whether the node has started.
func (g *Group) look(ctx context.Context, f func(consensus.Known, *raftpb.ConfState, raft.Storage)) (started bool, err error) {
	s := g.standings.Load()
	if s == nil {
		return false, journal.ErrNotLeader
	}
	runner := g.member.Runner()
	if started = runner != nil; started {
		err = runner.Do(ctx, func(c *consensus.Core) error {
			f(c.Known(), c.Status().Applied.Conf, s.log)
			return nil
		})
		if !errors.Is(err, consensus.ErrStopped) { // after that, the log knows
			return started, err
		}
	}
	known, err := memberLog{s.log}.Known()
	if err == nil {
		f(known, g.roster(s).conf, s.log)
	}
	return started, err
}

// claim is what this node says to another one.
func (g *Group) claim(ctx context.Context, other uint64, diverged bool) (r askAcknowledged, err error) {
	_, err = g.look(ctx, func(k consensus.Known, conf *raftpb.ConfState, log raft.Storage) {
		c := k.ClaimOf(log, conf, g.id, other, 0)
		r = askAcknowledged{
			ID: g.id, Index: c.Newest.Index, Term: c.Newest.Term, Sum: c.Newest.Sum,
			YourIndex: c.You.Index, YourTerm: c.You.Term, YourSum: c.You.Sum,
			YouDiverged: c.You.Diverged, Diverged: diverged, Member: c.Member, Members: g.membersFor(c),
		}
	})
	return r, err
}

// answerClaim answers the claim of another node, and judges it. A node that takes part in its
// cluster is not stopped by a claim: the majority that it belongs to goes on, and the other one
// has to judge itself. But the claim of a node that this one does not know may come from a cluster
// that has grown since an older copy of this directory was made.
func (g *Group) answerClaim(ctx context.Context, r askAcknowledged, member bool) (a acknowledgedUpTo, err error) {
	var unfit error
	if s := g.standings.Load(); s != nil && len(g.roster(s).table) > 0 { // what the log says goes before the state
		_, member = g.roster(s).table[r.ID]
	}
	started, err := g.look(ctx, func(k consensus.Known, conf *raftpb.ConfState, log raft.Storage) {
		c := k.ClaimOf(log, conf, g.id, r.ID, r.Index)
		a = acknowledgedUpTo{
			Index: c.You.Index, Term: c.You.Term, Sum: c.You.Sum, YouDiverged: c.You.Diverged,
			Newest: c.Newest.Index, NewestTerm: c.Newest.Term, NewestSum: c.Newest.Sum,
			Yours: c.Yours.Term, YoursSum: c.Yours.Sum, Member: c.Member, Members: g.membersFor(c),
		}
		if member {
			g.meet(k, r.Member, r.Index, r.Members)
			unfit = consensus.Judge(log, k.Of(g.id), r.claim())
		} else if unfit = g.judgeNonMember(k, log, r); unfit != nil {
			unfit = fmt.Errorf("%w, as node %s knows, which this node does not know", unfit, nodeName(r.ID))
		}
	})
	if err != nil {
		return a, err
	}
	switch {
	case r.Diverged && started && member:
		err = g.member.Runner().Do(ctx, func(c *consensus.Core) error {
			c.Note(consensus.Standing{ID: r.ID, Diverged: true})
			return nil
		})
	case r.Diverged:
	case unfit != nil && !started:
		select {
		case g.standings.Load().unfit <- unfit:
		default:
		}
	case unfit != nil && !member:
		g.member.fatal(unfit)
	}
	return a, err
}

// judgeNonMember returns why this node must not take part according to a node that is no member, as
// far as this one knows. Most of them were removed, and may have diverged before. A node that is
// alone compares entries with one that it does not know as a former member. A node that knows other
// members hears only, before it has started, that it lacks entries.
func (g *Group) judgeNonMember(k consensus.Known, log raft.Storage, r askAcknowledged) error {
	now, said := g.roster(g.standings.Load()), r.claim()
	if now.former(r.ID) {
		return nil
	}
	said.You.Diverged = false // without an entry to compare
	if now.alone(g.id) {
		return consensus.Judge(log, k.Of(g.id), said)
	}
	if g.member.Runner() != nil {
		return nil
	}
	return consensus.Lacks(log, said.You)
}

// membersBytesMax bounds the members in a claim.
const membersBytesMax = claimBytesMax / 2

// membersFor lists the members for another node, if it is one.
func (g *Group) membersFor(c consensus.Claim) (all []metMember) {
	if !c.Member {
		return nil
	}
	size := 0
	for id, d := range g.roster(g.standings.Load()).table {
		if size += len(d.Name) + len(d.Address) + 16; size <= membersBytesMax {
			all = append(all, metMember{id, d.Name, d.Address})
		}
	}
	return all
}

// meet takes note of what another member says of the members as of an index that this node does
// not have. Its leader may be one that joined while this node was down: it does not know that one.
func (g *Group) meet(k consensus.Known, member bool, upTo uint64, all []metMember) {
	if g.Met == nil || !member || len(all) == 0 || upTo <= k.Of(g.id).Index {
		return
	}
	table := Table{}
	for _, m := range all {
		if d := (Description{Name: m.Name, Address: m.Address}); d.Check() == nil {
			table[m.ID] = d
		}
	}
	g.Met(table, upTo)
}

// claim is what the sender says about both nodes.
func (r askAcknowledged) claim() consensus.Claim {
	return consensus.Claim{
		You:    consensus.Standing{Place: placeOf(r.YourIndex, r.YourTerm, r.YourSum), Diverged: r.YouDiverged},
		Newest: placeOf(r.Index, r.Term, r.Sum), Member: r.Member,
	}
}

// claim is the answer to a node whose newest entry has an index.
func (a acknowledgedUpTo) claim(newest uint64) consensus.Claim {
	return consensus.Claim{
		You:    consensus.Standing{Place: placeOf(a.Index, a.Term, a.Sum), Diverged: a.YouDiverged},
		Newest: placeOf(a.Newest, a.NewestTerm, a.NewestSum), Yours: placeOf(newest, a.Yours, a.YoursSum), Member: a.Member,
	}
}

func placeOf(index, term uint64, sum uint32) consensus.Place {
	return consensus.Place{Position: consensus.Position{Index: index, Term: term}, Sum: sum}
}

// exchange tells another member what this node knows, and returns why this one must not take part,
// as far as the answer shows. answered says that there was one.
func (n *Node) exchange(ctx context.Context, other uint64, to Peer, diverged bool) (unfit error, answered bool) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	said, err := n.Group.claim(ctx, other, diverged)
	if err != nil {
		return nil, false
	}
	reply, err := n.call(ctx, to, said)
	a, ok := reply.(acknowledgedUpTo)
	if err != nil || !ok {
		return nil, false
	}
	_, err = n.Group.look(ctx, func(k consensus.Known, _ *raftpb.ConfState, log raft.Storage) {
		n.Group.meet(k, a.Member, a.Newest, a.Members)
		unfit = consensus.Judge(log, k.Of(n.Group.id), a.claim(said.Index))
	})
	return unfit, err == nil
}

// CheckStart asks the other members whether this node may take part. It returns when so many have
// answered that they and this node are a majority, and the others had time to; or with
// ErrOlderCopy or ErrDiverged. Nobody else may count on this node before.
func (n *Node) CheckStart(ctx context.Context, peer func(uint64) Peer) error {
	s := n.Group.standings.Load()
	ctx, stop := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer stop(nil)
	answers := make(chan uint64, len(s.roster.table))
	for id := range s.roster.table {
		if id == n.Group.id {
			continue
		}
		asking.Go(func() {
			for pause := retryFirst; ctx.Err() == nil; pause = min(2*pause, retryMax) {
				unfit, answered := n.exchange(ctx, id, peer(id), false)
				switch {
				case unfit != nil:
					stop(unfit)
				case answered:
					answers <- id
					return
				}
				select {
				case <-time.After(pause):
				case <-ctx.Done():
				}
			}
		})
	}
	heard := []uint64{n.Group.id}
	var enough <-chan time.Time
	conf := s.roster.conf
	if s.roster.alone(n.Group.id) {
		enough = time.After(introduction)
	}
	for {
		select {
		case id := <-answers:
			if heard = append(heard, id); len(heard) == len(s.roster.table) {
				return nil
			}
			if enough == nil && majority(conf.GetVoters(), heard) && majority(conf.GetVotersOutgoing(), heard) {
				enough = time.After(othersGrace)
			}
		case unfit := <-s.unfit:
			return unfit
		case <-enough:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// majority reports whether more than half of the voters, if there are any, are among some nodes.
func majority(voters, among []uint64) bool {
	count := 0
	for _, id := range voters {
		if slices.Contains(among, id) {
			count++
		}
	}
	return len(voters) == 0 || count > len(voters)/2
}

// KeepComparing exchanges claims with other members until ctx is done: a follower with its leader,
// a leader with members that do not follow, and a node without a leader with all. A follower that
// must not go on, according to two exchanges in a row, ends: a single answer may be malformed.
func (n *Node) KeepComparing(ctx context.Context, peer func(uint64) Peer) {
	tick := time.NewTicker(exchangeEvery)
	defer tick.Stop()
	var suspect atomic.Uint64 // the leader that was right about this node at the last exchange
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s, err := n.Group.Status(ctx)
		if err != nil {
			continue
		}
		var asking sync.WaitGroup
		for id := range n.Group.Table() {
			follows := s.Leader != 0 && s.Leader != n.Group.id
			if id == n.Group.id || follows && id != s.Leader || s.Active(id) {
				continue
			}
			asking.Go(func() {
				unfit, answered := n.exchange(ctx, id, peer(id), false)
				switch {
				case !follows || !answered:
				case unfit == nil:
					suspect.Store(0)
				case suspect.Swap(id) == id:
					n.Group.member.fatal(unfit)
				}
			})
		}
		asking.Wait()
	}
}

// TellDiverged tells all members that this node has diverged, so that they show it until it is
// replaced, and returns the newest entry that it has in common with one of them; 0 if none says.
func (n *Node) TellDiverged(ctx context.Context, members Table, peer func(uint64) Peer) (common uint64) {
	var telling sync.WaitGroup
	found := make(chan uint64, len(members))
	for id := range members {
		if id == n.Group.id {
			continue
		}
		telling.Go(func() {
			if _, answered := n.exchange(ctx, id, peer(id), true); answered {
				found <- n.common(ctx, peer(id))
			}
		})
	}
	telling.Wait()
	close(found)
	for index := range found {
		common = max(common, index)
	}
	return common
}

// common returns the newest entry that this node and another one have in common, 0 if the log does
// not go back that far.
func (n *Node) common(ctx context.Context, peer Peer) uint64 {
	log := n.Group.standings.Load().log
	same, err := log.FirstIndex()
	last, failed := log.LastIndex()
	if errors.Join(err, failed) != nil {
		return 0
	}
	same--
	for differs := last + 1; differs-same > 1; {
		between := same + (differs-same)/2
		reply, err := n.call(ctx, peer, askAcknowledged{ID: n.Group.id, Index: between, Diverged: true})
		a, ok := reply.(acknowledgedUpTo)
		if err != nil || !ok {
			return 0
		}
		if consensus.Same(log, placeOf(between, a.Yours, a.YoursSum)) {
			same = between
		} else {
			differs = between
		}
	}
	return same
}
