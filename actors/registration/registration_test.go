package registration_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley"
	"parley/actors/actorstest"
	"parley/actors/registration"
)

type (
	life = actorstest.Life[*registration.State, registration.Command, registration.Event]
	turn = actorstest.Turn[*registration.State, registration.Command, registration.Event]
)

var rules = actorstest.Rules[*registration.State, registration.Command, registration.Event]{
	Zero:   func() *registration.State { return &registration.State{} },
	Decide: registration.Decide, Evolve: registration.Evolve,
	Tag: registration.Tag, New: registration.New,
}

const (
	challenge  = "00112233445566778899aabbccddeeff"
	difficulty = 8
)

// nonce finds the first number that solves the challenge, or that does not.
func nonce(right bool) string {
	for n := 0; ; n++ {
		if text := strconv.Itoa(n); registration.Solves(challenge, text, difficulty) == right {
			return text
		}
	}
}

func TestStories(t *testing.T) {
	actorstest.Tell(t, "testdata/stories", rules, parse, show)
}

func parse(l *actorstest.Line, life *life) registration.Command {
	switch l.Verb {
	case "issue":
		return registration.Issue{
			ID: parley.RegistrationID(actorstest.Named("challenge")), Email: l.Text("email"), Slug: l.Text("slug"),
			OrgName: l.Text("name"), Challenge: challenge, Difficulty: difficulty,
			ExpiresAt: life.Now.Add(parley.ChallengeLifetime), SlugTaken: l.Has("slug-taken"),
		}
	case "solve":
		return registration.Solve{
			Nonce: nonce(!l.Has("wrongly")), OrgID: parley.OrgID(l.ID("org")), SlugTaken: l.Has("slug-taken"),
		}
	}
	panic("no such verb: " + l.Verb)
}

func show(life *life) string {
	s := life.State
	return fmt.Sprintf("%s for %s, %d wrong, solved %v", s.GetSlug(), s.GetEmail(), s.GetTries(), !s.SolvedOrgID().Zero())
}

func TestLaws(t *testing.T) {
	right, wrong := nonce(true), nonce(false)
	draw := func(t *rapid.T, s *registration.State) registration.Command {
		taken := rapid.IntRange(0, 9).Draw(t, "slug taken") == 0
		if !s.Exists() && rapid.Bool().Draw(t, "issue") {
			return registration.Issue{
				ID: parley.RegistrationID(actorstest.Named("challenge")), Email: "a@b", Slug: "acme", OrgName: "Acme",
				Challenge: challenge, Difficulty: difficulty,
				ExpiresAt: actorstest.Epoch.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "expires")) * time.Hour),
				SlugTaken: taken,
			}
		}
		n := wrong
		if rapid.IntRange(0, 24).Draw(t, "right") == 0 {
			n = right
		}
		return registration.Solve{Nonce: n, OrgID: parley.OrgID(actorstest.Named("acme")), SlugTaken: taken}
	}
	actorstest.Obey(t, rules, draw, law)
}

func law(t *rapid.T, turn turn) {
	before, after := turn.Before, turn.After
	for _, e := range turn.Events {
		if !before.SolvedOrgID().Zero() {
			t.Fatalf("%v after the challenge was used", e)
		}
		if _, missed := e.(*registration.Missed); missed != (turn.Err == registration.ErrPowWrong) {
			t.Fatalf("a miss is counted if and only if it is refused: %v, %v", e, turn.Err)
		}
	}
	if len(turn.Events) > 0 && before.Exists() && !turn.Now.Before(before.ExpiresAt()) {
		t.Fatalf("%v after the challenge expired", turn.Events)
	}
	if after.GetTries() > parley.ChallengeTriesMax {
		t.Fatalf("%d wrong nonces were judged", after.GetTries())
	}
	if turn.Err != nil && turn.Err != registration.ErrPowWrong && !proto.Equal(before, after) {
		t.Fatalf("refused with %v and changed", turn.Err)
	}
}

func TestSolves(t *testing.T) {
	// As sha256sum says: SHA-256("c:17") = 002e…, ten zero bits, and
	// SHA-256("c:1") = 7c9d…, one.
	for _, c := range []struct {
		nonce string
		bits  int
		want  bool
	}{{"17", 10, true}, {"17", 11, false}, {"1", 1, true}, {"1", 2, false}, {"1", 0, true}} {
		if got := registration.Solves("c", c.nonce, c.bits); got != c.want {
			t.Errorf("Solves(c, %s, %d) = %v", c.nonce, c.bits, got)
		}
	}
}

func TestGolden(t *testing.T) {
	id, org := parley.RegistrationID(actorstest.Named("challenge")).Bytes(), parley.OrgID(actorstest.Named("acme")).Bytes()
	at := actorstest.Epoch.UnixMilli()
	actorstest.Golden(
		t, "testdata/events.golden", rules,
		&registration.State{
			Id: id, Email: "a@acme.example", Slug: "acme", OrgName: "Acme", Challenge: challenge, Difficulty: 20,
			IssuedMs: at, ExpiresMs: at + 600_000, Tries: 3, SolvedOrg: org,
		},
		[]registration.Event{
			&registration.Issued{
				Id: id, Email: "a@acme.example", Slug: "acme", OrgName: "Acme", Challenge: challenge, Difficulty: 20,
				ExpiresMs: at + 600_000, AtMs: at,
			},
			&registration.Missed{AtMs: at},
			&registration.Solved{OrgId: org, AtMs: at},
		},
	)
}
