package actors

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"parley"
	"parley/actors/agent"
	"parley/actors/group"
	"parley/actors/host"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
)

var errGroupKeyMismatch = parley.Refuse(parley.Conflict, "idempotency_mismatch", "The Idempotency-Key was used for a group of another name.")

// NewGroup is a group to be made, judged by the organization that will own it.
type NewGroup struct {
	// Found is the group but for its id, which is given here.
	Found group.Found
	// Limit is how many groups the organization may have; nil: any number.
	Limit *int
	// Key is the Idempotency-Key, "" for none.
	Key string
}

// GroupMade is a group that exists, with its founder seated.
type GroupMade struct {
	ID parley.GroupID
	// Repeated: it was made by an earlier request with the same key.
	Repeated bool
}

// Joined is what came of asking for a seat: a membership, or a request that
// others decide.
type Joined struct {
	Member  *group.Member
	Request *group.Request
}

// Voted is a request as it stands after a vote, and the vote.
type Voted struct {
	Request *group.Request
	Vote    string
}

// Invitation asks an agent in. What is known of it is gathered here: Org, Known,
// Revoked and Confined of the embedded command.
type Invitation struct {
	group.Invite
	// Notice renders the message that tells the agent. It is called in the group's
	// turn: it must depend on nothing but the request, and on what never changes.
	Notice func(*group.Request) Content

	in, confined bool // another group, an isolated one
}

// joining is a Join by an agent that is in another group, or in an isolated one.
type joining struct {
	group.Join
	in, confined bool
}

// Concern is a live request about an agent.
type Concern struct {
	Request parley.JoinRequestID
	Group   parley.GroupID
}

// ReadGroup looks at a group after all that it was told before, the seating of
// its founder included. What read returns must not share memory with the state.
func ReadGroup[R any](ctx context.Context, n *Node, id parley.GroupID, read func(*group.State, time.Time) R) (r R, err error) {
	if err := n.groupExists(ctx, id); err != nil {
		return r, err
	}
	return host.Query[R](n.engine, rules.GroupStream(id), sight(func(s *group.State, now time.Time) any { return read(s, now) }))
}

// groupExists keeps ids that name no group from becoming actors.
func (n *Node) groupExists(ctx context.Context, id parley.GroupID) error {
	_, err := n.facts.group(ctx, id)
	return err
}

// group is a part of a group that never changes, if it exists.
func (f *facts) group(ctx context.Context, id parley.GroupID) (owner parley.OrgID, err error) {
	if owner, ok := f.groups.GetIfPresent(id); ok {
		return owner, nil
	}
	v := f.journal.Latest()
	defer v.Close()
	var bad error
	err = v.Events(rules.GroupStream(id), 1, false, func(_ uint64, _ int64, fact journal.StoredEvent) bool {
		var e group.Event
		e, bad = groupRules.Decode(fact)
		if founded, ok := e.(*group.Founded); ok {
			owner = parley.IDFromBytes[parley.OrgID](founded.GetOrg())
		}
		return false
	})
	if err = errors.Join(err, bad); err == nil {
		err = v.Durable(ctx)
	}
	if err != nil {
		return owner, err
	}
	if owner.Zero() {
		return owner, group.ErrUnknown
	}
	f.groups.Set(id, owner)
	return owner, nil
}

// askGroup asks a group's actor, if there is such a group.
func askGroup[R any](ctx context.Context, n *Node, id parley.GroupID, size int, request any) (r R, err error) {
	if err := n.groupExists(ctx, id); err != nil {
		return r, err
	}
	return host.Ask[R](n.engine, rules.GroupStream(id), size, request)
}

// GroupByName finds a group, deleted or not, by its owner and name.
func (n *Node) GroupByName(ctx context.Context, owner parley.OrgID, name string) (parley.GroupID, error) {
	id, err := n.name(ctx, owner.Slot(), nameOf{journal.GroupNameTable, parley.AnyID(owner), name})
	return parley.GroupID(id), err
}

// CreateGroup makes a group and seats its founder. A name is used up also where
// the founder turns out to be confined to another group. // spec: Groups
func (n *Node) CreateGroup(ctx context.Context, c NewGroup) (GroupMade, error) {
	in, confined, err := n.elsewhere(ctx, c.Found.Founder, parley.GroupID{})
	if err != nil {
		return GroupMade{}, err
	}
	// A group lives anywhere: its organization is not its home.
	random := n.entropy()
	slot := parley.Slot(uint16(random[8])<<8|uint16(random[9])) % parley.Slots
	c.Found.ID = parley.NewID[parley.GroupID](slot, n.clock(), n.entropy())
	made, err := host.Ask[GroupMade](n.engine, rules.OrgStream(c.Found.Org), len(c.Found.Description), foundGroup{c, confined || in && c.Found.Isolated})
	if err != nil {
		return made, err
	}
	if _, err := n.seated(ctx, made.ID, c.Found.Founder, 1); err != nil && !made.Repeated {
		return made, err
	}
	return made, nil
}

// elsewhere reports whether an agent is in a group other than one, and whether
// it is confined there. A record that says so is asked for once more: the agent
// may have been told meanwhile that it is out.
func (n *Node) elsewhere(ctx context.Context, of parley.AgentID, than parley.GroupID) (in, confined bool, err error) {
	a, err := n.Agent(ctx, of)
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
		if a, err = host.Query[*agent.State](n.engine, rules.AgentStream(of), host.GetState{}); err != nil {
			return false, false, err
		}
	}
}

// foundGroup is NewGroup with what is known of the founder.
type foundGroup struct {
	NewGroup
	confined bool
}

// foundGroup judges name and quota, begins the group's stream wherever that
// lives, and has the founder asked whether it may take the first seat.
func (n *Node) foundGroup(t *orgTurn, r foundGroup) (any, error) {
	c := r.Found
	scope := record.FoundingScope(c.Founder)
	known, err := recall(t, scope, r.Key)
	switch {
	case err != nil:
		return nil, err
	case known != nil && known.kind != c.Name:
		return nil, errGroupKeyMismatch
	case known != nil:
		return GroupMade{parley.GroupID(known.message), true}, nil
	case r.confined:
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
	bear, err := begin(groupRules, rules.GroupStream(c.ID), &hall{State: &group.State{}}, group.Command(c), t.Now)
	if err != nil {
		return nil, err
	}
	t.PutRow(journal.GroupNameTable, name, c.ID.Bytes())
	place := t.Seq()
	t.PutRow(journal.GroupRosterTable, binary.BigEndian.AppendUint64(c.Org.Bytes(), place), c.ID.Bytes())
	t.AddEffects(bear)
	t.Enqueue(rules.AgentStream(c.Founder), &record.SagaMessage{Kind: record.SagaMessage_offer, Group: c.ID.Bytes(), Number: 1, Isolated: c.Isolated})
	remember(t, scope, r.Key, remembered{parley.MessageID(c.ID), c.Org, c.Name})
	return GroupMade{ID: c.ID}, nil
}

// seated waits until it is settled who has the seat that was kept: its agent
// decides, and the group seats it. Both are told by words that are not lost;
// asking them only shows when they have heard.
func (n *Node) seated(ctx context.Context, id parley.GroupID, of parley.AgentID, offer uint32) (group.Member, error) {
	type fate struct {
		member             group.Member
		seated, kept, over bool
		reason             string
	}
	for pause := time.Millisecond; ; pause *= 2 {
		_, err := host.Query[*agent.State](n.engine, rules.AgentStream(of), host.GetState{})
		if err != nil {
			return group.Member{}, unlooked(err)
		}
		f, err := host.Query[fate](n.engine, rules.GroupStream(id), early(func(s *group.State) any {
			f := fate{}
			f.member, f.seated, f.reason, f.kept = s.Fate(offer)
			f.over = s.Deleted()
			return f
		}))
		switch {
		case err != nil:
			return f.member, unlooked(err)
		case f.seated:
			return f.member, nil
		case f.reason == group.ReasonIsolation:
			return f.member, group.ErrIsolationConflict
		case f.reason == group.ReasonRevoked:
			return f.member, group.ErrAgentRevoked
		case !f.kept && f.over:
			return f.member, group.ErrDeleted
		case !f.kept: // it was taken, and given up since
			return f.member, parley.ErrOutcomeUnknown
		}
		if err := n.pause(ctx, pause); err != nil {
			return f.member, err
		}
	}
}

// unlooked is why it could not be seen what became of something that was done:
// nobody may take it for undone.
func unlooked(err error) error {
	if errors.Is(err, parley.ErrOverloaded) {
		return parley.ErrOutcomeUnknown
	}
	return err
}

// pauseMost is how long a door waits between two looks at a word on its way.
const pauseMost = 2 * time.Second

// pause waits before another look, or tells that it was looked for long enough.
func (n *Node) pause(ctx context.Context, d time.Duration) error {
	if d > pauseMost {
		return parley.ErrOutcomeUnknown
	}
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-late.C:
		return nil
	case <-ctx.Done():
		return parley.ErrOutcomeUnknown
	}
}

// ChangeGroup alters a group's settings.
func (n *Node) ChangeGroup(ctx context.Context, id parley.GroupID, c group.Change) error {
	_, err := askGroup[any](ctx, n, id, 0, c)
	return err
}

// JoinGroup asks for a seat. // spec: Join request and membership
func (n *Node) JoinGroup(ctx context.Context, id parley.GroupID, c group.Join) (Joined, error) {
	in, confined, err := n.elsewhere(ctx, c.Agent, id)
	if err != nil {
		return Joined{}, err
	}
	kept, err := askGroup[keptSeat](ctx, n, id, len(c.Message), joining{c, in, confined})
	if err != nil || kept.offer == 0 {
		return Joined{Request: kept.request}, err
	}
	m, err := n.seated(ctx, id, c.Agent, kept.offer)
	return Joined{Member: &m}, err
}

// Invite asks an agent in. No request comes of it where the group is open: the
// agent need only come.
func (n *Node) Invite(ctx context.Context, id parley.GroupID, c Invitation) (*group.Request, error) {
	a, err := n.Agent(ctx, c.Agent)
	if err != nil && !errors.Is(err, parley.ErrNotFound) {
		return nil, err
	}
	if c.Known = err == nil; c.Known {
		c.Org, c.Revoked = a.Owner(), a.Revoked()
		if c.in, c.confined, err = n.elsewhere(ctx, c.Agent, id); err != nil {
			return nil, err
		}
	}
	return askGroup[*group.Request](ctx, n, id, len(c.Message), c)
}

// Vote votes on a request. One that the vote settles is given as settled.
// // spec: Groups
func (n *Node) Vote(ctx context.Context, id parley.GroupID, c group.CastVote) (Voted, error) {
	v, err := n.castVote(ctx, id, c)
	if err != nil || v.offer == 0 {
		return v.Voted, err
	}
	if _, err := n.seated(ctx, id, v.Request.AgentID(), v.offer); err != nil && !parley.IsRefusal(err) {
		return v.Voted, err
	}
	settled, err := n.SettledRequest(ctx, id, c.Request)
	if err == nil {
		v.Request = settled
	}
	return v.Voted, nil
}

// RemoveMember ends a membership, and returns when the agent knows and those who
// are let in because of it have their seats.
func (n *Node) RemoveMember(ctx context.Context, id parley.GroupID, c group.Remove) error {
	given, err := askGroup[[]parley.Seat](ctx, n, id, 0, c)
	if err != nil {
		return err
	}
	together(given, func(o parley.Seat) { _, _ = n.seated(ctx, id, o.Agent, o.Number) })
	n.awaitDeparture(ctx, id, c.Agent)
	return nil
}

// awaitDeparture waits until an agent knows that it is no member any more, or
// for as long as words may be on their way: it is none, whether it knows or not.
func (n *Node) awaitDeparture(ctx context.Context, id parley.GroupID, of parley.AgentID) {
	for pause := time.Millisecond; ; pause *= 2 {
		a, err := host.Query[*agent.State](n.engine, rules.AgentStream(of), host.GetState{})
		if err != nil || !a.In(id) || n.pause(ctx, pause) != nil {
			return
		}
	}
}

// ChangeRole promotes or demotes a member.
func (n *Node) ChangeRole(ctx context.Context, id parley.GroupID, c group.ChangeRole) (group.Member, error) {
	return askGroup[group.Member](ctx, n, id, 0, c)
}

// awaitedMax bounds how many of those whom a change concerns it waits for.
const awaitedMax = 256

// DeleteGroup ends a group. Its conversations stay.
func (n *Node) DeleteGroup(ctx context.Context, id parley.GroupID, c group.Delete) error {
	members, err := askGroup[[]parley.AgentID](ctx, n, id, 0, c)
	if err != nil {
		return err
	}
	together(members, func(of parley.AgentID) { n.awaitDeparture(ctx, id, of) })
	return nil
}

// together waits for the first of several all at once.
func together[T any](all []T, wait func(T)) {
	var waiting sync.WaitGroup
	for _, one := range all[:min(len(all), awaitedMax)] {
		waiting.Go(func() { wait(one) })
	}
	waiting.Wait()
}

// OwnedGroups gives the groups that an organization made, deleted ones and some
// that never came to be included, oldest first, beyond the place after (0: from
// the first). next is where the list goes on, 0 at its end.
func (n *Node) OwnedGroups(ctx context.Context, owner parley.OrgID, after uint64, limit int) (ids []parley.GroupID, next uint64, err error) {
	beyond := []byte(nil)
	if after != 0 {
		beyond = binary.BigEndian.AppendUint64(owner.Bytes(), after)
	}
	err = n.view(ctx, func(v journal.View) error {
		last := uint64(0)
		return v.Rows(owner.Slot(), journal.GroupRosterTable, owner[:], beyond, false, func(key, value []byte) bool {
			if len(ids) == limit {
				next = last
				return false
			}
			last = binary.BigEndian.Uint64(key[len(owner):])
			ids = append(ids, parley.IDFromBytes[parley.GroupID](value))
			return true
		})
	})
	return ids, next, err
}

// Concerns are the live requests about an agent as it knows of them, in the
// order of their ids.
func (n *Node) Concerns(ctx context.Context, of parley.AgentID) (all []Concern, err error) {
	if _, err := host.Query[*agent.State](n.engine, rules.AgentStream(of), host.GetState{}); err != nil {
		return nil, err
	}
	err = n.view(ctx, func(v journal.View) error {
		return v.Rows(of.Slot(), journal.ConcernTable, of[:], nil, false, func(key, value []byte) bool {
			all = append(all, Concern{
				parley.IDFromBytes[parley.JoinRequestID](key[len(of):]), parley.IDFromBytes[parley.GroupID](value),
			})
			return true
		})
	})
	return all, err
}

// SettledRequests are a group's requests that are settled, in the order of
// their ids, beyond the id after.
func (n *Node) SettledRequests(ctx context.Context, id parley.GroupID, after parley.JoinRequestID, limit int) (page []*group.Request, more bool, err error) {
	err = n.view(ctx, func(v journal.View) error {
		var bad error
		scan := v.Rows(id.Slot(), journal.RequestTable, id[:], append(id.Bytes(), after[:]...), false, func(_, value []byte) bool {
			if more = len(page) == limit; more {
				return false
			}
			r := &group.Request{}
			if bad = r.UnmarshalVT(value); bad != nil {
				return false
			}
			page = append(page, r)
			return true
		})
		return errors.Join(scan, bad)
	})
	return page, more, err
}

// SettledRequest is a request that is settled.
func (n *Node) SettledRequest(ctx context.Context, id parley.GroupID, request parley.JoinRequestID) (r *group.Request, err error) {
	err = n.row(ctx, func(v journal.View) error {
		value, found, err := v.Row(id.Slot(), journal.RequestTable, append(id.Bytes(), request[:]...))
		if err == nil && !found {
			return group.ErrUnknownRequest
		}
		if err != nil {
			return err
		}
		r = &group.Request{}
		return r.UnmarshalVT(value)
	})
	return r, err
}

// HadSeat reports whether an agent is, or ever was, a member of a group.
func (n *Node) HadSeat(ctx context.Context, id parley.GroupID, of parley.AgentID) (had bool, err error) {
	err = n.row(ctx, func(v journal.View) error {
		_, had, err = v.Row(id.Slot(), journal.PlaceTable, append(id.Bytes(), of[:]...))
		return err
	})
	return had, err
}
