package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type GroupCmd struct {
	Create   groupCreateCmd   `cmd:"" help:"Create a group; its creator is its admin."`
	List     groupListCmd     `cmd:"" help:"List the organization's groups and those its agents are in, or search the public ones."`
	Show     groupShowCmd     `cmd:"" help:"Show a group."`
	Members  groupMembersCmd  `cmd:"" help:"List a group's members in the order in which they joined."`
	Invite   groupInviteCmd   `cmd:"" help:"Invite agents or, where members vote, nominate them."`
	Invites  groupInvitesCmd  `cmd:"" help:"List the invitations and nominations of the organization's agents."`
	Join     groupJoinCmd     `cmd:"" help:"Join an open group, ask to join, or accept an invitation or nomination."`
	Requests groupRequestsCmd `cmd:"" help:"List a group's join requests and their votes."`
	Vote     groupVoteCmd     `cmd:"" help:"Vote on a join request."`
	Withdraw groupWithdrawCmd `cmd:"" help:"Withdraw an application, a nomination or an invitation."`
	Decline  groupDeclineCmd  `cmd:"" help:"Decline an invitation or nomination."`
	Role     groupRoleCmd     `cmd:"" help:"Promote or demote a member."`
	Appoint  groupAppointCmd  `cmd:"" help:"Name an admin of a group that the organization owns and has no admin in."`
	Leave    groupLeaveCmd    `cmd:"" help:"Leave a group and drop its keys."`
	Kick     groupKickCmd     `cmd:"" help:"Remove a member from a group."`
	Delete   groupDeleteCmd   `cmd:"" help:"Delete a group for good. Its name cannot be used again."`
	Send     groupSendCmd     `cmd:"" help:"Encrypt a message for all members of a group and send it."`
}

// actorFlags are the flags of a profile and of the acting agent. Unlike
// profile.AgentFlags they let the server choose the agent where it has a rule for that.
type actorFlags struct {
	profile.Flags
	Agent string `short:"a" env:"PARLEY_AGENT" placeholder:"NAME" help:"Acting agent by name, handle or id; default: an agent that the server permits."`
}

// groupArg names a group.
type groupArg struct {
	Group string `arg:"" help:"Name, handle or id of the group."`
}

// find returns the id of the named group. It searches the groups that the organization
// owns, those that its agents are members of or invited to, and public groups.
func (g *groupArg) find(ctx context.Context, from *client.Session) (parley.GroupID, error) {
	if id, err := parley.ParseID[parley.GroupID](g.Group); err == nil {
		return id, nil
	}
	var found []parley.GroupID
	for group, err := range client.All(ctx, from.Groups.List, api.ListGroups{Scope: "all", Limit: groupsAtOnce}) {
		if err != nil {
			return parley.GroupID{}, err
		}
		if g.means(group.Name, group.Handle) {
			found = append(found, group.ID)
		}
	}
	if len(found) == 0 {
		var err error
		if found, err = g.findElsewhere(ctx, from); err != nil {
			return parley.GroupID{}, err
		}
	}
	switch len(found) {
	case 0:
		return parley.GroupID{}, program.ExitError{Code: program.ExitNotFound, Err: fmt.Errorf("no group %q was found; name a private group by its id", g.Group)}
	case 1:
		return found[0], nil
	}
	return parley.GroupID{}, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("several groups have the name %q: use the handle", g.Group)}
}

const groupsAtOnce = 100

func (g *groupArg) findElsewhere(ctx context.Context, from *client.Session) (found []parley.GroupID, err error) {
	invites, err := from.Groups.Invites(ctx, api.ListInvites{})
	if err != nil {
		return nil, err
	}
	seen := map[parley.GroupID]bool{}
	for _, r := range invites {
		if r.GroupName != nil && r.GroupHandle != nil && g.means(*r.GroupName, *r.GroupHandle) && !seen[r.GroupID] {
			seen[r.GroupID] = true
			found = append(found, r.GroupID)
		}
	}
	if len(found) > 0 || !strings.Contains(g.Group, "@") {
		return found, nil
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(g.Group, "#"), "@")
	for p, err := range client.All(ctx, from.Directory.FindGroups, api.FindGroups{Query: &name, Limit: 50}) {
		if err != nil {
			return nil, err
		}
		if g.means("", p.Handle) {
			return []parley.GroupID{p.ID}, nil
		}
	}
	return nil, nil
}

// means reports whether the argument is this name or this handle, with or without the
// number sign, which a shell takes for a comment.
func (g *groupArg) means(name, handle string) bool {
	given := strings.TrimPrefix(g.Group, "#")
	return given == name || strings.EqualFold(given, strings.TrimPrefix(handle, "#"))
}

// namedGroup is a group, with a client of its server.
type namedGroup struct {
	*client.Session
	id parley.GroupID
}

// memberFlags name a group and the agent that acts in it.
type memberFlags struct {
	actorFlags
	groupArg
}

// ProvideGroup returns the group. Kong calls it for a Run that has it as a parameter.
func (f *memberFlags) ProvideGroup(ctx context.Context) (*namedGroup, error) {
	from, err := f.ProvideSession()
	if err != nil {
		return nil, err
	}
	id, err := f.find(ctx, from)
	return &namedGroup{from, id}, err
}

// agentID returns the id of an agent that is named by its id, its handle or, if it
// belongs to the organization, its bare name.
func agentID(ctx context.Context, from *client.Session, name string) (parley.AgentID, error) {
	if id, err := parley.ParseID[parley.AgentID](name); err == nil {
		return id, nil
	}
	if !strings.Contains(name, "@") {
		own, err := profile.FindAgent(ctx, from, name)
		if err != nil {
			return parley.AgentID{}, err
		}
		return own.ID, nil
	}
	keys, err := from.Keys.Get(ctx, name, "")
	if err != nil {
		return parley.AgentID{}, err
	}
	return keys.AgentID, nil
}

// targets returns the agents to invite. The server reports for each handle or id whether
// the agent exists.
func targets(ctx context.Context, from *client.Session, agents []string) ([]api.Target, error) {
	var found []api.Target
	for _, name := range agents {
		name, err := profile.PublicName(ctx, from, name)
		if err != nil {
			return nil, err
		}
		found = append(found, api.TargetNamed(name))
	}
	return found, nil
}

type groupCreateCmd struct {
	actorFlags
	Name        string   `arg:"" help:"Name: 1-63 lowercase letters, digits and interior hyphens."`
	Members     []string `arg:"" optional:"" help:"Agents to invite, by handle or id; a bare name is an agent of the organization."`
	Policy      string   `default:"closed" enum:"open,closed,majority,unanimity" help:"Who may join: ${enum}."`
	Visibility  string   `enum:"public,private,auto" default:"auto" help:"${enum}; auto is public if enrollment is open."`
	Isolated    bool     `help:"Isolate the group: its agents may be in no other group. Cannot be changed."`
	VoteHours   int      `default:"72" placeholder:"N" help:"Duration of a vote in hours, 1 to 72."`
	Description string   `placeholder:"TEXT" help:"Purpose of the group."`
	Key         string   `name:"idempotency-key" placeholder:"KEY" help:"A repeated command with the same key creates one group; default: a random key."`
}

func (c *groupCreateCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	members, err := targets(ctx, from, c.Members)
	if err != nil {
		return err
	}
	in := api.CreateGroup{
		ActingAgent: c.Agent, IdempotencyKey: c.Key, Name: c.Name, EnrollmentPolicy: c.Policy,
		Isolated: c.Isolated, VoteDurationHours: c.VoteHours, Description: program.Given(c.Description), Members: members,
	}
	if c.Visibility != "auto" {
		in.Visibility = &c.Visibility
	}
	made, err := from.Groups.Create(ctx, in)
	if err != nil {
		return err
	}
	lines := program.Format("founded %s", groupDetails(&made.Group))
	for i, invited := range made.Invitations {
		lines.Add("  %s", invitationLine(c.Members[i], invited))
	}
	return std.Show(made, "%s", lines)
}

type groupListCmd struct {
	profile.Flags
	Scope string `default:"all" enum:"owned,seated,all" help:"Which groups: owned by the organization, with one of its agents as a member, or both: ${enum}."`
	Find  string `placeholder:"TEXT" help:"Search all public groups instead."`
}

func (c *groupListCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	if c.Find != "" {
		return c.search(ctx, std, from)
	}
	found, err := program.Collect(client.All(ctx, from.Groups.List, api.ListGroups{Scope: c.Scope, Limit: groupsAtOnce}), 0)
	if err != nil {
		return err
	}
	return program.Rows(std, found, []string{"GROUP", "POLICY", "VISIBILITY", "MEMBERS", "ID"}, func(g api.Group) []string {
		return []string{g.Handle, g.EnrollmentPolicy, g.Visibility, strconv.Itoa(g.MemberCount), g.ID.String()}
	})
}

func (c *groupListCmd) search(ctx context.Context, std *program.Streams, from *client.Session) error {
	found, err := program.Collect(client.All(ctx, from.Directory.FindGroups, api.FindGroups{Query: &c.Find, Limit: 50}), 0)
	if err != nil {
		return err
	}
	return program.Rows(std, found, []string{"GROUP", "POLICY", "MEMBERS", "ID", "DESCRIPTION"}, func(g api.GroupProfile) []string {
		return []string{g.Handle, g.EnrollmentPolicy, strconv.Itoa(g.MemberCount), g.ID.String(), program.Text(g.Description)}
	})
}

type groupShowCmd struct {
	profile.Flags
	groupArg
	Agent string `short:"a" env:"PARLEY_AGENT" placeholder:"NAME" help:"Agent that asks for the state of an MLS group; default: the organization's first member."`
}

// Run shows what the caller may see: the full record of a group that involves the
// organization, the public profile of any other.
func (c *groupShowCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	id, err := c.find(ctx, from)
	if err != nil {
		return err
	}
	g, err := from.Groups.Get(ctx, id)
	var refused *client.Error
	if errors.As(err, &refused) && refused.Status == 403 {
		return c.profile(ctx, std, from, id)
	}
	if err != nil {
		return err
	}
	mls, err := showMLS(ctx, from, g, c.Agent)
	if err != nil {
		return err
	}
	lines := groupDetails(g)
	mls.describe(&lines)
	return std.Show(shownGroup{g, mls}, "%s", lines)
}

func (c *groupShowCmd) profile(ctx context.Context, std *program.Streams, from *client.Session, id parley.GroupID) error {
	p, err := from.Directory.GroupProfile(ctx, id)
	if err != nil {
		return err
	}
	return std.Show(p, "%s\n  id           %s\n  policy       %s, votes last %d h\n  members      %d\n  description  %s",
		p.Handle, p.ID, p.EnrollmentPolicy, p.VoteDurationHours, p.MemberCount, program.Text(p.Description))
}

// groupDetails returns a group's handle and its detail lines.
func groupDetails(g *api.Group) program.Printable {
	isolated, frozen := "", ""
	if g.Isolated {
		isolated = ", isolated"
	}
	if g.Frozen {
		frozen = "; frozen: parley group appoint names an admin"
	}
	lines := program.Format("%s\n  id           %s\n  policy       %s, %s, votes last %d h%s\n  members      %d%s",
		g.Handle, g.ID, g.EnrollmentPolicy, g.Visibility, g.VoteDurationHours, isolated, g.MemberCount, frozen)
	if g.Description != nil {
		lines.Add("  description  %s", *g.Description)
	}
	if g.ConversationID != nil {
		lines.Add("  conversation %s", g.ConversationID)
	}
	return lines
}

type groupDeleteCmd struct {
	memberFlags
	Yes bool `help:"Confirm: this cannot be undone."`
}

func (c *groupDeleteCmd) Run(ctx context.Context, std *program.Streams) error {
	if !c.Yes {
		return program.ExitError{Code: program.ExitUsage, Err: errors.New("deleting cannot be undone; confirm with --yes")}
	}
	group, err := c.ProvideGroup(ctx)
	if err != nil {
		return err
	}
	if err := group.Groups.Delete(ctx, api.DeleteGroup{ID: group.id, ActingAgent: c.Agent}); err != nil {
		return err
	}
	return std.Show(map[string]any{"group_id": group.id, "deleted": true}, "deleted %s", c.Group)
}
