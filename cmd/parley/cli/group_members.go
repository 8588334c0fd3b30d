package cli

import (
	"context"
	"fmt"
	"strings"

	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type groupMembersCmd struct {
	profile.Flags
	groupArg
}

func (c *groupMembersCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	id, err := c.find(ctx, from)
	if err != nil {
		return err
	}
	found, err := program.Collect(client.All(ctx, from.Groups.Members, api.ListMembers{ID: id}), 0)
	if err != nil {
		return err
	}
	return program.Rows(std, found, []string{"AGENT", "ROLE", "JOINED", "ID"}, func(m api.GroupMember) []string {
		return []string{program.Text(m.AgentHandle), m.Role, program.Clock(m.JoinedAt), m.AgentID.String()}
	})
}

type groupRoleCmd struct {
	memberFlags
	Member string `arg:"" help:"Member by handle or id; a bare name is an agent of the organization."`
	Role   string `arg:"" enum:"admin,member" help:"${enum}."`
}

func (c *groupRoleCmd) Run(ctx context.Context, std *program.Streams, group *namedGroup) error {
	agent, err := agentID(ctx, group.Session, c.Member)
	if err != nil {
		return err
	}
	member, err := group.Groups.ChangeRole(ctx, api.MemberPatch{ID: group.id, AgentID: agent, ActingAgent: c.Agent, Role: c.Role})
	if err != nil {
		return err
	}
	return std.Show(member, "%s is %s", program.Text(member.AgentHandle), member.Role)
}

type groupAppointCmd struct {
	memberFlags
	Admin string `arg:"" help:"Member, or agent of the organization, by handle or id; a bare name is an agent of the organization."`
}

func (c *groupAppointCmd) Run(ctx context.Context, std *program.Streams, group *namedGroup) error {
	agent, err := agentID(ctx, group.Session, c.Admin)
	if err != nil {
		return err
	}
	member, err := group.Groups.AppointAdmin(ctx, api.AppointAdmin{ID: group.id, AgentID: agent, ActingAgent: c.Agent})
	if err != nil {
		return err
	}
	return std.Show(member, "%s is %s", program.Text(member.AgentHandle), member.Role)
}

type groupLeaveCmd struct {
	profile.AgentFlags
	groupArg
}

// Run leaves the group as the acting agent and deletes the keys that only members need.
func (c *groupLeaveCmd) Run(ctx context.Context, std *program.Streams) error {
	agent, err := c.Session(ctx)
	if err != nil {
		return err
	}
	id, err := c.find(ctx, agent.Client)
	if err != nil {
		return err
	}
	if err := agent.LeaveGroup(ctx, id); err != nil {
		return err
	}
	return std.Show(map[string]any{"group_id": id, "agent_id": agent.ID(), "left": true}, "%s has left %s", agent.Handle(), c.Group)
}

type groupKickCmd struct {
	memberFlags
	Member string `arg:"" help:"Member by handle or id; a bare name is an agent of the organization."`
}

// Run lets the server choose the acting admin if none is named. If the acting agent
// removes itself, it leaves the group; its keys for the group stay on disk.
func (c *groupKickCmd) Run(ctx context.Context, std *program.Streams, group *namedGroup) error {
	agent, err := agentID(ctx, group.Session, c.Member)
	if err != nil {
		return err
	}
	if err := group.Groups.RemoveMember(ctx, api.RemoveMember{ID: group.id, AgentID: agent, ActingAgent: c.Agent}); err != nil {
		return err
	}
	return std.Show(map[string]any{"group_id": group.id, "agent_id": agent, "removed": true}, "%s is no longer in %s", c.Member, c.Group)
}

type groupSendCmd struct {
	profile.SealingFlags
	payloadFlags
	groupArg
	Text string `arg:"" optional:"" help:"Text to encrypt; omitted or -: standard input."`
}

// broadcastJSON is a sent group message, with the agents that received the key with it.
type broadcastJSON struct {
	*openedMessage
	Generation uint64            `json:"generation"`
	Given      []parley.AgentID  `json:"key_given_to"`
	Missed     map[string]string `json:"key_missed_by"`
	// Unbound lists the agents that received the key although their keys have no binding.
	Unbound []string `json:"unbound"`
}

func (c *groupSendCmd) Run(ctx context.Context, std *program.Streams) error {
	metadata, err := c.metadata()
	if err != nil {
		return err
	}
	body, err := std.Payload(c.Text)
	if err != nil {
		return err
	}
	agent, err := c.Session(ctx)
	if err != nil {
		return err
	}
	id, err := c.find(ctx, agent.Client)
	if err != nil {
		return err
	}
	group, err := agent.Client.Groups.Get(ctx, id)
	if err != nil {
		return err
	}
	if err := answerKeyRequests(ctx, std, agent); err != nil {
		return err
	}
	sent, err := agent.Broadcast(ctx, group, body, c.messageType(agent.Client), func(in *api.Send) {
		in.ContentType, in.Metadata, in.IdempotencyKey = c.ContentType, metadata, c.Key
	})
	if err != nil {
		return err
	}
	return showBroadcast(ctx, std, agent, group, sent)
}

func showBroadcast(ctx context.Context, std *program.Streams, agent *e2ee.Agent, group *api.Group, sent *e2ee.SentBroadcast) error {
	if std.JSON {
		own, err := showOwn(ctx, agent, &sent.SentMessage)
		if err != nil {
			return err
		}
		out := broadcastJSON{own, sent.Generation, sent.Given, map[string]string{}, []string{}}
		for _, pin := range unbound(agent, sent.Given...) {
			out.Unbound = append(out.Unbound, pin.Handle)
		}
		for id, err := range sent.Missed {
			out.Missed[id.String()] = err.Error()
		}
		return std.Value(out)
	}
	for id, err := range sent.Missed {
		std.Note("%s was not given the key: %s", id, err.Error())
	}
	noteUnbound(std, agent, sent.Given...)
	word, to := "sent", ""
	if sent.Replayed {
		word = "sent before, under this key,"
	}
	if sent.RecipientCount != nil {
		to = fmt.Sprintf(" (%d members)", *sent.RecipientCount)
		if *sent.RecipientCount == 1 {
			to = " (1 member)"
		}
	}
	if n := len(sent.Given); n > 0 {
		to += fmt.Sprintf(", key given to %d", n)
	}
	return std.Say("%s to %s%s\n  message %s  conversation %s", word, group.Handle, to, sent.ID, sent.ConversationID)
}

// answerKeyRequests sends members the keys that they have requested.
func answerKeyRequests(ctx context.Context, std *program.Streams, agent *e2ee.Agent) error {
	kind := agent.Client.MessageType("sender_key_request")
	page, err := agent.Client.Messages.Inbox(ctx, api.Inbox{ID: agent.ID(), Type: &kind, Limit: parley.InboxLimitMax})
	if err != nil {
		return err
	}
	for _, m := range page.Items {
		if _, err := agent.HandleKeyExchange(ctx, m); err != nil {
			std.Note("a key that %s asked for was not given: %s", sender(m), strings.TrimSpace(err.Error()))
		}
	}
	return nil
}
