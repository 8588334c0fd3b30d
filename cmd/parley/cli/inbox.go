package cli

import (
	"context"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type InboxCmd struct {
	profile.SealingFlags
	Limit int    `short:"n" default:"20" help:"List at most this many messages; 0 lists all."`
	Type  string `placeholder:"TYPE" help:"Only messages of this type."`
	Keys  bool   `help:"Also show key-exchange messages."`
}

// inboxJSON is the output of `inbox --json`.
type inboxJSON struct {
	Agent string           `json:"agent"`
	Items []*openedMessage `json:"items"`
}

func (c *InboxCmd) Run(ctx context.Context, std *program.Streams) error {
	agent, err := c.Session(ctx, nil)
	if err != nil {
		return err
	}
	in := api.Inbox{ID: agent.ID(), Limit: parley.InboxLimitMax}
	if c.Limit > 0 {
		in.Limit = min(c.Limit, in.Limit)
	}
	if c.Type != "" {
		in.Type = &c.Type
	}
	out := inboxJSON{Agent: agent.Handle(), Items: []*openedMessage{}}
	for m, err := range client.All(ctx, agent.Client.Messages.Inbox, in) {
		if err != nil {
			return err
		}
		s, err := show(ctx, agent, m)
		if err != nil {
			return err
		}
		if agent.IsKeyExchange(m) && !c.Keys && c.Type == "" {
			continue
		}
		out.Items = append(out.Items, s)
		if !std.JSON {
			if err := std.Say("%s\n", s); err != nil {
				return err
			}
		}
		if len(out.Items) == c.Limit {
			break
		}
	}
	switch {
	case std.JSON:
		return std.Value(out)
	case len(out.Items) == 0:
		return std.Say("no messages for %s", agent.Handle())
	}
	return nil
}
