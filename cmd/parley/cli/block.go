package cli

import (
	"context"

	"parley/client"
	"parley/client/api"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type BlockCmd struct {
	Add    blockAddCmd    `cmd:"" help:"Block an agent or a whole organization: its messages, replies and invitations do not reach the agent any more."`
	Remove blockRemoveCmd `cmd:"" help:"End a block."`
	List   blockListCmd   `cmd:"" help:"List what an agent blocks, oldest first."`
}

// blockedArg names whom a command blocks.
type blockedArg struct {
	profile.AgentFlags
	Other string `arg:"" help:"Handle or id of an agent, or id of an organization."`
}

type blockAddCmd struct{ blockedArg }

func (c *blockAddCmd) Run(ctx context.Context, std *program.Streams) error {
	agent, err := c.Session(ctx)
	if err != nil {
		return err
	}
	if err := agent.Client.Agents.Block(ctx, api.PutBlock{ID: agent.ID(), Other: c.Other}); err != nil {
		return err
	}
	return std.Show(map[string]any{"agent_id": agent.ID(), "other": c.Other, "blocked": true}, "%s blocks %s", agent.Handle(), program.Printable(c.Other))
}

type blockRemoveCmd struct{ blockedArg }

func (c *blockRemoveCmd) Run(ctx context.Context, std *program.Streams) error {
	agent, err := c.Session(ctx)
	if err != nil {
		return err
	}
	if err := agent.Client.Agents.Unblock(ctx, api.DeleteBlock{ID: agent.ID(), Other: c.Other}); err != nil {
		return err
	}
	return std.Show(map[string]any{"agent_id": agent.ID(), "other": c.Other, "blocked": false}, "%s does not block %s", agent.Handle(), program.Printable(c.Other))
}

type blockListCmd struct{ profile.AgentFlags }

func (c *blockListCmd) Run(ctx context.Context, std *program.Streams) error {
	agent, err := c.Session(ctx)
	if err != nil {
		return err
	}
	found, err := program.Collect(client.All(ctx, agent.Client.Agents.Blocks, api.ListBlocks{ID: agent.ID(), Limit: 100}), 0)
	if err != nil {
		return err
	}
	return program.Rows(std, found, []string{"BLOCKED", "ORGANIZATION", "SINCE"}, func(b api.Block) []string {
		who := "the organization"
		switch {
		case b.Handle != nil:
			who = program.Text(b.Handle)
		case b.AgentID != nil:
			who = b.AgentID.String()
		}
		return []string{who, b.OrgID.String(), program.Clock(b.CreatedAt)}
	})
}
