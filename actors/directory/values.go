package directory

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"
)

// facet is the kind of a value that documents are filtered by.
type facet byte

const (
	byCategory facet = 1 + iota
	byLanguage
	byTag
	byJurisdiction
	byMessageType
	byOrg
	byVerified
	byPricing
)

// valueKey returns the key of a value among those of all kinds.
func valueKey(kind facet, text string) string { return string(rune(kind)) + text }

// members is an immutable set of ordinals: a bitmap, and later ordinals in a list.
type members struct {
	early *roaring.Bitmap // nil while there are few
	late  []uint32
}

// value is one value of a kind. Its members include removed documents until the index is
// compacted; live counts the others.
type value struct {
	id   uint32
	key  string
	live atomic.Int32
	set  atomic.Pointer[members]
}

// lateMin is how many members a value has before it gets a bitmap.
const lateMin = 64

// append adds a document whose ordinal is higher than all others. The list is folded
// into a new bitmap when it has grown by an eighth, so that what is copied stays
// proportional to what is added.
func (v *value) append(ordinal uint32) {
	old := v.set.Load()
	late := old.late
	if len(late) == cap(late) {
		larger := make([]uint32, len(late), len(late)+len(late)/4+1)
		copy(larger, late)
		late = larger
	}
	next := &members{old.early, append(late, ordinal)}
	if n := len(next.late); n >= lateMin && (next.early == nil || uint64(n) >= next.early.GetCardinality()/8) {
		next = next.folded()
	}
	v.set.Store(next)
}

// folded returns the same set with all members in a bitmap.
func (m *members) folded() *members {
	early := roaring.New()
	if m.early != nil {
		early = m.early.Clone()
	}
	early.AddMany(m.late)
	early.RunOptimize()
	return &members{early: early}
}

// collect adds a document to a value that no reader has.
func (v *value) collect(ordinal uint32) {
	set := v.set.Load()
	set.late = append(set.late, ordinal)
}

// settle ends a series of collect.
func (v *value) settle() {
	set := v.set.Load()
	if len(set.late) >= lateMin {
		v.set.Store(set.folded())
		return
	}
	set.late = append(make([]uint32, 0, len(set.late)), set.late...)
}

// mergeInto sets the bits of the members below limit.
func (v *value) mergeInto(bits []uint64, limit uint32, scratch []uint64) {
	set := v.set.Load()
	if set.early != nil && !set.early.IsEmpty() {
		words := int(set.early.Maximum()/64) + 1
		if words <= len(scratch) {
			clear(scratch[:words])
			set.early.WriteDenseTo(scratch[:words])
			for i, word := range scratch[:words] {
				bits[i] |= word
			}
		} else {
			for it := set.early.Iterator(); it.HasNext(); {
				ordinal := it.Next()
				if ordinal >= limit {
					return
				}
				bits[ordinal/64] |= 1 << (ordinal % 64)
			}
		}
	}
	for _, ordinal := range set.late {
		if ordinal >= limit {
			return
		}
		bits[ordinal/64] |= 1 << (ordinal % 64)
	}
}

// values finds the values of all kinds by key. One goroutine at a time adds values.
type values struct {
	mu    sync.RWMutex
	byKey map[string]*value
	// byID holds the values by number. It only grows.
	byID atomic.Pointer[[]*value]
}

func newValues() *values {
	vs := &values{byKey: map[string]*value{}}
	vs.byID.Store(&[]*value{})
	return vs
}

// all returns the values by number.
func (vs *values) all() []*value { return *vs.byID.Load() }

func (vs *values) find(kind facet, text string) *value {
	vs.mu.RLock()
	defer vs.mu.RUnlock()
	return vs.byKey[valueKey(kind, text)]
}

func (vs *values) intern(key string) *value {
	vs.mu.RLock()
	v := vs.byKey[key]
	vs.mu.RUnlock()
	if v != nil {
		return v
	}
	known := vs.all()
	v = &value{id: uint32(len(known)), key: key}
	v.set.Store(&members{})
	known = append(known, v)
	vs.byID.Store(&known)
	vs.mu.Lock()
	defer vs.mu.Unlock()
	vs.byKey[key] = v
	return v
}

// A Count is a category and how many cards have it.
type Count struct {
	Name  string
	Count int
}

// counts returns the values of a kind that documents have, in no order.
func (vs *values) counts(kind facet) []Count {
	vs.mu.RLock()
	defer vs.mu.RUnlock()
	var all []Count
	prefix := valueKey(kind, "")
	for key, v := range vs.byKey {
		if n := v.live.Load(); n > 0 && strings.HasPrefix(key, prefix) {
			all = append(all, Count{key[len(prefix):], int(n)})
		}
	}
	return all
}
