package cluster

import (
	"bytes"
	"math/rand/v2"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"parley/client/parley"
	"parley/cluster/consensus"
	"parley/journal"
)

// mutateNumber returns what takes the place of a number.
func mutateNumber(rng *rand.Rand, now uint64) *uint64 {
	switch rng.IntN(8) {
	case 0:
		return nil
	case 1:
		return new(rng.Uint64() >> rng.IntN(64))
	case 2:
		return new(^uint64(0) - rng.Uint64N(3))
	case 3:
		return new(uint64(1)<<rng.IntN(64) - rng.Uint64N(2))
	}
	return new(now + rng.Uint64N(7) - 3)
}

// mutateMessage changes fields of a message.
func mutateMessage(rng *rand.Rand, b []byte, from uint64) []byte {
	m, err := decodeMessage(from, b)
	if err != nil {
		return b
	}
	of := m.Raft
	for range 1 + rng.IntN(2) {
		entries := of.Entries
		switch rng.IntN(14) {
		case 0:
			of.Type = raftpb.MessageType(rng.IntN(26) - 2).Enum()
		case 1:
			of.Term = mutateNumber(rng, of.GetTerm())
		case 2:
			of.LogTerm = mutateNumber(rng, of.GetLogTerm())
		case 3:
			of.Index = mutateNumber(rng, of.GetIndex())
		case 4:
			of.Commit = mutateNumber(rng, of.GetCommit())
		case 5:
			of.Reject, of.RejectHint = new(!of.GetReject()), mutateNumber(rng, of.GetIndex())
		case 6:
			of.Context = make([]byte, rng.IntN(20))
			_, _ = rand.NewChaCha8([32]byte{byte(rng.Uint64())}).Read(of.Context)
		case 7:
			m.Floor = *cmpOr(mutateNumber(rng, m.Floor), new(uint64(0)))
		case 8:
			m.Known = append(m.Known[:len(m.Known):len(m.Known)], consensus.Standing{ID: 4, Place: placeOf(rng.Uint64()>>rng.IntN(64), 1, 1)})
		case 9:
			of.Snapshot = &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: of.Index, Term: of.Term}}
		case 10:
			of.Entries = append(entries[:len(entries):len(entries)], &raftpb.Entry{Index: new(of.GetIndex() + uint64(len(entries)) + 1), Term: of.Term, Type: raftpb.EntryType(rng.IntN(4)).Enum()})
		default:
			mutateEntries(rng, of)
		}
	}
	if b, err = encodeMessage(m); err != nil {
		return nil
	}
	return b
}

func cmpOr(a, b *uint64) *uint64 {
	if a != nil {
		return a
	}
	return b
}

func mutateEntries(rng *rand.Rand, of *raftpb.Message) {
	if len(of.Entries) == 0 {
		return
	}
	i := rng.IntN(len(of.Entries))
	e := proto.CloneOf(of.Entries[i])
	of.Entries[i] = e
	switch rng.IntN(6) {
	case 0:
		e.Term = mutateNumber(rng, e.GetTerm())
	case 1:
		e.Index = mutateNumber(rng, e.GetIndex())
	case 2:
		e.Type = raftpb.EntryType(rng.IntN(5) - 1).Enum()
	case 3:
		e.Data = mutateBytes(rng, e.Data)
	case 4:
		of.Entries = append(of.Entries[:i:i], of.Entries[i+1:]...)
	case 5: // a proposal in the place of another one
		other := of.Entries[rng.IntN(len(of.Entries))]
		e.Data, e.Term = other.Data, other.Term
	}
}

// mutateBytes changes bytes without a look at what they mean.
func mutateBytes(rng *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + rng.IntN(3) {
		if len(b) == 0 {
			return append(b, byte(rng.Uint64()), byte(rng.Uint64()))
		}
		i := rng.IntN(len(b))
		switch rng.IntN(7) {
		case 0:
			b[i] ^= 1 << rng.IntN(8)
		case 1:
			b[i] = byte(rng.Uint64())
		case 2:
			b = b[:i]
		case 3:
			b = b[i:]
		case 4:
			b = append(b[:i:i], b[min(i+1+rng.IntN(8), len(b)):]...)
		case 5:
			b = append(b[:i:i], append(bytes.Clone(b[rng.IntN(i+1):i]), b[i:]...)...)
		case 6:
			b = append(b[:i:i], append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}[rng.IntN(9):], b[i:]...)...)
		}
	}
	return b
}

// randomRequest is a request that can be decoded, with values that no member sends.
func randomRequest(rng *rand.Rand) any {
	number := func() uint64 { return rng.Uint64() >> rng.IntN(64) }
	octets := func() []byte {
		b := make([]byte, rng.IntN(40))
		for i := range b {
			b[i] = byte(rng.Uint64() >> rng.IntN(64))
		}
		return b
	}
	id := func() (id parley.AnyID) {
		copy(id[:], bytes.Repeat([]byte{byte(-rng.IntN(2))}, len(id)))
		copy(id[:], octets())
		return id
	}
	row := func() journal.Row {
		return journal.Row{
			Slot: parley.Slot(rng.IntN(2 * parley.Slots)), Table: journal.Table(rng.IntN(256)), Key: octets(), Value: octets(),
			Delete: rng.IntN(2) == 0, Beneath: rng.IntN(4) == 0, Owners: journal.Owners{},
		}
	}
	stream := func() journal.Stream { return journal.Stream{Kind: journal.StreamKind(rng.IntN(256)), ID: id()} }
	effect := func() journal.Effect {
		switch rng.IntN(8) {
		case 0:
			return journal.AppendFeed{To: parley.AgentID(id()), Kind: journal.FeedKind(rng.IntN(256)), Ref: id(), Note: octets(), Begins: rng.IntN(2) == 0}
		case 1:
			f := journal.Fanout{Kind: journal.FeedKind(rng.IntN(256)), Ref: id(), Note: octets()}
			for range rng.IntN(4) {
				f.To = append(f.To, parley.Seat{Agent: parley.AgentID(id()), Number: uint32(number())})
			}
			return f
		case 2:
			return journal.RecordReceipt{Recipient: parley.AgentID(id()), Message: parley.MessageID(id()), Position: number(), Copy: rng.IntN(2) == 0}
		case 3:
			return journal.EnqueueFor{To: stream(), Data: octets()}
		case 4:
			return journal.PutRow{Row: row()}
		case 5:
			return journal.AddToList{Agent: parley.AgentID(id()), Conversation: parley.ConversationID(id())}
		case 6:
			return journal.DropFeed{Of: parley.AgentID(id()), Messages: []journal.DroppedMessage{{Position: number(), Kind: journal.FeedKind(rng.IntN(256)), Ref: id()}}}
		default:
			return journal.CreateStream{Stream: stream(), Fresh: rng.IntN(2) == 0, Events: []journal.StoredEvent{{Tag: byte(number()), Data: octets()}}, State: octets()}
		}
	}
	switch rng.IntN(8) {
	case 0:
		return askAcknowledged{Index: number(), Term: number(), YourIndex: number(), YourTerm: number(), Sum: uint32(number()), Member: true}
	case 1:
		return ask{Stream: stream(), Size: int(number()) * (1 - 2*rng.IntN(2)), Content: askState{}}
	case 2:
		return hand{To: uint64(rng.IntN(5))}
	}
	r := appendEntry{Slot: parley.Slot(rng.IntN(2 * parley.Slots)), Gather: rng.IntN(2) == 0}
	for range rng.IntN(3) {
		r.Effects = append(r.Effects, effect())
	}
	if rng.IntN(4) == 0 {
		r.Rows = append(r.Rows, row())
	}
	if rng.IntN(4) == 0 {
		r.Records = append(r.Records, journal.Record{ID: parley.MessageID(id()), Data: octets(), Clear: int(number()) * (1 - 2*rng.IntN(2)), Stored: octets()})
	}
	if rng.IntN(4) == 0 {
		r.Counts = append(r.Counts, journal.Count{Org: parley.OrgID(id()), Day: uint32(number()), N: int64(number())})
	}
	return r
}
