// Package webhooks serves webhooks and their deliveries, and hands deliveries to the sender.
package webhooks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/delivery"
	"parley/actors/webhook"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/auth"
	"parley/http/egress"
	"parley/http/rest"
	"parley/http/view"
	"parley/journal"
)

// Webhooks serves the webhooks of the callers' agents.
type Webhooks struct {
	Node    *actors.Node
	Agents  *access.Agents
	Quotas  access.QuotaProfile
	Lists   *rest.Lists
	Entropy parley.Entropy
	// Guard checks the targets of new webhooks, Vault seals their secrets.
	Guard *egress.Guard
	Vault *auth.MasterKey
}

// sealOfHooks is the purpose under which webhook secrets are sealed. Each is also bound
// to the webhook's id.
const sealOfHooks = "webhook secret"

// Create creates a webhook. Its secret is returned only here. The guard that
// checks each dial also checks the target. // spec: Webhooks
func (s *Webhooks) Create(c *rest.Call, in *api.CreateWebhook) (api.WebhookSecret, error) {
	events := eventsOf(in.Events)
	if !mayAsk(c, events) {
		return api.WebhookSecret{}, rest.ErrScope
	}
	target, err := s.Guard.Parse(in.URL)
	if err != nil {
		return api.WebhookSecret{}, err
	}
	if _, err = s.Agents.Active(c, in.AgentID); err == nil {
		err = s.Guard.Admit(c.Context(), target)
	}
	if err != nil {
		return api.WebhookSecret{}, err
	}
	id, secret := s.Node.Webhooks.NewID(in.AgentID), egress.NewSecret(s.Entropy)
	made, err := s.Node.Webhooks.Create(c.Context(), delivery.CreateWebhook{
		ID: id, Agent: in.AgentID, Org: c.Caller.Org, URL: target.String(), SentURL: in.URL, Events: events,
		Description: rest.Text(in.Description), SealedSecret: s.sealHook(id, secret), Limit: s.Quotas.Allowed(c.Caller, access.QuotaWebhooks),
	})
	if err != nil {
		return api.WebhookSecret{}, err
	}
	return api.WebhookSecret{Webhook: view.Webhook(made), Secret: secret}, nil
}

// mayAsk reports whether a caller may have webhooks for events: what concerns the credentials of the
// organization needs scope org.
func mayAsk(c *rest.Call, events []webhook.What) bool {
	return c.Caller.Scope == parley.ScopeOrg || !slices.Contains(events, webhook.CredentialExpiring)
}

// eventsOf parses event names that the schema has accepted.
func eventsOf(names []string) []webhook.What {
	var events []webhook.What
	for _, name := range names {
		if x, ok := webhook.ParseEvent(name); ok {
			events = append(events, x)
		}
	}
	return events
}

func (s *Webhooks) sealHook(id webhook.ID, secret string) []byte {
	return s.Vault.SealSecret(sealOfHooks, id.Bytes(), []byte(secret))
}

// openHook unseals a webhook's secret. The error is auth.ErrSealed if it was not sealed
// by this server.
func openHook(vault *auth.MasterKey, id webhook.ID, sealed []byte) (string, error) {
	secret, err := vault.OpenSecret(sealOfHooks, id.Bytes(), sealed)
	return string(secret), err
}

// hookBytesLeast is less than the size of any webhook in an answer.
const hookBytesLeast = 200

// List returns the webhooks of one agent or of all agents of the organization,
// oldest first. It sorts only their keys, then reads them one by one, because an
// organization may have many.
func (s *Webhooks) List(c *rest.Call, in *api.ListWebhooks) (rest.Rendered, error) {
	name := fmt.Sprint("webhooks ", in.IncludeInactive)
	if in.AgentID != nil {
		if _, err := s.Agents.Own(c, *in.AgentID); err != nil {
			return rest.Rendered{}, err
		}
		name += " " + in.AgentID.String()
	}
	l, err := s.Lists.New(c, in.Paging, name, 32)
	if err != nil {
		return rest.Rendered{}, err
	}
	keys, err := s.hookKeys(l, in)
	if err != nil {
		return rest.Rendered{}, err
	}
	for _, key := range keys {
		w, err := s.Node.Webhooks.Get(c.Context(), parley.IDFromBytes[webhook.ID](key[16:]), c.Caller.Org)
		if errors.Is(err, webhook.ErrUnknown) || (err == nil && !w.GetActive() && !in.IncludeInactive) {
			continue // deleted or switched off since
		}
		if err != nil {
			return rest.Rendered{}, err
		}
		if !l.Add(key, view.Webhook(w), nil) {
			break
		}
	}
	return l.Answer(nil)
}

// hookKeys returns the keys of the webhooks in a list, in order: the instant of creation,
// the agent's position in the roster, the id.
func (s *Webhooks) hookKeys(l *rest.List, in *api.ListWebhooks) (keys [][]byte, err error) {
	of := func(place uint64, id parley.AgentID) bool {
		err = s.Node.Webhooks.Each(l.Call.Context(), id, func(w *webhook.State) {
			key := binary.BigEndian.AppendUint64(nil, uint64(w.GetCreatedMs()))
			key = append(binary.BigEndian.AppendUint64(key, place), w.GetId()...)
			if (w.GetActive() || in.IncludeInactive) && !l.Passed(key) {
				keys = l.Keep(keys, key)
			}
		})
		if err == nil {
			err = l.Fits(len(keys) * hookBytesLeast)
		}
		return err == nil
	}
	agents := s.Agents.EachActive // those of revoked agents are inactive
	if in.IncludeInactive {
		agents = s.Agents.Each
	}
	if in.AgentID != nil {
		of(0, *in.AgentID)
	} else if failed := agents(l.Call, 0, func(place uint64, a *agent.State) bool {
		return of(place, a.AgentID())
	}); failed != nil {
		return nil, failed
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys, err
}

// Patch switches a webhook on or off. // spec: Webhook
func (s *Webhooks) Patch(c *rest.Call, in *api.WebhookPatch) (api.Webhook, error) {
	by, err := s.owner(c, webhook.ID(in.ID))
	if err == nil && in.Active && c.Caller.Scope != parley.ScopeOrg {
		var w *webhook.State
		if w, err = s.Node.Webhooks.Get(c.Context(), webhook.ID(in.ID), by); err == nil && !mayAsk(c, w.GetEvents()) {
			err = rest.ErrScope
		}
	}
	if err != nil {
		return api.Webhook{}, hookless(err)
	}
	changed, err := s.Node.Webhooks.Change(c.Context(), webhook.ID(in.ID), webhook.Toggle{By: by, Active: in.Active})
	if err != nil {
		return api.Webhook{}, hookless(err)
	}
	return view.Webhook(changed), nil
}

func (s *Webhooks) Delete(c *rest.Call, in *api.DeleteWebhook) (rest.NoContent, error) {
	by, err := s.owner(c, webhook.ID(in.ID))
	if err == nil {
		_, err = s.Node.Webhooks.Change(c.Context(), webhook.ID(in.ID), webhook.Delete{By: by})
	}
	return rest.NoContent{}, hookless(err)
}

// RotateSecret creates a new secret, which is returned only here. The former
// secret also signs for a day.
func (s *Webhooks) RotateSecret(c *rest.Call, in *api.RotateWebhookSecret) (api.WebhookSecret, error) {
	id, secret := webhook.ID(in.ID), egress.NewSecret(s.Entropy)
	by, err := s.owner(c, id)
	if err != nil {
		return api.WebhookSecret{}, err
	}
	changed, err := s.Node.Webhooks.Change(c.Context(), id, webhook.Rotate{By: by, SealedSecret: s.sealHook(id, secret)})
	if err != nil {
		return api.WebhookSecret{}, hookless(err)
	}
	return api.WebhookSecret{Webhook: view.Webhook(changed), Secret: secret}, nil
}

// owner returns the organization for which a caller reads or changes a webhook, or refuses one that
// is limited to other agents.
func (s *Webhooks) owner(c *rest.Call, id webhook.ID) (parley.OrgID, error) {
	if c.Caller.Only == nil {
		return c.Caller.Org, nil
	}
	w, err := s.Node.Webhooks.Get(c.Context(), id, c.Caller.Org)
	if err == nil && !c.Caller.Owns(c.Caller.Org, w.Watched()) {
		err = webhook.ErrUnknown
	}
	return c.Caller.Org, hookless(err)
}

// hookless makes an id that was never issued, and one of an erased organization, which nobody
// else may know of, indistinguishable from one of another organization.
func hookless(err error) error {
	if errors.Is(err, journal.ErrErased) || errors.Is(err, parley.ErrNotFound) && !errors.Is(err, webhook.ErrUnknownJob) {
		return webhook.ErrUnknown
	}
	return err
}
