package verify

import (
	"bytes"

	"parley"
	"parley/actors/agent"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
)

// sagaMessages are the messages between groups, agents and owners that are not handled
// yet, arranged by the differences that they explain.
type sagaMessages struct {
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

func newSagaMessages() sagaMessages {
	return sagaMessages{
		offers: map[parley.GroupID]map[uint32]int{}, entered: map[string]bool{}, departs: map[[32]byte]uint32{},
		forgets: map[[32]byte]bool{}, concerns: map[string]parley.GroupID{}, settled: map[string]bool{},
	}
}

// sagaMessage records a decoded message to an actor.
func (x *verifier) sagaMessage(to journal.Stream, w *record.SagaMessage) {
	u := &x.underway
	id, who := parley.IDFromBytes[parley.GroupID](w.GetGroup()), parley.AgentID(to.ID)
	about := string(to.ID[:]) + string(w.GetRequest())
	switch k := w.GetKind(); {
	case to.Kind == journal.AgentStream && k == record.SagaMessage_offer:
		u.offer(id, w.GetNumber())
	case to.Kind == journal.AgentStream && k == record.SagaMessage_depart:
		at := pair(parley.AnyID(who), parley.AnyID(id))
		u.departs[at] = max(u.departs[at], w.GetNumber())
	case to.Kind == journal.AgentStream && k == record.SagaMessage_concern:
		u.concerns[about] = id
	case to.Kind == journal.AgentStream && k == record.SagaMessage_settled:
		u.settled[about] = true
	case to.Kind == journal.GroupStream && k == record.SagaMessage_answer:
		u.offer(parley.GroupID(to.ID), w.GetNumber())
		if w.GetReason() == "" {
			of := parley.IDFromBytes[parley.AgentID](w.GetAgent())
			u.entered[string(membership(of, parley.GroupID(to.ID), w.GetNumber(), false))] = true
		}
	case to.Kind == journal.GroupStream && k == record.SagaMessage_forget:
		u.forgets[pair(parley.IDFromBytes[parley.AnyID](w.GetAgent()), to.ID)] = true
	case to.Kind == journal.KeyLogStream && k == record.SagaMessage_leaf:
		x.keyLog.leaves.Find(leafSlot(w.GetCommitment()), 1, w.GetCommitment())
	case to.Kind == journal.OrgStream && k == record.SagaMessage_ended:
		x.endings.Find(to.Slot(), 1, to.ID[:], id[:])
	case to.Kind == journal.OrgStream && k == record.SagaMessage_retired:
		x.retired.Find(to.Slot(), 1, to.ID[:], w.GetAgent())
	}
}

// concerned adds the requests of which agents are about to be notified, without those
// whose end is about to be notified too.
func (x *verifier) concerned() {
	for about, id := range x.underway.concerns {
		if !x.underway.settled[about] {
			of := parley.IDFromBytes[parley.AgentID]([]byte(about[:16]))
			x.concerns.Find(of.Slot(), 1, []byte(about), id[:])
		}
	}
}

func (u *sagaMessages) offer(id parley.GroupID, number uint32) {
	if u.offers[id] == nil {
		u.offers[id] = map[uint32]int{}
	}
	u.offers[id][number]++
}

// leftOver reports saga messages about seats of groups that do not exist.
func (x *verifier) leftOver() {
	for id := range x.underway.offers {
		x.seatWords.Fault("group "+id.String(), "words are on their way about its seats, and there is no such group")
	}
	for id, due := range x.groupTimers {
		for _, at := range due {
			s := rules.GroupStream(id)
			x.timersDue.Find(s.Slot(), 1, timerKey(s, timeOf(at)))
		}
	}
}

// entered checks a seat that an agent took, before the event is folded.
func (x *verifier) entered(self parley.AgentID, s *agent.State, e *agent.Entered) {
	x.confined.Checked++
	for _, m := range s.GetGroups() {
		if !bytes.Equal(m.GetGroup(), e.GetGroup()) && (m.GetIsolated() || e.GetIsolated()) {
			x.confined.Fault("agent "+self.String(), "it entered group %x while it was in %x, and one of them is isolated", e.GetGroup(), m.GetGroup())
		}
	}
}

// belongs adds the groups of which an agent considers itself a member. It leaves out a
// group that the agent is about to leave, and one that is about to learn that the agent
// has entered.
func (x *verifier) belongs(self parley.AgentID, s *agent.State) {
	for _, m := range s.GetGroups() {
		x.confined.Checked++
		if m.GetIsolated() && len(s.GetGroups()) > 1 {
			x.confined.Fault("agent "+self.String(), "it is in isolated group %s and in %d others", m.GroupID(), len(s.GetGroups())-1)
		}
		leaves := x.underway.departs[pair(parley.AnyID(self), parley.AnyID(m.GroupID()))] >= m.GetOffer()
		comes := x.underway.entered[string(membership(self, m.GroupID(), m.GetOffer(), false))]
		if !leaves && !comes {
			x.members.Find(self.Slot(), 1, membership(self, m.GroupID(), m.GetOffer(), m.GetIsolated()))
		}
	}
}
