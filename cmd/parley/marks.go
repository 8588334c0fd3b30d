package main

import (
	"context"
	"errors"
	"strings"

	"parley"
	"parley/http/api"
)

type ackCmd struct {
	agentFlags
	Messages []parley.MessageID `arg:"" name:"message" help:"Ids of messages of the agent's inbox."`
	UpTo     bool               `name:"up-to" help:"Mark the one message named and all messages before it."`
}

func (c *ackCmd) Run(ctx context.Context, std *streams) error {
	if c.UpTo && len(c.Messages) != 1 {
		return exitError{code: exitUsage, err: errors.New("--up-to takes one message")}
	}
	agent, err := c.session(ctx, nil)
	if err != nil {
		return err
	}
	in := api.Ack{ID: agent.ID(), IDs: c.Messages}
	if c.UpTo {
		in.IDs, in.UpTo = nil, &c.Messages[0]
	}
	out, err := agent.Client.Ack(ctx, in)
	if err != nil {
		return err
	}
	if std.json {
		return std.value(out)
	}
	return std.say("%d marked as read\n", out.Acked)
}

type traceCmd struct {
	profileFlags
	Message parley.MessageID `arg:"" help:"Id of the message."`
}

func (c *traceCmd) Run(ctx context.Context, std *streams) error {
	from, _, err := c.open()
	if err != nil {
		return err
	}
	out, err := from.Trace(ctx, c.Message)
	if err != nil {
		return err
	}
	if std.json {
		return std.value(out)
	}
	rows := [][]string{{"WHEN", "WHAT", "BY", "DETAIL"}, {clock(out.AcceptedAt), "accepted", "-", "-"}}
	for _, a := range out.Attempts {
		rows = append(rows, []string{clock(a.At), printable(a.Outcome), printable(a.Channel), text(a.Detail)})
	}
	for _, mark := range []struct {
		at   *api.Time
		what string
	}{{out.DeliveredAt, "delivered"}, {out.ReadAt, "read"}} {
		if mark.at != nil {
			rows = append(rows, []string{clock(*mark.at), mark.what, "-", "-"})
		}
	}
	if err := std.table(rows); err != nil || out.PendingReason == nil {
		return err
	}
	return std.say("not delivered yet: %s\n", strings.TrimSuffix(printable(*out.PendingReason), "\n"))
}
