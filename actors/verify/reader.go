package verify

import (
	"bytes"
	"encoding/binary"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/encoding"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// cachedMax bounds how many owners and slugs are cached.
const cachedMax = 1 << 17

// reader reads single entries of an archive. The first error ends the verification; until
// then the reader behaves as if it had found nothing.
type reader struct {
	Archive
	err error
	// owners caches the owners of agents, slugs those of organizations, histories those of
	// groups; seatsCached is the number of seats in histories.
	owners      map[parley.AgentID]parley.OrgID
	slugs       map[parley.OrgID]string
	histories   map[parley.GroupID]*seatHistory
	seatsCached int
	// created are agents that an effect in an outbox will create.
	created map[parley.AgentID]*createdAgent
}

// createdAgent is an agent whose creation is in an outbox.
type createdAgent struct {
	state  *agent.State
	events []journal.StoredEvent
}

func newReader(a Archive) reader {
	return reader{
		Archive: a, owners: map[parley.AgentID]parley.OrgID{}, slugs: map[parley.OrgID]string{},
		histories: map[parley.GroupID]*seatHistory{}, created: map[parley.AgentID]*createdAgent{},
	}
}

// failed remembers an error, and returns whether there is one.
func (r *reader) failed(err error) bool {
	if r.err == nil {
		r.err = err
	}
	return err != nil
}

func (r *reader) row(slot parley.Slot, table journal.Table, key []byte) (value []byte, found bool) {
	value, found, err := r.Row(slot, table, key)
	return value, !r.failed(err) && found
}

// load reads the stored state of a stream; false if there is none, or it cannot be decoded,
// which the replay of the stream reports.
func (r *reader) load(s journal.Stream, into rules.State) bool {
	_, stored, err := r.State(s)
	return !r.failed(err) && stored != nil && encoding.Unmarshal(stored, into) == nil
}

// record reads the record of a message as stored in slot; nil if it is missing or cannot
// be decoded.
func (r *reader) record(slot parley.Slot, id parley.MessageID) (m *record.Message, position uint64) {
	position, err := r.Message(slot, id, func(stored []byte) error {
		if have := (&record.Message{}); have.UnmarshalVT(stored) == nil {
			m = have
		}
		return nil
	})
	r.failed(err)
	return m, position
}

// encoded reads a record without decoding it; nil if it is missing.
func (r *reader) encoded(slot parley.Slot, id parley.MessageID) (data []byte, position uint64) {
	position, err := r.Message(slot, id, func(record []byte) error {
		data = bytes.Clone(record)
		return nil
	})
	r.failed(err)
	return data, position
}

// agent returns an agent as stored, or as an effect in an outbox will create it; nil if
// there is neither.
func (r *reader) agent(id parley.AgentID) *agent.State {
	if created := r.created[id]; created != nil {
		return created.state
	}
	if s := (&agent.State{}); r.load(rules.AgentStream(id), s) {
		return s
	}
	return nil
}

// owner returns the organization that owns an agent, zero if there is no such agent.
func (r *reader) owner(id parley.AgentID) parley.OrgID {
	if owner, ok := r.owners[id]; ok {
		return owner
	}
	s := r.agent(id)
	if s == nil {
		return parley.OrgID{}
	}
	if len(r.owners) >= cachedMax {
		clear(r.owners)
	}
	r.owners[id] = s.Owner()
	return s.Owner()
}

// slug returns the slug of an organization, "" if there is none.
func (r *reader) slug(id parley.OrgID) string {
	if slug, ok := r.slugs[id]; ok {
		return slug
	}
	o := &org.State{}
	if !r.load(rules.OrgStream(id), o) {
		return ""
	}
	if len(r.slugs) >= cachedMax {
		clear(r.slugs)
	}
	r.slugs[id] = o.GetSlug()
	return o.GetSlug()
}

// hiddenName returns a name as it is listed in the keys of a table after its owner's id.
func (r *reader) hiddenName(table journal.Table, owner parley.OrgID, name string) []byte {
	return r.HiddenKey(table, record.NameKey(owner, name))[len(owner):]
}

// passed returns the position up to which a table has the rows of an agent.
func (r *reader) passed(table journal.Table, agent parley.AgentID) uint64 {
	value, _ := r.row(agent.Slot(), table, agent[:])
	if len(value) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(value)
}

// startedBy returns the conversation that begins with a feed entry; zero if the record of
// the broadcast that says so cannot be read, which another check reports.
func (r *reader) startedBy(kind journal.FeedKind, ref parley.AnyID) parley.ConversationID {
	if kind != journal.CopyEntry {
		return conversation.StartedBy(parley.MessageID(ref))
	}
	broadcast := parley.MessageID(ref).Broadcast()
	if m, _ := r.record(broadcast.Slot(), broadcast); m != nil {
		return m.Conversation()
	}
	return parley.ConversationID{}
}
