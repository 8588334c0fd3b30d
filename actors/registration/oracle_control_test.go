package registration_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"parley"
	"parley/actors/actorstest"
	"parley/actors/registration"
)

type challengeRules = actorstest.Rules[*registration.State, registration.Command, registration.Event]

// solving plants a Decide that is wrong about solutions.
func solving(wrong func(*registration.State, registration.Solve, time.Time) ([]registration.Event, error)) func(*challengeRules) {
	return func(r *challengeRules) {
		r.Decide = func(s *registration.State, c registration.Command, now time.Time) ([]registration.Event, error) {
			if solve, ok := c.(registration.Solve); ok {
				return wrong(proto.CloneOf(s), solve, now)
			}
			return registration.Decide(s, c, now)
		}
	}
}

func TestOracleControl(t *testing.T) {
	trial.Finds(t, map[string]func(*challengeRules){
		"one try too many": solving(func(s *registration.State, c registration.Solve, now time.Time) ([]registration.Event, error) {
			if s.Tries == parley.ChallengeTriesMax {
				s.Tries--
			}
			return registration.Decide(s, c, now)
		}),
		"one try too few": solving(func(s *registration.State, c registration.Solve, now time.Time) ([]registration.Event, error) {
			s.Tries++
			return registration.Decide(s, c, now)
		}),
		"a millisecond too long": solving(func(s *registration.State, c registration.Solve, now time.Time) ([]registration.Event, error) {
			s.ExpiresMs++
			return registration.Decide(s, c, now)
		}),
		"a bit too easy": solving(func(s *registration.State, c registration.Solve, now time.Time) ([]registration.Event, error) {
			s.Difficulty = max(s.Difficulty, 1) - 1
			return registration.Decide(s, c, now)
		}),
		"solved twice": solving(func(s *registration.State, c registration.Solve, now time.Time) ([]registration.Event, error) {
			if now.UnixMilli() < s.ExpiresMs {
				s.SolvedOrg = nil
			}
			return registration.Decide(s, c, now)
		}),
		"expired before used": solving(func(s *registration.State, c registration.Solve, now time.Time) ([]registration.Event, error) {
			if s.Exists() && now.UnixMilli() >= s.ExpiresMs {
				return nil, registration.ErrExpired
			}
			return registration.Decide(s, c, now)
		}),
		"the slug before the nonce": solving(func(s *registration.State, c registration.Solve, now time.Time) ([]registration.Event, error) {
			events, err := registration.Decide(s, c, now)
			if err == registration.ErrPowWrong && c.SlugTaken {
				return nil, registration.ErrSlugTaken
			}
			return events, err
		}),
		"misses are not counted": solving(func(s *registration.State, c registration.Solve, now time.Time) ([]registration.Event, error) {
			events, err := registration.Decide(s, c, now)
			if err == registration.ErrPowWrong {
				events = nil
			}
			return events, err
		}),
		"a lifetime of its own": func(r *challengeRules) {
			r.Evolve = func(s *registration.State, e registration.Event) {
				registration.Evolve(s, e)
				if issued, ok := e.(*registration.Issued); ok {
					s.ExpiresMs = issued.AtMs + parley.ChallengeLifetime.Milliseconds()
				}
			}
		},
	})
}
