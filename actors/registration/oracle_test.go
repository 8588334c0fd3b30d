package registration_test

import (
	"crypto/sha256"
	"fmt"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley"
	"parley/actors/actorstest"
	"parley/actors/registration"
)

// record is what a challenge shows. // contract: registration
type record struct {
	id                   parley.RegistrationID
	email, slug, orgName string
	challenge            string
	difficulty, misses   int
	expiresMs, issuedMs  int64
	org                  parley.OrgID
}

// oracle is a challenge as the contract tells of it.
type oracle struct {
	record
	exists bool
}

func (o *oracle) Sight(time.Time) any { return o.record }

func look(l *life) any {
	s := l.State
	if !s.Exists() {
		return record{}
	}
	return record{
		id: s.RegistrationID(), email: s.GetEmail(), slug: s.GetSlug(), orgName: s.GetOrgName(), challenge: s.GetChallenge(),
		difficulty: int(s.GetDifficulty()), misses: int(s.GetTries()), expiresMs: s.ExpiresAt().UnixMilli(), issuedMs: s.GetIssuedMs(),
		org: s.SolvedOrgID(),
	}
}

// solves reads the hash as one large number: difficulty zero bits lead it if it
// is short enough.
func solves(challenge, nonce string, difficulty int) bool {
	sum := sha256.Sum256([]byte(challenge + ":" + nonce))
	return new(big.Int).SetBytes(sum[:]).BitLen() <= 256-difficulty
}

func (o *oracle) Foretell(c registration.Command, now time.Time) actorstest.Verdict {
	switch c := c.(type) {
	case registration.Issue:
		switch {
		case o.exists:
			return actorstest.Taken("again")
		case c.SlugTaken:
			return actorstest.Refused("slug taken", "409 slug_taken")
		}
		o.exists = true
		o.record = record{
			id: c.ID, email: c.Email, slug: c.Slug, orgName: c.OrgName, challenge: c.Challenge, difficulty: c.Difficulty,
			expiresMs: c.ExpiresAt.UnixMilli(), issuedMs: now.UnixMilli(),
		}
		return actorstest.Taken("issued")
	case registration.Solve:
		return o.solve(c, now)
	}
	panic("no such command")
}

// solve: one that was used says so for ever; after 20 misses it is as expired
// as after its time.
func (o *oracle) solve(c registration.Solve, now time.Time) actorstest.Verdict {
	switch {
	case !o.exists:
		return actorstest.Refused("no challenge", "404 not_found")
	case o.org != parley.OrgID{}:
		return actorstest.Refused("used", "409 challenge_used")
	case now.UnixMilli() >= o.expiresMs:
		return actorstest.Refused("too late", "410 challenge_expired")
	case o.misses == 20:
		return actorstest.Refused("tried too often", "410 challenge_expired")
	case !solves(o.challenge, c.Nonce, o.difficulty):
		o.misses++
		if o.misses == 20 {
			return actorstest.Refused("missed for the last time", "400 pow_invalid")
		}
		return actorstest.Refused("missed", "400 pow_invalid")
	case c.SlugTaken:
		return actorstest.Refused("slug taken", "409 slug_taken")
	}
	o.org = c.OrgID
	return actorstest.Taken("solved")
}

// nonces are the first that hits and the first that misses, by a bit each, of
// every challenge that a life may get.
var nonces = func() map[string][2]string {
	found := map[string][2]string{}
	for challenge := range 4 {
		for difficulty := range 7 {
			exactly := func(bits int) string {
				for n := 0; ; n++ {
					nonce := fmt.Sprint(n)
					if solves(hexadecimal(challenge), nonce, bits) && !solves(hexadecimal(challenge), nonce, bits+1) {
						return nonce
					}
				}
			}
			key := fmt.Sprint(hexadecimal(challenge), difficulty)
			found[key] = [2]string{exactly(difficulty), "never"}
			if difficulty > 0 {
				found[key] = [2]string{exactly(difficulty), exactly(difficulty - 1)}
			}
		}
	}
	return found
}()

func hexadecimal(n int) string { return fmt.Sprintf("%032x", n) }

var (
	challenges   = rapid.IntRange(0, 3)
	difficulties = rapid.SampledFrom([]int{4, 6, 1, 0})
	lifetimes    = rapid.SampledFrom([]time.Duration{10 * time.Minute, time.Hour, 10*time.Minute + 500*time.Microsecond})
	rarely       = rapid.Map(rapid.IntRange(0, 15), func(n int) bool { return n == 15 })
	hardly       = rapid.Map(rapid.IntRange(0, 40), func(n int) bool { return n == 40 })
	orgs         = rapid.SampledFrom([]string{"acme", "apex"})
)

func wish(t *rapid.T, o *oracle, now time.Time) registration.Command {
	if issue := rarely.Draw(t, "issue"); issue || !o.exists && rapid.Bool().Draw(t, "at last") {
		return registration.Issue{
			ID: actorstest.Named("challenge"), Email: "a@b", Slug: "acme", OrgName: "Acme",
			Challenge: hexadecimal(challenges.Draw(t, "challenge")), Difficulty: difficulties.Draw(t, "difficulty"),
			ExpiresAt: now.Add(lifetimes.Draw(t, "lifetime")), SlugTaken: rarely.Draw(t, "slug taken"),
		}
	}
	hitAndMiss := nonces[fmt.Sprint(o.challenge, o.difficulty)]
	c := registration.Solve{Nonce: hitAndMiss[1], OrgID: actorstest.Named(orgs.Draw(t, "org")), SlugTaken: rapid.Bool().Draw(t, "slug taken")}
	if hardly.Draw(t, "hit") {
		c.Nonce = hitAndMiss[0]
	}
	return c
}

var trial = actorstest.Trial[*registration.State, registration.Command, registration.Event, *oracle]{
	Rules: rules, Oracle: func() *oracle { return &oracle{} }, Draw: wish, Look: look,
	Pauses: []time.Duration{
		0, 0, 0, 0, 0, 0, 0, 999 * time.Microsecond, time.Millisecond, time.Second, 10*time.Minute - 2*time.Second, 10*time.Minute - time.Millisecond,
	},
	Cases: []string{
		"Issue: issued", "Issue: again", "Issue: slug taken",
		"Solve: no challenge", "Solve: used", "Solve: too late", "Solve: tried too often", "Solve: missed",
		"Solve: missed for the last time", "Solve: slug taken", "Solve: solved",
	},
	Errors: map[string]error{
		"ErrUnknown": registration.ErrUnknown, "ErrUsed": registration.ErrUsed, "ErrExpired": registration.ErrExpired,
		"ErrPowWrong": registration.ErrPowWrong, "ErrSlugTaken": registration.ErrSlugTaken,
	},
}

func TestOracle(t *testing.T) { trial.Run(t) }
