package actors

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"

	"parley/actors/agent"
	"parley/actors/group"
	"parley/actors/host"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

var errGroupKeyMismatch = parley.Refuse(parley.Conflict, "idempotency_mismatch", "The Idempotency-Key was used for a group of another name.")

// NewGroup is a request to create a group. The organization that will own it decides.
type NewGroup struct {
	// Found describes the group. Create sets its id.
	Found group.Found
	// Limit is how many groups the organization may have; nil means no limit.
	Limit *int
	// Key is the Idempotency-Key, "" for none.
	Key string
}

// GroupMade is a group that exists, with its founder seated.
type GroupMade struct {
	ID parley.GroupID
	// Repeated: an earlier request with the same key created the group.
	Repeated bool
}

// Joined is the result of a request for a seat: a membership, or a request that others
// decide.
type Joined struct {
	Member  *group.Member
	Request *group.Request
}

// Voted is a vote and its request after the vote.
type Voted struct {
	Request *group.Request
	Vote    string
}

// Invitation invites an agent. Invite fills in Org, Known, Revoked and Confined.
type Invitation struct {
	group.Invite
	// Notice is the message that notifies the agent, with blanks in its body.
	Notice Content
	// In and InIsolated are lookups: the agent is in another group, and in an isolated one.
	In, InIsolated bool
}

// joining is a Join by an agent that may be in other groups.
type joining struct {
	group.Join
	// In and InIsolated are those of Invitation.
	In, InIsolated bool
}

// appointing is an Appoint of an agent that may be in other groups.
type appointing struct {
	group.Appoint
	// In and InIsolated are those of Invitation.
	In, InIsolated bool
}

// Concern is a live request about an agent.
type Concern struct {
	Request parley.JoinRequestID
	Group   parley.GroupID
}

// View returns a group after everything sent to it before, including its founder's seat.
func (gs *Groups) View(ctx context.Context, id parley.GroupID, q group.GetView) (group.View, error) {
	return queryGroup[group.View](ctx, gs, id, q)
}

// ListMembers returns members as View does.
func (gs *Groups) ListMembers(ctx context.Context, id parley.GroupID, q group.ListMembers) ([]group.Member, error) {
	return queryGroup[[]group.Member](ctx, gs, id, q)
}

// ListRequests returns live requests as View does.
func (gs *Groups) ListRequests(ctx context.Context, id parley.GroupID, q group.ListRequests) (group.RequestList, error) {
	return queryGroup[group.RequestList](ctx, gs, id, q)
}

// queryGroup sends a query to a group's actor if the group exists.
func queryGroup[R any](ctx context.Context, gs *Groups, id parley.GroupID, q group.Query) (r R, err error) {
	if err := gs.Exists(ctx, id); err != nil {
		return r, err
	}
	return host.Query[R](gs.engine, rules.GroupStream(id), q)
}

// askGroup sends a request to a group's actor if the group exists.
func askGroup[R any](ctx context.Context, gs *Groups, id parley.GroupID, size int, request any) (r R, err error) {
	if err := gs.Exists(ctx, id); err != nil {
		return r, err
	}
	return host.Ask[R](ctx, gs.engine, rules.GroupStream(id), size, request)
}

// Create creates a group and seats its founder. The name stays in use even if the
// founder turns out to be confined to another group. // spec: Groups
func (gs *Groups) Create(ctx context.Context, c NewGroup) (GroupMade, error) {
	in, confined, err := gs.otherGroups(ctx, c.Found.Founder, parley.GroupID{})
	if err != nil {
		return GroupMade{}, err
	}
	// The group's slot is random: it need not be in the journal of its organization.
	random := gs.entropy()
	slot := parley.Slot(uint16(random[8])<<8|uint16(random[9])) % parley.Slots
	c.Found.ID = parley.NewID[parley.GroupID](slot, gs.clock(), gs.entropy())
	return host.Ask[GroupMade](ctx, gs.engine, rules.OrgStream(c.Found.Org), len(c.Found.Description), foundGroup{c, confined || in && c.Found.Isolated})
}

// otherGroups reports whether an agent is in a group other than one, and whether that
// one is isolated. If the cached record says so, the agent's actor is queried, because
// the agent may have left.
func (gs *Groups) otherGroups(ctx context.Context, of parley.AgentID, than parley.GroupID) (in, confined bool, err error) {
	a, err := gs.agents.Get(ctx, of)
	if err != nil {
		return false, false, err
	}
	for again := false; ; again = true {
		in, confined = false, false
		for _, m := range a.GetGroups() {
			if m.GroupID() != than {
				in, confined = true, confined || m.GetIsolated()
			}
		}
		if !in || again {
			return in, confined, nil
		}
		if a, err = host.Query[*agent.State](gs.engine, rules.AgentStream(of), host.GetState{}); err != nil {
			return false, false, err
		}
	}
}

// foundGroup is NewGroup with a lookup of the founder: a group confines it, or this one
// would take it from another.
type foundGroup struct {
	NewGroup
	Confined bool
}

// found checks the name and the quota, begins the group's stream in the group's slot, and
// offers the first seat to the founder.
func (gs *Groups) found(t *orgTurn, r foundGroup) (any, error) {
	c := r.Found
	scope := record.FoundingScope(c.Founder)
	known, err := findIdempotencyRecord(t, scope, r.Key)
	switch {
	case err != nil:
		return nil, err
	case known != nil && known.kind != c.Name:
		return nil, errGroupKeyMismatch
	case known != nil:
		return gs.founded(GroupMade{parley.GroupID(known.message), true}), nil
	case r.Confined:
		return nil, group.ErrIsolationConflict
	}
	name := append(c.Org.Bytes(), c.Name...)
	_, taken, err := t.Row(journal.GroupNameTable, name)
	if err != nil {
		return nil, err
	}
	if err := t.Decide(org.AddGroup{GroupID: c.ID, Name: c.Name, NameTaken: taken, GroupLimit: r.Limit}); err != nil {
		return nil, err
	}
	create, err := groupRules.Begin(rules.GroupStream(c.ID), &groupState{State: &group.State{}}, group.Command(c), t.Now)
	if err != nil {
		return nil, err
	}
	t.PutRow(journal.GroupNameTable, name, c.ID.Bytes())
	place := t.Seq()
	t.PutRow(journal.GroupRosterTable, binary.BigEndian.AppendUint64(c.Org.Bytes(), place), c.ID.Bytes())
	t.AddEffects(create)
	t.Enqueue(rules.AgentStream(c.Founder), &record.SagaMessage{Kind: record.SagaMessage_offer, Group: c.ID.Bytes(), Number: 1, Isolated: c.Isolated})
	putIdempotencyRecord(t, scope, r.Key, idempotencyRecord{parley.MessageID(c.ID), c.Org, c.Name}, journal.OwnedBy(c.Org))
	return gs.founded(GroupMade{ID: c.ID}), nil
}

// founded waits until a group's founder has its seat.
func (gs *Groups) founded(made GroupMade) *host.Unfinished {
	return &host.Unfinished{Finish: func() (any, error) {
		if _, err := gs.awaitSeat(made.ID, 1); err != nil && !made.Repeated {
			return nil, err
		}
		return made, nil
	}}
}

// awaitSeat waits until the agent has taken or refused an offered seat. The agent decides
// and the group seats it, both through durable messages.
func (gs *Groups) awaitSeat(id parley.GroupID, offer uint32) (group.Member, error) {
	f, err := host.Await(gs.engine, rules.GroupStream(id), group.GetFate{Offer: offer}, func(f group.Fate) bool {
		return f.Seated || f.Reason != "" || !f.Kept
	})
	switch {
	case err != nil:
		return f.Member, outcomeUnknown(err)
	case f.Seated:
		return f.Member, nil
	case f.Reason == group.ReasonIsolation:
		return f.Member, group.ErrIsolationConflict
	case f.Reason == group.ReasonRevoked:
		return f.Member, group.ErrAgentRevoked
	case f.Deleted:
		return f.Member, group.ErrDeleted
	default: // the agent took the seat and has left since
		return f.Member, parley.ErrOutcomeUnknown
	}
}

// outcomeUnknown replaces an overload refusal of a query after a change is durable, so
// that the caller does not take the change as undone.
func outcomeUnknown(err error) error {
	if errors.Is(err, parley.ErrOverloaded) {
		return parley.ErrOutcomeUnknown
	}
	return err
}

// Change alters a group's settings.
func (gs *Groups) Change(ctx context.Context, id parley.GroupID, c group.Change) error {
	_, err := askGroup[any](ctx, gs, id, 0, c)
	return err
}

// Join asks for a seat. // spec: Join request and membership
func (gs *Groups) Join(ctx context.Context, id parley.GroupID, c group.Join) (Joined, error) {
	in, confined, err := gs.otherGroups(ctx, c.Agent, id)
	if err != nil {
		return Joined{}, err
	}
	return askGroup[Joined](ctx, gs, id, len(c.Message), joining{c, in, confined})
}

// Invite invites an agent. In an open group it creates no request, because the agent can
// join without one.
func (gs *Groups) Invite(ctx context.Context, id parley.GroupID, c Invitation) (*group.Request, error) {
	a, err := gs.agents.Get(ctx, c.Agent)
	if err != nil && !errors.Is(err, parley.ErrNotFound) && !errors.Is(err, journal.ErrErased) {
		return nil, err
	}
	if c.Known = err == nil; c.Known {
		c.Org, c.Revoked = a.Owner(), a.Revoked()
		if c.In, c.InIsolated, err = gs.otherGroups(ctx, c.Agent, id); err != nil {
			return nil, err
		}
	}
	return askGroup[*group.Request](ctx, gs, id, len(c.Message), c)
}

// RemoveMember ends a membership. It returns when the agent's record agrees and the
// agents that get a seat as a result are seated, or when the wait times out.
func (gs *Groups) RemoveMember(ctx context.Context, id parley.GroupID, c group.Remove) error {
	_, err := askGroup[any](ctx, gs, id, 0, c)
	return err
}

// awaitDeparture waits until an agent's record shows that it left a group, or the wait
// times out. The agent is no member either way.
func (gs *Groups) awaitDeparture(id parley.GroupID, of parley.AgentID) {
	_, _ = host.Await(gs.engine, rules.AgentStream(of), host.GetState{}, func(a *agent.State) bool { return !a.In(id) })
}

// settled is the reply of a turn that offered seats, or ended memberships: reply, once the agents have
// taken the seats, and their records agree that they have left, or when the wait times out.
func (gs *Groups) settled(id parley.GroupID, offered []parley.Seat, gone []parley.AgentID, reply any) any {
	if len(offered) == 0 && len(gone) == 0 {
		return reply
	}
	return &host.Unfinished{Finish: func() (any, error) {
		var left sync.WaitGroup
		left.Go(func() { awaitAll(gone, func(of parley.AgentID) { gs.awaitDeparture(id, of) }) })
		awaitAll(offered, func(o parley.Seat) { _, _ = gs.awaitSeat(id, o.Number) })
		left.Wait()
		return reply, nil
	}}
}

// ChangeRole promotes or demotes a member.
func (gs *Groups) ChangeRole(ctx context.Context, id parley.GroupID, c group.ChangeRole) (group.Member, error) {
	return askGroup[group.Member](ctx, gs, id, 0, c)
}

// Appoint makes an agent an admin for the group's owner, and seats it if it is no member. It
// fills in what is looked up.
func (gs *Groups) Appoint(ctx context.Context, id parley.GroupID, c group.Appoint) (group.Member, error) {
	a, err := gs.agents.Get(ctx, c.Agent)
	if err != nil && !errors.Is(err, parley.ErrNotFound) && !errors.Is(err, journal.ErrErased) {
		return group.Member{}, err
	}
	r := appointing{Appoint: c}
	if r.Known = err == nil; r.Known {
		r.Org, r.Revoked = a.Owner(), a.Revoked()
		if r.In, r.InIsolated, err = gs.otherGroups(ctx, c.Agent, id); err != nil {
			return group.Member{}, err
		}
	}
	return askGroup[group.Member](ctx, gs, id, 0, r)
}

// awaitedMax bounds the number of affected agents that a change waits for.
const awaitedMax = 256

// Delete ends a group and keeps its conversations.
func (gs *Groups) Delete(ctx context.Context, id parley.GroupID, c group.Delete) error {
	_, err := askGroup[any](ctx, gs, id, 0, c)
	return err
}

// awaitAll runs wait for the first awaitedMax items concurrently and waits for all.
func awaitAll[T any](all []T, wait func(T)) {
	var waiting sync.WaitGroup
	for _, one := range all[:min(len(all), awaitedMax)] {
		waiting.Go(func() { wait(one) })
	}
	waiting.Wait()
}

// Concerns returns the live requests about an agent, in the order of their ids.
func (gs *Groups) Concerns(ctx context.Context, of parley.AgentID) (all []Concern, err error) {
	if _, err := host.Query[*agent.State](gs.engine, rules.AgentStream(of), host.GetState{}); err != nil {
		return nil, err
	}
	err = journal.Durably(ctx, gs.journal.View(), func(v journal.View) error {
		return v.Rows(of.Slot(), journal.ConcernTable, of[:], nil, false, func(key, value []byte) bool {
			all = append(all, Concern{
				parley.IDFromBytes[parley.JoinRequestID](key[len(of):]), parley.IDFromBytes[parley.GroupID](value),
			})
			return true
		})
	})
	return all, err
}
