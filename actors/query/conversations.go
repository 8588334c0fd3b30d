package query

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"parley/actors/conversation"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// listed is one place in an agent's list of conversations.
type listed struct {
	position uint64
	id       parley.ConversationID
}

// Conversations returns the conversations in an agent's list, latest first, before a
// place in the list (0: from the newest). next is the place to continue from, 0 at the
// end. A page may be short although there are more.
//
// The list is the rows of journal.ConversationTable and, beyond the position in
// journal.ListedTable, the feed entries that begin conversations. A listing from the
// newest writes the rows of such entries for later listings. It does not wait: if the
// write is lost, only speed is lost.
func (q *Messages) Conversations(ctx context.Context, agent parley.AgentID, before uint64, limit int) (page []*conversation.State, next uint64, err error) {
	durable := q.journal.DurablePosition(agent) // read before the view opens, which has everything up to it
	var missing *journal.Entry
	err = q.view(ctx, func(v journal.View) error {
		upTo, err := PlaceUpTo(v, journal.ListedTable, agent)
		if err != nil {
			return err
		}
		l := listing{view: v, agent: agent, limit: limit, most: q.limits.ListRows}
		if err := l.read(before, upTo); err != nil {
			return err
		}
		if before == 0 && durable > upTo {
			if missing, err = q.missingRows(v, agent, upTo, durable); err != nil {
				return err
			}
		}
		next = l.next
		for _, c := range l.page {
			s := &conversation.State{}
			err := ReadConversation(v, c.id, s)
			if errors.Is(err, journal.ErrErased) {
				continue
			}
			if err != nil {
				return err
			}
			page = append(page, s)
		}
		return nil
	})
	for i := 0; i < len(page) && err == nil; i++ {
		err = q.closeErased(ctx, page[i])
	}
	if err == nil && missing != nil {
		q.appendUnawaited(missing)
	}
	return page, next, err
}

// listing is one page of an agent's list while it is read.
type listing struct {
	view  journal.View
	agent parley.AgentID
	limit int
	most  int // how many entries of the feed may be read
	page  []listed
	next  uint64
}

// read reads the newest places before a position. Entries up to upTo have rows.
func (l *listing) read(before, upTo uint64) error {
	rows, err := l.rows(before)
	if err != nil {
		return err
	}
	entries, reached, err := l.entries(before, upTo)
	if err != nil {
		return err
	}
	// Two listings at once may write the same rows, and the older one may store its
	// position last: then an entry beyond the position has a row as well.
	all := append(rows, entries...)
	slices.SortFunc(all, func(a, b listed) int { return cmp.Compare(b.position, a.position) })
	all = slices.CompactFunc(all, func(a, b listed) bool { return a.position == b.position })
	for _, c := range all {
		switch {
		case c.position < reached: // entries between may come first
			l.next = reached
			return nil
		case len(l.page) == l.limit:
			l.next = l.page[l.limit-1].position
			return nil
		}
		l.page = append(l.page, c)
	}
	l.next = reached
	return nil
}

// rows reads up to limit+1 rows before a position, newest first.
func (l *listing) rows(before uint64) (rows []listed, err error) {
	beyond := []byte(nil)
	if before != 0 {
		beyond = binary.BigEndian.AppendUint64(l.agent.Bytes(), before)
	}
	err = l.view.Rows(l.agent.Slot(), journal.ConversationTable, l.agent[:], beyond, true, func(key, value []byte) bool {
		rows = append(rows, listed{binary.BigEndian.Uint64(key[len(l.agent):]), parley.IDFromBytes[parley.ConversationID](value)})
		return len(rows) <= l.limit
	})
	return rows, err
}

// entries reads up to limit+1 entries that begin conversations, newest first, between
// upTo and before. reached is the last position that it read if there may be more
// before it, else 0.
func (l *listing) entries(before, upTo uint64) (entries []listed, reached uint64, err error) {
	var begins []journal.FeedEntry
	seen := 0
	err = l.view.InboxBefore(l.agent, before, func(e journal.FeedEntry) bool {
		if e.Position <= upTo {
			return false
		}
		if seen == l.most || len(begins) > l.limit {
			return false
		}
		if seen++; seen == l.most {
			reached = e.Position
		}
		if e.Begins {
			begins = append(begins, e)
		}
		return true
	})
	for _, e := range begins {
		id, startErr := StartedBy(l.view, l.agent, e)
		if err == nil {
			err = startErr
		}
		entries = append(entries, listed{e.Position, id})
	}
	return entries, reached, err
}

// StartedBy returns the conversation that begins with an entry of an agent's feed.
func StartedBy(v journal.View, agent parley.AgentID, e journal.FeedEntry) (parley.ConversationID, error) {
	if e.Kind == journal.MessageEntry {
		return conversation.StartedBy(parley.MessageID(e.Ref)), nil
	}
	m := &record.Message{}
	found, err := v.Broadcast(agent.Slot(), parley.MessageID(e.Ref).Broadcast(), m.UnmarshalHeader)
	switch {
	case errors.Is(err, journal.ErrErased):
		err = nil // the header says it
	case err == nil && !found:
		err = parley.ErrNotFound
	}
	return m.Conversation(), err
}

// missingRows returns the entry that writes the rows of the feed entries that begin
// conversations, from beyond a position up to another; nil if these are too few.
func (q *Messages) missingRows(v journal.View, agent parley.AgentID, beyond, upTo uint64) (*journal.Entry, error) {
	var begins []journal.FeedEntry
	seen, reached := 0, beyond
	err := v.Inbox(agent, beyond, upTo, func(e journal.FeedEntry) bool {
		seen, reached = seen+1, e.Position
		if e.Begins {
			begins = append(begins, e)
		}
		return seen < q.limits.ListedMax
	})
	if err != nil || seen < q.limits.ListedStep {
		return nil, err
	}
	entry := &journal.Entry{Slot: agent.Slot()}
	put := func(table journal.Table, key, value []byte) {
		entry.Rows = append(entry.Rows, journal.Row{Slot: agent.Slot(), Table: table, Key: key, Value: value})
	}
	for _, e := range begins {
		id, err := StartedBy(v, agent, e)
		if err != nil {
			return nil, err
		}
		put(journal.ConversationTable, binary.BigEndian.AppendUint64(agent.Bytes(), e.Position), id.Bytes())
	}
	put(journal.ListedTable, agent.Bytes(), binary.BigEndian.AppendUint64(nil, reached))
	return entry, nil
}
