package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// ErrMalformed means that another member sent a message which no correct member sends. Nothing of
// it was taken over.
var ErrMalformed = errors.New("consensus: malformed message")

const (
	// termMax bounds terms. A store numbers activations by its term, which leaves 24 bits for it.
	termMax = 1 << 23
	// termAhead bounds how much a message raises the term, so that a single one cannot use up
	// termMax. It is more elections than there are in years; a node that was away for more has to
	// be replaced.
	termAhead = 1 << 16
	// indexMax bounds indexes, so that sums of them do not overflow.
	indexMax = 1 << 60
	// contextBytesMax bounds the context of a fence. The nodes use 16 bytes.
	contextBytesMax = 256
)

// receiver is what a node knows that receives a message.
type receiver struct {
	id, term uint64
	// asked is the newest round of reads that it sent as a leader of its term, 0 if there is none.
	asked uint64
	leads bool
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

// check returns what is wrong with a message of another member. It must find everything that raft
// and this package take for granted: raft panics over it, or this node could not apply it. A
// message that is merely old, doubled or out of order passes.
func (r receiver) check(m Message) error {
	of := m.Raft
	switch {
	case of == nil:
		return malformed("it has no message of raft")
	case of.GetTo() != r.id:
		return malformed("it is for node %016x", of.GetTo())
	case of.GetFrom() == raft.None || of.GetFrom() == r.id || raft.IsLocalMsgTarget(of.GetFrom()):
		return malformed("node %016x cannot have sent it", of.GetFrom())
	}
	if err := r.checkNumbers(m); err != nil {
		return err
	}
	if err := checkExtras(m); err != nil {
		return err
	}
	switch of.GetType() {
	case raftpb.MsgApp:
		return checkAppend(of)
	case raftpb.MsgHeartbeat:
		return checkRound(of.GetContext())
	case raftpb.MsgHeartbeatResp:
		if err := checkRound(of.GetContext()); err != nil {
			return err
		}
		if round := of.GetContext(); r.leads && of.GetTerm() == r.term && len(round) > 0 && binary.LittleEndian.Uint64(round) > r.asked {
			return malformed("it confirms round %d of reads, and %d were begun", binary.LittleEndian.Uint64(round), r.asked)
		}
	case raftpb.MsgSnap:
		return m.checkContent()
	case raftpb.MsgReadIndex, raftpb.MsgReadIndexResp:
		if n := len(of.GetEntries()); n != 1 || of.GetEntries()[0] == nil || len(of.GetEntries()[0].GetData()) > contextBytesMax {
			return malformed("a fence has %d entries", n)
		}
	case raftpb.MsgAppResp, raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp, raftpb.MsgTimeoutNow:
	default: // proposals and changes of leadership are never forwarded, the others are local
		return malformed("members do not send type %d", of.GetType())
	}
	return nil
}

// checkNumbers checks that no number can overflow, and that a message has a term unless it asks
// for a fence: raft takes one without a term for its own.
func (r receiver) checkNumbers(m Message) error {
	term, asks := m.Raft.GetTerm(), m.Raft.GetType() == raftpb.MsgReadIndex
	switch {
	case asks != (term == 0):
		return malformed("type %d with term %d", m.Raft.GetType(), term)
	case term > termMax || r.term > 0 && term > r.term+termAhead:
		return malformed("its term is %d, that of this node %d", term, r.term)
	case m.Raft.GetLogTerm() > termMax:
		return malformed("the term of its entry is %d", m.Raft.GetLogTerm())
	case max(m.Floor, m.Raft.GetIndex(), m.Raft.GetCommit(), m.Raft.GetRejectHint()) > indexMax:
		return malformed("an index is beyond all logs")
	}
	for _, s := range m.Known {
		if s.Index > indexMax || s.Term > termMax {
			return malformed("the standing of node %016x is entry %d of term %d", s.ID, s.Index, s.Term)
		}
	}
	return nil
}

// checkExtras checks that only messages have a floor, standings and entries that may.
func checkExtras(m Message) error {
	kind := m.Raft.GetType()
	switch {
	case m.Floor != 0 && kind != raftpb.MsgHeartbeat:
		return malformed("type %d with a floor", kind)
	case len(m.Known) > 0 && kind != raftpb.MsgHeartbeat && kind != raftpb.MsgApp:
		return malformed("type %d with standings of members", kind)
	case len(m.Raft.GetEntries()) > 0 && kind != raftpb.MsgApp && kind != raftpb.MsgReadIndex && kind != raftpb.MsgReadIndexResp:
		return malformed("type %d with entries", kind)
	case (m.Content != nil) != (kind == raftpb.MsgSnap):
		return malformed("type %d with a content, or an announced one without", kind)
	}
	return nil
}

// checkRound checks the context of a heartbeat, which raft reads as a number.
func checkRound(context []byte) error {
	if n := len(context); n != 0 && n != 8 {
		return malformed("the context of a heartbeat has %d bytes", n)
	}
	return nil
}

// checkAppend checks that entries follow each other and can be applied. Raft relies on the first,
// and an entry that cannot be applied would end each node.
func checkAppend(m *raftpb.Message) error {
	index, term := m.GetIndex(), m.GetLogTerm()
	if term > m.GetTerm() {
		return malformed("entry %d is of term %d, the message of term %d", index, term, m.GetTerm())
	}
	var ordinal, of uint64 // of the newest proposal that the message has
	for _, e := range m.GetEntries() {
		switch {
		case e.GetIndex() != index+1:
			return malformed("entry %d follows entry %d", e.GetIndex(), index)
		case e.GetTerm() < term || e.GetTerm() == 0 || e.GetTerm() > m.GetTerm():
			return malformed("entry %d of term %d follows one of term %d, in a message of term %d", e.GetIndex(), e.GetTerm(), term, m.GetTerm())
		}
		index, term = e.GetIndex(), e.GetTerm()
		proposed, err := checkEntry(e)
		switch {
		case err != nil:
			return malformed("%w", err)
		case proposed == 0:
		case of == term && proposed != ordinal+1:
			return malformed("entry %d is proposal %d of its term, after proposal %d", index, proposed, ordinal)
		default:
			ordinal, of = proposed, term
		}
	}
	return nil
}

// checkEntry checks that an entry can be applied, as far as it tells by itself, and returns its
// number in its term if it is a proposal.
func checkEntry(e *raftpb.Entry) (ordinal uint64, err error) {
	switch e.GetType() {
	case raftpb.EntryNormal:
		if len(e.GetData()) == 0 {
			return 0, nil
		}
		_, trailer, err := cutTrailer(e)
		if err != nil {
			return 0, err
		}
		term, ordinal := binary.BigEndian.Uint64(trailer[1:]), binary.BigEndian.Uint64(trailer[9:])
		if term != e.GetTerm() || ordinal == 0 || ordinal == math.MaxUint64 {
			return 0, complain(e, fmt.Sprintf("it was made as proposal %d of term %d", ordinal, term))
		}
		return ordinal, nil
	case raftpb.EntryConfChange, raftpb.EntryConfChangeV2:
		_, err := changeOf(e)
		return 0, err
	}
	return 0, complain(e, fmt.Sprintf("it is of type %d", e.GetType()))
}

// checkContent checks that a snapshot announces the content that goes with it, with members that
// raft can restore.
func (m *Message) checkContent() error {
	if !m.announcesContent() {
		return malformed("it announces another content than it brings")
	}
	conf := raftpb.EnsureConfState(m.Raft.GetSnapshot().GetMetadata().GetConfState())
	if err := conf.Equivalent(raftpb.EnsureConfState(m.Content.Applied().Conf)); err != nil {
		return malformed("it announces other members than its content has: %w", err)
	}
	now, err := membersOf(conf, m.Content.Applied().Index)
	if err != nil {
		return malformed("the members of its content: %w", err)
	}
	if err := conf.Equivalent(now.ConfState()); err != nil {
		return malformed("the members of its content: %w", err)
	}
	return nil
}
