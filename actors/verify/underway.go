package verify

import (
	"parley/actors/agent"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// underway records what effects in outboxes and messages in queues will change, arranged by
// the differences that they explain. Pairs are of an agent and something that concerns it.
type underway struct {
	// announced are messages that feeds will get.
	announced map[[32]byte]bool
	// statuses are changes that feeds will get, by participant and conversation, in
	// order.
	statuses map[[32]byte][]string
	// receiptsNear are receipts in outboxes to the recipient's home, receiptsFar those to
	// the conversation's home.
	receiptsNear, receiptsFar map[parley.MessageID]journal.Receipts
	// puts are rows that will be stored, by table and key; nil for a row that will be
	// deleted.
	puts map[string][]byte
	// fans are the seats for which copies of a broadcast are in an outbox.
	fans map[parley.MessageID][]parley.Seat
	// offers counts the messages that settle each offer of a group: the offer itself and
	// its answer.
	offers map[parley.GroupID]map[uint32]int
	// entered are memberships of which the groups are not notified yet.
	entered map[string]bool
	// departs are the highest offers whose seats agents are about to lose, by agent and
	// group.
	departs map[[32]byte]uint32
	// forgets are revoked agents of which a group is not notified yet, by agent and
	// group.
	forgets map[[32]byte]bool
	// concerns are requests of which agents are not notified yet; settled are those whose
	// end they do not know yet. The key is agent and request.
	concerns map[string]parley.GroupID
	settled  map[string]bool
}

func newUnderway() underway {
	return underway{
		announced: map[[32]byte]bool{}, statuses: map[[32]byte][]string{}, puts: map[string][]byte{},
		receiptsNear: map[parley.MessageID]journal.Receipts{}, receiptsFar: map[parley.MessageID]journal.Receipts{},
		fans:   map[parley.MessageID][]parley.Seat{},
		offers: map[parley.GroupID]map[uint32]int{}, entered: map[string]bool{}, departs: map[[32]byte]uint32{},
		forgets: map[[32]byte]bool{}, concerns: map[string]parley.GroupID{}, settled: map[string]bool{},
	}
}

func pair(a, b parley.AnyID) (k [32]byte) {
	copy(k[:], a[:])
	copy(k[16:], b[:])
	return k
}

// readUnderway reads every effect in an outbox and every message in a queue. Each is entered
// as the change that it will make, so that an effect without an event is found as well.
func (x *verifier) readUnderway() error {
	var streams []journal.CreateStream
	err := x.Underway(func(w journal.Effect) error {
		x.progress("effects underway")
		switch w := w.(type) {
		case journal.AppendFeed:
			x.appended(w)
		case journal.Fanout:
			x.fannedOut(w)
		case journal.RecordReceipt:
			to := x.receiptsNear
			if w.Recipient.Zero() {
				to = x.receiptsFar
			}
			to[w.Message] = to[w.Message].Earliest(w.Receipts)
		case journal.EnqueueFor:
			return x.queued(w.To, w.Data)
		case journal.PutRow:
			row := []byte(nil)
			if !w.Delete {
				row = append([]byte{}, w.Value...)
			}
			x.puts[string(byte(w.Table))+string(w.Key)] = row
		case journal.AddToList:
			x.find(conversationLists, w.Agent[:], w.Conversation[:])
		case journal.DropFeed: // of erased messages, which are not compared
		case journal.CreateStream:
			streams = append(streams, w)
		}
		return x.err
	})
	if err == nil {
		err = x.Queues(x.queued)
	}
	x.failed(err)
	for about, id := range x.concerns {
		if !x.settled[about] {
			x.find(concernRows, []byte(about), id[:])
		}
	}
	for _, w := range streams {
		x.createdStream(w)
	}
	return x.err
}

func (x *verifier) appended(w journal.AppendFeed) {
	k := pair(parley.AnyID(w.To), w.Ref)
	switch {
	case w.Kind.BringsMessage():
		if w.Begins {
			id := x.startedBy(w.Kind, w.Ref)
			x.find(conversationLists, w.To[:], id[:])
		}
		x.announced[k] = true
		x.find(feedEntries, w.To[:], w.Ref[:], w.Note)
	case w.Kind == journal.ReceiptEntry, w.Kind == journal.WebhookEntry, w.Kind == journal.CredentialEntry: // judged with what they are about
	case w.Kind == journal.GroupEntry:
		x.find(groupNews, w.To[:], w.Ref[:], record.MemberKind(w.Note))
	default:
		status, _ := record.StatusNews(w.Note)
		x.statuses[k] = append(x.statuses[k], status)
	}
}

// fannedOut records an effect for many agents as one effect for each.
func (x *verifier) fannedOut(w journal.Fanout) {
	broadcast, copies := parley.MessageID(w.Ref), w.Kind == journal.CopyEntry
	if copies {
		x.fans[broadcast] = append(x.fans[broadcast], w.To...)
	}
	for _, seat := range w.To {
		one := journal.AppendFeed{To: seat.Agent, Kind: w.Kind, Ref: w.Ref, Note: w.Note, Begins: w.Begins}
		if copies {
			one.Ref = parley.AnyID(parley.Copy(broadcast, seat.Number))
		}
		x.appended(one)
	}
}

// createdStream records a stream that an effect in an outbox will begin.
func (x *verifier) createdStream(w journal.CreateStream) {
	r := replayOf(x, w.Stream)
	for n, f := range w.Events {
		if err := r.play(uint64(n)+1, f); err != nil {
			x.fault(eventDecode, r.name(), "it is on its way and cannot be made: %v", err)
			return
		}
	}
	if s, ok := r.state.(*agent.State); ok {
		x.created[s.AgentID()] = &createdAgent{s, w.Events}
	}
	r.end()
}

// queued records a message in an actor's queue or in an outbox.
func (x *verifier) queued(to journal.Stream, word []byte) error {
	w, err := record.DecodeSagaMessage(to.Kind, word)
	if x.fails(queuedMessages, err != nil) {
		x.fault(queuedMessages, record.StreamName(to), "a message of %d bytes that cannot be decoded (%v): it will be put into quarantine", len(word), err)
		return x.err
	}
	id, about := parley.IDFromBytes[parley.GroupID](w.GetGroup()), string(to.ID[:])+string(w.GetRequest())
	switch k := w.GetKind(); {
	case to.Kind == journal.AgentStream && k == record.SagaMessage_offer:
		x.offered(id, w.GetNumber())
	case to.Kind == journal.AgentStream && k == record.SagaMessage_depart:
		at := pair(to.ID, parley.AnyID(id))
		x.departs[at] = max(x.departs[at], w.GetNumber())
	case to.Kind == journal.AgentStream && k == record.SagaMessage_concern:
		x.concerns[about] = id
	case to.Kind == journal.AgentStream && k == record.SagaMessage_settled:
		x.settled[about] = true
	case to.Kind == journal.GroupStream && k == record.SagaMessage_answer:
		x.offered(parley.GroupID(to.ID), w.GetNumber())
		if w.GetReason() == "" {
			who := parley.IDFromBytes[parley.AgentID](w.GetAgent())
			x.entered[string(membership(who, parley.GroupID(to.ID), w.GetNumber(), false))] = true
		}
	case to.Kind == journal.GroupStream && k == record.SagaMessage_forget:
		x.forgets[pair(parley.IDFromBytes[parley.AnyID](w.GetAgent()), to.ID)] = true
	case to.Kind == journal.KeyLogStream && k == record.SagaMessage_leaf:
		x.find(keyLogLeaves, w.GetCommitment())
	case to.Kind == journal.OrgStream && k == record.SagaMessage_ended:
		x.find(groupEndings, to.ID[:], id[:])
	case to.Kind == journal.OrgStream && k == record.SagaMessage_retired:
		x.find(retirements, to.ID[:], w.GetAgent())
	}
	return x.err
}

func (u *underway) offered(id parley.GroupID, number uint32) {
	if u.offers[id] == nil {
		u.offers[id] = map[uint32]int{}
	}
	u.offers[id][number]++
}

// leftOver reports messages about seats of groups that do not exist, and timers of such streams.
func (x *verifier) leftOver() {
	for id := range x.offers {
		x.fault(seatsUnderway, "group "+id.String(), "messages about its seats are under way, and there is no such group")
	}
	for s, due := range x.timers {
		for _, ms := range due {
			x.find(timersDue, timerKey(s, ms))
		}
	}
}
