package cluster

import (
	"errors"
	"slices"
	"time"

	"parley/actors/wire"
	"parley/client/parley"
	"parley/journal"
)

// Requests between nodes, and their answer.
type (
	// ask is a request to an actor.
	ask struct {
		Stream  journal.Stream
		Size    int
		Content any
		Payer   *parley.Payer
	}
	// appendEntry is an entry that no actor decided.
	appendEntry struct {
		Slot    parley.Slot
		Rows    []journal.Row
		Records []journal.Record
		Effects []journal.Effect
		Counts  []journal.Count
		Gather  bool
	}
	// settle waits until everything that was appended has been applied in every journal.
	settle struct{}
	// changeKey gives an organization a key, or destroys it at an instant.
	changeKey struct {
		Org     parley.OrgID
		Destroy bool
		At      time.Time
	}
	// addMember takes a node in, as a learner first.
	addMember struct {
		ID        uint64
		Described string
		// Token is the number of the join token: each admits one node.
		Token string
	}
	// removeMember takes a node out.
	removeMember struct{ ID uint64 }
	// drainNode has a node leave service, before it is taken out.
	drainNode struct{}
	// askState asks a node how it is. It answers a nodeState.
	askState struct{}
	// nodeState is how a node is: ready, unready, joining or draining.
	nodeState struct {
		State    string
		Settings []string
		// Now is what its wall clock shows.
		Now time.Time
		// Reason says why it is not ready, "" if it is.
		Reason string
		// Version is that of its program, Applied how far its content goes, FreeBytes what is
		// left on its disk.
		Version   string
		Applied   uint64
		FreeBytes int64
		// Level is that of what the node understands: one of the levels below.
		Level uint64
	}
	// askAcknowledged says what its sender knows of itself and of the receiver, and asks for the
	// same. It answers an acknowledgedUpTo.
	askAcknowledged struct {
		ID uint64
		// Index and Term are the newest committed entry that the sender holds durably; the
		// others are those of the receiver, as far as the sender knows.
		Index, Term, YourIndex, YourTerm uint64
		Sum, YourSum                     uint32
		// Diverged says that the sender has diverged, YouDiverged that the receiver has.
		Diverged, YouDiverged bool
		// Member says that the receiver is a member, as far as the sender knows. Members are
		// those as of Index, for a receiver that has less.
		Member  bool
		Members []metMember
	}
	// acknowledgedUpTo is what a node knows of another one and of itself.
	acknowledgedUpTo struct {
		// Index and Term are the newest committed entry that the one who asks holds durably, as
		// far as the other one knows.
		Index, Term uint64
		Sum         uint32
		YouDiverged bool
		// Newest, NewestTerm and NewestSum are those of the one that answers.
		Newest, NewestTerm uint64
		NewestSum          uint32
		// Yours is the term of its entry at the newest index of the one who asks, and YoursSum
		// the sum; 0 if it has none there that is known to be committed.
		Yours    uint64
		YoursSum uint32
		Member   bool
		// Members are those as of Newest, for one who asks and has less.
		Members []metMember
	}
	// metMember is a member that another node may not know yet.
	metMember struct {
		ID            uint64
		Name, Address string
	}
	// gossip carries what a node reports to the others. It may be lost.
	gossip struct{ Content []byte }
	// hand has the leader hand over to a member.
	hand struct{ To uint64 }
	// answer answers each of them.
	answer struct {
		Content any
		Failure error
		// Visible is the place of the order from which on a node shows what was done.
		Visible uint64
	}
)

// Levels of what the program of a node understands. What an older node would take for something else
// may be stored only when no node is below its level.
const (
	// LevelScopes: credentials may have another scope than org, and may expire.
	LevelScopes = 1
	// LevelNow is that of this program.
	LevelNow = LevelScopes
)

var errNoRequest = errors.New("cluster: a peer sent something that is no request")

// RegisterTypes registers the requests between nodes. The requests and replies of
// actors are registered before.
func RegisterTypes(t *wire.Types) {
	t.AddError("journal.ErrNotLeader", journal.ErrNotLeader)
	t.AddError("journal.ErrExists", journal.ErrExists)
	t.AddError("journal.ErrStale", journal.ErrStale)
	t.Add(
		journal.AppendFeed{}, journal.Fanout{}, journal.RecordReceipt{}, journal.EnqueueFor{}, journal.PutRow{},
		journal.AddToList{}, journal.DropFeed{}, journal.CreateStream{},
	)
	t.Add(ask{}, appendEntry{}, settle{}, answer{})
	t.Add(changeKey{}, addMember{}, removeMember{}, drainNode{}, askState{}, nodeState{}, hand{}, askAcknowledged{}, acknowledgedUpTo{}, gossip{})
	for _, e := range []error{ErrTokenUsed, ErrTooFew, ErrKeysFull} {
		t.AddError(e.Error(), e)
	}
}

// callOf is an entry as a request. Entries of actors cannot cross: only the node that leads
// has any.
func callOf(e *journal.Entry) (appendEntry, error) {
	if e.Here || !e.Stream.Zero() || len(e.Hosted) > 0 || len(e.Timers) > 0 || len(e.Handled) > 0 {
		return appendEntry{}, journal.ErrNotLeader
	}
	return appendEntry{e.Slot, e.Rows, e.Records, e.Effects, e.Counts, e.Gather}, nil
}

// repetition is what an entry does when it is appended twice: receipts change nothing then.
func (r appendEntry) repetition() repetition {
	if len(r.Rows)+len(r.Records)+len(r.Counts) > 0 {
		return changesOnce
	}
	for _, e := range r.Effects {
		if _, receipt := e.(journal.RecordReceipt); !receipt {
			return changesOnce
		}
	}
	return changesAgain
}

// valid reports whether a journal can take the entry.
func (r appendEntry) valid() bool {
	return r.Slot < parley.Slots && !slices.ContainsFunc(r.Effects, func(e journal.Effect) bool {
		row, is := e.(journal.PutRow)
		return e == nil || is && row.Slot >= parley.Slots
	})
}

// entry is the entry of a request, at an instant of this node's clock.
func (r appendEntry) entry(at time.Time, release func(error)) *journal.Entry {
	return &journal.Entry{
		Slot: r.Slot, Rows: r.Rows, Records: r.Records, Effects: r.Effects, Counts: r.Counts, At: at, Gather: r.Gather, Release: release,
	}
}
