package groups

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/group"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/content"
	"parley/http/rest"
	"parley/http/submission"
	"parley/http/view"
	"parley/journal"
)

// inviteRun is one request to invite agents to a group.
type inviteRun struct {
	service Requests
	call    *rest.Call
	group   api.Group // only its id, names and isolation may be known
	owner   parley.OrgID
	// by is the inviter, nil if none of the caller's agents may invite. The group's rules
	// then refuse.
	by       *agent.State
	byHandle string
	founding bool
	limit    *int
}

// Invite invites one agent or several. // spec: Groups
func (s Requests) Invite(c *rest.Call, in *api.Invite) (api.InviteAnswer, error) {
	v, err := s.inviter(c, in)
	if err != nil {
		return api.InviteAnswer{}, err
	}
	if in.Agents != nil {
		results, err := v.batch(in.Agents, in.Message)
		return api.InviteAnswer{Several: &results}, err
	}
	var name string
	if in.Handle != nil {
		name = *in.Handle
	} else {
		name = in.AgentID.String()
	}
	_, r, err := v.ask(name, in.Message)
	if err != nil {
		return api.InviteAnswer{}, err
	}
	out := api.InviteResult{Status: api.NotRequired}
	if r != nil {
		out = api.InviteResult{RequestID: new(r.RequestID()), Status: r.GetStatus().String()}
	}
	return api.InviteAnswer{One: &out}, nil
}

// inviter returns the agent that the caller named, else its first admin in the group,
// else its first member.
func (s Requests) inviter(c *rest.Call, in *api.Invite) (*inviteRun, error) {
	by, err := s.Access.Caller(c, in.ActingAgent)
	if err != nil {
		return nil, err
	}
	v := &inviteRun{service: s, call: c}
	g, err := s.Access.ViewWith(c, in.ID, group.GetView{
		Viewer: access.Viewer(c, group.Onlooker), FirstMembers: by.Agent.Zero(),
	})
	if err != nil {
		return nil, err
	}
	if n := len(g.FirstMembers); n > 0 {
		by.Agent = g.FirstMembers[n-1]
	}
	v.group, v.owner = view.Group(g), g.Org
	if v.group.Handle, err = s.Access.Handle(c.Context(), g.Org, g.Name); err != nil {
		return nil, err
	}
	if v.limit, err = s.Access.SeatLimit(c.Context(), g.Org); err != nil || by.Agent.Zero() {
		return v, err
	}
	if v.by, err = s.Node.Agents.Get(c.Context(), by.Agent); err == nil {
		v.byHandle, err = s.Agents.Handle(c.Context(), v.by)
	}
	return v, err
}

// batch invites several agents in the order given. An agent that cannot be invited is
// skipped with the reason.
func (v *inviteRun) batch(targets []api.Target, message *string) (api.InviteResults, error) {
	out := api.InviteResults{Results: []api.Invitation{}}
	for _, t := range targets {
		row, err := v.entry(t, message)
		if err != nil && len(out.Results) > 0 {
			return out, access.AfterCommit(err)
		}
		if err != nil {
			return out, err
		}
		switch row.Status {
		case api.Invited:
			out.Invited++
		case api.InvitePending:
			out.Pending++
		case api.Skipped:
			out.Skipped++
		}
		out.Results = append(out.Results, row)
	}
	return out, nil
}

// entry invites one agent of a batch.
func (v *inviteRun) entry(t api.Target, message *string) (api.Invitation, error) {
	named, _ := t.Read() // validated with the request
	if named.Message == nil {
		named.Message = message
	}
	to, r, err := v.ask(named.Name, named.Message)
	row, described := v.row(named.Name, to)
	if described != nil {
		return row, described
	}
	if err != nil {
		reason := v.reason(to, err)
		if reason == "" {
			return row, err
		}
		row.Status, row.Reason = api.Skipped, &reason
		return row, nil
	}
	if row.Status = api.NotRequired; r != nil {
		row.RequestID, row.Status = new(r.RequestID()), r.GetStatus().String()
	}
	return row, nil
}

// row begins the result row of an entry with the agent that it names, as far as it is
// known.
func (v *inviteRun) row(name string, to *agent.State) (row api.Invitation, err error) {
	if to != nil {
		handle, err := v.service.Agents.Handle(v.call.Context(), to)
		return api.Invitation{AgentID: new(to.AgentID()), Handle: &handle}, err
	}
	if id, malformed := parley.ParseID[parley.AgentID](name); malformed == nil {
		row.AgentID = &id
	} else {
		row.Handle = &name
	}
	return row, nil
}

// reason returns why an agent was skipped, or "" if the error is not the fault of its
// entry.
func (v *inviteRun) reason(to *agent.State, err error) string {
	switch {
	case to == nil && errors.Is(err, group.ErrUnknownAgent):
		return api.SkipNotFound
	case to == nil:
		return ""
	case to.Revoked() && errors.Is(err, group.ErrAgentRevoked):
		return api.SkipRevoked
	case errors.Is(err, group.ErrAlreadyMember) && v.by != nil && v.by.AgentID() == to.AgentID():
		return api.SkipSelf
	case errors.Is(err, group.ErrAlreadyMember):
		return api.SkipMember
	case errors.Is(err, group.ErrAlreadyInvited):
		return api.SkipInvited
	case errors.Is(err, group.ErrIsolationConflict):
		return api.SkipIsolation
	case errors.Is(err, parley.ErrQuotaExceeded) && ofGroup(err):
		return api.SkipFull
	case errors.Is(err, parley.ErrQuotaExceeded):
		return api.SkipQuota
	}
	return ""
}

// ofGroup reports whether a refusal is about how many members or join requests a group may have.
func ofGroup(err error) bool {
	refusal := (*parley.Refusal)(nil)
	if !errors.As(err, &refusal) {
		return false
	}
	quota := refusal.Extra["quota"]
	return quota == access.QuotaMembers || quota == access.QuotaJoinRequests
}

// ask invites one agent. The rules judge unknown agents too, so that only callers who may
// Invite learn that an agent is unknown.
func (v *inviteRun) ask(name string, message *string) (to *agent.State, r *group.Request, err error) {
	if to, err = v.service.target(v.call, name); err != nil {
		return nil, nil, err
	}
	ask := group.Invite{By: access.CallerOf(v.call, parley.AgentID{}), Founding: v.founding, SeatLimit: v.limit}
	if v.by != nil {
		ask.By.Agent = v.by.AgentID()
	}
	if message != nil {
		ask.Message = *message
	}
	invitation := actors.Invitation{Invite: ask}
	if to != nil {
		handle, err := v.service.Agents.Handle(v.call.Context(), to)
		if err != nil {
			return to, nil, err
		}
		invitation.Agent, invitation.Silent = to.AgentID(), v.silent(to)
		invitation.Notice = v.notice(to, handle, ask.MessageFrom(v.group.Isolated))
	}
	r, err = v.service.Node.Groups.Invite(v.call.Context(), v.group.ID, invitation)
	return to, r, err
}

// silent reports whether an agent blocks the inviter, or the owner of the group.
func (v *inviteRun) silent(to *agent.State) bool {
	return v.by != nil && agent.Blocks(to, v.by.AgentID(), v.by.Owner()) || agent.Blocks(to, parley.AgentID{}, v.owner)
}

// target returns the agent with an id or a handle, active or revoked, or nil if there is
// none.
func (s Requests) target(c *rest.Call, name string) (a *agent.State, err error) {
	name = strings.TrimSpace(name)
	if id, malformed := parley.ParseID[parley.AgentID](name); malformed == nil {
		a, err = s.Node.Agents.Get(c.Context(), id)
	} else {
		a, err = s.Agents.ByHandle(c, name)
	}
	if errors.Is(err, parley.ErrNotFound) || errors.Is(err, parley.ErrBadHandle) || errors.Is(err, journal.ErrErased) {
		return nil, nil
	}
	return a, err
}

// notice renders the message that notifies an agent of its invitation. The group fills its
// blanks. // spec: Message types
func (v *inviteRun) notice(to *agent.State, handle, message string) actors.Content {
	told := appendInviteNotice(nil, v.group, message)
	e := content.Envelope{
		Type: v.service.Brand + ".v1.group_invite", Version: api.HPKEv1, ContentType: rest.JSONMedia,
		SenderHandle: v.byHandle, RecipientHandle: handle, Origin: v.service.Desk.OriginOf(v.call, v.by, submission.ViaSystem),
		Payload:  base64.RawURLEncoding.EncodeToString(told),
		Metadata: append(append([]byte(`{"group_invite":`), told...), '}'),
	}
	return actors.Content{Type: e.Type, Body: content.Encode(nil, &e), FromOrg: v.call.Caller.Org, ToOrg: to.Owner()}
}

// appendInviteNotice appends the content of the invitation message, with blanks.
func appendInviteNotice(b []byte, g api.Group, message string) []byte {
	blank := func(member, value string) { b = append(append(append(b, member...), value...), '"') }
	b = content.AppendID(append(b, `{"group_id":`...), parley.AnyID(g.ID))
	b = content.AppendText(append(b, `,"group_handle":`...), g.Handle)
	b = content.AppendText(append(b, `,"group_name":`...), g.Name)
	blank(`,"request_id":"`, actors.BlankRequestID)
	blank(`,"invited_by":"`, actors.BlankInviter)
	blank(`,"status":"`, actors.BlankStatus)
	b = content.AppendOptional(append(b, `,"message":`...), view.OrNull(message))
	blank(`,"expires_at":"`, actors.BlankExpiry)
	return append(b, '}')
}

// inviteRoster invites the agents of a founding roster. A repeated request reports the
// invitations already made and makes the missing ones.
func (s Requests) inviteRoster(c *rest.Call, g api.Group, founder *agent.State, roster []api.Target, repeated bool) ([]api.Invitation, error) {
	rows := []api.Invitation{}
	if len(roster) == 0 {
		return rows, nil
	}
	v := &inviteRun{service: s, call: c, group: g, owner: c.Caller.Org, by: founder, founding: true, limit: s.Quotas.Allowed(c.Caller, access.QuotaMembers)}
	var err error
	if v.byHandle, err = s.Agents.Handle(c.Context(), founder); err != nil {
		return nil, err
	}
	run := rosterRun{inviteRun: v, reported: map[parley.AgentID]bool{}}
	if repeated {
		if run.prior, err = s.invitedBefore(c, g.ID); err != nil {
			return nil, err
		}
	}
	for _, t := range roster {
		row, err := run.entry(t)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// rosterRun invites the agents of a founding roster.
type rosterRun struct {
	*inviteRun
	// prior holds what requests with the same key have done.
	prior map[parley.AgentID]parley.JoinRequestID
	// reported are those with a row: an agent named twice is skipped the second time.
	reported map[parley.AgentID]bool
}

// entry is like that of inviteRun, but reports the outcome for an agent that another request
// with the same key has invited, before this one or at the same time.
func (r *rosterRun) entry(t api.Target) (api.Invitation, error) {
	named, _ := t.Read()
	to, err := r.service.target(r.call, named.Name)
	if err != nil || to == nil {
		return r.inviteRun.entry(t, nil)
	}
	id := to.AgentID()
	request, before := r.prior[id]
	row, err := r.row(named.Name, to)
	if err == nil && !before {
		if row, err = r.inviteRun.entry(t, nil); err != nil || r.reported[id] || !has(row.Reason, api.SkipInvited, api.SkipMember) {
			r.reported[id] = true
			return row, err
		}
		if r.prior, err = r.service.invitedBefore(r.call, r.group.ID); err == nil {
			request, before = r.prior[id]
		}
	}
	switch {
	case err != nil || !before:
	case r.reported[id]:
		row.Status, row.Reason = api.Skipped, new(api.SkipInvited)
	default:
		row.RequestID, row.Status, row.Reason = &request, api.Invited, nil
	}
	r.reported[id] = true
	return row, err
}

func has(reason *string, reasons ...string) bool {
	return reason != nil && slices.Contains(reasons, *reason)
}

// invitedBefore returns the first request about each agent that was invited to a group.
func (s Requests) invitedBefore(c *rest.Call, id parley.GroupID) (map[parley.AgentID]parley.JoinRequestID, error) {
	done := map[parley.AgentID]parley.JoinRequestID{}
	live, err := s.Node.Groups.ListRequests(c.Context(), id, group.ListRequests{Overdue: true})
	if err != nil {
		return nil, err
	}
	all := live.Requests
	for after, more := (parley.JoinRequestID{}), true; more; {
		var settled []*group.Request
		if settled, more, err = s.Node.Groups.SettledRequests(c.Context(), id, after, settledPage); err != nil {
			return nil, err
		}
		all = merge(settled, all)
		if len(settled) > 0 {
			after = settled[len(settled)-1].RequestID()
		}
	}
	for _, v := range all {
		if _, earlier := done[v.Request.AgentID()]; !earlier {
			done[v.Request.AgentID()] = v.Request.RequestID()
		}
	}
	return done, nil
}

// settledPage is how many settled requests are read at a time.
const settledPage = 500
