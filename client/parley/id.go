package parley

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Slots is the number of slots. Each journal stores many slots; which journal stores
// a slot is determined when the data directory is created.
const Slots = 4096

// Slot is a number from 0 to Slots-1 that determines which journal stores what an id
// names.
type Slot uint16

// ID is a UUID in the layout of version 7 that names one K and contains its slot:
//
//	milliseconds (48) | version (4) | slot (12) | variant (2) | counter (14) | random (48)
//
// The id of a broadcast ends in 32 zero bits; in the ids of its copies they are the
// number of a seat.
//
// A conversion changes the kind of an id: AnyID(agent). Ids made one after another by
// NextID sort in the order in which they were made.
type ID[K any] [16]byte

type (
	orgKind          struct{}
	agentKind        struct{}
	conversationKind struct{}
	messageKind      struct{}
	clientKind       struct{}
	groupKind        struct{}
	joinRequestKind  struct{}
	reportKind       struct{}
	operatorKind     struct{}
	registrationKind struct{}
	anyKind          struct{}
)

// The ids of the specification's resources. They are distinct types: an OrgID cannot
// be passed as an AgentID.
type (
	OrgID          = ID[orgKind]
	AgentID        = ID[agentKind]
	ConversationID = ID[conversationKind]
	MessageID      = ID[messageKind]
	ClientID       = ID[clientKind]
	GroupID        = ID[groupKind]
	JoinRequestID  = ID[joinRequestKind]
	// ReportID names a report, in the slot of the organization that made it.
	ReportID = ID[reportKind]
	// OperatorID names the token of an operator, RegistrationID a registration token.
	OperatorID     = ID[operatorKind]
	RegistrationID = ID[registrationKind]
	// AnyID is an id whose kind is known from the context, such as the id of a stream.
	AnyID = ID[anyKind]
)

// ErrNotID is returned for a text that is not a UUID.
var ErrNotID = errors.New("not a UUID")

const counterMax = 1<<14 - 1

// NewID returns an id in a slot, made of a time, in milliseconds, and ten random
// bytes, of which it uses eight.
func NewID[I ~[16]byte](slot Slot, at time.Time, random [10]byte) I {
	return build[I](uint64(at.UnixMilli()), slot, binary.BigEndian.Uint16(random[:2])&(counterMax>>1), random)
}

// NextID returns an id in the slot of last that sorts after last. Its time is the later
// of last's time and now.
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

// NextBroadcastID is NextID for a broadcast: the ids of its copies sort before every
// id that NextID makes from it.
func NextBroadcastID(last MessageID, now time.Time, random [10]byte) MessageID {
	return NextID(last, now, random).Broadcast()
}

// Copy returns the id of the copy of a broadcast for the member in a seat: the id of
// the broadcast with the seat's number in the last four bytes.
func Copy(broadcast MessageID, seat uint32) MessageID {
	binary.BigEndian.PutUint32(broadcast[12:], seat)
	return broadcast
}

// Broadcast returns the id of the broadcast, given the id of one of its copies.
func (id ID[K]) Broadcast() ID[K] {
	clear(id[12:])
	return id
}

// Seat returns the number of the seat that a copy of a broadcast is for.
func (id ID[K]) Seat() uint32 { return binary.BigEndian.Uint32(id[12:]) }

// ParseID parses the canonical form of 36 characters, in upper or lower case. The only
// error is ErrNotID.
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

// IDFromBytes returns the id that is stored in 16 bytes, or the zero id if b has another
// length.
func IDFromBytes[I ~[16]byte](b []byte) I {
	if len(b) != 16 {
		return I{}
	}
	return I([16]byte(b))
}

func (id ID[K]) millis() uint64  { return binary.BigEndian.Uint64(id[:8]) >> 16 }
func (id ID[K]) counter() uint16 { return binary.BigEndian.Uint16(id[8:10]) & counterMax }

// Slot returns the slot in the id. An id that this service did not make has one too,
// from the same bits.
func (id ID[K]) Slot() Slot { return Slot(binary.BigEndian.Uint16(id[6:8]) & (Slots - 1)) }

// Time returns the time in the id, in UTC, in whole milliseconds.
func (id ID[K]) Time() time.Time { return time.UnixMilli(int64(id.millis())).UTC() }

// Zero reports whether the id names nothing.
func (id ID[K]) Zero() bool { return id == ID[K]{} }

// Bytes returns a copy of the id's 16 bytes.
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

// MarshalText returns the canonical lowercase form. It never fails.
func (id ID[K]) MarshalText() ([]byte, error) { return id.AppendText(make([]byte, 0, 36)) }

// UnmarshalText parses the canonical form, like ParseID.
func (id *ID[K]) UnmarshalText(text []byte) error {
	parsed, err := ParseID[ID[K]](string(text))
	if err == nil {
		*id = parsed
	}
	return err
}

// Clock returns the current time. Packages below cmd have no other clock.
type Clock func() time.Time

// Entropy returns ten random bytes for an id.
type Entropy func() [10]byte

// RandomEntropy reads the system's random number generator. It buffers nothing, so a
// process that was forked or restored from a snapshot never repeats an id.
func RandomEntropy() [10]byte {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return b
}

// CountingEntropy returns a deterministic source for tests, which counts up from 1. The
// number is in the bytes that make an id unique and, with its bits reversed, in the last
// two, which choose a slot: neighbours live in different homes.
func CountingEntropy() Entropy {
	var n atomic.Uint64
	return func() (b [10]byte) {
		i := n.Add(1)
		binary.BigEndian.PutUint64(b[:8], i)
		binary.BigEndian.PutUint16(b[8:], bits.Reverse16(uint16(i))>>4)
		return b
	}
}

// SlotOf returns the slot of a name that has no id, by a hash.
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

// Seat is a member of a group: the agent and the number of its seat.
type Seat struct {
	Agent  AgentID
	Number uint32
}
