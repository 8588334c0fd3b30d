package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/group"
	"parley/actors/org"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// noticeType is the type of messages that announce an invitation: they use no quota.
const noticeType = "svc.v1.group_invite"

// workloadGroups are the groups of a workload.
type workloadGroups struct {
	groups     []*crashGroup
	requests   []filedRequest
	broadcasts []*record.Message // acknowledged broadcasts
}

// crashGroup is a group whose creation was acknowledged.
type crashGroup struct {
	id      parley.GroupID
	owner   parley.OrgID
	name    string
	founder *crashAgent
}

type filedRequest struct {
	in *crashGroup
	id parley.JoinRequestID
}

// membership identifies an agent and a group.
type membership struct {
	group parley.GroupID
	agent parley.AgentID
}

// knownGroups is what clients know about groups.
type knownGroups struct {
	groups map[parley.GroupID]*crashGroup
	// requests counts the requested changes of each membership, answers the
	// acknowledged ones. If they are equal, in says whether the agent is a member.
	requests, answers map[membership]int
	in                map[membership]bool
	// broadcasts maps acknowledged broadcasts to their number of copies.
	broadcasts map[parley.MessageID]int
	settled    map[parley.JoinRequestID]parley.GroupID
}

func newKnownGroups() knownGroups {
	return knownGroups{
		groups: map[parley.GroupID]*crashGroup{}, requests: map[membership]int{}, answers: map[membership]int{}, in: map[membership]bool{},
		broadcasts: map[parley.MessageID]int{}, settled: map[parley.JoinRequestID]parley.GroupID{},
	}
}

// groupRefusals lists the refusals that clients may get because they do not check
// first.
var groupRefusals = []error{
	group.ErrDeleted, group.ErrUnknownMember, group.ErrAgentRevoked, group.ErrNotMember, group.ErrNotAdmin, group.ErrInvitationRequired,
	group.ErrNotInElectorate, group.ErrElectorateEmpty, group.ErrAlreadyMember, group.ErrAlreadyInvited, group.ErrRequestClosed,
	group.ErrIsolationConflict, group.ErrLastAdmin, group.ErrNoRecipients, group.ErrIdempotencyMismatch, group.ErrUnknownRequest,
	group.ErrFrozen, agent.ErrRevoked, agent.ErrUnknown, org.ErrGroupNameTaken, parley.ErrQuotaExceeded, parley.ErrIsolatedAgent,
	conversation.ErrClosed, conversation.ErrRecipientRevoked, conversation.ErrRoleNotAllowed, conversation.ErrInvalidTransition, parley.ErrNotFound,
}

// useGroups runs requests about groups and by their members.
func (c *client) useGroups() {
	g, ok := pick(c, &c.groups)
	a, some := pick(c, &c.active)
	if !some {
		return
	}
	switch draw := c.rng.IntN(14); {
	case !ok || draw == 0:
		policy := []group.Policy{group.Open, group.Open, group.Majority, group.Closed}[c.rng.IntN(4)]
		c.createGroup(fmt.Sprint("group", c.next()), a, policy, c.rng.IntN(4) == 0)
	case draw < 5:
		c.join(g, a)
	case draw == 5:
		c.invite(g, a)
	case draw < 8:
		c.vote()
	case draw == 8:
		c.leave(g, a)
	case draw < 12:
		c.broadcast(g)
	default:
		c.replyToCopy()
	}
}

func (c *client) createGroup(name string, founder *crashAgent, policy group.Policy, isolated bool) *crashGroup {
	g := c.foundGroup(name, founder, policy, isolated)
	if g != nil {
		note(c.workload, &c.groups, g)
	}
	return g
}

// foundGroup creates a group that other clients do not use.
func (c *client) foundGroup(name string, founder *crashAgent, policy group.Policy, isolated bool) *crashGroup {
	made, err := c.node().Groups.Create(context.Background(), NewGroup{Found: group.Found{
		Org: founder.owner, Founder: founder.id, Name: name, Policy: policy, VoteHours: 72, Isolated: isolated, Public: isolated,
	}})
	if !c.answered(err, groupRefusals...) || err != nil {
		return nil
	}
	g := &crashGroup{made.ID, founder.owner, name, founder}
	c.claim(func(k *knownFacts) { k.groups[g.id] = g })
	return g
}

// join makes an agent join. Each agent joins and leaves by one client only.
func (c *client) join(g *crashGroup, a *crashAgent) {
	if int(a.id[15])%2 != c.number%2 || a == g.founder {
		return
	}
	at := membership{g.id, a.id}
	c.claim(func(k *knownFacts) { k.requests[at]++ })
	joined, err := c.node().Groups.Join(context.Background(), g.id, group.Join{Agent: a.id, Org: a.owner})
	switch {
	case !c.answered(err, groupRefusals...):
	case joined.Member != nil && err == nil, errors.Is(err, group.ErrAlreadyMember):
		c.claim(func(k *knownFacts) { k.answers[at]++; k.in[at] = true })
	case joined.Request != nil:
		note(c.workload, &c.requests, filedRequest{g, joined.Request.RequestID()})
	}
}

func (c *client) invite(g *crashGroup, a *crashAgent) {
	r, err := c.node().Groups.Invite(context.Background(), g.id, Invitation{
		Invite: group.Invite{By: group.Caller{Org: g.owner, Agent: g.founder.id}, Agent: a.id},
		Notice: Content{Type: noticeType, Body: []byte("notice of " + BlankRequestID + ":")},
	})
	if c.answered(err, groupRefusals...) && r != nil {
		note(c.workload, &c.requests, filedRequest{g, r.RequestID()})
	}
}

func (c *client) vote() {
	f, ok := pick(c, &c.requests)
	if !ok {
		return
	}
	v, err := c.node().Groups.Vote(context.Background(), f.in.id, group.CastVote{
		Request: f.id, By: group.Caller{Org: f.in.owner, Agent: f.in.founder.id}, Approve: c.rng.IntN(4) > 0,
	})
	if c.answered(err, groupRefusals...) && err == nil && v.Request.GetResolvedMs() != 0 {
		c.claim(func(k *knownFacts) { k.settled[f.id] = f.in.id })
	}
}

// leave makes an agent leave.
func (c *client) leave(g *crashGroup, a *crashAgent) {
	if int(a.id[15])%2 != c.number%2 || a == g.founder {
		return
	}
	at := membership{g.id, a.id}
	c.claim(func(k *knownFacts) { k.requests[at]++ })
	err := c.node().Groups.RemoveMember(context.Background(), g.id, group.Remove{Agent: a.id, By: group.Caller{Org: a.owner, Agent: a.id}})
	if c.answered(err, groupRefusals...) && (err == nil || errors.Is(err, group.ErrUnknownMember)) {
		c.claim(func(k *knownFacts) { k.answers[at]++; k.in[at] = false })
	}
}

// broadcast sends to a group, and sometimes repeats the request.
func (c *client) broadcast(g *crashGroup) {
	s := GroupSend{
		Content: Content{Type: "svc.v1.dm", Body: []byte(c.text(c.next())), FromOrg: g.owner, DayLimit: dayLimit(g.owner)},
		Group:   g.id, From: g.founder.id,
	}
	if c.rng.IntN(2) == 0 {
		s.Key = fmt.Sprint("g", c.next())
	}
	for range 1 + c.rng.IntN(2) {
		c.sendToGroup(s)
	}
}

func (c *client) sendToGroup(s GroupSend) {
	p, err := c.node().Messages.Broadcast(context.Background(), s)
	switch {
	case !c.answered(err, groupRefusals...):
	case errors.Is(err, parley.ErrQuotaExceeded):
		c.outOfQuota(s.FromOrg, err)
	case err == nil:
		c.sawMessages(query.Message{Record: p.Message, Receipts: p.Receipts})
		if !p.Repeated {
			note(c.workload, &c.broadcasts, p.Message)
		}
		id, n := p.Message.MessageID().Broadcast(), int(p.Message.GetRecipients())
		c.claim(func(k *knownFacts) {
			if had := k.broadcasts[id]; had != 0 && had != n {
				k.fault("broadcast %s was said to have %d copies and %d", id, had, n)
			}
			k.broadcasts[id] = n
		})
	}
}

// replyToCopy replies to a copy of a broadcast, or changes the status of its
// conversation.
func (c *client) replyToCopy() {
	m, ok := pick(c, &c.broadcasts)
	if !ok {
		return
	}
	ctx := context.Background()
	if c.rng.IntN(3) == 0 {
		words := []string{"paused", "open", "completed"}
		s, err := c.node().Messages.ChangeStatus(ctx, ChangeStatus{
			Conversation: m.Conversation(), Host: m.GroupID(), By: []parley.AgentID{m.Sender()}, Status: words[c.rng.IntN(3)], Reason: fmt.Sprint("r", c.next()),
		})
		if c.answered(err, groupRefusals...) && err == nil {
			c.sawState(s)
		}
		return
	}
	r := answerTo(m.RecipientOrg(), m, c.text(c.next()), "")
	r.ToOrg, r.Host, r.Copy, r.DayLimit = m.SenderOrg(), m.GroupID(), true, dayLimit(r.FromOrg)
	mine, err := c.node().Messages.GetFor(ctx, r.From.Slot(), r.Original)
	if !c.answered(err) {
		return
	}
	r.Reads, r.Position = mine.Position != 0, mine.Position
	p, err := c.node().Messages.Reply(ctx, r)
	if errors.Is(err, parley.ErrQuotaExceeded) {
		c.outOfQuota(r.FromOrg, err)
	}
	if c.answered(err, groupRefusals...) && err == nil {
		c.sawMessages(query.Message{Record: p.Message, Receipts: p.Receipts})
	}
}

// awaitQueues waits until every queued message is handled.
func (x *imageCheck) awaitQueues() {
	x.eventually("all words are heard", func() bool {
		archive, still := x.node.archive(), true
		err := archive.Underway(func(journal.Effect) error { still = false; return nil })
		heard := archive.Queues(func(journal.Stream, []byte) error { still = false; return nil })
		return errors.Join(err, heard, archive.Close()) == nil && still
	})
}

// checkGroups: acknowledged changes of groups exist, every broadcast has each of its
// copies once, and groups and agents agree on memberships.
func (x *imageCheck) checkGroups() {
	ctx := context.Background()
	copies, readers := map[parley.MessageID]int{}, map[parley.MessageID]map[parley.AgentID]bool{}
	wanted := map[parley.MessageID]int{}
	for id, m := range x.inbox {
		if !m.Record.Copied() {
			continue
		}
		b := id.Broadcast()
		if copies[b]++; readers[b] == nil {
			readers[b] = map[parley.AgentID]bool{}
		}
		readers[b][m.Record.Recipient()] = true
		wanted[b] = int(m.Record.GetRecipients())
	}
	for id, n := range x.known.broadcasts {
		if wanted[id] != n {
			x.fault("lost: broadcast %s went to %d, and there are %d copies", id, n, copies[id])
		}
	}
	for id, n := range wanted {
		if copies[id] != n || len(readers[id]) != n {
			x.fault("half: broadcast %s went to %d, there are %d copies to %d agents", id, n, copies[id], len(readers[id]))
		}
	}
	for id, g := range x.known.groups {
		if found, err := x.node.node.Groups.ByName(ctx, g.owner, g.name); err != nil || found != id {
			x.fault("lost: the name %s was of group %s and is of %s (%v)", g.name, id, found, err)
		}
		x.checkGroup(id)
	}
	for id, in := range x.known.settled {
		if _, err := x.node.node.Groups.SettledRequest(ctx, in, id); err != nil {
			x.fault("lost: request %s was settled (%v)", id, err)
		}
	}
}

func (x *imageCheck) checkGroup(id parley.GroupID) {
	over := false
	members, err := readGroup(context.Background(), x.node.node.Groups, id, func(s *group.State) (ids []parley.AgentID) {
		if over = s.Deleted(); !over {
			for _, m := range s.Members() {
				ids = append(ids, m.Agent)
			}
		}
		return ids
	})
	if !x.noError(err, "lost: group %s", id) {
		return
	}
	for of, a := range x.agents {
		member, at := slices.Contains(members, of), membership{id, of}
		if member != a.In(id) { // a group may tell its members in steps that no queue shows
			x.eventually(fmt.Sprintf("agent %s and group %s agree that it is a member: %v", of, id, member), func() bool {
				now, err := x.node.node.Agents.Get(context.Background(), of)
				return err == nil && now.In(id) == member
			})
		}
		if a.Confined() && len(a.GetGroups()) > 1 {
			x.fault("half: agent %s is in an isolated group and in others", of)
		}
		if !over && !a.Revoked() && x.known.answers[at] > 0 && x.known.answers[at] == x.known.requests[at] && x.known.in[at] != member {
			x.fault("lost: agent %s was said to be in group %s: %v, and is: %v", of, id, x.known.in[at], member)
		}
	}
}
