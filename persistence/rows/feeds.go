package rows

import (
	"errors"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/layout"
)

// Receipts returns the receipts of m's message: those stored beside the recipient's
// feed, by position, or, if m has no recipient, those stored at the home of the
// conversation.
func (v FeedReader) Receipts(m journal.RecordReceipt) (journal.Receipts, error) {
	value, found, err := v.Get(layout.ReceiptKey(m))
	if err != nil || !found {
		return journal.Receipts{}, err
	}
	return layout.DecodeReceipts(value)
}

// FeedReceipts calls fn with the receipts of agent's messages at positions from low
// to high, oldest first. Messages without receipts are left out.
func (v FeedReader) FeedReceipts(agent parley.AgentID, low, high uint64, fn func(position uint64, m journal.Receipts)) error {
	lowKey, highKey := layout.FeedKey(layout.ReceiptFamily, agent, low), layout.After(layout.FeedKey(layout.ReceiptFamily, agent, high))
	return v.Scan(lowKey, highKey, false, func(k, value []byte) (bool, error) {
		receipts, err := layout.DecodeReceipts(value)
		if err == nil {
			fn(layout.Number(k[len(k)-8:]), receipts)
		}
		return true, err
	})
}

// Feed calls fn with agent's feed entries of positions (from, upTo], oldest
// first, until fn returns false.
func (v FeedReader) Feed(agent parley.AgentID, from, upTo uint64, fn func(journal.FeedEntry) bool) error {
	if from >= upTo {
		return nil
	}
	if v.Reader == nil {
		return journal.ErrClosed
	}
	low, high := feedBounds(agent, from+1, upTo)
	iter, err := v.scanner(low, high)
	if err != nil {
		return err
	}
	rows, err := newFeedRows(iter.Iterator)
	if err != nil {
		return errors.Join(err, v.release(iter))
	}
	err = rows.scan(low, high, func(k, value []byte) (bool, error) { return giveFeed(k, value, fn) })
	return errors.Join(err, rows.close(), v.release(iter))
}

// Inbox calls fn with the entries of agent's feed that bring messages, of positions (from,
// upTo], oldest first, until fn returns false.
func (v FeedReader) Inbox(agent parley.AgentID, from, upTo uint64, fn func(journal.FeedEntry) bool) error {
	if from >= upTo {
		return nil
	}
	return v.inbox(agent, from+1, upTo, false, fn)
}

// InboxBefore calls fn with the entries of agent's feed that bring messages, of positions
// below before, newest first, until fn returns false. before 0 is the end of the feed.
func (v FeedReader) InboxBefore(agent parley.AgentID, before uint64, fn func(journal.FeedEntry) bool) error {
	return v.inbox(agent, 0, before-1, true, fn)
}

func (v FeedReader) inbox(agent parley.AgentID, from, upTo uint64, reverse bool, fn func(journal.FeedEntry) bool) error {
	low, high := feedBounds(agent, from, upTo)
	return v.Scan(low, high, reverse, func(k, value []byte) (bool, error) {
		return giveFeed(k, value, fn)
	})
}

// feedBounds are the keys between which the messages of positions from to upTo are.
func feedBounds(agent parley.AgentID, from, upTo uint64) (low, high []byte) {
	return layout.FeedKey(layout.FeedFamily, agent, from), layout.After(layout.FeedKey(layout.FeedFamily, agent, upTo))
}

// giveFeed calls fn with an entry, unless it was dropped.
func giveFeed(k, value []byte, fn func(journal.FeedEntry) bool) (more bool, err error) {
	if len(value) > 0 && layout.Dropped(value) {
		return true, nil
	}
	e, err := layout.DecodeFeed(layout.Number(k[len(k)-8:]), value)
	return err == nil && fn(e), err
}
