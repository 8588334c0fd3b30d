package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type WatchCmd struct {
	profile.SealingFlags
	After      string        `placeholder:"ID" help:"Begin after this message; default: begin with all messages not transferred yet."`
	Count      int           `short:"n" placeholder:"N" help:"End after this many messages."`
	Timeout    time.Duration `placeholder:"DURATION" help:"Fail unless --count messages arrive within this time."`
	Heartbeats bool          `help:"Print heartbeats, too."`
	Keys       bool          `help:"Also show key-exchange messages."`
}

// errWatchTimeout reports that fewer messages arrived than expected.
var errWatchTimeout = program.ExitError{Code: program.ExitTimeout, Err: errors.New("the expected messages did not arrive in time")}

// watched is one line of `watch --json`.
type watched struct {
	Event string `json:"event"`
	// LastEventID is the event to resume after; see --after.
	LastEventID string              `json:"last_event_id"`
	Message     *openedMessage      `json:"message,omitzero"`
	Status      *api.StatusEvent    `json:"status,omitzero"`
	Heartbeat   *api.HeartbeatEvent `json:"heartbeat,omitzero"`
	Gap         *api.GapEvent       `json:"gap,omitzero"`
	Group       *api.GroupEvent     `json:"group,omitzero"`
	Webhook     *api.WebhookEvent   `json:"webhook,omitzero"`
	// Late reports that the message arrived before, without its sender's key.
	Late bool `json:"late,omitzero"`
}

// Run follows the stream until it is interrupted, which is how it normally ends. It
// reconnects after a broken connection and resumes where the stream stopped.
func (c *WatchCmd) Run(ctx context.Context, std *program.Streams) error {
	if c.After != "" {
		if _, err := parley.ParseID[parley.MessageID](c.After); err != nil {
			return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("--after: %q is %w", c.After, err)}
		}
	}
	agent, err := c.Session(ctx)
	if err != nil {
		return err
	}
	following := ctx
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		following, cancel = context.WithTimeoutCause(ctx, c.Timeout, errWatchTimeout)
		defer cancel()
	}
	err = c.follow(following, std, agent)
	switch {
	case ctx.Err() != nil:
		return nil
	case following.Err() != nil && c.Count == 0:
		return nil
	case following.Err() != nil:
		return errWatchTimeout
	}
	return err
}

func (c *WatchCmd) follow(ctx context.Context, std *program.Streams, agent *e2ee.Agent) error {
	options := client.StreamOptions{
		LastEventID: c.After,
		Heartbeats:  c.Heartbeats,
		OnConnect:   func() { std.Note("watching %s", agent.Handle()) },
		OnReconnect: func(cause error, pause time.Duration) {
			std.Note("disconnected (%v), again in %v", cause, pause.Round(time.Millisecond))
		},
	}
	messages := 0
	for event, err := range agent.Listen(ctx, options) {
		if err != nil {
			return err
		}
		exchange := event.Message != nil && agent.IsKeyExchange(*event.Message)
		if exchange && !c.Keys {
			if event.OpenError != nil {
				std.Note("a group key from %s: %v", sender(*event.Message), event.OpenError)
			}
			continue
		}
		if err := c.tell(std, event); err != nil {
			return err
		}
		// A message that waits for its key is delivered again later.
		if event.Message != nil && !exchange && !errors.Is(event.OpenError, e2ee.ErrNoSenderKey) {
			messages++
		}
		if c.Count > 0 && messages >= c.Count {
			return nil
		}
	}
	return nil
}

func (c *WatchCmd) tell(std *program.Streams, in e2ee.Incoming) error {
	line := watched{Event: in.Type, LastEventID: in.LastEventID, Status: in.Status, Heartbeat: in.Heartbeat, Gap: in.Gap, Group: in.Group, Webhook: in.Webhook, Late: in.Late}
	if in.Message != nil {
		line.Message = showOpened(*in.Message, in.Opened, in.KeyExchange, in.OpenError)
	}
	switch {
	case std.JSON:
		return std.Value(line)
	case line.Message != nil:
		return std.Say("%s\n", line.Message.text())
	case line.Status != nil:
		return std.Say("conversation %s is %s\n", line.Status.ConversationID, line.Status.Status)
	case line.Heartbeat != nil:
		return std.Say("heartbeat %s\n", program.Clock(line.Heartbeat.Timestamp))
	case line.Group != nil && mlsNews(line.Group) != "":
		return std.Say("%s\n", mlsNews(line.Group))
	case line.Group != nil && line.Group.RequestID != nil:
		return std.Say("group %s: %s, request %s\n", line.Group.GroupID, line.Group.Kind, *line.Group.RequestID)
	case line.Group != nil:
		return std.Say("group %s: %s\n", line.Group.GroupID, line.Group.Kind)
	case line.Webhook != nil:
		return std.Say("the server switched off webhook %s: %s\n", line.Webhook.WebhookID, line.Webhook.DisabledReason)
	case line.Gap != nil:
		return std.Say("gap: %s; what was not carried before follows\n", line.Gap.Reason)
	}
	return nil
}
