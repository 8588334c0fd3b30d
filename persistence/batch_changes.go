package persistence

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/apply"
	"parley/persistence/layout"
)

// batchChanges are batches that are applied together, and what readers have to know about
// them.
type batchChanges struct {
	homes layout.Homes
	// batch is all batches in one, nil if there is none.
	batch *pebble.Batch
	// feeds are the agents whose feeds or receipts change, some more than once.
	feeds []parley.AgentID
	// positions are the last positions assigned, by journal.
	positions map[int]uint64

	// What follows is what other replicas wrote. What this one wrote reaches subscribers and
	// observers with its entries.

	// appended are new feed entries, without the records of their messages.
	appended []apply.Appended
	// dropped are agents that lose entries of their feeds.
	dropped []parley.AgentID
	changes []journal.Change
}

// addOwn adds a batch that this replica built.
func (c *batchChanges) addOwn(f *flight) error {
	c.feeds = append(c.feeds, f.feeds...)
	c.reach(f.journal.number, f.position)
	if c.batch == nil {
		c.batch = f.batch
		return nil
	}
	return errors.Join(c.batch.Apply(f.batch, nil), f.batch.Close())
}

// add adds a batch that another replica built, and reads what it changes, which shares its
// memory. The batch is copied: the engine writes into what it applies, and other replicas
// and the log share the original.
func (c *batchChanges) add(db *pebble.DB, repr []byte) error {
	if len(repr) == 0 {
		return nil
	}
	var original pebble.Batch
	if err := original.SetRepr(repr); err != nil {
		return err
	}
	if c.batch == nil {
		c.batch = db.NewBatch()
	}
	if err := c.batch.Apply(&original, nil); err != nil {
		return err
	}
	for batch := original.Reader(); ; {
		kind, k, value, ok, err := batch.Next()
		if err != nil {
			return err
		}
		if !ok {
			return nil
		}
		if err := c.read(kind == pebble.InternalKeyKindSet, k, value); err != nil {
			return err
		}
	}
}

// reach notes the last position that a journal has assigned.
func (c *batchChanges) reach(number int, position uint64) {
	if c.positions == nil {
		c.positions = map[int]uint64{}
	}
	c.positions[number] = position
}

// read adds one operation: a row that is set, or one that is merged or deleted.
func (c *batchChanges) read(set bool, k, value []byte) error {
	slot, family := layout.FamilyOf(k)
	switch family {
	case layout.FeedFamily, layout.NoticeFamily:
		return c.readFeed(k, value)
	case layout.ReceiptFamily:
		if len(k) == layout.FeedKeyBytes {
			c.feeds = append(c.feeds, layout.AgentOf(k))
		}
	case layout.RowFamily:
		c.changes = append(c.changes, journal.Change{Table: journal.Table(k[3]), Slot: slot, Key: k[4:]})
	case layout.EventFamily, layout.StateFamily:
		s := layout.StreamOf(k)
		if last := len(c.changes) - 1; set && (last < 0 || c.changes[last].Stream != s) {
			c.changes = append(c.changes, journal.Change{Stream: s})
		}
	case layout.AppliedFamily:
		applied, err := layout.DecodeApplied(value)
		if err != nil {
			return err
		}
		c.reach(c.homes.Of(slot), applied.Position)
	}
	return nil
}

func (c *batchChanges) readFeed(k, value []byte) error {
	if len(k) != layout.FeedKeyBytes || len(value) == 0 {
		return fmt.Errorf("a feed entry with a key of %d bytes and a value of %d", len(k), len(value))
	}
	agent := layout.AgentOf(k)
	c.feeds = append(c.feeds, agent)
	if layout.Dropped(value) {
		c.dropped = append(c.dropped, agent)
		return nil
	}
	e, err := layout.DecodeFeed(layout.Number(k[layout.FeedKeyBytes-8:]), value)
	c.appended = append(c.appended, apply.Appended{Agent: agent, Entry: e})
	return err
}

// publish gives what other replicas wrote to subscribers and observers.
func (r *Replica) publish(c *batchChanges) {
	s := r.store
	for i := range c.appended {
		s.hub.publish(c.appended[i].Agent, c.appended[i].Entry)
	}
	for _, agent := range c.dropped {
		s.hub.reread(agent)
		s.observers.ReportDropped(agent)
	}
	s.observers.ReportChanges(c.changes)
}
