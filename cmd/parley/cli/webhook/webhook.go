package webhook

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

type WebhookCmd struct {
	Create     webhookCreateCmd     `cmd:"" help:"Deliver an agent's events to a URL; shows the secret once."`
	List       webhookListCmd       `cmd:"" help:"List webhooks, oldest first, including disabled ones."`
	Pause      webhookPauseCmd      `cmd:"" help:"Disable a webhook; events in the meantime are not delivered."`
	Resume     webhookResumeCmd     `cmd:"" help:"Enable a webhook again."`
	Delete     webhookDeleteCmd     `cmd:"" help:"Delete a webhook and forget its deliveries."`
	Deliveries webhookDeliveriesCmd `cmd:"" help:"List a webhook's deliveries, newest first, and count them."`
	Test       webhookTestCmd       `cmd:"" help:"Send a test event."`
	Retry      webhookRetryCmd      `cmd:"" help:"Attempt a delivery now, also a dead one."`
	Rotate     webhookRotateCmd     `cmd:"" help:"Replace a webhook's secret. The former secret also signs for 24 hours."`
	Listen     webhookListenCmd     `cmd:"" help:"Receive deliveries on this machine and check their signatures."`
}

// webhookArg names a webhook.
type webhookArg struct {
	profile.Flags
	Webhook parley.AnyID `arg:"" help:"Id of the webhook."`
}

// watchedFlags name the agent whose events are delivered.
type watchedFlags struct {
	profile.Flags
	Agent string `short:"a" env:"PARLEY_AGENT" placeholder:"NAME" help:"Agent whose events are delivered, by name, handle or id; default: the organization's only one."`
}

// ProvideAgent returns the named agent, or the only active one if none is named. Kong calls it
// for a Run that has the agent as a parameter.
func (w *watchedFlags) ProvideAgent(ctx context.Context) (*profile.OwnAgent, error) {
	if w.Agent != "" {
		return (&profile.AgentArg{Flags: w.Flags, Agent: w.Agent}).ProvideAgent(ctx)
	}
	from, err := w.ProvideSession()
	if err != nil {
		return nil, err
	}
	agents, err := from.Agents.List(ctx, api.ListAgents{})
	switch {
	case err != nil:
		return nil, err
	case len(agents) == 0:
		return nil, program.ExitError{Code: program.ExitNotFound, Err: fmt.Errorf("the organization has no agent: run \"%s\" first", program.Typed("agent create NAME"))}
	case len(agents) > 1:
		return nil, program.ExitError{Code: program.ExitUsage, Err: errors.New("the organization has several agents: name one with --agent")}
	}
	return &profile.OwnAgent{Session: from, Agent: &agents[0]}, nil
}

type webhookCreateCmd struct {
	watchedFlags
	URL         string   `arg:"" help:"Target: https and a public address; on a server with --dev also http and this machine."`
	Event       []string `placeholder:"NAME" help:"Events to deliver, repeated or separated by commas; default: message.received."`
	Description string   `placeholder:"TEXT" help:"Purpose of the webhook."`
}

func (c *webhookCreateCmd) Run(ctx context.Context, std *program.Streams, agent *profile.OwnAgent) error {
	made, err := agent.Webhooks.Create(ctx, api.CreateWebhook{AgentID: agent.ID, URL: c.URL, Events: c.Event, Description: program.Given(c.Description)})
	if err != nil {
		return err
	}
	return showSecret(std, "created", made)
}

// showSecret prints a webhook with its secret. The secret cannot be shown again.
func showSecret(std *program.Streams, what string, made *api.WebhookSecret) error {
	return std.Show(made, "%s %s\n  secret  %s  (shown once)", what, webhookLine(&made.Webhook), made.Secret)
}

// webhookLine describes a webhook and, if it is off, why.
func webhookLine(w *api.Webhook) program.Printable {
	lines := program.Format("%s\n  url     %s\n  events  %s", w.ID, w.URL, strings.Join(w.Events, ", "))
	switch {
	case w.DisabledAt != nil:
		lines.Add("  off     since %s: %s", program.Clock(*w.DisabledAt), program.Text(w.DisabledReason))
	case !w.Active:
		lines.Add("  off     switched off")
	}
	return lines
}

type webhookListCmd struct {
	profile.Flags
	Agent string `short:"a" env:"PARLEY_AGENT" placeholder:"NAME" help:"Only webhooks of this agent: name, handle or id."`
}

func (c *webhookListCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	in := api.ListWebhooks{IncludeInactive: true}
	if c.Agent != "" {
		agent, err := profile.FindAgent(ctx, from, c.Agent)
		if err != nil {
			return err
		}
		in.AgentID = &agent.ID
	}
	found, err := from.Webhooks.List(ctx, in)
	if err != nil {
		return err
	}
	return program.Rows(std, found, []string{"ID", "STATE", "URL", "EVENTS", "AGENT"}, func(w api.Webhook) []string {
		state := "active"
		if !w.Active {
			state = "off"
		}
		if w.DisabledReason != nil {
			state += ": " + *w.DisabledReason
		}
		return []string{w.ID.String(), state, w.URL, strings.Join(w.Events, ","), w.AgentID.String()}
	})
}

type webhookPauseCmd struct{ webhookArg }

func (c *webhookPauseCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	return c.turn(ctx, std, from, false)
}

type webhookResumeCmd struct{ webhookArg }

func (c *webhookResumeCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	return c.turn(ctx, std, from, true)
}

// turn switches the webhook on or off.
func (w *webhookArg) turn(ctx context.Context, std *program.Streams, from *client.Session, on bool) error {
	changed, err := from.Webhooks.Switch(ctx, api.WebhookPatch{ID: w.Webhook, Active: on})
	if err != nil {
		return err
	}
	return std.Show(changed, "%s", webhookLine(changed))
}

type webhookDeleteCmd struct{ webhookArg }

func (c *webhookDeleteCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	if err := from.Webhooks.Delete(ctx, c.Webhook); err != nil {
		return err
	}
	return std.Show(map[string]any{"id": c.Webhook, "deleted": true}, "deleted %s", c.Webhook)
}

type webhookRotateCmd struct{ webhookArg }

func (c *webhookRotateCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	changed, err := from.Webhooks.RotateSecret(ctx, c.Webhook)
	if err != nil {
		return err
	}
	return showSecret(std, "new secret of", changed)
}

type webhookDeliveriesCmd struct {
	webhookArg
	Status string `enum:",pending,processing,failed,delivered,dead" default:"" placeholder:"STATUS" help:"Only deliveries with this status: pending, processing, failed, delivered or dead."`
	Limit  int    `default:"20" help:"Number of deliveries to list, at most 100."`
	Offset int    `default:"0" help:"Number of the newest deliveries to skip."`
}

func (c *webhookDeliveriesCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	page, err := from.Webhooks.Deliveries(ctx, api.ListDeliveries{ID: c.Webhook, Limit: c.Limit, Offset: c.Offset, Status: program.Given(c.Status)})
	if err != nil {
		return err
	}
	if std.JSON {
		return std.Value(page)
	}
	heading := []string{"JOB", "EVENT", "STATUS", "ATTEMPTS", "LAST", "NEXT"}
	if err := program.Rows(std, page.Items, heading, func(d api.Delivery) []string {
		return []string{d.ID.String(), d.Event, d.Status, fmt.Sprintf("%d/%d", d.Attempts, d.MaxAttempts), lastOf(&d), when(d.NextAttemptAt)}
	}); err != nil {
		return err
	}
	sum, err := from.Webhooks.DeliverySummary(ctx, c.Webhook)
	if err != nil {
		return err
	}
	return std.Say("%d in all: %d delivered, %d pending, %d failed, %d dead", sum.Total, sum.Delivered, sum.Pending, sum.Failed, sum.Dead)
}

// lastOf describes how the last attempt of a delivery ended.
func lastOf(d *api.Delivery) string {
	switch {
	case d.LastError != nil:
		return *d.LastError
	case d.LastStatusCode != nil:
		return strconv.Itoa(*d.LastStatusCode)
	}
	return "-"
}

func when(t *api.Time) string {
	if t == nil {
		return "-"
	}
	return program.Clock(*t)
}

type webhookTestCmd struct{ webhookArg }

func (c *webhookTestCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	job, err := from.Webhooks.Test(ctx, c.Webhook)
	if err != nil {
		return err
	}
	return showJob(std, job)
}

type webhookRetryCmd struct {
	webhookArg
	Job parley.AnyID `arg:"" help:"Id of the delivery."`
}

func (c *webhookRetryCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	tried, err := from.Webhooks.RetryDelivery(ctx, api.RetryDelivery{ID: c.Webhook, Job: c.Job})
	if err != nil {
		return err
	}
	return showJob(std, tried)
}

func showJob(std *program.Streams, d *api.Delivery) error {
	return std.Show(d, "%s %s, job %s", d.Event, d.Status, d.ID)
}
