package seal

import (
	"bytes"
	"errors"
	"testing"

	"parley/client/parley"
)

// Any bytes open or give one of the documented errors, and an envelope that opens is
// the only one of its plaintext, owners and nonce. A sealed plaintext opens, and does
// not after a change.
func FuzzOpen(f *testing.F) {
	s, m := newSealer(3)
	m.erase(org(3))
	seeds := [][]byte{
		nil,
		{formSingle},
		{formPair},
		make([]byte, 57), make([]byte, 73), bytes.Repeat([]byte{0xff}, 200),
		append([]byte{formSingle}, make([]byte, idBytes+nonceBytes+tagBytes)...),
		append(Single(org(3)).appendHeader(nil), make([]byte, nonceBytes+tagBytes)...),
		append(Pair(org(1), org(3)).appendHeader(nil), make([]byte, nonceBytes+tagBytes)...),
		append(Pair(org(1), org(9)).appendHeader(nil), make([]byte, nonceBytes+tagBytes)...),
	}
	for _, owners := range []Owners{Single(org(1)), Pair(org(1), org(1)), Pair(org(1), org(2))} {
		whole := mustSeal(f, s, []byte("content"), owners, 'B', "identity")
		seeds = append(seeds, whole, whole[:len(whole)-1], append(bytes.Clone(whole), 0), mustSeal(f, s, nil, owners, 'B', "identity"))
	}
	for _, envelope := range seeds {
		f.Add(envelope, byte('B'), []byte("identity"), []byte("content"), uint16(0x0103))
	}
	f.Fuzz(func(t *testing.T, envelope []byte, family byte, identity, plaintext []byte, change uint16) {
		opened, err := s.AppendOpened(nil, envelope, family, identity)
		owners, errOwners := OwnersOf(envelope)
		low, high := owners.Orgs()
		erased := errOwners == nil && (low == org(3) || high == org(3))
		switch {
		case err == nil && !bytes.Equal(sealAgain(t, envelope, opened, family, identity), envelope):
			t.Fatalf("%x opens as %x, which is not sealed like that", envelope, opened)
		case err == nil && (errOwners != nil || erased):
			t.Fatalf("%x opens, with the owners %v, %v", envelope, owners, errOwners)
		case errors.Is(err, ErrErased) != (erased && len(identity) <= IdentityMax):
			t.Fatalf("%x of %v: %v", envelope, owners, err)
		case err != nil && (opened != nil || !errors.Is(err, ErrErased) && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrTooLarge)):
			t.Fatalf("%x: %x, %v", envelope, opened, err)
		}
		if len(identity) > IdentityMax {
			return
		}
		own := mustSeal(t, s, plaintext, Pair(org(1), org(2)), family, string(identity))
		if opened, err = s.AppendOpened(nil, own, family, identity); err != nil || !bytes.Equal(opened, plaintext) {
			t.Fatalf("%x came back as %x, %v", plaintext, opened, err)
		}
		own[int(change)%len(own)] ^= 1 + byte(change>>8)%255
		if opened, err = s.AppendOpened(nil, own, family, identity); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrErased) {
			t.Fatalf("a changed envelope opens as %x, %v", opened, err)
		}
	})
}

// sealAgain seals a plaintext with the owners and the nonce of an envelope, by another
// Sealer with the same keys.
func sealAgain(t *testing.T, envelope, plaintext []byte, family byte, identity []byte) []byte {
	t.Helper()
	owners, nonce, _, err := parse(envelope)
	if err != nil {
		return nil
	}
	s, _ := newSealer(3)
	s.random = func(b []byte) { copy(b, nonce) }
	return mustSeal(t, s, plaintext, owners, family, string(identity))
}

// The owners that an envelope names are read back as they were written, and no two
// owners are written alike.
func FuzzOwners(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), []byte("0123456789abcdeg"), true)
	f.Add([]byte("0123456789abcdef"), []byte("0123456789abcdef"), true)
	f.Add([]byte("g123456789abcdef"), []byte("0123456789abcdef"), false)
	f.Fuzz(func(t *testing.T, a, b []byte, pair bool) {
		first, second := parley.IDFromBytes[parley.OrgID](a), parley.IDFromBytes[parley.OrgID](b)
		owners := Single(first)
		if pair {
			owners = Pair(first, second)
		}
		envelope := append(owners.appendHeader(nil), make([]byte, nonceBytes+tagBytes)...)
		if read, err := OwnersOf(envelope); err != nil || read != owners || len(envelope) != owners.SealedLen(0) {
			t.Errorf("%v is read as %v, %v", owners, read, err)
		}
		if !owners.Has(first) || owners.Has(second) != (pair || first == second) {
			t.Errorf("%v has not the organizations %s and %s", owners, first, second)
		}
	})
}
