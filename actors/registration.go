package actors

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"parley/actors/host"
	"parley/actors/operator"
	"parley/actors/org"
	"parley/actors/registration"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// Solution is an attempt at a challenge, and the credential to create if it is right.
type Solution struct {
	Challenge *registration.Challenge
	// ChallengeID is the challenge as its client has it.
	ChallengeID string
	Nonce       string
	Tier        int
	// NeedsToken says that the registration token with which the challenge was asked for has to admit
	// the organization. Its tier, if it has one, replaces Tier.
	NeedsToken bool
	SecretHash []byte
}

// Registered is a new organization with its first credential.
type Registered struct {
	Org      *org.State
	ClientID parley.ClientID
}

// Register checks a solution and, if it is right, creates the organization. It stores
// nothing before that, and nothing for a failed attempt. // spec: Authentication
func (orgs *Orgs) Register(ctx context.Context, s Solution) (Registered, error) {
	now := orgs.clock()
	if s.Challenge.Expired(now) {
		return Registered{}, registration.ErrExpired
	}
	if err := orgs.judgeSolution(ctx, s, now); err != nil {
		return Registered{}, err
	}
	if !s.NeedsToken {
		return orgs.create(ctx, s, now)
	}
	token, err := orgs.operators.use(ctx, s.Challenge.GetTokenHash())
	if errors.Is(err, operator.ErrUsedUp) { // by another one, since it was judged
		err = registration.ErrNotOpen
	}
	if err != nil {
		return Registered{}, err
	}
	if token.Tier != nil {
		s.Tier = int(token.GetTier())
	}
	made, err := orgs.create(ctx, s, now)
	if err != nil && !errors.Is(err, parley.ErrOutcomeUnknown) {
		orgs.operators.giveBack(ctx, token)
	}
	return made, err
}

// create makes the organization of a solution that was judged.
func (orgs *Orgs) create(ctx context.Context, s Solution, now time.Time) (Registered, error) {
	made, entry, err := orgs.registration(s, now)
	if err != nil {
		return Registered{}, err
	}
	if err := orgs.makeKey(made.Org.OrgID()); err != nil {
		return Registered{}, err
	}
	err = host.Append(orgs.journal.Writer, entry)
	if errors.Is(err, journal.ErrExists) { // another request with this challenge or slug came first
		if err = orgs.journal.Fence(ctx); err == nil { // maybe at another node: what it did has to be seen here
			err = cmp.Or(orgs.judgeSolution(ctx, s, now), error(registration.ErrSlugTaken))
		}
	}
	return made, err
}

// makeKey makes the key of an organization that is about to be created. The key of one
// that is then not created stays and does no harm; makeKey does not begin if the journal
// would refuse the organization anyway.
func (orgs *Orgs) makeKey(id parley.OrgID) error {
	if orgs.newKey == nil {
		return nil
	}
	if refusal := orgs.journal.Overloaded(); refusal != nil {
		return refusal
	}
	if err := orgs.newKey(id); err != nil {
		orgs.logger.Error("an organization was refused, because its key could not be stored", "error", err)
		return parley.ErrOverloaded
	}
	return nil
}

// judgeSolution looks up what the rules need and applies them to a solution. A refusal
// waits until what it depends on is durable.
func (orgs *Orgs) judgeSolution(ctx context.Context, s Solution, now time.Time) error {
	v := orgs.journal.View()
	defer v.Close()
	slot := parley.SlotOf(s.Challenge.GetSlug())
	_, used, err := v.Row(slot, journal.SpentTable, spentKey(s.Challenge))
	if err != nil {
		return err
	}
	_, taken, err := v.Row(slot, journal.SlugTable, []byte(s.Challenge.GetSlug()))
	if err != nil {
		return err
	}
	closed := false
	if s.NeedsToken && !used {
		tokens, err := orgs.operators.Tokens(ctx)
		if err != nil {
			return err
		}
		closed = tokens.Registration(s.Challenge.GetTokenHash(), now) == nil
	}
	if err = s.Challenge.Judge(registration.Solve{Nonce: s.Nonce, Used: used, NotOpen: closed, SlugTaken: taken}, now); err != nil {
		err = cmp.Or(v.Durable(ctx), err)
	}
	return err
}

// registration returns the entry that creates an organization and uses up its challenge.
// No actor appends it: the entry claims the slug by beginning the slug's stream, and the
// journal rejects all but the first of several attempts, whether they use one challenge
// or many.
func (orgs *Orgs) registration(s Solution, now time.Time) (Registered, *journal.Entry, error) {
	slug := s.Challenge.GetSlug()
	slot := parley.SlotOf(slug)
	id, client := parley.NewID[parley.OrgID](slot, now, orgs.entropy()), parley.NewID[parley.ClientID](slot, now, orgs.entropy())
	create, made, err := createOrg(org.Register{
		ID: id, Name: s.Challenge.GetOrgName(), Slug: slug, Email: s.Challenge.GetEmail(),
		Tier: s.Tier, ClientID: client, SecretHash: s.SecretHash,
		ChallengeID: s.ChallengeID, Difficulty: int(s.Challenge.GetDifficulty()),
	}, now)
	row := func(table journal.Table, key []byte) journal.Row {
		return journal.Row{Slot: slot, Table: table, Key: key, Value: id.Bytes()}
	}
	return Registered{Org: made, ClientID: client}, &journal.Entry{
		Slot: slot, At: now,
		Effects: []journal.Effect{create, journal.CreateStream{Stream: rules.SlugStream(slug), Events: []journal.StoredEvent{{Tag: 1, Data: id.Bytes(), Clear: true}}}},
		Rows: []journal.Row{
			row(journal.SlugTable, []byte(slug)), row(journal.ClientTable, client.Bytes()), row(journal.SpentTable, spentKey(s.Challenge)),
		},
	}, err
}

// spentKey returns the key of a used challenge's row. It begins with the day on which the
// challenge expires, so that the row expires too.
func spentKey(c *registration.Challenge) []byte {
	return append(binary.BigEndian.AppendUint32(nil, journal.Day(c.ExpiresAt())), c.GetText()...)
}

func createOrg(c org.Register, now time.Time) (journal.CreateStream, *org.State, error) {
	made := &org.State{}
	create, err := rules.Org.Begin(rules.OrgStream(c.ID), made, org.Command(c), now)
	return create, made, err
}
