package seal

import (
	"sync"
	"sync/atomic"

	"parley/client/parley"
)

const (
	cacheShardBits = 5
	cacheShards    = 1 << cacheShardBits
	shardMax       = 256
	// derivedMax is how many derived keys a Sealer remembers, about 0.7 KiB each.
	derivedMax = cacheShards * shardMax
)

// derived is the cipher of some owners.
type derived struct {
	owners Owners
	cipher *xaes
	// place is the index in the entries of the shard.
	place int
	// used is set by every use and cleared when the eviction spares the entry.
	used atomic.Bool
}

// shard is a part of the cache of ciphers. A cipher is used only under the lock and
// wiped under its exclusive form: nobody ever uses a wiped one.
type shard struct {
	mu      sync.RWMutex
	index   map[Owners]*derived
	entries []*derived
	// hand is where the next eviction begins to look.
	hand int
}

// messageKey derives the key of a message if the cipher of its owners is in the cache,
// and reports whether it is.
func (s *shard) messageKey(key *[keyBytes]byte, owners Owners, nonce []byte) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	d := s.index[owners]
	if d == nil {
		return false
	}
	if !d.used.Load() { // the store would invalidate the line for other processors
		d.used.Store(true)
	}
	d.cipher.messageKey(key, nonce)
	return true
}

// add takes over a cipher and derives the key of a message with it, unless valid
// reports false: then it wipes the cipher and reports false. If another goroutine was
// faster, its cipher stays.
func (s *shard) add(key *[keyBytes]byte, owners Owners, cipher *xaes, nonce []byte, valid func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !valid() {
		cipher.wipe()
		return false
	}
	cipher.messageKey(key, nonce)
	if s.index[owners] != nil {
		cipher.wipe()
		return true
	}
	if len(s.entries) == shardMax {
		s.evict()
	}
	d := &derived{owners: owners, cipher: cipher, place: len(s.entries)}
	s.index[owners] = d
	s.entries = append(s.entries, d)
	return true
}

// evict removes an entry that was not used since the hand last passed it (CLOCK). The
// hand advances by shardMax+1 entries at most, and by few on average: it spares an entry
// only once for each time that a use has set its flag.
func (s *shard) evict() {
	for {
		s.hand = (s.hand + 1) % len(s.entries)
		if !s.entries[s.hand].used.Swap(false) {
			s.remove(s.entries[s.hand])
			return
		}
	}
}

// forget removes and wipes all entries that derive from an organization's key.
func (s *shard) forget(org parley.OrgID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.entries) - 1; i >= 0; i-- { // remove moves the last entry, already seen
		if d := s.entries[i]; d.owners.Has(org) {
			s.remove(d)
		}
	}
}

func (s *shard) remove(d *derived) {
	d.cipher.wipe()
	delete(s.index, d.owners)
	last := len(s.entries) - 1
	s.entries[d.place] = s.entries[last]
	s.entries[d.place].place = d.place
	s.entries[last] = nil
	s.entries = s.entries[:last]
}
