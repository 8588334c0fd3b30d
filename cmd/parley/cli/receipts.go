package cli

import (
	"context"
	"errors"
	"strings"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type AckCmd struct {
	profile.AgentFlags
	Messages []parley.MessageID `arg:"" name:"message" help:"Ids of messages of the agent's inbox."`
	UpTo     bool               `name:"up-to" help:"Mark the named message and all messages before it."`
}

func (c *AckCmd) Run(ctx context.Context, std *program.Streams) error {
	if c.UpTo && len(c.Messages) != 1 {
		return program.ExitError{Code: program.ExitUsage, Err: errors.New("--up-to needs exactly one message")}
	}
	agent, err := c.Session(ctx)
	if err != nil {
		return err
	}
	in := api.Ack{ID: agent.ID(), IDs: c.Messages}
	if c.UpTo {
		in.IDs, in.UpTo = nil, &c.Messages[0]
	}
	out, err := agent.Client.Messages.Ack(ctx, in)
	if err != nil {
		return err
	}
	return std.Show(out, "%d marked as read\n", out.Acked)
}

type TraceCmd struct {
	profile.Flags
	Message parley.MessageID `arg:"" help:"Id of the message."`
}

func (c *TraceCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	out, err := from.Messages.Trace(ctx, c.Message)
	if err != nil {
		return err
	}
	if std.JSON {
		return std.Value(out)
	}
	rows := [][]string{{"WHEN", "WHAT", "BY", "DETAIL"}, {program.Clock(out.AcceptedAt), "accepted", "-", "-"}}
	for _, a := range out.Attempts {
		rows = append(rows, []string{program.Clock(a.At), a.Outcome, a.Channel, program.Text(a.Detail)})
	}
	for _, mark := range []struct {
		at   *api.Time
		what string
	}{{out.DeliveredAt, "delivered"}, {out.ReadAt, "read"}} {
		if mark.at != nil {
			rows = append(rows, []string{program.Clock(*mark.at), mark.what, "-", "-"})
		}
	}
	if err := std.Table(rows); err != nil || out.PendingReason == nil {
		return err
	}
	return std.Say("not delivered yet: %s\n", strings.TrimSuffix(*out.PendingReason, "\n"))
}
