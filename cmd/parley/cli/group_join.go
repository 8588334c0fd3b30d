package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
	"parley/cmd/parley/program"
)

type groupInviteCmd struct {
	memberFlags
	Agents  []string `arg:"" help:"Agents by handle or id; a bare name is an agent of the organization."`
	Message string   `placeholder:"TEXT" help:"Message to the invited agents."`
}

// Run invites the agents. If a single agent is named and cannot be invited, Run returns
// the error. With several agents, it prints one line for each.
func (c *groupInviteCmd) Run(ctx context.Context, std *program.Streams, group *namedGroup) error {
	in := api.Invite{ID: group.id, ActingAgent: c.Agent, Message: program.Given(c.Message)}
	if len(c.Agents) > 1 {
		return c.several(ctx, std, group.Session, in)
	}
	agent, err := agentID(ctx, group.Session, c.Agents[0])
	if err != nil {
		return err
	}
	in.AgentID = &agent
	result, err := group.Groups.Invite(ctx, in)
	if err != nil {
		return err
	}
	return std.Show(result, "%s", invitationLine(c.Agents[0], api.Invitation{RequestID: result.RequestID, Status: result.Status}))
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
	var lines program.Printable
	for i, invited := range results.Results {
		lines.Add("%s", invitationLine(c.Agents[i], invited))
	}
	return std.Show(results, "%s", lines)
}

// invitationLine describes the result of one invitation.
func invitationLine(name string, in api.Invitation) string {
	if in.Handle != nil {
		name = *in.Handle
	}
	line := map[string]string{
		api.Invited: "invited", api.InvitePending: "nominated", api.NotRequired: "needs no invitation", api.Skipped: "not invited",
	}[in.Status] + " " + name
	if in.Status == api.NotRequired {
		line = name + " needs no invitation: the group is open"
	}
	if in.Reason != nil {
		line += ": " + *in.Reason
	}
	if in.RequestID != nil {
		line += "  request " + in.RequestID.String()
	}
	return line
}

type groupInvitesCmd struct{ actorFlags }

func (c *groupInvitesCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	found, err := from.Groups.Invites(ctx, api.ListInvites{ActingAgent: c.Agent})
	if err != nil {
		return err
	}
	names, err := candidates(ctx, std, from, found)
	if err != nil {
		return err
	}
	return program.Rows(std, found, []string{"GROUP", "STATUS", "AGENT", "INVITED BY", "MESSAGE", "GROUP ID", "REQUEST"}, func(r api.JoinRequest) []string {
		by := "-"
		if r.InvitedBy != nil {
			by = names.of(*r.InvitedBy)
		}
		return []string{program.Text(r.GroupHandle), r.Status, names.of(r.AgentID), by, oneLine(r.Message), r.GroupID.String(), r.ID.String()}
	})
}

type groupJoinCmd struct {
	memberFlags
	Message string `placeholder:"TEXT" help:"Message to the members who vote."`
}

func (c *groupJoinCmd) Run(ctx context.Context, std *program.Streams, group *namedGroup) error {
	result, err := group.Groups.Join(ctx, api.Join{ID: group.id, ActingAgent: c.Agent, Message: program.Given(c.Message)})
	switch {
	case err != nil:
		return err
	case std.JSON:
		return std.Value(result)
	case result.Member != nil:
		return std.Say("joined: %s is %s", program.Text(result.Member.AgentHandle), result.Member.Role)
	case result.Request == nil:
		return std.Say("%s", result.Status)
	}
	return std.Say("%s\n  request %s", standing(result.Request), result.Request.ID)
}

type groupRequestsCmd struct {
	memberFlags
	Status string `default:"pending" enum:"pending,invited,live,all" help:"Which requests: ${enum}. pending are being voted on, live are pending and invited ones, all includes decided ones."`
}

func (c *groupRequestsCmd) Run(ctx context.Context, std *program.Streams, group *namedGroup) error {
	found, err := program.Collect(client.All(ctx, group.Groups.Requests, api.ListRequests{ID: group.id, ActingAgent: c.Agent, Status: c.Status}), 0)
	if err != nil {
		return err
	}
	names, err := candidates(ctx, std, group.Session, found)
	if err != nil {
		return err
	}
	return program.Rows(std, found, []string{"REQUEST", "AGENT", "STATUS", "FOR", "AGAINST", "YOU", "MESSAGE"}, func(r api.JoinRequest) []string {
		return []string{
			r.ID.String(), names.of(r.AgentID), r.Status, count(r.Approvals, r.ApprovalsNeeded), count(r.Denials, r.DenialsNeeded), you(&r), oneLine(r.Message),
		}
	})
}

type groupVoteCmd struct {
	memberFlags
	Request parley.JoinRequestID `arg:"" help:"Id of the request."`
	Vote    string               `arg:"" enum:"approve,deny" help:"${enum}."`
}

func (c *groupVoteCmd) Run(ctx context.Context, std *program.Streams, group *namedGroup) error {
	result, err := group.Groups.Vote(ctx, api.Vote{ID: group.id, RequestID: c.Request, ActingAgent: c.Agent, Vote: c.Vote})
	if err != nil {
		return err
	}
	return std.Show(result, "voted %s; the request is %s", result.YourVote, result.Status)
}

type groupWithdrawCmd struct{ endRequestFlags }

func (c *groupWithdrawCmd) Run(ctx context.Context, std *program.Streams, group *namedGroup) error {
	return c.end(ctx, std, group, "withdrawn")
}

type groupDeclineCmd struct{ endRequestFlags }

func (c *groupDeclineCmd) Run(ctx context.Context, std *program.Streams, group *namedGroup) error {
	return c.end(ctx, std, group, "declined")
}

// endRequestFlags name a request to be ended. Whether that withdraws or declines it follows
// from who acts.
type endRequestFlags struct {
	memberFlags
	Request parley.JoinRequestID `arg:"" help:"Id of the request."`
}

func (c *endRequestFlags) end(ctx context.Context, std *program.Streams, group *namedGroup, done string) error {
	if err := group.Groups.EndRequest(ctx, api.EndRequest{ID: group.id, RequestID: c.Request, ActingAgent: c.Agent}); err != nil {
		return err
	}
	return std.Show(map[string]any{"request_id": c.Request, done: true}, "%s request %s", done, c.Request)
}

// standing describes the status of a join request.
func standing(r *api.JoinRequest) string {
	if r.Approvals == nil {
		return r.Status
	}
	return fmt.Sprintf("%s: %s for, %s against", r.Status, count(r.Approvals, r.ApprovalsNeeded), count(r.Denials, r.DenialsNeeded))
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
		return *r.YourVote
	case r.YouMayVote:
		return "may vote"
	}
	return strings.ReplaceAll(r.YouMayVoteReason, "_", " ")
}

// oneLine formats an optional text for a table.
func oneLine(s *string) string { return strings.Join(strings.Fields(program.Text(s)), " ") }

// names maps agents to their public keys, which include the handle if there is one.
type names map[parley.AgentID]api.AgentKeys

func (n names) of(id parley.AgentID) string {
	if handle := n[id].Handle; handle != nil {
		return *handle
	}
	return id.String()
}

// candidates looks up the handles of the agents that request a seat and of those that
// invited them. Only a table needs them.
func candidates(ctx context.Context, std *program.Streams, from *client.Session, requests []api.JoinRequest) (names, error) {
	if std.JSON {
		return nil, nil
	}
	var ids []parley.AgentID
	for _, r := range requests {
		ids = append(ids, r.AgentID)
		if r.InvitedBy != nil {
			ids = append(ids, *r.InvitedBy)
		}
	}
	return handles(ctx, from, ids)
}

// handles looks up the handles of agents.
func handles(ctx context.Context, from *client.Session, ids []parley.AgentID) (names, error) {
	found := names{}
	for batch := range slices.Chunk(ids, parley.BatchKeysMax) {
		keys, err := from.Keys.Batch(ctx, batch...)
		if err != nil {
			return nil, err
		}
		maps.Copy(found, keys)
	}
	return found, nil
}
