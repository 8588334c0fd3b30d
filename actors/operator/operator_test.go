package operator_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/operator"
	"parley/client/parley"
)

type turn = actorstest.Turn[*operator.State, operator.Command, operator.Event]

var rules = actorstest.Rules[*operator.State, operator.Command, operator.Event]{
	Zero:   func() *operator.State { return &operator.State{} },
	Decide: operator.Decide, Evolve: operator.Evolve, Tag: operator.Tag, New: operator.New,
}

// hashOf returns the hash of a token. There are few, so that commands meet.
func hashOf(n int) []byte { sum := sha256.Sum256(fmt.Append(nil, n)); return sum[:] }

func draw(t *rapid.T, _ *operator.State) operator.Command {
	few := rapid.IntRange(1, 6)
	n := few.Draw(t, "which")
	id := parley.RegistrationID{byte(n)}
	switch rapid.IntRange(0, 7).Draw(t, "command") {
	case 0:
		role := rapid.SampledFrom([]operator.Role{operator.RoleRead, operator.RoleSupport, operator.RoleAdmin, "owner"}).Draw(t, "role")
		return operator.AddToken{ID: parley.OperatorID{byte(few.Draw(t, "id"))}, Name: fmt.Sprint("name", n), Role: role, Hash: hashOf(n)}
	case 1:
		return operator.RevokeToken{Name: fmt.Sprint("name", n)}
	case 2:
		return operator.RevokeRegistration{ID: id}
	case 3:
		return operator.ReturnRegistration{ID: id}
	case 4:
		ends := actorstest.Epoch.Add(time.Duration(rapid.IntRange(-1, 2000).Draw(t, "minutes")) * time.Minute)
		return operator.AddRegistration{ID: id, Hash: hashOf(n), Uses: rapid.IntRange(0, 3).Draw(t, "uses"), Expires: ends}
	}
	return operator.UseRegistration{Hash: hashOf(n)}
}

// TestLaws: names are unique, no token admits more than it has uses, and none when it has expired.
func TestLaws(t *testing.T) { actorstest.Obey(t, rules, draw, law) }

func law(t *rapid.T, turn turn) {
	var names []string
	for _, token := range turn.After.GetTokens() {
		names = append(names, token.GetName())
		if !operator.Role(token.GetRole()).Valid() {
			t.Fatalf("a token has the role %q", token.GetRole())
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(turn.After.GetTokens()) {
		t.Fatal("two tokens have the same name")
	}
	for _, r := range turn.After.GetRegistrations() {
		if r.GetUsed() > r.GetUses() {
			t.Fatalf("a token of %d uses has admitted %d", r.GetUses(), r.GetUsed())
		}
	}
	if use, is := turn.Command.(operator.UseRegistration); is {
		had := turn.Before.Registration(use.Hash, turn.Now)
		if (turn.Err == nil) != (had != nil) || turn.Err != nil && !errors.Is(turn.Err, operator.ErrUsedUp) {
			t.Fatalf("%v is used: %v", had, turn.Err)
		}
	}
	if revoke, is := turn.Command.(operator.RevokeRegistration); is && turn.Err == nil {
		for _, r := range turn.After.GetRegistrations() {
			if bytes.Equal(r.GetId(), revoke.ID.Bytes()) {
				t.Fatal("a revoked token is kept")
			}
		}
	}
}

// TestBounds: there are at most so many tokens of either kind, and an expired one makes place.
func TestBounds(t *testing.T) {
	s, now := &operator.State{}, actorstest.Epoch
	do := func(c operator.Command) error {
		events, err := operator.Decide(s, c, now)
		for _, e := range events {
			operator.Evolve(s, e)
		}
		return err
	}
	for n := range operator.TokensMax + 1 {
		err := do(operator.AddToken{Name: fmt.Sprint(n), Role: operator.RoleRead})
		if (err != nil) != (n == operator.TokensMax) {
			t.Fatalf("token %d: %v", n, err)
		}
	}
	for n := range operator.RegistrationsMax + 1 {
		err := do(operator.AddRegistration{ID: parley.RegistrationID{byte(n >> 8), byte(n)}, Uses: 1, Expires: now.Add(time.Hour)})
		if (err != nil) != (n == operator.RegistrationsMax) {
			t.Fatalf("registration token %d: %v", n, err)
		}
	}
	now = now.Add(time.Hour)
	if err := do(operator.AddRegistration{Uses: 1, Expires: now.Add(time.Hour)}); err != nil || len(s.GetRegistrations()) != 1 {
		t.Errorf("when all have expired: %v, %d tokens", err, len(s.GetRegistrations()))
	}
}

// TestRoles: each role has the rights of those before it.
func TestRoles(t *testing.T) {
	all := []operator.Role{operator.RoleRead, operator.RoleSupport, operator.RoleAdmin}
	for i, has := range all {
		for j, needs := range all {
			if has.Covers(needs) != (i >= j) {
				t.Errorf("%s for what needs %s", has, needs)
			}
		}
	}
	if operator.Role("").Covers(operator.RoleRead) || operator.RoleAdmin.Covers("") {
		t.Error("no role covers something, or is covered")
	}
}

func TestGolden(t *testing.T) {
	at, tier := actorstest.Epoch.UnixMilli(), uint32(2)
	token := &operator.Token{Id: []byte("0123456789abcdef"), Name: "ada", Role: "support", Hash: []byte("hash"), CreatedMs: at}
	registration := &operator.Registration{
		Id: []byte("0123456789abcdef"), Hash: []byte("hash"), Uses: 3, Used: 2, CreatedMs: at, ExpiresMs: at + 1, Tier: &tier,
	}
	id := []byte("0123456789abcdef")
	actorstest.Golden(
		t, "testdata/events.golden", rules,
		&operator.State{Tokens: []*operator.Token{token}, Registrations: []*operator.Registration{registration}, Begun: true},
		[]operator.Event{
			&operator.TokenAdded{Token: token}, &operator.TokenRevoked{Id: id, AtMs: at},
			&operator.RegistrationAdded{Registration: registration}, &operator.RegistrationRevoked{Id: id, AtMs: at},
			&operator.RegistrationUsed{Id: id, AtMs: at}, &operator.RegistrationReturned{Id: id, AtMs: at},
		},
	)
}
