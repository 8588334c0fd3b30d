package persistence

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley"
	"parley/journal"
	"parley/persistence/apply"
	"parley/persistence/layout"
)

// batchChanges is what readers have to know about a batch that another replica built.
type batchChanges struct {
	// feeds are the agents whose feeds or receipts change, some more than once.
	feeds []parley.AgentID
	// appended are new feed entries, without the records of their messages.
	appended []apply.Appended
	// dropped are agents that lose entries of their feeds.
	dropped []parley.AgentID
	changes []journal.Change
	// positions are the last positions assigned, by journal.
	positions map[int]uint64
}

// add copies a batch into one that is applied together with others, and reads what it
// changes, which shares its memory. The engine writes into the batches that it applies, and
// other replicas and the log share the original. What subscribers and observers get is left
// out if foreign is not set: the entries that this replica appended bring it.
func (c *batchChanges) add(homes layout.Homes, to *pebble.Batch, repr []byte, foreign bool) error {
	if len(repr) == 0 {
		return nil
	}
	var original pebble.Batch
	if err := original.SetRepr(repr); err != nil {
		return err
	}
	if err := to.Apply(&original, nil); err != nil {
		return err
	}
	appended, dropped, changes := len(c.appended), len(c.dropped), len(c.changes)
	for batch := original.Reader(); ; {
		kind, k, value, ok, err := batch.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := c.read(homes, kind == pebble.InternalKeyKindSet, k, value); err != nil {
			return err
		}
	}
	if !foreign {
		c.appended, c.dropped, c.changes = c.appended[:appended], c.dropped[:dropped], c.changes[:changes]
	}
	return nil
}

// read adds one operation: a row that is set, or one that is merged or deleted.
func (c *batchChanges) read(homes layout.Homes, set bool, k, value []byte) error {
	slot, family := layout.FamilyOf(k)
	switch family {
	case layout.FeedFamily:
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
		if c.positions == nil {
			c.positions = map[int]uint64{}
		}
		c.positions[homes.Of(slot)] = applied.Position
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

// publish gives what another replica wrote to subscribers and observers.
func (s *Store) publish(c *batchChanges) {
	for i := range c.appended {
		s.hub.publish(c.appended[i].Agent, c.appended[i].Entry)
	}
	for _, agent := range c.dropped {
		s.hub.reread(agent)
	}
	s.observers.reportChanges(c.changes)
}
