package seal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"reflect"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"parley/client/parley"
)

// keyMap is a set of keys in memory. Hook, if set, runs in every call of Key, after
// the key was read.
type keyMap struct {
	mu     sync.RWMutex
	keys   map[parley.OrgID][32]byte
	erased map[parley.OrgID]bool
	hook   func(parley.OrgID)
}

func (m *keyMap) Key(org parley.OrgID) (key [32]byte, state State) {
	m.mu.RLock()
	key, live := m.keys[org]
	erased := m.erased[org]
	hook := m.hook
	m.mu.RUnlock()
	if hook != nil {
		hook(org)
	}
	switch {
	case erased:
		return [32]byte{}, Erased
	case live:
		return key, Live
	}
	return [32]byte{}, Unknown
}

func (m *keyMap) erase(org parley.OrgID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.keys, org)
	m.erased[org] = true
}

func (m *keyMap) setHook(hook func(parley.OrgID)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = hook
}

// org returns the nth test organization.
func org(n int) (id parley.OrgID) {
	binary.BigEndian.PutUint64(id[:8], 0x0190a6b0_0000_7000)
	binary.BigEndian.PutUint64(id[8:], 0x8000_0000_0000_0000+uint64(n))
	return id
}

// newSealer returns a Sealer for test organizations 1 to n.
func newSealer(n int) (*Sealer, *keyMap) {
	m := &keyMap{keys: map[parley.OrgID][32]byte{}, erased: map[parley.OrgID]bool{}}
	for i := 1; i <= n; i++ {
		key := [32]byte{0: 1}
		binary.BigEndian.PutUint64(key[24:], uint64(i))
		m.keys[org(i)] = key
	}
	return New(m, [32]byte{31: 9}), m
}

func mustSeal(t testing.TB, s *Sealer, plaintext []byte, owners Owners, family byte, identity string) []byte {
	t.Helper()
	envelope, err := s.AppendSealed(nil, plaintext, owners, family, []byte(identity))
	if err != nil {
		t.Fatal(err)
	}
	return envelope
}

func expectError(t testing.TB, what string, got []byte, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || got != nil {
		t.Errorf("%s: got %x, %v, want %v", what, got, err, want)
	}
}

// wiped reports whether nothing of a key is left in a cipher.
func wiped(x *xaes) bool {
	return reflect.ValueOf(x.block).Elem().IsZero() && x.k1 == [16]byte{}
}

// What is sealed opens with the same owners, family and identity, and is appended to
// what dst contains.
func TestRoundTrip(t *testing.T) {
	s, _ := newSealer(5)
	rapid.Check(t, func(t *rapid.T) {
		a, b := org(rapid.IntRange(1, 5).Draw(t, "a")), org(rapid.IntRange(1, 5).Draw(t, "b"))
		owners := Pair(a, b)
		if rapid.Bool().Draw(t, "single") {
			owners = Single(a)
		}
		plaintext := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "plaintext")
		identity := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "identity")
		family := rapid.Byte().Draw(t, "family")
		front := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "front")
		dst := append(make([]byte, 0, rapid.IntRange(0, 500).Draw(t, "capacity")+len(front)), front...)
		sealed, err := s.AppendSealed(dst, plaintext, owners, family, identity)
		if err != nil || !bytes.HasPrefix(sealed, front) {
			t.Fatalf("got %x, %v, want it to begin with %x", sealed, err, front)
		}
		envelope := sealed[len(front):]
		if len(envelope) != owners.SealedLen(len(plaintext)) {
			t.Errorf("the envelope has %d bytes, SealedLen says %d", len(envelope), owners.SealedLen(len(plaintext)))
		}
		if read, err := OwnersOf(envelope); err != nil || read != owners {
			t.Errorf("the envelope names %v, %v, want %v", read, err, owners)
		}
		opened, err := s.AppendOpened(front, envelope, family, identity)
		if err != nil || !bytes.Equal(opened, append(bytes.Clone(front), plaintext...)) {
			t.Errorf("opens as %x, %v, want %x after %x", opened, err, plaintext, front)
		}
		if len(plaintext) >= 8 && bytes.Contains(envelope, plaintext) {
			t.Errorf("%x contains the plaintext %x", envelope, plaintext)
		}
	})
}

// The layout and the derivation of keys are frozen: an envelope of the first release
// opens, and the same input gives the same bytes. Another implementation (HKDF written
// in Python, XAES of tink-go v2.9.0) opens these envelopes.
func TestEnvelopeBytes(t *testing.T) {
	s, _ := newSealer(2)
	s.random = func(b []byte) { copy(b, "ABCDEFGHIJKLMNOPQRSTUVWX") }
	for _, v := range []struct {
		owners Owners
		want   string
	}{
		{Single(org(1)), "110190a6b00000700080000000000000014142434445464748494a4b4c4d4e4f5051525354555657585f94f71c5be9a6a122944362769e1f63e24ed3203a6fcd"},
		{Pair(org(1), org(1)), "120190a6b00000700080000000000000014142434445464748494a4b4c4d4e4f505152535455565758774e3849aa2666f9d9e24c759f3b56269fc2b8530bb818"},
		{Pair(org(2), org(1)), "130190a6b00000700080000000000000010190a6b00000700080000000000000024142434445464748494a4b4c4d4e4f50515253545556575878ca64968ceb898921ec2d6be0342cb03a4a8485d25e9f"},
	} {
		envelope := mustSeal(t, s, []byte("content"), v.owners, 'B', "identity")
		if got := hex.EncodeToString(envelope); got != v.want {
			t.Errorf("got %s, want %s", got, v.want)
		}
	}
}

// Every envelope has its own nonce, all of it random.
func TestNonces(t *testing.T) {
	s, _ := newSealer(1)
	const rounds = 2000
	seen := map[string]bool{}
	var ones, zeros [nonceBytes]byte
	for range rounds {
		_, nonce, _, err := parse(mustSeal(t, s, []byte("same"), Single(org(1)), 'B', "same"))
		if err != nil {
			t.Fatal(err)
		}
		for _, half := range []string{"first" + string(nonce[:12]), "second" + string(nonce[12:])} {
			if seen[half] {
				t.Fatalf("%x repeats", half)
			}
			seen[half] = true
		}
		for i, b := range nonce {
			ones[i] |= b
			zeros[i] |= ^b
		}
	}
	for i := range ones {
		if ones[i]&zeros[i] != 0xff {
			t.Errorf("byte %d of nonces has bits that never change", i)
		}
	}
}

// No envelope opens after a change of any byte, after a cut or with a byte more.
func TestDamage(t *testing.T) {
	s, _ := newSealer(3)
	for _, owners := range []Owners{Single(org(1)), Pair(org(1), org(1)), Pair(org(1), org(2))} {
		envelope := mustSeal(t, s, []byte("the content"), owners, 'B', "identity")
		open := func(what string, b []byte) {
			t.Helper()
			got, err := s.AppendOpened(nil, b, 'B', []byte("identity"))
			expectError(t, what, got, err, ErrDamaged)
		}
		for i := range envelope {
			for change := 1; change < 256; change++ {
				b := bytes.Clone(envelope)
				b[i] ^= byte(change)
				open("changed byte", b)
			}
			open("cut", envelope[:i])
		}
		open("one more byte", append(bytes.Clone(envelope), 0))
		if _, err := s.AppendOpened(nil, envelope, 'B', []byte("identity")); err != nil {
			t.Errorf("the unchanged envelope does not open: %v", err)
		}
	}
}

// An envelope does not open in another place or for others than its owners.
func TestBinding(t *testing.T) {
	s, _ := newSealer(3)
	envelope := mustSeal(t, s, []byte("content"), Pair(org(1), org(2)), 'B', "identity")
	for what, place := range map[string]struct {
		family   byte
		identity string
	}{
		"another family":   {'E', "identity"},
		"another identity": {'B', "identitx"},
		"shorter identity": {'B', "identit"},
		"longer identity":  {'B', "identity\x00"},
		"no identity":      {'B', ""},
	} {
		got, err := s.AppendOpened(nil, envelope, place.family, []byte(place.identity))
		expectError(t, what, got, err, ErrDamaged)
	}
	first, second := org(1), org(2)
	body := envelope[1+2*idBytes:]
	for what, header := range map[string][]byte{
		"swapped owners":   append(append([]byte{formPair}, second[:]...), first[:]...),
		"another pair":     Pair(org(1), org(3)).appendHeader(nil),
		"one owner":        Single(org(1)).appendHeader(nil),
		"one owner twice":  append(append([]byte{formPair}, first[:]...), first[:]...),
		"inner pair":       Pair(org(1), org(1)).appendHeader(nil),
		"unknown version":  append([]byte{0x20 | formPair&0x0f}, envelope[1:1+2*idBytes]...),
		"unknown form":     append([]byte{0x14}, envelope[1:1+2*idBytes]...),
		"version zero":     append([]byte{0x03}, envelope[1:1+2*idBytes]...),
		"form zero":        append([]byte{0x10}, envelope[1:1+2*idBytes]...),
		"unknown owner":    Pair(org(1), org(9)).appendHeader(nil),
		"no owner (zeros)": Single(parley.OrgID{}).appendHeader(nil),
	} {
		got, err := s.AppendOpened(nil, append(bytes.Clone(header), body...), 'B', []byte("identity"))
		expectError(t, what, got, err, ErrDamaged)
	}
	for what, header := range map[string][]byte{
		"in descending order": append(append([]byte{formPair}, second[:]...), first[:]...),
		"equal":               append(append([]byte{formPair}, first[:]...), first[:]...),
	} {
		if owners, err := OwnersOf(append(header, body...)); !errors.Is(err, ErrDamaged) {
			t.Errorf("owners that are %s are read as %v, %v", what, owners, err)
		}
	}
	other, _ := newSealer(3)
	other.keys.(*keyMap).keys[org(2)] = [32]byte{5}
	got, err := other.AppendOpened(nil, envelope, 'B', []byte("identity"))
	expectError(t, "another key of an owner", got, err, ErrDamaged)
}

// The key of single owners differs from that of a pair within one organization, and
// the form is authenticated, so that neither opens as the other.
func TestFormsDiffer(t *testing.T) {
	s, _ := newSealer(1)
	s.random = func(b []byte) { clear(b) }
	single := mustSeal(t, s, make([]byte, 64), Single(org(1)), 'B', "")
	inner := mustSeal(t, s, make([]byte, 64), Pair(org(1), org(1)), 'B', "")
	if header := 1 + idBytes + nonceBytes; bytes.Equal(single[header:header+64], inner[header:header+64]) {
		t.Error("both have the same key")
	}
	inner[0] = formSingle
	got, err := s.AppendOpened(nil, inner, 'B', nil)
	expectError(t, "inner pair as single", got, err, ErrDamaged)
}

func TestKeyStates(t *testing.T) {
	s, m := newSealer(3)
	pair, single := Pair(org(1), org(2)), Single(org(2))
	ofPair := mustSeal(t, s, []byte("content"), pair, 'B', "id")
	ofSingle := mustSeal(t, s, []byte("content"), single, 'B', "id")
	expect := func(what string, owners Owners, envelope []byte, sealing, opening error) {
		t.Helper()
		got, err := s.AppendSealed(nil, []byte("content"), owners, 'B', []byte("id"))
		expectError(t, what+": seal", got, err, sealing)
		if envelope != nil {
			got, err = s.AppendOpened(nil, envelope, 'B', []byte("id"))
			expectError(t, what+": open", got, err, opening)
		}
	}
	expect("no owners", Owners{}, nil, ErrUnknownOwner, nil)
	expect("unknown", Single(org(9)), nil, ErrUnknownOwner, nil)
	expect("one of two unknown", Pair(org(9), org(1)), nil, ErrUnknownOwner, nil)
	m.keys[org(3)] = [32]byte{}
	expect("a key of zeros", Single(org(3)), nil, ErrUnknownOwner, nil)

	key := m.keys[org(2)]
	delete(m.keys, org(2)) // lost, not erased; the ciphers are still in the cache
	expect("lost key of a pair", pair, ofPair, ErrUnknownOwner, ErrDamaged)
	expect("lost key", single, ofSingle, ErrUnknownOwner, ErrUnknownOwner)

	m.keys[org(2)] = key
	if _, err := s.AppendOpened(nil, ofPair, 'B', []byte("id")); err != nil {
		t.Errorf("the key is back and the envelope does not open: %v", err)
	}
	m.erase(org(2)) // without Forget: Keys decides, not the cache
	expect("erased owner", single, ofSingle, ErrErased, ErrErased)
	expect("the higher of two erased", pair, ofPair, ErrErased, ErrErased)
	delete(m.keys, org(1))
	expect("one erased, one lost", pair, ofPair, ErrErased, ErrErased)
	m.erased = map[parley.OrgID]bool{org(1): true}
	m.keys[org(2)] = key
	expect("the lower of two erased", pair, ofPair, ErrErased, ErrErased)
}

func TestBounds(t *testing.T) {
	s, _ := newSealer(1)
	largest, identity := make([]byte, PlaintextMax), make([]byte, IdentityMax)
	envelope, err := s.AppendSealed(nil, largest, Single(org(1)), 'B', identity)
	if err != nil {
		t.Fatal(err)
	}
	if opened, err := s.AppendOpened(nil, envelope, 'B', identity); err != nil || !bytes.Equal(opened, largest) {
		t.Errorf("the largest plaintext does not open: %v", err)
	}
	got, err := s.AppendSealed(nil, append(largest, 0), Single(org(1)), 'B', nil)
	expectError(t, "plaintext", got, err, ErrTooLarge)
	got, err = s.AppendSealed(nil, nil, Single(org(1)), 'B', append(identity, 0))
	expectError(t, "identity", got, err, ErrTooLarge)
	got, err = s.AppendOpened(nil, envelope, 'B', append(identity, 0))
	expectError(t, "identity of an envelope", got, err, ErrTooLarge)
	got, err = s.AppendOpened(nil, append(envelope, 0), 'B', identity)
	expectError(t, "envelope", got, err, ErrDamaged)
	if _, err := OwnersOf(append(envelope, 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("the owners of an envelope that is too long: got %v, want ErrDamaged", err)
	}
}

func TestOwners(t *testing.T) {
	if Pair(org(1), org(2)) != Pair(org(2), org(1)) {
		t.Error("the order of a pair matters")
	}
	if Pair(org(1), org(1)) == Single(org(1)) {
		t.Error("a pair within an organization is a single owner")
	}
	pair := Pair(org(2), org(1))
	if low, high := pair.Orgs(); low != org(1) || high != org(2) {
		t.Errorf("got %s and %s", low, high)
	}
	if !pair.Has(org(1)) || !pair.Has(org(2)) || pair.Has(org(3)) || (Owners{}).Has(parley.OrgID{}) {
		t.Error("Has is wrong")
	}
}

// No two lists of parts have the same hash, nor have two purposes or two server keys.
func TestMAC(t *testing.T) {
	s, m := newSealer(1)
	seen := map[[MACBytes]byte]string{}
	add := func(what string, mac [MACBytes]byte) {
		t.Helper()
		if before, ok := seen[mac]; ok {
			t.Errorf("%s and %s have the same hash", before, what)
		}
		seen[mac] = what
	}
	parts := func(texts ...string) (all [][]byte) {
		for _, text := range texts {
			all = append(all, []byte(text))
		}
		return all
	}
	add("slug ab", s.MAC("slug", parts("ab")...))
	add("slug a b", s.MAC("slug", parts("a", "b")...))
	add("slug ab and empty", s.MAC("slug", parts("ab", "")...))
	add("slug empty and ab", s.MAC("slug", parts("", "ab")...))
	add("slug", s.MAC("slug"))
	add("slug of an empty part", s.MAC("slug", nil))
	add("name ab", s.MAC("name", parts("ab")...))
	add("purpose slugab", s.MAC("slugab"))
	add("no purpose", s.MAC("", parts("slug", "ab")...))
	add("long", s.MAC("slug", make([]byte, 3*keptBytesMax)))
	add("another server key", New(m, [32]byte{31: 8}).MAC("slug", parts("ab")...))
	if again := s.MAC("slug", parts("ab")...); seen[again] != "slug ab" {
		t.Errorf("the second hash of the same parts is %x", again)
	}
	// Computed with Python: hmac.new(key, input, "sha256").digest()[:16].
	if got := s.MAC("slug", parts("acme", "x")...); hex.EncodeToString(got[:]) != "f28a829b655c813c09467d8a215e314c" {
		t.Errorf("got %x", got)
	}
}

// Pools keep neither keys nor large buffers.
func TestPools(t *testing.T) {
	w := new(workspace)
	for _, key := range [][]byte{w.owners[:], w.message[:]} {
		copy(key, bytes.Repeat([]byte{7}, len(key)))
	}
	w.release()
	if w.owners != [2 * keyBytes]byte{} || w.message != [keyBytes]byte{} {
		t.Error("a pooled workspace contains keys")
	}
	s, _ := newSealer(1)
	s.MAC("purpose", make([]byte, 3*keptBytesMax))
	if h := s.hashes.get(); cap(h.input) > keptBytesMax {
		t.Errorf("a pooled buffer has %d bytes, at most %d are allowed", cap(h.input), keptBytesMax)
	}
}
