package verify

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// hasScope reports whether a key of journal.OnceTable has a scope and an idempotency key.
func hasScope(key []byte) bool { return len(key) > 21 && len(key) > 5+int(key[4]) }

// once checks the row of an idempotency key. Only these rows record which messages were
// sent with a key.
func (r row) once() {
	where := fmt.Sprintf("slot %d, day %d, key %x", r.slot, binary.BigEndian.Uint32(r.key), r.key[5:])
	scope := r.key[5:][:r.key[4]]
	before := bytes.Clone(r.key)
	binary.BigEndian.PutUint32(before, binary.BigEndian.Uint32(r.key)-1)
	earlier, twice, err := r.HiddenRow(r.slot, journal.OnceTable, before)
	if r.fails(onceRows, twice) {
		r.fault(onceRows, where, "the day before it stood for message %x: one key has made two messages", earlier[:min(16, len(earlier))])
	}
	if r.failed(err) {
		return
	}
	if holder, _, ok := record.ReadClaim(r.value); ok {
		r.claim(where, scope, holder)
		return
	}
	if len(r.value) < 32 {
		r.fault(onceRows, where, "it cannot be read: a repeat sends again")
		return
	}
	id, about, kind := parley.IDFromBytes[parley.MessageID](r.value[:16]), r.value[16:32], string(r.value[32:])
	m, _ := r.record(id.Slot(), id)
	switch {
	case m == nil && r.founded(scope, about, kind):
	case m == nil:
		r.fault(onceRows, where, "it stands for message %s, which is not there: a repeat is answered with nothing", id)
	case r.slot != m.MessageID().Slot() || !scoped(m, scope, about):
		r.fault(onceRows, where, "it stands for message %s, which another sender or another request made", id)
	case m.GetType() != kind:
		r.fault(onceRows, where, "it stands for message %s of type %s, and says %s: a repeat is refused", id, m.GetType(), kind)
	}
}

// claim checks the row by which an organization's oldest agent says which agent sends a
// message.
func (r row) claim(where string, scope []byte, holder parley.AgentID) {
	owner, oldest := parley.IDFromBytes[parley.OrgID](scope), parley.AgentID{}
	r.failed(r.Events(rules.OrgStream(owner), 1, false, func(_ uint64, _ int64, f journal.StoredEvent) bool {
		e, err := rules.Org.Decode(f)
		if added, ok := e.(*org.AgentAdded); err == nil && ok {
			oldest = parley.IDFromBytes[parley.AgentID](added.GetAgentId())
		}
		return oldest.Zero()
	}))
	s := r.agent(holder)
	switch {
	case oldest.Zero() || oldest.Slot() != r.slot:
		r.fault(onceRows, where, "it claims a key for agent %s, and lies where nobody looks for claims", holder)
	case s == nil || s.Owner() != owner:
		r.fault(onceRows, where, "it claims a key for agent %s, which the organization does not have", holder)
	}
}

// founded reports whether the row's key created a group, and the row is correct.
func (r row) founded(scope, owner []byte, name string) bool {
	h := r.history(parley.IDFromBytes[parley.GroupID](r.value[:16]))
	return h != nil && r.slot == h.owner.Slot() && bytes.Equal(scope, record.FoundingScope(h.founder)) &&
		bytes.Equal(owner, h.owner[:]) && h.name == name
}

// scoped reports whether a message was created with a key of that scope.
func scoped(m *record.Message, scope, about []byte) bool {
	switch {
	case m.Copied():
		return bytes.Equal(scope, append(bytes.Clone(m.GetFrom()), m.GetGroup()...)) && bytes.Equal(about, m.GetGroup())
	case len(m.GetInReplyTo()) == 0:
		return bytes.Equal(scope, m.GetFrom()) && bytes.Equal(about, m.GetTo())
	}
	return bytes.Equal(scope, append(bytes.Clone(m.GetConversationId()), m.GetFrom()...)) && bytes.Equal(about, m.GetInReplyTo())
}
