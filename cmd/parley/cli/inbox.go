package cli

import (
	"context"
	"iter"

	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
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

func (c *InboxCmd) Run(ctx context.Context, std *program.Streams) error {
	agent, err := c.Session(ctx)
	if err != nil {
		return err
	}
	in := api.Inbox{ID: agent.ID(), Limit: parley.InboxLimitMax, Type: program.Given(c.Type)}
	if c.Limit > 0 {
		in.Limit = min(c.Limit, in.Limit)
	}
	shown, err := showAll(ctx, std, agent, client.All(ctx, agent.Client.Messages.Inbox, in), c.Limit, c.Keys || c.Type != "")
	if err == nil && shown == 0 && !std.JSON {
		err = std.Say("no messages for %s", agent.Handle())
	}
	return err
}

// openedMessages is the output of `inbox --json` and `conversation transcript --json`.
type openedMessages struct {
	Agent string           `json:"agent"`
	Items []*openedMessage `json:"items"`
}

// showAll opens and prints messages, at most limit of them if it is not 0. It handles
// key-exchange messages too, but prints them only with keys.
func showAll(ctx context.Context, std *program.Streams, agent *e2ee.Agent, messages iter.Seq2[api.Message, error], limit int, keys bool) (shown int, err error) {
	out := openedMessages{Agent: agent.Handle(), Items: []*openedMessage{}}
	for m, err := range messages {
		if err != nil {
			return 0, err
		}
		s, err := show(ctx, agent, m)
		if err != nil {
			return 0, err
		}
		if agent.IsKeyExchange(m) && !keys {
			continue
		}
		out.Items = append(out.Items, s)
		if !std.JSON {
			if err := std.Say("%s\n", s.text()); err != nil {
				return 0, err
			}
		}
		if len(out.Items) == limit {
			break
		}
	}
	if std.JSON {
		err = std.Value(out)
	}
	return len(out.Items), err
}
