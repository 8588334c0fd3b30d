package verify

import (
	"bytes"

	"parley"
	"parley/actors/agent"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
)

// sagaMessages is what words between groups, agents and owners are about to bring about,
// by what it explains.
type sagaMessages struct {
	// offers counts the words that settle each offer of a group: the question and
	// its answer.
	offers map[parley.GroupID]map[uint32]int
	// entered are the memberships that their groups are about to hear of.
	entered map[string]bool
	// departs are the highest offers whose seats agents are about to lose, by agent
	// and group.
	departs map[[32]byte]uint32
	// forgets are agents that act no more, by agent and group.
	forgets map[[32]byte]bool
	// concerns are requests that agents are about to hear of, settled those that
	// they are about to hear the end of: by agent and request.
	concerns map[string]parley.GroupID
	settled  map[string]bool
}

func newSagaMessages() sagaMessages {
	return sagaMessages{
		offers: map[parley.GroupID]map[uint32]int{}, entered: map[string]bool{}, departs: map[[32]byte]uint32{},
		forgets: map[[32]byte]bool{}, concerns: map[string]parley.GroupID{}, settled: map[string]bool{},
	}
}

// sagaMessage takes in a word to an actor that can be understood.
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
	case to.Kind == journal.OrgStream && k == record.SagaMessage_ended:
		x.endings.Find(to.Slot(), 1, to.ID[:], id[:])
	case to.Kind == journal.OrgStream && k == record.SagaMessage_retired:
		x.retired.Find(to.Slot(), 1, to.ID[:], w.GetAgent())
	}
}

// concerned says which requests agents are about to note: those that they are about
// to hear of, and not of their end.
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

// entered judges a seat that an agent took, before that is folded.
func (x *verifier) entered(self parley.AgentID, s *agent.State, e *agent.Entered) {
	x.confined.Checked++
	for _, m := range s.GetGroups() {
		if !bytes.Equal(m.GetGroup(), e.GetGroup()) && (m.GetIsolated() || e.GetIsolated()) {
			x.confined.Fault("agent "+self.String(), "it entered group %x while it was in %x, and one of them is isolated", e.GetGroup(), m.GetGroup())
		}
	}
}

// belongs says which groups an agent believes to be in. One that it is about to
// leave, or that is about to hear of it, need not agree.
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
