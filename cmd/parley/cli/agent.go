package cli

import (
	"context"
	"errors"
	"fmt"

	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type AgentCmd struct {
	Create        agentCreateCmd        `cmd:"" help:"Create an agent and its keys; the private keys never leave the profile."`
	List          agentListCmd          `cmd:"" help:"List the organization's agents, oldest first."`
	Show          agentShowCmd          `cmd:"" help:"Show one of the organization's agents."`
	Keys          agentKeysCmd          `cmd:"" help:"Show the public keys of any agent, of any organization."`
	RotateKeys    agentRotateCmd        `cmd:"" help:"Replace an agent's keys; messages encrypted to the old keys can still be decrypted."`
	SVIDChallenge agentSVIDChallengeCmd `cmd:"" name:"svid-challenge" help:"Get a challenge to prove a workload identity by a JWT-SVID."`
	VerifySVID    agentVerifySVIDCmd    `cmd:"" name:"verify-svid" help:"Prove a workload identity by an SVID, for trust tier 2."`
	Revoke        agentRevokeCmd        `cmd:"" help:"Revoke an agent for good. Its handle cannot be used again."`
}

type agentCreateCmd struct {
	profile.Flags
	Name           string `arg:"" help:"Name: 1-200 lowercase letters, digits and interior hyphens."`
	Unlisted       bool   `help:"Keep the agent out of the public directory."`
	HumanOversight bool   `default:"true" negatable:"" help:"Whether a person supervises the agent."`
	PostQuantum    bool   `help:"Create a post-quantum key too: messages to the agent are then encrypted so that a future quantum computer cannot decrypt them."`
}

func (c *agentCreateCmd) Run(ctx context.Context, std *program.Streams) error {
	if !parley.ValidAgentName(c.Name) {
		return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%q is not a valid agent name: use 1 to 200 lowercase letters, digits and interior hyphens", c.Name)}
	}
	to, directory, err := c.Open()
	if err != nil {
		return err
	}
	in := api.CreateAgent{Name: c.Name, Unlisted: &c.Unlisted, HumanOversight: &c.HumanOversight}
	agent, err := profile.CreateAgent(ctx, to, profile.RingPath(directory, c.Name), in, c.PostQuantum)
	if err != nil {
		return err
	}
	if agent.BindError != nil {
		std.Note("the keys are not bound or not all published yet; the agent's next command tries again: %v", agent.BindError)
	}
	return std.Show(agent.Record, "created %s\nkeys in %s\n%s", agent.Handle(), agent.Keys.Path(), agentDetails(&agent.Record))
}

type agentListCmd struct {
	profile.Flags
	Revoked bool `help:"List revoked agents too."`
}

func (c *agentListCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	agents, err := from.Agents.List(ctx, api.ListAgents{IncludeRevoked: c.Revoked})
	if err != nil {
		return err
	}
	return program.Rows(std, agents, []string{"HANDLE", "ID", "CREATED", "STATE"}, func(a api.Agent) []string {
		state := "active"
		if a.RevokedAt != nil {
			state = "revoked"
		}
		return []string{program.Text(a.Handle), a.ID.String(), program.Clock(a.CreatedAt), state}
	})
}

type agentShowCmd struct{ profile.AgentArg }

func (c *agentShowCmd) Run(ctx context.Context, std *program.Streams, agent *profile.OwnAgent) error {
	return std.Show(agent.Agent, "%s\n%s", program.Text(agent.Handle), agentDetails(agent.Agent))
}

type agentKeysCmd struct {
	profile.Flags
	Agent string `arg:"" help:"Handle or id; a bare name is an agent of the organization."`
}

// Run needs credentials only if the agent is named by a bare name.
func (c *agentKeysCmd) Run(ctx context.Context, std *program.Streams) error {
	from, _, err := c.AnySession()
	if err != nil {
		return err
	}
	keys, err := keysOf(ctx, from, c.Agent)
	if err != nil {
		return err
	}
	text := program.Format("%s\n  id          %s\n  signing     %s\n  encryption  %s", program.Text(keys.Handle), keys.AgentID, key(keys.SigningPublicKey), key(keys.EncryptionPublicKey))
	if keys.PQPublicKey != nil {
		text.Add("%s", pqLine(keys))
	}
	return std.Show(keys, "%s", text)
}

// keysOf returns the public keys of an agent that is named by its handle, its id or, if
// it belongs to the organization, its bare name.
func keysOf(ctx context.Context, from *client.Session, name string) (*api.AgentKeys, error) {
	name, err := profile.PublicName(ctx, from, name)
	if err != nil {
		return nil, err
	}
	return from.Keys.Get(ctx, name, "")
}

type agentRotateCmd struct {
	profile.Flags
	Name        string `arg:"" help:"Name of an agent whose keys the profile has."`
	PostQuantum *bool  `negatable:"" help:"Whether the new keys include a post-quantum key; default: as the current ones."`
}

func (c *agentRotateCmd) Run(ctx context.Context, std *program.Streams) error {
	named := profile.AgentFlags{Flags: c.Flags, Agent: c.Name}
	agent, err := named.Session(ctx)
	if err != nil {
		return err
	}
	postQuantum := agent.Keys.PQKey() != nil
	if c.PostQuantum != nil {
		postQuantum = *c.PostQuantum
	}
	if err := agent.RotateKeysTo(ctx, postQuantum); err != nil {
		return err
	}
	record, err := agent.Client.Agents.Get(ctx, agent.ID())
	if err != nil {
		return err
	}
	return std.Show(record, "new keys for %s\n%s", program.Text(record.Handle), agentDetails(record))
}

type agentRevokeCmd struct {
	profile.AgentArg
	Yes bool `help:"Confirm: this cannot be undone."`
}

func (c *agentRevokeCmd) Run(ctx context.Context, std *program.Streams) error {
	if !c.Yes {
		return program.ExitError{Code: program.ExitUsage, Err: errors.New("revoking cannot be undone; confirm with --yes")}
	}
	agent, err := c.ProvideAgent(ctx)
	if err != nil {
		return err
	}
	if err := agent.Agents.Revoke(ctx, agent.ID); err != nil {
		return err
	}
	if err := c.SetAside(agent.ID); err != nil {
		return err
	}
	return std.Show(map[string]any{"agent_id": agent.ID, "revoked": true}, "revoked %s", program.Text(agent.Handle))
}

// agentDetails returns the detail lines of an agent.
func agentDetails(a *api.Agent) program.Printable {
	lines := program.Format("  id          %s\n  words       %s\n  signing     %s\n  encryption  %s",
		a.ID, program.Text(a.VerificationWords), key(a.SigningPublicKey), key(a.EncryptionPublicKey))
	if a.PQPublicKey != nil {
		lines.Add("%s", pqLine(&api.AgentKeys{EncryptionPublicKey: a.EncryptionPublicKey, PQPublicKey: a.PQPublicKey}))
	}
	if a.PollURL != nil {
		lines.Add("  poll        %s  (shown once)", *a.PollURL)
	}
	if a.RevokedAt != nil {
		lines.Add("  revoked     %s", program.Clock(*a.RevokedAt))
	}
	for _, warning := range a.Warnings {
		lines.Add("  warning     %s", warning)
	}
	return lines
}

func key(k *api.JWK) string {
	if k == nil {
		return "none"
	}
	return k.Curve + " " + k.X
}

// pqLine returns the detail line of an agent's post-quantum key, which is too long to show.
func pqLine(keys *api.AgentKeys) string {
	line := "  pq          " + keys.PQPublicKey.Algorithm + " key id " + e2ee.PQKid(keys.PQPublicKey)
	if e2ee.HybridKey(keys) == nil {
		line += " (not used: it is not an X-Wing key that contains the encryption key)"
	}
	return line
}

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
	return std.Show(map[string]any{"agent_id": agent.ID(), "other": c.Other, "blocked": true}, "%s blocks %s", agent.Handle(), c.Other)
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
	return std.Show(map[string]any{"agent_id": agent.ID(), "other": c.Other, "blocked": false}, "%s does not block %s", agent.Handle(), c.Other)
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
