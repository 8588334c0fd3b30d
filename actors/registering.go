package actors

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"parley"
	"parley/actors/org"
	"parley/actors/registration"
)

// challengeKept is how long a challenge is remembered after it has expired, so
// that a late solution is told so.
const challengeKept = 24 * time.Hour

// RequestChallenge makes a proof-of-work challenge for an organization's slug.
// It reserves nothing: the first to solve has the slug.
// // spec: Authentication
func (n *Node) RequestChallenge(ctx context.Context, c registration.Issue) (*registration.State, error) {
	_, err := n.OrgBySlug(ctx, c.Slug)
	if err != nil && !isRefusal(err) {
		return nil, err
	}
	c.SlugTaken = err == nil
	c.ID = parley.NewID[parley.RegistrationID](parley.SlotOf(c.Slug), n.clock(), n.entropy())
	return question[*registration.State](n, registrationStream(c.ID), 0, c)
}

// Solution is an attempt at a challenge, and the credential it is to earn.
type Solution struct {
	ID         parley.RegistrationID
	Nonce      string
	Tier       int
	SecretHash []byte
}

// Registered is an organization as just made, with its first credential.
type Registered struct {
	Org      *org.State
	ClientID parley.ClientID
}

// Solve judges a solution and, if it is right, makes the organization.
func (n *Node) Solve(_ context.Context, s Solution) (Registered, error) {
	return question[Registered](n, registrationStream(s.ID), 0, s)
}

func registrationStream(id parley.RegistrationID) parley.Stream {
	return parley.Stream{Kind: parley.RegistrationStream, ID: parley.AnyID(id)}
}

// slugStream is the stream whose existence is the claim to a slug. Its id is
// the slug's, in the slug's slot.
func slugStream(slug string) parley.Stream {
	sum := sha256.Sum256([]byte(slug))
	id := parley.AnyID(sum[:16])
	binary.BigEndian.PutUint16(id[6:], 0x7000|uint16(parley.SlotOf(slug)))
	return parley.Stream{Kind: parley.SlugStream, ID: id}
}

type registrationTurn = turn[*registration.State, registration.Command, registration.Event]

func (n *Node) registrationKind() *kind[*registration.State, registration.Command, registration.Event] {
	return &kind[*registration.State, registration.Command, registration.Event]{
		stream: parley.RegistrationStream, rules: registrationRules, stateEvery: 1,
		blank: func() *registration.State { return &registration.State{} },
		handle: func(t *registrationTurn, request any) (any, error) {
			switch r := request.(type) {
			case registration.Issue:
				return n.issueChallenge(t, r)
			case Solution:
				return n.solve(t, r)
			case timerFired:
				t.forget(r)
				return nil, nil
			}
			panic("registration: unknown request")
		},
		hear: func(*registrationTurn, []byte) error { return nil },
	}
}

func (n *Node) issueChallenge(t *registrationTurn, c registration.Issue) (any, error) {
	if err := t.decide(c); err != nil {
		return nil, err
	}
	due := c.ExpiresAt.Add(challengeKept)
	t.entry.Timers = append(t.entry.Timers, parley.Timer{Due: due, Stream: t.entry.Stream})
	return cloned(t.state, &registration.State{}), nil
}

// forget removes a stream whose time is over, with the timer that said so.
func (t *turn[S, C, E]) forget(r timerFired) {
	t.entry.Timers = append(t.entry.Timers, parley.Timer{Due: r.due, Stream: t.entry.Stream, Cancel: true})
	t.entry.Purge, t.entry.Retire = true, true
	t.after = append(t.after, func() { t.entity.engine.drop(t.entity.handle, errStopped) })
}

// solve makes the organization in the same entry that uses the challenge up.
// The slug is claimed by beginning its stream: of two that try, the journal
// refuses the second.
func (n *Node) solve(t *registrationTurn, s Solution) (any, error) {
	slug := t.state.GetSlug()
	slot := t.entry.Slot
	id := parley.NewID[parley.OrgID](slot, t.now, n.entropy())
	_, taken, err := t.row(parley.SlugTable, []byte(slug))
	if err != nil {
		return nil, err
	}
	t.behind = taken
	if err := t.decide(registration.Solve{Nonce: s.Nonce, OrgID: id, SlugTaken: taken}); err != nil {
		return nil, err
	}
	client := parley.NewID[parley.ClientID](slot, t.now, n.entropy())
	bear, made, err := bearOrg(org.Register{
		ID: id, Name: t.state.GetOrgName(), Slug: slug, Email: t.state.GetEmail(),
		Tier: s.Tier, ClientID: client, SecretHash: s.SecretHash,
	}, t.now)
	if err != nil {
		return nil, err
	}
	t.say(bear, parley.Bear{Stream: slugStream(slug), Facts: []parley.Fact{{Tag: 1, Data: id.Bytes()}}})
	t.keep(parley.SlugTable, []byte(slug), id.Bytes())
	t.keep(parley.ClientTable, client.Bytes(), id.Bytes())
	t.exists = registration.ErrSlugTaken
	t.after = append(t.after, func() { publishOrg(n.facts, uint64(len(bear.Facts)), bear.State) })
	return Registered{Org: made, ClientID: client}, nil
}

func bearOrg(c org.Register, now time.Time) (parley.Bear, *org.State, error) {
	made := &org.State{}
	bear, err := begin(orgRules, orgStream(c.ID), made, org.Command(c), now)
	return bear, made, err
}

// begin judges the first command of an aggregate that does not exist yet and
// gives the word that makes it, with its state, which is folded into blank.
func begin[S state, C any, E event](r rules[S, C, E], s parley.Stream, blank S, c C, now time.Time) (parley.Bear, error) {
	events, err := r.decide(blank, c, now)
	if err != nil {
		return parley.Bear{}, err
	}
	for _, e := range events {
		r.evolve(blank, e)
	}
	bear := parley.Bear{Stream: s}
	if bear.Facts, err = r.encode(events); err == nil {
		bear.State, err = blank.MarshalVT()
	}
	return bear, err
}

// beginBare is begin without the state: of one event it is as quick to fold.
func beginBare[S state, C any, E event](r rules[S, C, E], s parley.Stream, blank S, c C, now time.Time) (parley.Bear, error) {
	events, err := r.decide(blank, c, now)
	if err != nil {
		return parley.Bear{}, err
	}
	facts, err := r.encode(events)
	return parley.Bear{Stream: s, Facts: facts}, err
}

// cloned copies a state, so that it can leave its actor.
func cloned[S state](from, into S) S {
	if b, err := from.MarshalVT(); err == nil {
		_ = into.UnmarshalVT(b)
	}
	return into
}
