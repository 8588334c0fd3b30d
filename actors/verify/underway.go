package verify

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"parley"
	"parley/actors/agent"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
)

// underway records what effects in outboxes will change, arranged by the differences that
// they explain.
type underway struct {
	// announced are messages that feeds will get, by recipient and message.
	announced map[[32]byte]bool
	// statuses are changes that feeds will get, by participant and conversation, in
	// order.
	statuses map[[32]byte][]string
	// receiptsNear are receipts in outboxes to the recipient's home, receiptsFar those to
	// the conversation's home.
	receiptsNear, receiptsFar map[parley.MessageID]journal.Receipts
	// agents that will be created.
	agents map[parley.AgentID]*createdAgent
	// rows that will be stored, by table and key; nil for a row that will be deleted.
	rows map[string][]byte
	// fans are the seats for which copies of a broadcast are in an outbox.
	fans map[parley.MessageID][]parley.Seat
	sagaMessages
}

// createdAgent is an agent whose creation is in an outbox.
type createdAgent struct {
	state  *agent.State
	events []journal.StoredEvent
}

func pair(a, b parley.AnyID) (k [32]byte) {
	copy(k[:], a[:])
	copy(k[16:], b[:])
	return k
}

// readUnderway reads every effect in an outbox. Each is entered as the change that it
// will make, so that an effect without an event is found as well.
func (x *verifier) readUnderway() error {
	x.underway = underway{
		announced: map[[32]byte]bool{}, statuses: map[[32]byte][]string{}, rows: map[string][]byte{},
		receiptsNear: map[parley.MessageID]journal.Receipts{}, receiptsFar: map[parley.MessageID]journal.Receipts{},
		agents: map[parley.AgentID]*createdAgent{}, fans: map[parley.MessageID][]parley.Seat{}, sagaMessages: newSagaMessages(),
	}
	var born []journal.CreateStream
	err := x.Underway(func(w journal.Effect) error {
		x.progress("effects underway")
		switch w := w.(type) {
		case journal.AppendFeed:
			x.announce(w)
		case journal.Fanout:
			x.fan(w)
		case journal.RecordReceipt:
			to := x.underway.receiptsNear
			if w.Recipient.Zero() {
				to = x.underway.receiptsFar
			}
			to[w.Message] = to[w.Message].Earliest(w.Receipts)
		case journal.EnqueueFor:
			return x.effect(w.To, w.Data)
		case journal.PutRow:
			row := []byte(nil)
			if !w.Delete {
				row = append([]byte{}, w.Value...)
			}
			x.underway.rows[string(byte(w.Table))+string(w.Key)] = row
		case journal.AddToList:
			x.lists.Find(w.Agent.Slot(), 1, w.Agent[:], w.Conversation[:])
		case journal.DropFeed: // of erased messages, which are not compared
		case journal.CreateStream:
			born = append(born, w)
		}
		return nil
	})
	if err == nil {
		err = x.Queues(x.effect)
	}
	x.concerned()
	for _, w := range born {
		if err == nil {
			err = x.createdStream(w)
		}
	}
	return err
}

func (x *verifier) announce(w journal.AppendFeed) {
	k := pair(parley.AnyID(w.To), w.Ref)
	if w.Kind.BringsMessage() {
		if w.Begins {
			x.listedBy(w.To, journal.FeedEntry{Kind: w.Kind, Ref: w.Ref, Begins: true})
		}
		x.underway.announced[k] = true
		x.feeds.Find(w.To.Slot(), 1, w.To[:], w.Ref[:], w.Note)
		return
	}
	if w.Kind == journal.ReceiptEntry {
		return // the entry is written next to the receipts, and may be written more than once
	}
	if w.Kind == journal.GroupEntry {
		x.notices.Find(w.To.Slot(), 1, w.To[:], w.Ref[:], w.Note)
		return
	}
	status, _ := record.StatusNews(w.Note)
	x.underway.statuses[k] = append(x.underway.statuses[k], status)
}

// fan records an effect for many agents as one effect for each.
func (x *verifier) fan(w journal.Fanout) {
	if w.Kind == journal.CopyEntry {
		id := parley.MessageID(w.Ref)
		x.underway.fans[id] = append(x.underway.fans[id], w.To...)
	}
	for _, seat := range w.To {
		one := journal.AppendFeed{To: seat.Agent, Kind: w.Kind, Ref: w.Ref, Note: w.Note, Begins: w.Begins}
		if w.Kind == journal.CopyEntry {
			one.Ref = parley.AnyID(parley.Copy(parley.MessageID(w.Ref), seat.Number))
		}
		x.announce(one)
	}
}

// createdStream records a stream that an effect in an outbox will begin.
func (x *verifier) createdStream(w journal.CreateStream) error {
	told := x.replayOf(w.Stream)
	for n, f := range w.Events {
		if err := told.play(uint64(n)+1, f); err != nil {
			x.decode.Fault(record.StreamName(w.Stream), "it is on its way and cannot be made: %v", err)
			return nil
		}
	}
	if t, ok := told.(*aggregateReplay[*agent.State, agent.Command, agent.Event]); ok {
		x.underway.agents[t.state.AgentID()] = &createdAgent{t.state, w.Events}
	}
	return told.done(uint64(len(w.Events)))
}

// effect checks a message in an actor's queue or in an outbox.
func (x *verifier) effect(to journal.Stream, word []byte) error {
	x.queues.Checked++
	m, err := record.DecodeSagaMessage(to.Kind, word)
	if err != nil {
		x.queues.Fault(record.StreamName(to), "a message of %d bytes that cannot be decoded (%v): it will be put into quarantine", len(word), err)
		return nil
	}
	x.sagaMessage(to, m)
	return nil
}

// quarantined reports a message that was quarantined because it could not be decoded.
func (x *verifier) quarantined(slot parley.Slot, key, value []byte) {
	q := record.QuarantinedOf(key, value)
	where := fmt.Sprintf("%s, message %d of its queue", q.Actor(), q.Number)
	if slot != q.To.Slot() {
		x.quarantine.Fault(where, "its row lies in slot %d, and nobody looks for it there", slot)
	}
	x.quarantine.Fault(where, "%d bytes that could not be decoded at %s (%s), so that they had no effect: %x",
		len(q.Word), q.At.Format(time.RFC3339), q.Why, q.Word[:min(len(q.Word), quarantineTold)])
}

// quarantineTold is how many bytes of a quarantined message are reported.
const quarantineTold = 128

// streamReplay replays one stream and checks it.
type streamReplay interface {
	// play decodes an event, checks it and folds it.
	play(seq uint64, f journal.StoredEvent) error
	// encode returns the encoded state so far; recode decodes and encodes the stored
	// state.
	encode() ([]byte, error)
	recode(stored []byte) ([]byte, error)
	// current: others read the stored state without the later events.
	current() bool
	// done checks the whole stream after its last event.
	done(events uint64) error
}

// aggregateReplay replays the events of an aggregate.
type aggregateReplay[S rules.State, C any, E rules.Event] struct {
	rules rules.Aggregate[S, C, E]
	state S
	blank func() S
	// judge checks an event before it is folded, end the final state.
	judge func(seq uint64, e E) error
	end   func() error
	// after, if set, checks the state after an event.
	after func(e E)
	lags  bool
}

func (t *aggregateReplay[S, C, E]) play(seq uint64, f journal.StoredEvent) (err error) {
	e, err := t.rules.Decode(f)
	if err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it cannot follow what came before: %v", r)
		}
	}()
	if err := t.judge(seq, e); err != nil {
		return err
	}
	t.rules.Evolve(t.state, e)
	if t.after != nil {
		t.after(e)
	}
	return nil
}

func (t *aggregateReplay[S, C, E]) encode() ([]byte, error) { return t.state.MarshalVT() }
func (t *aggregateReplay[S, C, E]) current() bool           { return !t.lags }
func (t *aggregateReplay[S, C, E]) done(uint64) error       { return t.end() }

func (t *aggregateReplay[S, C, E]) recode(stored []byte) ([]byte, error) {
	s := t.blank()
	if err := s.UnmarshalVT(stored); err != nil {
		return nil, err
	}
	return s.MarshalVT()
}

// claim replays the single event of a slug's stream.
type claim struct {
	x      *verifier
	stream journal.Stream
}

func (c claim) play(seq uint64, f journal.StoredEvent) error {
	if seq != 1 || f.Tag != 1 || len(f.Data) != 16 {
		return fmt.Errorf("event %d of kind %d is no claim", seq, f.Tag)
	}
	c.x.claims.Find(c.stream.Slot(), 1, c.stream.ID[:], f.Data)
	return nil
}

// workloadClaim replays the single event of a SPIFFE id's stream.
type workloadClaim struct{ claim }

func (c workloadClaim) play(seq uint64, f journal.StoredEvent) error {
	if seq != 1 || f.Tag != 1 || len(f.Data) != 16 {
		return fmt.Errorf("event %d of kind %d is no claim", seq, f.Tag)
	}
	c.x.workloads.Expect(c.stream.Slot(), 1, workloadKey(c.stream.Slot(), f.Data))
	return nil
}

func workloadKey(slot parley.Slot, org []byte) []byte {
	return append(binary.BigEndian.AppendUint16(make([]byte, 0, 18), uint16(slot)), org...)
}

func (claim) encode() ([]byte, error)       { return nil, nil }
func (claim) recode([]byte) ([]byte, error) { return nil, fmt.Errorf("a claim has no state") }
func (claim) current() bool                 { return false }
func (claim) done(uint64) error             { return nil }

// unknown replays a stream of an unknown kind: it rejects every event.
type unknown struct{ claim }

func (unknown) play(uint64, journal.StoredEvent) error {
	return fmt.Errorf("no streams of this kind are known")
}

// replayOrg replays an organization.
func (x *verifier) replayOrg(s journal.Stream) streamReplay {
	t := &aggregateReplay[*org.State, org.Command, org.Event]{rules: rules.Org, state: &org.State{}, blank: func() *org.State { return &org.State{} }}
	self := parley.OrgID(s.ID)
	t.judge = func(seq uint64, e org.Event) error {
		switch e := e.(type) {
		case *org.Registered:
			x.begins(s, seq, e.GetId())
			x.registeredOrg(self, e)
		case *org.CredentialAdded:
			x.clients.Expect(s.Slot(), 1, e.GetClientId(), self[:])
			for _, client := range e.GetForgotten() {
				x.clients.Find(s.Slot(), 1, client, self[:])
			}
		case *org.AgentAdded:
			x.agents.Expect(s.Slot(), 1, self[:], e.GetAgentId())
			x.roster.Expect(s.Slot(), 1, self[:], big(seq), e.GetAgentId())
		case *org.GroupAdded:
			x.groups.Expect(s.Slot(), 1, self[:], e.GetGroupId())
			x.groupRoster.Expect(s.Slot(), 1, self[:], big(seq), e.GetGroupId())
		case *org.GroupRetired:
			x.endings.Find(s.Slot(), 1, self[:], e.GetGroupId())
		case *org.AgentRetired:
			x.retired.Find(s.Slot(), 1, self[:], e.GetAgentId())
		case *org.WorkloadProven:
			return x.workloadProven(self, e)
		case *org.AllowanceLifted, *org.AllowanceSet, *org.Changed, *org.CredentialRevoked, *org.EmailConfirmed,
			*org.ErasureBegun, *org.Resumed, *org.Suspended, *org.TierGranted: // no row elsewhere follows
		}
		return nil
	}
	t.end = func() error { return nil }
	return t
}

func (x *verifier) registeredOrg(self parley.OrgID, e *org.Registered) {
	slug := e.GetSlug()
	x.orgSlot.Checked++
	if parley.SlotOf(slug) != self.Slot() {
		x.orgSlot.Fault("organization "+self.String(), "its slug %q is looked for in slot %d", slug, parley.SlotOf(slug))
	}
	x.slugs.Expect(self.Slot(), 1, self[:], x.HiddenKey(journal.SlugTable, []byte(slug)))
	claimed := x.HiddenStream(rules.SlugStream(slug))
	x.claims.Expect(claimed.Slot(), 1, claimed.ID[:], self[:])
	x.clients.Expect(self.Slot(), 1, e.GetClientId(), self[:])
}

// workloadProven checks that a SPIFFE id finds the organization that has proven it.
func (x *verifier) workloadProven(self parley.OrgID, e *org.WorkloadProven) error {
	x.proven.Checked++
	id := e.GetSpiffeId()
	holder, _, err := x.Row(parley.SlotOf(id), journal.WorkloadTable, []byte(id))
	if err == nil && !bytes.Equal(holder, self[:]) {
		x.proven.Fault("organization "+self.String(), "it has proven %q, which belongs to %x: another organization may prove it too", id, holder)
	}
	return err
}
