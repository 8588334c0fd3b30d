package host

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"

	"parley/client/parley"
)

// Key identifies one message of a bench. It is at the front of the payload, so that a
// message that is read back identifies itself.
type Key struct {
	// Run is the number of the host's preparation, including fills.
	Run uint16
	// Kind distinguishes the messages of one operation.
	Kind   uint8
	Worker uint32
	// N is the number of the worker's operation.
	N uint32
}

const (
	// KeyLength is eight digits of the seed, four of the run, five of the worker,
	// eight of the operation and one of the kind, with hyphens after each.
	KeyLength = 8 + 1 + 4 + 1 + 5 + 1 + 8 + 1 + 1 + 1
	// PayloadMin is the shortest payload that holds a key.
	PayloadMin = KeyLength
	WorkersMax = 1 << 20
)

// letters are the alphabet of base64url.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// poolLength is the number of random letters from which payloads are cut: enough that no
// engine finds the same text twice within what it compresses at once.
const poolLength = 1 << 20

// Payloads creates and checks the payloads of one bench. The text after the key is as
// random as ciphertext, because a compressible text would make every store look better
// than it is.
type Payloads struct {
	seed [8]byte
	// Size is the length of every payload.
	Size int
	pool []byte
}

func newPayloads(seed uint64, length int) *Payloads {
	p := &Payloads{Size: length, pool: make([]byte, poolLength+length)}
	copy(p.seed[:], fmt.Sprintf("%08x", uint32(seed^seed>>32)))
	random := rand.New(rand.NewPCG(seed, 1))
	for i := range p.pool {
		p.pool[i] = letters[random.Uint32()&63]
	}
	return p
}

// tail returns the kind of the payload after the key.
func (p *Payloads) tail(key Key) []byte {
	h := (uint64(key.Worker)<<40 ^ uint64(key.N)<<8 ^ uint64(key.Run)<<3 ^ uint64(key.Kind) + 1) * 0x9E3779B97F4A7C15
	at := int(h >> 44) // twenty bits: an index into the pool
	return p.pool[at : at+p.Size-KeyLength]
}

// Write writes the payload of key to to, which must have the length of payloads.
func (p *Payloads) Write(to []byte, key Key) {
	copy(to[KeyLength:], p.tail(key))
	copy(to, p.seed[:])
	to[8] = '-'
	hexDigits(to[9:13], uint64(key.Run))
	to[13] = '-'
	hexDigits(to[14:19], uint64(key.Worker))
	to[19] = '-'
	hexDigits(to[20:28], uint64(key.N))
	to[28] = '-'
	hexDigits(to[29:30], uint64(key.Kind))
	to[30] = '-'
}

// Read returns the key of a payload of this bench; ok is false if any byte differs from
// what was written.
func (p *Payloads) Read(payload []byte) (key Key, ok bool) {
	if len(payload) != p.Size || !bytes.Equal(payload[:8], p.seed[:]) {
		return Key{}, false
	}
	run, ok1 := hexValue(payload[9:13])
	worker, ok2 := hexValue(payload[14:19])
	n, ok3 := hexValue(payload[20:28])
	kind, ok4 := hexValue(payload[29:30])
	hyphens := payload[8] == '-' && payload[13] == '-' && payload[19] == '-' && payload[28] == '-' && payload[30] == '-'
	key = Key{Run: uint16(run), Kind: uint8(kind), Worker: uint32(worker), N: uint32(n)}
	return key, ok1 && ok2 && ok3 && ok4 && hyphens && bytes.Equal(payload[KeyLength:], p.tail(key))
}

const hexAlphabet = "0123456789abcdef"

func hexDigits(to []byte, v uint64) {
	for i := len(to) - 1; i >= 0; i-- {
		to[i] = hexAlphabet[v&15]
		v >>= 4
	}
}

func hexValue(digits []byte) (v uint64, ok bool) {
	v, err := strconv.ParseUint(string(digits), 16, 64)
	return v, err == nil
}

// UUID is any id of the API.
type UUID = parley.MessageID

// ParseUUID reads an id, which is not the zero id.
func ParseUUID(text []byte) (id UUID, ok bool) {
	id, err := parley.ParseID[UUID](string(text))
	return id, err == nil && !id.Zero()
}
