package cli

import (
	"context"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type ConversationCmd struct {
	List       conversationListCmd       `cmd:"" help:"List an agent's conversations, newest first."`
	Show       conversationShowCmd       `cmd:"" help:"Show a conversation and its participants."`
	Transcript conversationTranscriptCmd `cmd:"" help:"Show all messages of a conversation, oldest first, decrypted and verified."`
	Status     conversationStatusCmd     `cmd:"" help:"Move a conversation to another status."`
}

type conversationListCmd struct {
	profile.AgentFlags
	Limit int `short:"n" default:"20" help:"List at most this many; 0 lists all."`
}

func (c *conversationListCmd) Run(ctx context.Context, std *program.Streams) error {
	agent, err := c.Session(ctx)
	if err != nil {
		return err
	}
	found, err := program.Collect(client.All(ctx, agent.Client.Messages.Conversations, api.AgentConversations{ID: agent.ID()}), c.Limit)
	if err != nil {
		return err
	}
	return program.Rows(std, found, []string{"CONVERSATION", "STATUS", "CREATED"}, func(c api.Conversation) []string {
		return []string{c.ID.String(), c.Status, program.Clock(c.CreatedAt)}
	})
}

type conversationShowCmd struct {
	profile.Flags
	ID parley.ConversationID `arg:"" help:"Id of the conversation."`
}

// participant is an agent in the conversation, with its handle while the agent is active.
type participant struct {
	api.Participant
	Handle *string `json:"handle"`
}

type conversationJSON struct {
	api.Conversation
	Participants []participant `json:"participants"`
}

func (c *conversationShowCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	conversation, err := from.Messages.Conversation(ctx, c.ID)
	if err != nil {
		return err
	}
	out := conversationJSON{Conversation: *conversation}
	if out.Participants, err = participants(ctx, from, c.ID); err != nil {
		return err
	}
	if std.JSON {
		return std.Value(out)
	}
	if err := std.Say("conversation %s is %s, begun %s\n", out.ID, out.Status, program.Clock(out.CreatedAt)); err != nil {
		return err
	}
	return program.Rows(std, out.Participants, []string{"ROLE", "AGENT", "ID"}, func(p participant) []string {
		return []string{p.Role, program.Text(p.Handle), p.AgentID.String()}
	})
}

func participants(ctx context.Context, from *client.Session, id parley.ConversationID) ([]participant, error) {
	found, err := from.Messages.Participants(ctx, id)
	if err != nil {
		return nil, err
	}
	names, err := handles(ctx, from, agentsOf(found))
	named := make([]participant, len(found))
	for i, p := range found {
		named[i] = participant{Participant: p, Handle: names[p.AgentID].Handle}
	}
	return named, err
}

func agentsOf(participants []api.Participant) (ids []parley.AgentID) {
	for _, p := range participants {
		ids = append(ids, p.AgentID)
	}
	return ids
}

type conversationTranscriptCmd struct {
	profile.SealingFlags
	ID    parley.ConversationID `arg:"" help:"Id of the conversation."`
	Limit int                   `short:"n" placeholder:"N" help:"Show at most this many messages; default: all."`
}

func (c *conversationTranscriptCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	found, err := from.Messages.Participants(ctx, c.ID)
	if err != nil {
		return err
	}
	agent, err := c.Session(ctx, agentsOf(found)...)
	if err != nil {
		return err
	}
	in := api.Transcript{ID: c.ID, ActingAgent: agent.ID().String(), Limit: parley.TranscriptLimitMax}
	_, err = showAll(ctx, std, agent, client.All(ctx, agent.Client.Messages.Transcript, in), c.Limit, true)
	return err
}

type conversationStatusCmd struct {
	profile.Flags
	Agent  string                `short:"a" env:"PARLEY_AGENT" placeholder:"NAME" help:"Acting agent; default: a participant that may change the status."`
	ID     parley.ConversationID `arg:"" help:"Id of the conversation."`
	Status string                `arg:"" enum:"open,paused,input_required,completed,failed,canceled,rejected" help:"${enum}."`
	Reason string                `placeholder:"TEXT" help:"Reason; the other participant sees it."`
}

func (c *conversationStatusCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	conversation, err := from.Messages.SetStatus(ctx, api.StatusPatch{ID: c.ID, ActingAgent: c.Agent, Status: c.Status, Reason: program.Given(c.Reason)})
	if err != nil {
		return err
	}
	return std.Show(conversation, "conversation %s is %s", conversation.ID, conversation.Status)
}
