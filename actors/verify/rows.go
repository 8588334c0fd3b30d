package verify

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"parley"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
)

// conversationsAtOnce bounds how many conversations of one feed are checked in one pass
// over it.
const conversationsAtOnce = 1 << 20

// readFeeds checks every feed: each message as it is read, and the status changes, whose
// order matters, once the feed's length is known.
func (x *verifier) readFeeds() error {
	var of parley.AgentID
	var statuses int
	var last uint64
	next := func(agent parley.AgentID) error {
		err := x.statusesOf(of, last, 1+statuses/conversationsAtOnce, statuses)
		of, statuses = agent, 0
		return err
	}
	err := x.Feeds(func(agent parley.AgentID, e journal.FeedEntry) error {
		x.progress("feeds")
		if agent != of {
			if err := next(agent); err != nil {
				return err
			}
		}
		last = e.Position
		switch {
		case e.Kind == journal.ReceiptEntry:
			return nil
		case e.Kind == journal.GroupEntry:
			x.notices.Find(agent.Slot(), 1, agent[:], e.Ref[:], e.Note)
			return nil
		case !e.Kind.BringsMessage():
			statuses++
			return nil
		}
		x.feeds.Find(agent.Slot(), 1, agent[:], e.Ref[:], e.Note)
		if e.Begins {
			if err := x.beginning(agent, e); err != nil {
				return err
			}
		}
		x.arrival.Checked++
		if said := e.Ref.Time().UnixMilli(); e.At < said {
			x.arrival.Fault(fmt.Sprintf("feed of agent %s, position %d", agent, e.Position), "message %s arrived %d ms before it was sent: counts since an instant are wrong", e.Ref, said-e.At)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return next(parley.AgentID{})
}

// statusesOf numbers the status changes of each conversation in a feed. Each pass covers
// one part of the conversations.
func (x *verifier) statusesOf(agent parley.AgentID, upTo uint64, parts, statuses int) error {
	if statuses == 0 {
		return nil
	}
	seed := maphash.MakeSeed()
	for part := range parts {
		seen := map[parley.ConversationID]int{}
		var bad error
		err := x.Feed(agent, 0, upTo, func(e journal.FeedEntry) bool {
			if e.Kind != journal.StatusEntry || parts > 1 && int(maphash.Bytes(seed, e.Ref[:])%uint64(parts)) != part {
				return true
			}
			c := parley.ConversationID(e.Ref)
			status, _ := record.StatusNews(e.Note)
			if moved := x.moved[c]; moved != nil {
				var there bool
				if there, bad = x.witnessed(agent, moved); bad != nil {
					return false
				} else if !there {
					seen[c] = x.later(agent, c, moved, seen[c], status)
					return true
				}
			}
			x.statuses.Find(agent.Slot(), 1, statusKey(agent, c, seen[c], status))
			seen[c]++
			return true
		})
		if err = errors.Join(err, bad); err != nil {
			return err
		}
	}
	return nil
}

// readTables checks all rows of the tables.
func (x *verifier) readTables() error {
	err := x.Tables(func(slot parley.Slot, table journal.Table, key, value []byte) error {
		x.progress("tables")
		x.tables.Checked++
		return x.member(slot, table, key, value)
	})
	for k, value := range x.underway.rows {
		if err == nil && value != nil {
			err = x.member(parley.Slots, journal.Table(k[0]), []byte(k[1:]), value)
		}
	}
	return err
}

// member checks one row; slot is beyond all slots for a row that is still in an outbox.
func (x *verifier) member(slot parley.Slot, table journal.Table, key, value []byte) error {
	switch {
	case table == journal.SlugTable:
		x.slugs.Find(slot, 1, value, key)
	case table == journal.WorkloadTable:
		x.workloads.Find(slot, 1, workloadKey(slot, value))
	case table == journal.NameTable && len(key) > 16:
		x.names.Find(slot, 1, key[:16], value, key[16:])
	case table == journal.RosterTable && len(key) == 24:
		x.roster.Find(slot, 1, key, value)
	case table == journal.ClientTable:
		x.clients.Find(slot, 1, key, value)
	case table == journal.ConversationTable && len(key) == 24:
		return x.listRow(slot, key, value)
	case table == journal.GroupNameTable && len(key) > 16:
		x.groupNames.Find(slot, 1, key[:16], value, key[16:])
	case table == journal.GroupRosterTable && len(key) == 24:
		x.groupRoster.Find(slot, 1, key, value)
	case table == journal.RequestTable && len(key) == 32:
		x.requests.Find(slot, 1, key, value)
	case table == journal.PlaceTable && len(key) == 32:
		x.places.Find(slot, 1, key, value)
	case table == journal.HolderTable && len(key) == 32 && len(value) == 16:
		x.holders.Find(slot, 1, key, value)
	case table == journal.ConcernTable && len(key) == 32:
		if !x.underway.settled[string(key)] {
			x.concerns.Find(slot, 1, key, value)
		}
	case table == journal.PublicTable && len(key) == 16:
		if _, replaced := x.underway.rows[string(byte(table))+string(key)]; !replaced || slot == parley.Slots {
			x.directory.Find(journal.DirectorySlot, 1, key, value)
		}
	case table == journal.TransferredTable && len(key) == 16 && len(value) == 8: // the checks of feeds cover what it may not pass over
	case table == journal.ListedTable && len(key) == 16 && len(value) == 8: // the checks of feeds cover what it passes over
	case table == journal.ReadTable && len(key) == 16 && len(value) == 8: // the receipts cover what it passes over
	case table == journal.TaskedTable && len(key) == 16 && len(value) == 8: // the checks of lists cover what it passes over
	case table == journal.TaskTable && len(key) == 48 && len(value) == 0:
		return x.taskRow(slot, key)
	case table == journal.ErasureTable && (slot == parley.Slots || record.IsErasure(slot, key, value)): // it says nothing about other rows
	case slices.Contains(journal.MLSTables, table):
		return x.mlsRow(slot, table, key, value)
	case table == journal.WebhookTable && len(key) == 32:
		x.hooks.Find(slot, 1, key, value)
	case table == journal.DeliveryTable && len(key) == 24:
		return x.deliveryRow(slot, key, value)
	case table == journal.RetryTable && len(key) == 32:
		x.retries.Find(slot, 1, key[:16], key[24:], key[16:24])
	case table == journal.CardTable && len(key) == 16:
		x.cardRow(slot, key, value)
	case table == journal.ActivityTable && len(key) == 16:
		return x.activityRow(slot, key, value)
	case table == journal.QuarantineTable && record.IsQuarantine(key, value):
		x.quarantine.Checked++
		x.quarantined(slot, key, value)
	case table == journal.SpentTable && len(key) > 4 && len(value) == 16:
		return x.spentRow(slot, key, value)
	case table == journal.OnceTable && len(key) > 21 && len(key) > 5+int(key[4]):
		return x.onceRow(slot, key, value)
	default:
		return x.keyRow(slot, table, key, value)
	}
	return nil
}

// keyRow checks a row about keys of agents, and rejects one of an unknown table.
func (x *verifier) keyRow(slot parley.Slot, table journal.Table, key, value []byte) error {
	switch {
	case table == journal.KidTable:
		return x.kidRow(key, value)
	case table == journal.PollTable:
		return x.pollRow(key, value)
	case table == journal.KeyLogTable && len(key) == 8:
		x.keyLog.trees.Find(rules.KeyLogStream.Slot(), 1, key, value)
		x.inKeyLogSlot(slot, key)
	case table == journal.KeyLogPlaceTable && len(key) == parley.KeyLogHashBytes:
		x.keyLog.places.Find(leafSlot(key), 1, key, value)
		x.inKeyLogSlot(slot, key)
	case table == journal.KeyPackageTable && record.IsKeyPackageKey(key):
		x.keyPackageRow(slot, key, value)
	case table == journal.HandedOutTable && record.IsHandedOutKey(key) && len(value) == 0:
		x.handedOutRow(slot, key)
	default:
		x.tables.Fault(fmt.Sprintf("table %d, key %x", table, key), "nobody reads such rows")
	}
	return nil
}

// spentRow checks the row of a used challenge, and the organization that it registered or
// that used it.
func (x *verifier) spentRow(slot parley.Slot, key, value []byte) error {
	x.registered.Checked++
	made := parley.IDFromBytes[parley.OrgID](value)
	_, stored, err := x.State(rules.OrgStream(made))
	if err == nil && (stored == nil || made.Slot() != slot) {
		x.registered.Fault(fmt.Sprintf("challenge %q", key[4:]), "it was used for organization %s, which is not there", made)
	}
	return err
}

func (x *verifier) kidRow(key, value []byte) error {
	x.keys.Checked++
	s, err := x.agentNow(parley.IDFromBytes[parley.AgentID](value))
	if err != nil {
		return err
	}
	has := false
	if s != nil {
		_, has = s.KeyByKid(string(key))
	}
	if !has {
		x.keys.Fault(fmt.Sprintf("key %s", key), "it finds agent %x, which never had it", value)
	}
	return nil
}

// pollRow checks a poll token's row. Rows of former tokens stay.
func (x *verifier) pollRow(key, value []byte) error {
	x.poll.Checked++
	self := parley.IDFromBytes[parley.AgentID](value)
	had := false
	look := func(_ uint64, _ int64, f journal.StoredEvent) bool {
		e, err := rules.Agent.Decode(f)
		if err != nil {
			return true
		}
		if token, ok := e.(interface{ GetPollTokenHash() []byte }); ok {
			had = had || bytes.Equal(token.GetPollTokenHash(), key)
		}
		if token, ok := e.(interface{ GetHash() []byte }); ok {
			had = had || bytes.Equal(token.GetHash(), key)
		}
		return !had
	}
	if born := x.underway.agents[self]; born != nil {
		for _, f := range born.events {
			look(0, 0, f)
		}
	}
	if err := x.Events(rules.AgentStream(self), 1, false, look); err != nil {
		return err
	}
	if !had {
		x.poll.Fault(fmt.Sprintf("poll token of hash %x", key), "it finds agent %x, which never had it", value)
	}
	return nil
}

// onceRow checks the row of an idempotency key. Only these rows record which messages
// were sent with a key.
func (x *verifier) onceRow(slot parley.Slot, key, value []byte) error {
	x.once.Checked++
	where := fmt.Sprintf("slot %d, day %d, key %x", slot, binary.BigEndian.Uint32(key), key[5:])
	scope := key[5:][:key[4]]
	before := bytes.Clone(key)
	binary.BigEndian.PutUint32(before, binary.BigEndian.Uint32(key)-1)
	earlier, twice, err := x.HiddenRow(slot, journal.OnceTable, before)
	if err != nil {
		return err
	}
	if twice {
		x.once.Fault(where, "the day before it stood for message %x: one key has made two messages", earlier[:min(16, len(earlier))])
	}
	if holder, _, ok := record.ReadClaim(value); ok {
		return x.claimRow(slot, where, scope, holder)
	}
	if len(value) < 32 {
		x.once.Fault(where, "it cannot be read: a repeat sends again")
		return nil
	}
	id := parley.IDFromBytes[parley.MessageID](value[:16])
	r, _, err := x.recordAt(id.Slot(), id)
	if err != nil {
		return err
	}
	founded, err := x.founding(slot, r, scope, value)
	switch {
	case err != nil:
		return err
	case founded:
	case r == nil:
		x.once.Fault(where, "it stands for message %s, which is not there: a repeat is answered with nothing", id)
	case !scoped(slot, r, scope, value[16:32]):
		x.once.Fault(where, "it stands for message %s, which another sender or another request made", id)
	case r.GetType() != string(value[32:]):
		x.once.Fault(where, "it stands for message %s of type %s, and says %s: a repeat is refused", id, r.GetType(), value[32:])
	}
	return nil
}

// claimRow checks the row by which an organization's oldest agent says which agent sends a
// message.
func (x *verifier) claimRow(slot parley.Slot, where string, scope []byte, holder parley.AgentID) error {
	owner, oldest := parley.IDFromBytes[parley.OrgID](scope), parley.AgentID{}
	if err := x.Events(rules.OrgStream(owner), 1, false, func(_ uint64, _ int64, f journal.StoredEvent) bool {
		e, err := rules.Org.Decode(f)
		added, ok := e.(*org.AgentAdded)
		if err == nil && ok {
			oldest = parley.IDFromBytes[parley.AgentID](added.GetAgentId())
		}
		return oldest.Zero()
	}); err != nil {
		return err
	}
	s, err := x.agentNow(holder)
	switch {
	case err != nil:
		return err
	case oldest.Zero() || oldest.Slot() != slot:
		x.once.Fault(where, "it claims a key for agent %s, and lies where nobody looks for claims", holder)
	case s == nil || s.Owner() != owner:
		x.once.Fault(where, "it claims a key for agent %s, which the organization does not have", holder)
	}
	return nil
}

// founding reports whether a key created a group, and its row is correct.
func (x *verifier) founding(slot parley.Slot, r *record.Message, scope, value []byte) (bool, error) {
	if r != nil {
		return false, nil
	}
	c, err := x.seatHistoryOf(parley.IDFromBytes[parley.GroupID](value[:16]))
	if err != nil || c == nil {
		return false, err
	}
	return slot == c.owner.Slot() && bytes.Equal(scope, record.FoundingScope(c.founder)) &&
		bytes.Equal(value[16:32], c.owner[:]) && c.name == string(value[32:]), nil
}

// scoped reports whether a message was created with a key of that scope.
func scoped(slot parley.Slot, r *record.Message, scope, about []byte) bool {
	if slot != r.MessageID().Slot() {
		return false
	}
	if r.Copied() {
		return bytes.Equal(scope, append(bytes.Clone(r.GetFrom()), r.GetGroup()...)) && bytes.Equal(about, r.GetGroup())
	}
	if len(r.GetInReplyTo()) == 0 {
		return bytes.Equal(scope, r.GetFrom()) && bytes.Equal(about, r.GetTo())
	}
	return bytes.Equal(scope, append(bytes.Clone(r.GetConversationId()), r.GetFrom()...)) && bytes.Equal(about, r.GetInReplyTo())
}
