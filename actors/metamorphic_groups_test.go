package actors

import (
	"context"
	"fmt"

	"parley/actors/encoding"
	"parley/actors/group"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/parley"
)

// scriptGroups are the groups of a script.
type scriptGroups struct {
	groups        []parley.GroupID
	founders      map[parley.GroupID]group.Caller
	filed         map[parley.JoinRequestID]parley.GroupID
	requests      []parley.JoinRequestID
	groupMessages []*record.Message // in conversations of groups
	// restless is set if messages between groups and agents may be pending.
	restless bool
}

// beginGroup creates a group and invites an agent, which joins and leaves.
func (p *scriptRunner) beginGroup(ctx context.Context) {
	p.restless = true
	by := group.Caller{Org: p.owners[p.ids[0]], Agent: p.ids[0]}
	made := must(p.node.Groups.Create(ctx, NewGroup{Found: group.Found{
		Org: by.Org, Founder: by.Agent, Name: "club", Policy: group.Closed, Public: true, VoteHours: 48,
	}}))(p.t)
	p.groups, p.founders[made.ID] = append(p.groups, made.ID), by
	guest := p.ids[1]
	r, err := p.node.Groups.Invite(ctx, made.ID, Invitation{
		Invite: group.Invite{By: by, Agent: guest},
		Notice: Content{Type: noticeType, Body: []byte(BlankRequestID)},
	})
	p.noteResult(err, "invited: %s", oneLine(r))
	self := group.Caller{Org: p.owners[guest], Agent: guest}
	_, err = p.node.Groups.Join(ctx, made.ID, group.Join{Agent: guest, Org: self.Org})
	p.noteResult(err, "%s has come", guest)
	p.noteResult(p.node.Groups.RemoveMember(ctx, made.ID, group.Remove{Agent: guest, By: self}), "%s left the group %s", guest, made.ID)
}

// caller returns a random caller.
func (p *scriptRunner) caller() group.Caller {
	id := one(p, p.ids)
	return group.Caller{Org: p.owners[id], Agent: id}
}

// useGroups runs requests about groups and by their members.
func (p *scriptRunner) useGroups(ctx context.Context, n int) {
	p.restless = true
	draw := p.random.IntN(20)
	if len(p.groups) == 0 || draw == 0 && len(p.groups) < 12 {
		p.createGroup(ctx)
		return
	}
	id := one(p, p.groups)
	switch {
	case draw < 6:
		p.enroll(ctx, id)
	case draw < 8:
		p.invite(ctx, id)
	case draw < 11:
		p.vote(ctx, id)
	case draw < 15:
		p.broadcast(ctx, id, n)
	case draw < 17:
		p.answerInGroup(ctx, n)
	default:
		p.alterGroup(ctx, id, n)
	}
}

func (p *scriptRunner) createGroup(ctx context.Context) {
	by := p.caller()
	made, err := p.node.Groups.Create(ctx, NewGroup{Key: one(p, []string{"", "k"}), Found: group.Found{
		Org: by.Org, Founder: by.Agent, Name: fmt.Sprint("group", p.random.IntN(9)), Isolated: !p.likely(4), Public: p.likely(2),
		Policy: one(p, []group.Policy{group.Open, group.Open, group.Majority, group.Unanimity, group.Closed}), VoteHours: 48,
	}})
	if err == nil && !made.Repeated {
		p.groups = append(p.groups, made.ID)
		p.founders[made.ID] = by
	}
	p.noteResult(err, "%s is founded by %s, repeated %v", made.ID, by.Agent, made.Repeated)
}

func (p *scriptRunner) enroll(ctx context.Context, id parley.GroupID) {
	by := p.caller()
	limit := 4
	joined, err := p.node.Groups.Join(ctx, id, group.Join{Agent: by.Agent, Org: by.Org, Message: "please", SeatLimit: &limit})
	switch {
	case err != nil:
		p.noteResult(err, "")
	case joined.Member != nil:
		p.noteResult(nil, "%s is a member of %s: %v", by.Agent, id, *joined.Member)
	default:
		p.file(id, joined.Request)
		p.noteResult(nil, "a seat is asked for: %s", oneLine(joined.Request))
	}
}

func (p *scriptRunner) file(id parley.GroupID, r *group.Request) {
	p.requests = append(p.requests, r.RequestID())
	p.filed[r.RequestID()] = id
}

func (p *scriptRunner) invite(ctx context.Context, id parley.GroupID) {
	who, by := p.caller(), p.caller()
	if p.likely(3) {
		by = p.founders[id]
	}
	r, err := p.node.Groups.Invite(ctx, id, Invitation{
		Invite: group.Invite{By: by, Agent: who.Agent, Message: "come"},
		Notice: Content{Type: noticeType, Body: []byte(BlankRequestID)},
	})
	if err == nil && r != nil {
		p.file(id, r)
		p.noteResult(nil, "invited: %s", oneLine(r))
		return
	}
	p.noteResult(err, "%s may come by itself", who.Agent)
}

func (p *scriptRunner) vote(ctx context.Context, id parley.GroupID) {
	if len(p.requests) == 0 {
		p.note("nothing to vote on\n")
		return
	}
	request := one(p, p.requests[max(0, len(p.requests)-4):])
	if p.likely(8) {
		id = p.filed[request]
	}
	v, err := p.node.Groups.Vote(ctx, id, group.CastVote{Request: request, By: p.caller(), Approve: p.likely(4)})
	if err != nil {
		p.noteResult(err, "")
		return
	}
	p.noteResult(nil, "voted %s: %s", v.Vote, oneLine(v.Request))
}

func (p *scriptRunner) broadcast(ctx context.Context, id parley.GroupID, n int) {
	by := p.caller()
	members := must(readGroup(ctx, p.node.Groups, id, func(s *group.State) (all []parley.AgentID) {
		for _, m := range s.Members() {
			all = append(all, m.Agent)
		}
		return all
	}))(p.t)
	if len(members) > 0 && p.likely(6) {
		by.Agent = one(p, members)
		by.Org = p.owners[by.Agent]
	}
	posted, err := p.node.Messages.Broadcast(ctx, GroupSend{
		Content: Content{
			Type: "svc.v1.dm", Body: fmt.Appendf(nil, "to all %d", n), Key: one(p, []string{"", "", "b"}), FromOrg: by.Org, DayLimit: p.limit(by.Agent),
		},
		Group: id, From: by.Agent,
	})
	p.postedInGroup(posted, err)
}

// postedInGroup is posted for messages in groups.
func (p *scriptRunner) postedInGroup(posted Posted, err error) {
	if err != nil {
		p.noteResult(err, "")
		return
	}
	if !posted.Repeated {
		p.groupMessages = append(p.groupMessages, posted.Message)
	}
	p.noteResult(nil, "repeated %v to %d: %s", posted.Repeated, posted.Message.GetRecipients(), textAndReceipts(query.Message{Record: posted.Message, Receipts: posted.Receipts}))
}

func (p *scriptRunner) answerInGroup(ctx context.Context, n int) {
	if len(p.groupMessages) == 0 {
		p.note("nothing was said\n")
		return
	}
	m := one(p, p.groupMessages)
	if !p.likely(3) {
		s, err := p.node.Messages.ChangeStatus(ctx, ChangeStatus{
			Conversation: m.Conversation(), Host: m.HostID(), By: []parley.AgentID{one(p, []parley.AgentID{m.Sender(), m.Recipient(), one(p, p.ids)})},
			Status: one(p, []string{"open", "paused", "completed"}), Reason: "so",
		})
		p.noteResult(err, "moved to %s at %d after %d messages", s.GetStatus(), s.GetUpdatedMs(), s.GetMessages())
		return
	}
	a := answerTo(p.owners[m.Recipient()], m, fmt.Sprint("answered in a group ", n), one(p, []string{"", "k"}))
	a.ToOrg, a.Host, a.Copy, a.DayLimit = p.owners[m.Sender()], m.HostID(), m.Copied(), p.limit(a.From)
	mine := must(p.node.Messages.GetFor(ctx, a.From.Slot(), a.Original))(p.t)
	a.Reads, a.Position = true, mine.Position
	p.postedInGroup(p.reply(a))
}

// alterGroup changes roles, settings and members, or ends a group.
func (p *scriptRunner) alterGroup(ctx context.Context, id parley.GroupID, n int) {
	by, who := p.caller(), p.caller()
	if founder := p.founders[id]; p.likely(3) {
		by = founder
	}
	switch p.random.IntN(6) {
	case 0, 1:
		if p.likely(3) {
			by = who
		} else if p.likely(2) {
			who = by
		}
		p.noteResult(p.node.Groups.RemoveMember(ctx, id, group.Remove{Agent: who.Agent, By: by}), "%s left the group %s", who.Agent, id)
	case 2, 3:
		m, err := p.node.Groups.ChangeRole(ctx, id, group.ChangeRole{Agent: who.Agent, By: by, Role: one(p, []group.Role{group.Admin, group.RoleMember})})
		p.noteResult(err, "now %v", m)
	case 4:
		p.noteResult(p.node.Groups.Delete(ctx, id, group.Delete{By: by}), "%s is over", id)
	default:
		text := fmt.Sprint("described ", n)
		p.noteResult(p.node.Groups.Change(ctx, id, group.Change{By: by, Description: &text}), "%s is %s", id, text)
	}
}

// readGroup notes everything that can be read of a group.
func (p *scriptRunner) readGroup(ctx context.Context, id parley.GroupID) {
	state := must(readGroup(ctx, p.node.Groups, id, func(s *group.State) string {
		b, err := encoding.Marshal(s)
		whole := &group.Snapshot{}
		if err != nil || encoding.Unmarshal(b, whole) != nil {
			return "cannot be read"
		}
		return oneLine(whole)
	}))(p.t)
	p.note("group %s: %s\n", id, state)
	settled, _, err := p.node.Groups.SettledRequests(ctx, id, parley.JoinRequestID{}, 1000)
	for _, r := range settled {
		p.note("  settled %s\n", oneLine(r))
	}
	p.noteResult(err, "end of requests")
	for _, who := range p.ids {
		had := must(p.node.Groups.HadSeat(ctx, id, who))(p.t)
		concerns := must(p.node.Groups.Concerns(ctx, who))(p.t)
		p.note("  %s: %v, %v\n", who, had, concerns)
	}
	for _, m := range p.groupMessages {
		if m.HostID() != id {
			continue
		}
		page, _, err := p.node.Messages.TranscriptOf(ctx, m.Conversation(), id, m.Recipient(), 0, 100, false, nil)
		for _, row := range page {
			p.note("  seen: %s\n", textAndReceipts(row))
		}
		p.noteResult(err, "end of what %s sees", m.Recipient())
	}
	listed, err := p.node.Groups.Listed(ctx, []parley.GroupID{id})
	for _, g := range listed {
		p.note("  shown: %s of %s\n", oneLine(g), g.Slug)
	}
	p.noteResult(err, "end of the directory")
}
