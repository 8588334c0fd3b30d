package query

import (
	"bytes"
	"context"
	"errors"

	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// Inbox returns up to limit messages to an agent, newest first, before a position (0:
// from the newest). If only is not empty, it returns messages of that type only; then a
// page may be short although there are more. next is the position to continue from, 0
// at the end. // spec: Messaging
func (q *Messages) Inbox(ctx context.Context, agent parley.AgentID, before uint64, limit int, only string, fits Fits) (page []Message, next uint64, err error) {
	return q.inbox(ctx, agent, before, inboxPage{limit: limit, only: only, fits: fits})
}

// Unread is Inbox without the messages that are marked as read.
func (q *Messages) Unread(ctx context.Context, agent parley.AgentID, before uint64, limit int, only string, fits Fits) (page []Message, next uint64, err error) {
	return q.inbox(ctx, agent, before, inboxPage{limit: limit, only: only, fits: fits, unread: &unreadFilter{}})
}

func (q *Messages) inbox(ctx context.Context, agent parley.AgentID, before uint64, p inboxPage) (page []Message, next uint64, err error) {
	err = q.view(ctx, func(v journal.View) error {
		p.read = func(e journal.FeedEntry) (*record.Message, error) { return q.transferred(ctx, v, agent, e) }
		seen := 0
		if before == 0 && p.only == "" && p.unread == nil {
			newest, read, err := q.newest.of(v, agent)
			if err != nil {
				return err
			}
			if more, err := p.addAll(newest.entries); !more || err != nil || newest.whole {
				return err
			}
			p.last, before, seen = newest.end, newest.end, read
		}
		return p.scan(v, agent, before, seen)
	})
	return p.messages, p.next, err
}

// inboxPage gathers the messages of a page.
type inboxPage struct {
	limit    int
	only     string
	unread   *unreadFilter // nil for all
	fits     Fits
	read     func(journal.FeedEntry) (*record.Message, error)
	messages []Message
	last     uint64 // position of the last entry that was looked at
	next     uint64 // position to continue from, if there is more
}

// addAll adds the messages of entries, until the page is full: then more is false.
func (p *inboxPage) addAll(entries []FeedEntry) (more bool, err error) {
	more = true
	for i := 0; i < len(entries) && more && err == nil; i++ {
		if more, err = p.add(entries[i].FeedEntry); more && p.ends(entries[i].Position) {
			p.messages[len(p.messages)-1].Receipts = entries[i].Receipts
		}
	}
	return more, err
}

// ends reports whether the page ends with the message at a position.
func (p *inboxPage) ends(position uint64) bool {
	return len(p.messages) > 0 && p.messages[len(p.messages)-1].Position == position
}

// add adds the message of an entry, unless it was erased or has another type. more is
// false if the page is full.
func (p *inboxPage) add(e journal.FeedEntry) (more bool, err error) {
	if len(p.messages) == p.limit {
		p.next = p.last
		return false, nil
	}
	before := p.last
	p.last = e.Position
	r, err := p.read(e)
	if errors.Is(err, journal.ErrErased) || err == nil && p.only != "" && r.GetType() != p.only {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	fit, err := p.fits.ask(r)
	if err != nil || !fit {
		p.next = before
		return false, err
	}
	p.messages = append(p.messages, Message{Record: r, Position: e.Position})
	return true, nil
}

// scan adds messages from the rows of a feed before a position, after seen entries were read.
func (p *inboxPage) scan(v journal.View, agent parley.AgentID, before uint64, seen int) error {
	note, had, failed := journal.TypeHash(p.only), len(p.messages), error(nil)
	err := v.InboxBefore(agent, before, func(e journal.FeedEntry) (more bool) {
		if len(p.messages) == p.limit || seen >= scanMax {
			p.next = p.last
			return false
		}
		if seen++; p.only != "" && !bytes.Equal(e.Note, note) {
			p.last = e.Position
			return true
		}
		if p.unread != nil {
			var state entryState
			if state, failed = p.unread.of(v, agent, e.Position); failed != nil || state == allRead {
				return false
			} else if state == entryRead {
				p.last = e.Position
				return true
			}
		}
		more, failed = p.add(e)
		return more && failed == nil
	})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	return fillReceipts(v, agent, p.messages[had:])
}

// unreadFilter knows which entries of a feed are read. It is asked for them from the newest to
// the oldest.
type unreadFilter struct {
	read map[uint64]bool
	// from is the oldest position of which read knows, 0 at first.
	from uint64
	// beyond is a position up to which all is read.
	beyond uint64
}

// entryState says what is known of an entry.
type entryState int

const (
	entryUnread entryState = iota
	entryRead
	// allRead: it and all before it.
	allRead
)

// receiptsStep is how many positions of receipts are read at a time.
const receiptsStep = 256

func (u *unreadFilter) of(v journal.View, agent parley.AgentID, position uint64) (entryState, error) {
	if u.read == nil {
		var err error
		if u.beyond, err = readUpTo(v, agent); err != nil {
			return 0, err
		}
	}
	if position <= u.beyond {
		return allRead, nil
	}
	if u.read == nil || position < u.from {
		u.read, u.from = map[uint64]bool{}, max(position, receiptsStep)-receiptsStep+1
		err := v.FeedReceipts(agent, u.from, position, func(at uint64, r journal.Receipts) {
			if r.ReadAt != 0 {
				u.read[at] = true
			}
		})
		if err != nil {
			return 0, err
		}
	}
	if u.read[position] {
		return entryRead, nil
	}
	return entryUnread, nil
}
