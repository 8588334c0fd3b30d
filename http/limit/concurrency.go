package limit

import (
	"sync"
	"time"

	"parley/client/parley"
)

const (
	// repeatEvery is how often a node repeats a part of its counts, at least one, so that the
	// others know that it lives. Within repeatAll it repeats all.
	repeatEvery, repeatAll = 200 * time.Millisecond, 30 * time.Second
	// silentAfter is when the counts of a node that says nothing no longer count. It is less than
	// the 1.5 s after which a client of a node that died resumes its stream elsewhere.
	silentAfter = 1250 * time.Millisecond
	// keepFor is how long a node remembers a count at least, and twice as long at most. While
	// many are closed at once, a repetition may take twice repeatAll.
	keepFor = 3 * repeatAll
	// sentMax bounds how many changed counts are sent at a time, and how many are repeated.
	// Further ones are sent the next time.
	sentMax = 4096
	// receivedMax bounds the counts that are remembered of another node, nodesMax such nodes.
	receivedMax, nodesMax = 1 << 17, 64
)

// Concurrency limits how many things of a key are open at a time on all nodes of a cluster
// together, such as the streams of an agent. Each node counts its own. It sends its count of a
// key to the others when that has changed, and repeats it within 30 s. So a count may be wrong
//   - for as long as news takes: several nodes may open one more at the same time;
//   - for up to 30 s if news is lost, for up to three minutes if its repetition is lost too;
//   - for 1.25 s after a node died or was cut off: what was open there still counts.
//
// Keys without a limit are not sent. A nil Concurrency knows no other nodes. It is safe for
// concurrent use.
type Concurrency struct {
	clock parley.Clock
	self  nodeID
	mu    sync.Mutex
	// here are the counts of this node. A key comes in when one is opened that has a limit, and
	// leaves when a count of zero was repeated.
	here    map[[16]byte]int
	changed map[[16]byte]struct{}
	// ring has the keys of here in the order in which they are repeated, from next on. It had
	// lap keys when its first one was repeated.
	ring     [][16]byte
	next     int
	lap      int
	repeated time.Time
	others   map[nodeID]*otherNode
}

// nodeID identifies a node from its start to its end.
type nodeID [10]byte

// otherNode has the counts of another node: those received lately in young, which go before
// those in old.
type otherNode struct {
	received, turned time.Time
	young, old       map[[16]byte]int32
}

// Concurrency adds a limit of what is open at a time, which has the same name on all nodes,
// before the Shared is used.
func (s *Shared) Concurrency(name string) *Concurrency {
	c := &Concurrency{
		clock: s.clock, self: s.self, here: map[[16]byte]int{}, changed: map[[16]byte]struct{}{}, others: map[nodeID]*otherNode{},
	}
	s.open[name] = c
	return c
}

// Open reports whether one more of a key may be opened. here is how many are open on this node:
// the caller counts them, and makes the calls for a key one after the other. limit is for all
// nodes together; nil means no limit. used is how many are open, on all nodes if there is a limit.
func (c *Concurrency) Open(key [16]byte, here int, limit *int) (used int, ok bool) {
	if c == nil {
		return here, limit == nil || here < *limit
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	used = here
	if limit != nil {
		if used += c.elsewhere(key); used >= *limit {
			return used, false
		}
		if _, known := c.here[key]; !known {
			c.here[key] = 0
			c.ring = append(c.ring, key)
		}
	}
	c.set(key, here+1)
	return used, true
}

// Close records that one of a key was closed. here is how many are left on this node.
func (c *Concurrency) Close(key [16]byte, here int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(key, here)
}

// set changes the count of a key that has a limit. The caller holds mu.
func (c *Concurrency) set(key [16]byte, here int) {
	if _, known := c.here[key]; known {
		c.here[key], c.changed[key] = here, struct{}{}
	}
}

// elsewhere returns how many of a key are open on other nodes. The caller holds mu.
func (c *Concurrency) elsewhere(key [16]byte) (n int) {
	now := c.clock()
	for _, other := range c.others {
		if now.Sub(other.received) >= silentAfter {
			continue
		}
		count, known := other.young[key]
		if !known {
			count = other.old[key]
		}
		n += int(count)
	}
	return n
}

// take appends the counts that the other nodes have to get now.
func (c *Concurrency) take(name string, all []Spent) []Spent {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	c.forget(now)
	tell := func(key [16]byte) {
		all = append(all, Spent{name, append(c.self[:len(c.self):len(c.self)], key[:]...), c.here[key]})
	}
	changes := sentMax
	for key := range c.changed {
		if changes--; changes < 0 {
			break
		}
		tell(key)
		delete(c.changed, key)
	}
	since := min(now.Sub(c.repeated), repeatAll)
	if since < repeatEvery {
		return all
	}
	c.repeated = now
	part := int(float64(max(c.lap, len(c.ring)))*since.Seconds()/repeatAll.Seconds()) + 1
	for range min(part, len(c.ring), sentMax) {
		if c.next >= len(c.ring) {
			c.next, c.lap = 0, len(c.ring)
		}
		key := c.ring[c.next]
		if tell(key); c.here[key] > 0 {
			c.next++
			continue
		}
		delete(c.here, key)
		last := len(c.ring) - 1
		c.ring[c.next], c.ring = c.ring[last], c.ring[:last]
	}
	return all
}

// forget drops counts that were not repeated for long. The caller holds mu.
func (c *Concurrency) forget(now time.Time) {
	for id, other := range c.others {
		if now.Sub(other.turned) >= keepFor {
			other.turned, other.old, other.young = now, other.young, map[[16]byte]int32{}
		}
		if len(other.young)+len(other.old) == 0 {
			delete(c.others, id)
		}
	}
}

// receive takes the count of another node: nodeAndKey is the id of the node and the key.
func (c *Concurrency) receive(nodeAndKey []byte, count int) {
	const idBytes = len(nodeID{})
	if len(nodeAndKey) != idBytes+16 {
		return
	}
	id, key := nodeID(nodeAndKey[:idBytes]), [16]byte(nodeAndKey[idBytes:])
	c.mu.Lock()
	defer c.mu.Unlock()
	now, other := c.clock(), c.others[id]
	if other == nil {
		if len(c.others) >= nodesMax {
			return
		}
		other = &otherNode{turned: now, young: map[[16]byte]int32{}}
		c.others[id] = other
	}
	other.received = now
	if _, known := other.young[key]; known || len(other.young) < receivedMax {
		other.young[key] = int32(max(min(count, receivedMax), 0))
	}
}
