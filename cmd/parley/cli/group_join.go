package cli

import (
	"context"
	"fmt"
	"strings"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
	"parley/cmd/parley/program"
)

type groupInviteCmd struct {
	actorFlags
	groupArg
	Agents  []string `arg:"" help:"Agents by handle or id; a bare name is an agent of the organization."`
	Message string   `placeholder:"TEXT" help:"Message to the invited agents."`
}

// Run invites the agents. If a single agent is named and cannot be invited, Run returns
// the error. With several agents, it prints one line for each.
func (c *groupInviteCmd) Run(ctx context.Context, std *program.Streams) error {
	from, id, err := c.groupArg.open(ctx, &c.Flags)
	if err != nil {
		return err
	}
	in := api.Invite{ID: id, ActingAgent: c.Agent}
	if c.Message != "" {
		in.Message = &c.Message
	}
	if len(c.Agents) > 1 {
		return c.several(ctx, std, from, in)
	}
	agent, err := agentID(ctx, from, c.Agents[0])
	if err != nil {
		return err
	}
	in.AgentID = &agent
	result, err := from.Groups.Invite(ctx, in)
	if err != nil {
		return err
	}
	if std.JSON {
		return std.Value(result)
	}
	return std.Say("%s", invitationLine(c.Agents[0], api.Invitation{RequestID: result.RequestID, Status: result.Status}))
}

func (c *groupInviteCmd) several(ctx context.Context, std *program.Streams, from *client.Session, in api.Invite) error {
	var err error
	if in.Agents, err = targets(ctx, from, c.Agents); err != nil {
		return err
	}
	results, err := from.Groups.InviteBatch(ctx, in)
	if err != nil {
		return err
	}
	if std.JSON {
		return std.Value(results)
	}
	lines := make([]string, len(results.Results))
	for i, invited := range results.Results {
		lines[i] = invitationLine(c.Agents[i], invited)
	}
	return std.Say("%s", strings.Join(lines, "\n"))
}

// invitationLine describes the result of one invitation.
func invitationLine(name string, in api.Invitation) string {
	if in.Handle != nil {
		name = *in.Handle
	}
	line := map[string]string{
		api.Invited: "invited", api.InvitePending: "nominated", api.NotRequired: "needs no invitation", api.Skipped: "not invited",
	}[in.Status] + " " + program.Printable(name)
	if in.Status == api.NotRequired {
		line = program.Printable(name) + " needs no invitation: the group is open"
	}
	if in.Reason != nil {
		line += ": " + program.Printable(*in.Reason)
	}
	if in.RequestID != nil {
		line += "  request " + in.RequestID.String()
	}
	return line
}

type groupInvitesCmd struct{ actorFlags }

func (c *groupInvitesCmd) Run(ctx context.Context, std *program.Streams) error {
	from, _, err := c.Open()
	if err != nil {
		return err
	}
	found, err := from.Groups.Invites(ctx, api.ListInvites{ActingAgent: c.Agent})
	if err != nil {
		return err
	}
	if std.JSON {
		return program.List(std, found)
	}
	names, err := handles(ctx, from, found)
	if err != nil {
		return err
	}
	rows := [][]string{{"GROUP", "STATUS", "AGENT", "INVITED BY", "MESSAGE", "GROUP ID"}}
	for _, r := range found {
		by := "-"
		if r.InvitedBy != nil {
			by = names.of(*r.InvitedBy)
		}
		rows = append(rows, []string{program.Text(r.GroupHandle), r.Status, names.of(r.AgentID), by, oneLine(r.Message), r.GroupID.String()})
	}
	return std.Table(rows)
}

type groupJoinCmd struct {
	actorFlags
	groupArg
	Message string `placeholder:"TEXT" help:"Message to the members who vote."`
}

func (c *groupJoinCmd) Run(ctx context.Context, std *program.Streams) error {
	from, id, err := c.groupArg.open(ctx, &c.Flags)
	if err != nil {
		return err
	}
	in := api.Join{ID: id, ActingAgent: c.Agent}
	if c.Message != "" {
		in.Message = &c.Message
	}
	result, err := from.Groups.Join(ctx, in)
	switch {
	case err != nil:
		return err
	case std.JSON:
		return std.Value(result)
	case result.Member != nil:
		return std.Say("joined: %s is %s", program.Text(result.Member.AgentHandle), result.Member.Role)
	case result.Request == nil:
		return std.Say("%s", program.Printable(result.Status))
	}
	return std.Say("%s\n  request %s", standing(result.Request), result.Request.ID)
}

type groupRequestsCmd struct {
	actorFlags
	groupArg
	Status string `default:"pending" enum:"pending,invited,live,all" help:"Which requests: ${enum}. pending are being voted on, live are pending and invited ones, all includes decided ones."`
}

func (c *groupRequestsCmd) Run(ctx context.Context, std *program.Streams) error {
	from, id, err := c.groupArg.open(ctx, &c.Flags)
	if err != nil {
		return err
	}
	found := []api.JoinRequest{}
	for r, err := range client.All(ctx, from.Groups.Requests, api.ListRequests{ID: id, ActingAgent: c.Agent, Status: c.Status}) {
		if err != nil {
			return err
		}
		found = append(found, r)
	}
	if std.JSON {
		return program.List(std, found)
	}
	names, err := handles(ctx, from, found)
	if err != nil {
		return err
	}
	rows := [][]string{{"REQUEST", "AGENT", "STATUS", "FOR", "AGAINST", "YOU", "MESSAGE"}}
	for _, r := range found {
		rows = append(rows, []string{
			r.ID.String(), names.of(r.AgentID), r.Status, count(r.Approvals, r.ApprovalsNeeded), count(r.Denials, r.DenialsNeeded), you(&r), oneLine(r.Message),
		})
	}
	return std.Table(rows)
}

type groupVoteCmd struct {
	actorFlags
	groupArg
	Request parley.JoinRequestID `arg:"" help:"Id of the request."`
	Vote    string               `arg:"" enum:"approve,deny" help:"${enum}."`
}

func (c *groupVoteCmd) Run(ctx context.Context, std *program.Streams) error {
	from, id, err := c.groupArg.open(ctx, &c.Flags)
	if err != nil {
		return err
	}
	result, err := from.Groups.Vote(ctx, api.Vote{ID: id, RequestID: c.Request, ActingAgent: c.Agent, Vote: c.Vote})
	if err != nil {
		return err
	}
	if std.JSON {
		return std.Value(result)
	}
	return std.Say("voted %s; the request is %s", result.YourVote, result.Status)
}

// standing describes the status of a join request.
func standing(r *api.JoinRequest) string {
	if r.Approvals == nil {
		return program.Printable(r.Status)
	}
	return fmt.Sprintf("%s: %s for, %s against", program.Printable(r.Status), count(r.Approvals, r.ApprovalsNeeded), count(r.Denials, r.DenialsNeeded))
}

// count formats the number of votes and the number needed.
func count(votes, needed *int) string {
	switch {
	case votes == nil:
		return "-"
	case needed == nil:
		return fmt.Sprint(*votes)
	}
	return fmt.Sprintf("%d of %d", *votes, *needed)
}

// you describes the caller's vote, or says whether the caller may vote.
func you(r *api.JoinRequest) string {
	switch {
	case r.YourVote != nil:
		return program.Printable(*r.YourVote)
	case r.YouMayVote:
		return "may vote"
	}
	return program.Printable(strings.ReplaceAll(r.YouMayVoteReason, "_", " "))
}

// oneLine formats an optional text for a table.
func oneLine(s *string) string { return strings.Join(strings.Fields(program.Text(s)), " ") }

// names maps agents to their public keys, which include the handle if there is one.
type names map[parley.AgentID]api.AgentKeys

func (n names) of(id parley.AgentID) string {
	if handle := n[id].Handle; handle != nil {
		return program.Printable(*handle)
	}
	return id.String()
}

// handles looks up the handles of the agents that request a seat and of those that
// invited them.
func handles(ctx context.Context, from *client.Session, requests []api.JoinRequest) (names, error) {
	found := names{}
	var ids []parley.AgentID
	for _, r := range requests {
		ids = append(ids, r.AgentID)
		if r.InvitedBy != nil {
			ids = append(ids, *r.InvitedBy)
		}
	}
	for len(ids) > 0 {
		batch := ids[:min(len(ids), parley.BatchKeysMax)]
		ids = ids[len(batch):]
		keys, err := from.Keys.Batch(ctx, batch...)
		if err != nil {
			return nil, err
		}
		for id, k := range keys {
			found[id] = k
		}
	}
	return found, nil
}
