package actors

import (
	"testing"
	"time"

	"parley"
	"parley/actors/host"
	"parley/actors/registration"
	"parley/actors/rules"
	"parley/journal"
)

// storeFormerChallenge stores a challenge as earlier releases did: as a stream, with
// the timer that removes it. It is solved if made is an organization.
func storeFormerChallenge(t testing.TB, n *Node, slug string, made parley.OrgID) journal.Stream {
	t.Helper()
	s, _, err := tryStoreFormerChallenge(n, slug, made)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tryStoreFormerChallenge is storeFormerChallenge with an error. It also returns the
// instant of the timer.
func tryStoreFormerChallenge(n *Node, slug string, made parley.OrgID) (journal.Stream, time.Time, error) {
	now := n.clock()
	s := journal.Stream{Kind: journal.RegistrationStream, ID: parley.NewID[parley.AnyID](parley.SlotOf(slug), now, n.entropy())}
	expires := now.Add(time.Hour)
	due := expires.Add(registration.ChallengeKept)
	events := []registration.Event{&registration.Issued{
		Id: s.ID.Bytes(), Email: slug + "@example.org", Slug: slug, OrgName: slug, Challenge: "00", ExpiresMs: expires.UnixMilli(), AtMs: now.UnixMilli(),
	}}
	if !made.Zero() {
		events = append(events, &registration.Missed{AtMs: now.UnixMilli()}, &registration.Solved{OrgId: made.Bytes(), AtMs: now.UnixMilli()})
	}
	state := &registration.State{}
	for _, e := range events {
		registration.Evolve(state, e)
	}
	facts, err := rules.Registration.Encode(events)
	if err != nil {
		return s, due, err
	}
	stored, err := state.MarshalVT()
	if err != nil {
		return s, due, err
	}
	return s, due, host.Append(n.journal, &journal.Entry{
		Slot: s.Slot(), At: now, Effects: []journal.Effect{journal.CreateStream{Stream: s, Events: facts, State: stored}},
		Timers: []journal.Timer{{Due: due, Stream: s}},
	})
}

// TestFormerChallengesAreForgotten: a challenge that an earlier release stored is
// removed when it expires, and the verifier accepts it until then.
func TestFormerChallengesAreForgotten(t *testing.T) {
	r := newTestNode(t)
	owner := r.org("acme").Org.OrgID()
	streams := []journal.Stream{storeFormerChallenge(t, r.node, "acme", owner), storeFormerChallenge(t, r.node, "globex", parley.OrgID{})}
	r.restart()
	r.verify()
	for _, s := range streams {
		state, v := &registration.State{}, r.contents.View()
		seq, _, err := rules.Registration.Load(v, s, state)
		v.Close()
		if err != nil || seq == 0 || state.GetSlug() == "" {
			t.Fatalf("%v does not exist: %d events, %v", s, seq, err)
		}
		r.node.engine.Fire(s, state.ExpiresAt().Add(registration.ChallengeKept))
		eventually(t, "the challenge is forgotten", func() bool {
			v := r.contents.View()
			defer v.Close()
			seq, _, err := rules.Registration.Load(v, s, &registration.State{})
			return err == nil && seq == 0
		})
	}
	r.verify()
}
