package cli

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
	Webhook string `arg:"" help:"Id of the webhook."`
}

// open returns the organization's client and the webhook's id.
func (w *webhookArg) open() (*client.Session, parley.AnyID, error) {
	id, err := parley.ParseID[parley.AnyID](w.Webhook)
	if err != nil {
		return nil, id, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%q is %w", w.Webhook, err)}
	}
	from, _, err := w.Flags.Open()
	return from, id, err
}

// watchedFlags name the agent whose events are delivered.
type watchedFlags struct {
	profile.Flags
	Agent string `short:"a" env:"PARLEY_AGENT" placeholder:"NAME" help:"Agent whose events are delivered, by name, handle or id; default: the organization's only one."`
}

// watched returns the named agent, or the only active one if none is named.
func (w *watchedFlags) watched(ctx context.Context, from *client.Session) (*api.Agent, error) {
	if w.Agent != "" {
		return findAgent(ctx, from, w.Agent)
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
	return &agents[0], nil
}

type webhookCreateCmd struct {
	watchedFlags
	URL         string   `arg:"" help:"Target: https and a public address; on a server with --dev also http and this machine."`
	Event       []string `placeholder:"NAME" help:"Events to deliver, repeated or separated by commas; default: message.received."`
	Description string   `placeholder:"TEXT" help:"Purpose of the webhook."`
}

func (c *webhookCreateCmd) Run(ctx context.Context, std *program.Streams) error {
	from, _, err := c.Open()
	if err != nil {
		return err
	}
	agent, err := c.watched(ctx, from)
	if err != nil {
		return err
	}
	in := api.CreateWebhook{AgentID: agent.ID, URL: c.URL, Events: c.Event}
	if c.Description != "" {
		in.Description = &c.Description
	}
	made, err := from.Webhooks.Create(ctx, in)
	if err != nil {
		return err
	}
	return showSecret(std, "created", made)
}

// showSecret prints a webhook with its secret. The secret cannot be shown again.
func showSecret(std *program.Streams, what string, made *api.WebhookSecret) error {
	if std.JSON {
		return std.Value(made)
	}
	return std.Say("%s %s\n  secret  %s  (shown once)", what, webhookLine(&made.Webhook), made.Secret)
}

// webhookLine describes a webhook and, if it is off, why.
func webhookLine(w *api.Webhook) string {
	line := fmt.Sprintf("%s\n  url     %s\n  events  %s", w.ID, program.Printable(w.URL), program.Printable(strings.Join(w.Events, ", ")))
	switch {
	case w.DisabledAt != nil:
		line += fmt.Sprintf("\n  off     since %s: %s", program.Clock(*w.DisabledAt), program.Text(w.DisabledReason))
	case !w.Active:
		line += "\n  off     switched off"
	}
	return line
}

type webhookListCmd struct {
	profile.Flags
	Agent string `short:"a" env:"PARLEY_AGENT" placeholder:"NAME" help:"Only webhooks of this agent: name, handle or id."`
}

func (c *webhookListCmd) Run(ctx context.Context, std *program.Streams) error {
	from, _, err := c.Open()
	if err != nil {
		return err
	}
	in := api.ListWebhooks{IncludeInactive: true}
	if c.Agent != "" {
		agent, err := findAgent(ctx, from, c.Agent)
		if err != nil {
			return err
		}
		in.AgentID = &agent.ID
	}
	found, err := from.Webhooks.List(ctx, in)
	if err != nil {
		return err
	}
	if std.JSON {
		return program.List(std, found)
	}
	rows := [][]string{{"ID", "STATE", "URL", "EVENTS", "AGENT"}}
	for _, w := range found {
		state := "active"
		if !w.Active {
			state = "off"
		}
		if w.DisabledReason != nil {
			state += ": " + program.Printable(*w.DisabledReason)
		}
		rows = append(rows, []string{w.ID.String(), state, program.Printable(w.URL), program.Printable(strings.Join(w.Events, ",")), w.AgentID.String()})
	}
	return std.Table(rows)
}

type webhookPauseCmd struct{ webhookArg }

func (c *webhookPauseCmd) Run(ctx context.Context, std *program.Streams) error {
	return c.turn(ctx, std, false)
}

type webhookResumeCmd struct{ webhookArg }

func (c *webhookResumeCmd) Run(ctx context.Context, std *program.Streams) error {
	return c.turn(ctx, std, true)
}

// turn switches the webhook on or off.
func (w *webhookArg) turn(ctx context.Context, std *program.Streams, on bool) error {
	from, id, err := w.open()
	if err != nil {
		return err
	}
	changed, err := from.Webhooks.Switch(ctx, api.WebhookPatch{ID: id, Active: on})
	if err != nil {
		return err
	}
	if std.JSON {
		return std.Value(changed)
	}
	return std.Say("%s", webhookLine(changed))
}

type webhookDeleteCmd struct{ webhookArg }

func (c *webhookDeleteCmd) Run(ctx context.Context, std *program.Streams) error {
	from, id, err := c.open()
	if err != nil {
		return err
	}
	if err := from.Webhooks.Delete(ctx, id); err != nil {
		return err
	}
	if std.JSON {
		return std.Value(map[string]any{"id": id, "deleted": true})
	}
	return std.Say("deleted %s", id)
}

type webhookRotateCmd struct{ webhookArg }

func (c *webhookRotateCmd) Run(ctx context.Context, std *program.Streams) error {
	from, id, err := c.open()
	if err != nil {
		return err
	}
	changed, err := from.Webhooks.RotateSecret(ctx, id)
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

func (c *webhookDeliveriesCmd) Run(ctx context.Context, std *program.Streams) error {
	from, id, err := c.open()
	if err != nil {
		return err
	}
	in := api.ListDeliveries{ID: id, Limit: c.Limit, Offset: c.Offset}
	if c.Status != "" {
		in.Status = &c.Status
	}
	page, err := from.Webhooks.Deliveries(ctx, in)
	if err != nil {
		return err
	}
	if std.JSON {
		return std.Value(page)
	}
	rows := [][]string{{"JOB", "EVENT", "STATUS", "ATTEMPTS", "LAST", "NEXT"}}
	for _, d := range page.Items {
		rows = append(rows, []string{d.ID.String(), program.Printable(d.Event), program.Printable(d.Status), fmt.Sprintf("%d/%d", d.Attempts, d.MaxAttempts), lastOf(&d), when(d.NextAttemptAt)})
	}
	if err := std.Table(rows); err != nil {
		return err
	}
	sum, err := from.Webhooks.DeliverySummary(ctx, id)
	if err != nil {
		return err
	}
	return std.Say("%d in all: %d delivered, %d pending, %d failed, %d dead", sum.Total, sum.Delivered, sum.Pending, sum.Failed, sum.Dead)
}

// lastOf describes how the last attempt of a delivery ended.
func lastOf(d *api.Delivery) string {
	switch {
	case d.LastError != nil:
		return program.Printable(*d.LastError)
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

func (c *webhookTestCmd) Run(ctx context.Context, std *program.Streams) error {
	from, id, err := c.open()
	if err != nil {
		return err
	}
	job, err := from.Webhooks.Test(ctx, id)
	if err != nil {
		return err
	}
	return showJob(std, job)
}

type webhookRetryCmd struct {
	webhookArg
	Job string `arg:"" help:"Id of the delivery."`
}

func (c *webhookRetryCmd) Run(ctx context.Context, std *program.Streams) error {
	job, err := parley.ParseID[parley.AnyID](c.Job)
	if err != nil {
		return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%q is %w", c.Job, err)}
	}
	from, id, err := c.open()
	if err != nil {
		return err
	}
	tried, err := from.Webhooks.RetryDelivery(ctx, api.RetryDelivery{ID: id, Job: job})
	if err != nil {
		return err
	}
	return showJob(std, tried)
}

func showJob(std *program.Streams, d *api.Delivery) error {
	if std.JSON {
		return std.Value(d)
	}
	return std.Say("%s %s, job %s", program.Printable(d.Event), program.Printable(d.Status), d.ID)
}
