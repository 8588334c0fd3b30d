package issuer_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/issuer"
	"parley/client/parley"
)

// shownKey is a key as the JWKS and the signer show it.
type shownKey struct {
	kid, public, seed string
	mintedMs          int64
	atOnce            bool
}

// sight is everything visible of the platform's keys at one time.
type sight struct {
	exists, due bool
	signs       shownKey
	published   []shownKey // the signing key first, then the retired ones, latest first
}

// oracle remembers every key that was ever minted.
type oracle struct {
	minted []shownKey
	// offered counts the kids drawn.
	offered int
}

const (
	day    = int64(24 * 60 * 60 * 1000)
	ninety = 90 * day
)

// Visible: a key signs until the next is minted, and stays published for one more day.
func (o *oracle) Visible(now time.Time) any {
	seen := sight{published: []shownKey{}, due: o.due(now)}
	for i, k := range slices.Backward(o.minted) {
		switch {
		case i == len(o.minted)-1:
			seen.exists, seen.signs = true, k
			seen.published = append(seen.published, k)
		case now.UnixMilli()-o.minted[i+1].mintedMs < day: // retired when its successor was minted
			seen.published = append(seen.published, k)
		}
	}
	return seen
}

func (o *oracle) due(now time.Time) bool {
	n := len(o.minted)
	return n == 0 || now.UnixMilli()-o.minted[n-1].mintedMs >= ninety
}

func look(l *life) any {
	shown := func(k *issuer.Key) shownKey {
		return shownKey{k.Kid, string(k.Public), string(k.SealedSeed), k.MintedMs, k.AtOnce}
	}
	seen := sight{exists: l.State.Exists(), due: l.State.Due(l.Now, parley.SigningKeyLifetime), published: []shownKey{}}
	if signs := l.State.Current(); signs != nil {
		seen.signs = shown(signs)
	}
	for _, k := range l.State.Published(l.Now) {
		seen.published = append(seen.published, shown(k))
	}
	return seen
}

func (o *oracle) Predict(command issuer.Command, now time.Time) actorstest.Verdict {
	c := command.(issuer.Mint)
	if !c.Force && !o.due(now) {
		return actorstest.Accepted("not due")
	}
	for _, k := range o.minted {
		if k.kid == c.Kid {
			return actorstest.Accepted("has it")
		}
	}
	because := "minted"
	if !o.due(now) {
		because = "by force"
	}
	o.minted = append(o.minted, shownKey{c.Kid, string(c.Public), string(c.SealedSeed), now.UnixMilli(), c.AtOnce})
	return actorstest.Accepted(because)
}

var often = rapid.Map(rapid.IntRange(0, 3), func(n int) bool { return n > 0 })

// wish offers a fresh key, whose thumbprint is the kid, or repeats the last offer, as a
// caller without an answer does.
func wish(t *rapid.T, o *oracle, _ time.Time) issuer.Command {
	if o.offered == 0 || often.Draw(t, "fresh") {
		o.offered++
	}
	return issuer.Mint{
		Kid: fmt.Sprint("k", o.offered), Public: fmt.Append(nil, "public", o.offered), SealedSeed: fmt.Append(nil, "sealed", o.offered),
		Force: rapid.Bool().Draw(t, "force"), AtOnce: rapid.Bool().Draw(t, "at once"),
	}
}

var trial = actorstest.Trial[*issuer.State, issuer.Command, issuer.Event, *oracle]{
	Rules: rules, Oracle: func() *oracle { return &oracle{} }, Draw: wish, Look: look,
	Pauses: []time.Duration{
		0, time.Second, time.Millisecond, 12 * time.Hour, 24*time.Hour - time.Millisecond, 24 * time.Hour,
		89 * 24 * time.Hour, 90*24*time.Hour - time.Millisecond, 90 * 24 * time.Hour,
	},
	Cases: []string{"Mint: minted", "Mint: by force", "Mint: not due", "Mint: has it"},
}

func TestOracle(t *testing.T) { trial.Run(t) }

func TestOracleControl(t *testing.T) {
	type keyRules = actorstest.Rules[*issuer.State, issuer.Command, issuer.Event]
	evolving := func(wrong func(*issuer.State, *issuer.Minted)) func(*keyRules) {
		return func(r *keyRules) {
			r.Evolve = func(s *issuer.State, e issuer.Event) {
				issuer.Evolve(s, e)
				wrong(s, e.(*issuer.Minted))
			}
		}
	}
	later := func(by time.Duration) func(*keyRules) {
		return func(r *keyRules) {
			r.Decide = func(s *issuer.State, c issuer.Command, now time.Time) ([]issuer.Event, error) {
				events, err := issuer.Decide(s, c, now.Add(by))
				for _, e := range events {
					e.(*issuer.Minted).AtMs = now.UnixMilli()
				}
				return events, err
			}
		}
	}
	trial.Finds(t, map[string]func(*keyRules){
		"due a millisecond early": later(time.Millisecond),
		"due a millisecond late":  later(-time.Millisecond),
		"force is overlooked": func(r *keyRules) {
			r.Decide = func(s *issuer.State, c issuer.Command, now time.Time) ([]issuer.Event, error) {
				mint := c.(issuer.Mint)
				mint.Force = false
				return issuer.Decide(s, mint, now)
			}
		},
		"a retired key is forgotten at once": evolving(func(s *issuer.State, _ *issuer.Minted) { s.Keys = s.Keys[len(s.Keys)-1:] }),
		"a retired key stays for ever": evolving(func(s *issuer.State, e *issuer.Minted) {
			for _, k := range s.Keys[:len(s.Keys)-1] {
				k.RetiredMs = e.AtMs
			}
		}),
		"a day and a millisecond": evolving(func(s *issuer.State, _ *issuer.Minted) {
			if n := len(s.Keys); n > 1 {
				s.Keys[n-2].RetiredMs++
			}
		}),
		"the seed of another key": evolving(func(s *issuer.State, _ *issuer.Minted) {
			s.Keys[len(s.Keys)-1].SealedSeed = s.Keys[0].SealedSeed
		}),
	})
}
