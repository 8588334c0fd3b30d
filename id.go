package parley

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Slots is the number of places an id can live in. A journal is home to many
// slots; which journal holds a slot is decided when a data directory is made.
const Slots = 4096

// Slot is a place of residence, 0 ≤ Slot < Slots.
type Slot uint16

// ID is a UUID of version 7 layout that names one K and says where it lives:
//
//	milliseconds (48) | version (4) | slot (12) | variant (2) | counter (14) | random (48)
//
// A broadcast's ends in 32 zeros, which in the ids of its copies are a seat.
//
// An id of one kind is converted to another by naming the type: AnyID(agent).
// Ids made one after another by Next sort in the order they were made.
type ID[K any] [16]byte

type (
	orgKind          struct{}
	agentKind        struct{}
	conversationKind struct{}
	messageKind      struct{}
	clientKind       struct{}
	groupKind        struct{}
	joinRequestKind  struct{}
	anyKind          struct{}
)

// The ids of the specification's resources. A function that wants an AgentID
// cannot be handed an OrgID.
type (
	OrgID          = ID[orgKind]
	AgentID        = ID[agentKind]
	ConversationID = ID[conversationKind]
	MessageID      = ID[messageKind]
	ClientID       = ID[clientKind]
	GroupID        = ID[groupKind]
	JoinRequestID  = ID[joinRequestKind]
	// AnyID is an id whose kind its surroundings tell, such as a stream's.
	AnyID = ID[anyKind]
)

// ErrNotID says that a text or byte string is not a UUID.
var ErrNotID = errors.New("not a UUID")

const counterMax = 1<<14 - 1

// NewID makes an id that lives in slot, from a time and ten random bytes.
func NewID[I ~[16]byte](slot Slot, at time.Time, random [10]byte) I {
	return build[I](uint64(at.UnixMilli()), slot, binary.BigEndian.Uint16(random[:2])&(counterMax>>1), random)
}

// NextID makes an id in the slot of last that sorts after it, stamped with the
// later of last's time and now.
func NextID[I ~[16]byte](last I, now time.Time, random [10]byte) I {
	before := AnyID(last)
	ms, counter := uint64(now.UnixMilli()), binary.BigEndian.Uint16(random[:2])&(counterMax>>1)
	if ms <= before.millis() {
		ms, counter = before.millis(), before.counter()+1
		if counter > counterMax {
			ms, counter = ms+1, 0
		}
	}
	return build[I](ms, before.Slot(), counter, random)
}

func build[I ~[16]byte](ms uint64, slot Slot, counter uint16, random [10]byte) I {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], ms<<16|0x7000|uint64(slot&(Slots-1)))
	binary.BigEndian.PutUint16(id[8:10], 0x8000|counter)
	copy(id[10:], random[2:8])
	return I(id)
}

// NextBroadcastID is NextID for a message with copies: they sort with it before
// whatever NextID makes of it.
func NextBroadcastID(last MessageID, now time.Time, random [10]byte) MessageID {
	return NextID(last, now, random).Broadcast()
}

// Copy is the id of the copy of a broadcast that goes to the member of a seat:
// the broadcast's, with the seat's number in its last four bytes.
func Copy(broadcast MessageID, seat uint32) MessageID {
	binary.BigEndian.PutUint32(broadcast[12:], seat)
	return broadcast
}

// Broadcast is the id of what id is a copy of, if it is one.
func (id ID[K]) Broadcast() ID[K] {
	clear(id[12:])
	return id
}

// Seat is the number of the seat that a copy went to.
func (id ID[K]) Seat() uint32 { return binary.BigEndian.Uint32(id[12:]) }

// ParseID reads the canonical 36-character form, in either case.
func ParseID[I ~[16]byte](text string) (I, error) {
	if len(text) != 36 {
		return I{}, ErrNotID
	}
	u, err := uuid.Parse(text)
	if err != nil {
		return I{}, ErrNotID
	}
	return I(u), nil
}

// IDFromBytes reads the 16 bytes of an id as stored; anything else is the zero id.
func IDFromBytes[I ~[16]byte](b []byte) I {
	if len(b) != 16 {
		return I{}
	}
	return I([16]byte(b))
}

func (id ID[K]) millis() uint64  { return binary.BigEndian.Uint64(id[:8]) >> 16 }
func (id ID[K]) counter() uint16 { return binary.BigEndian.Uint16(id[8:10]) & counterMax }

// Slot is where the id's owner lives. Ids that this service did not make have
// a slot too: whatever their bits say.
func (id ID[K]) Slot() Slot { return Slot(binary.BigEndian.Uint16(id[6:8]) & (Slots - 1)) }

// Time is the instant the id carries, in whole milliseconds, UTC.
func (id ID[K]) Time() time.Time { return time.UnixMilli(int64(id.millis())).UTC() }

// Zero reports whether the id names nothing.
func (id ID[K]) Zero() bool { return id == ID[K]{} }

// Bytes is a copy of the id's 16 bytes.
func (id ID[K]) Bytes() []byte { return append([]byte(nil), id[:]...) }

func (id ID[K]) String() string { return uuid.UUID(id).String() }

// AppendText appends the canonical lowercase form.
func (id ID[K]) AppendText(b []byte) ([]byte, error) {
	const digits = "0123456789abcdef"
	for i, x := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b = append(b, '-')
		}
		b = append(b, digits[x>>4], digits[x&15])
	}
	return b, nil
}

// MarshalText gives the canonical lowercase form.
func (id ID[K]) MarshalText() ([]byte, error) { return id.AppendText(make([]byte, 0, 36)) }

// UnmarshalText reads the canonical form.
func (id *ID[K]) UnmarshalText(text []byte) error {
	parsed, err := ParseID[ID[K]](string(text))
	if err == nil {
		*id = parsed
	}
	return err
}

// Clock tells the time. Nothing below cmd reads any other.
type Clock func() time.Time

// Entropy fills ten bytes with randomness for an id.
type Entropy func() [10]byte

// RandomEntropy draws from the system's generator. It buffers nothing: a
// forked or restored process never repeats an id.
func RandomEntropy() [10]byte {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return b
}

// CountingEntropy is a deterministic source for tests. The number is both in the
// bytes that make an id unique and in the last two, which spread slots.
func CountingEntropy() Entropy {
	var n atomic.Uint64
	return func() (b [10]byte) {
		i := n.Add(1)
		binary.BigEndian.PutUint64(b[:8], i)
		binary.BigEndian.PutUint16(b[8:], uint16(i))
		return b
	}
}

// SlotOf spreads names that have no id of their own over the slots.
func SlotOf(name string) Slot {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	// FNV's low bits are weak; fold the high ones in.
	h ^= h >> 32
	h *= 0x9E3779B97F4A7C15
	return Slot(h >> 52)
}

// Seat is an agent in a group, and the number of its place there.
type Seat struct {
	Agent  AgentID
	Number uint32
}
