// Package export reads everything that belongs to an organization, for its export.
package export

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"parley/actors/agent"
	"parley/actors/encoding"
	"parley/actors/group"
	"parley/actors/org"
	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// Export reads everything that belongs to one organization as it is at one instant in all
// homes: nothing that it shows is without its cause, because what happens in one home
// because of another is applied after it. What was erased, and what belongs to an
// organization that was, is left out.
//
// Its methods call visit in the order of ids. They keep no more than ids in memory, at
// most as many as Bytes allows, and read again for the next ones.
// // spec: Export record types
type Export struct {
	scope
	at       time.Time
	messages *query.Messages
	record   record.Message // the last message that was read
}

// idBytes is how many bytes one remembered id takes at most, and innerIDs how
// many ids a list within a list remembers.
const (
	idBytes  = 32
	innerIDs = 1 << 15
	ownMax   = 1 << 15
)

// Bytes is how many bytes an export should be allowed for ids. With less it reads
// more often.
const Bytes = 16 << 20

// Options of an export.
type Options struct {
	Journal  journal.Reader
	Messages *query.Messages
	Clock    parley.Clock
}

// Open begins to read an organization. capacity is how many bytes it may take. The caller
// closes the export. Everything that the export shows is durable.
func Open(ctx context.Context, o Options, id parley.OrgID, capacity int) (*Export, error) {
	x := &Export{
		scope: scope{
			view: o.Journal.View(), org: id, ctx: ctx, capacity: max(capacity/idBytes, 64), state: &org.State{}, own: map[parley.AgentID]bool{},
		},
		messages: o.Messages, at: o.Clock(),
	}
	err := x.Readable()
	if err == nil {
		err = x.view.Durable(ctx)
	}
	if err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// Close ends the export.
func (x *Export) Close() { x.view.Close() }

// At is the instant that the export shows.
func (x *Export) At() time.Time { return x.at }

// Org returns the organization.
func (x *Export) Org() *org.State { return x.state }

// Registration returns the event that the organization began with.
func (x *Export) Registration() (first *org.Registered, err error) {
	first = &org.Registered{}
	var bad error
	err = x.view.Events(rules.OrgStream(x.org), 1, false, func(_ uint64, _ int64, f journal.StoredEvent) bool {
		var e org.Event
		if e, bad = rules.Org.Decode(f); bad == nil {
			if registered, ok := e.(*org.Registered); ok {
				first = registered
			}
		}
		return false
	})
	return first, errors.Join(err, bad)
}

// Agent is an agent with its card, nil if it has none, and the hour in which it last sent,
// zero if it has not.
type Agent struct {
	*agent.State
	Card       *record.Card
	LastActive time.Time
}

// Agents visits the organization's agents, revoked ones too.
func (x *Export) Agents(visit func(Agent) error) error {
	list := func(add func(parley.AnyID)) error {
		return x.eachAgent(func(id parley.AgentID) error { add(parley.AnyID(id)); return nil })
	}
	return x.ascendIDs(list, func(id parley.AnyID) error {
		a, err := x.agent(parley.AgentID(id))
		if a == nil || err != nil {
			return err
		}
		shown := Agent{State: a}
		card, found, err := x.view.Row(id.Slot(), journal.CardTable, id[:])
		if err == nil && found {
			shown.Card = &record.Card{}
			err = shown.Card.UnmarshalVT(card)
		}
		if err != nil {
			return err
		}
		hour, _, err := x.view.Row(id.Slot(), journal.ActivityTable, id[:])
		if err != nil {
			return err
		}
		shown.LastActive, _ = record.HourOf(hour)
		return visit(shown)
	})
}

// SigningKeys visits the Ed25519 keys of all agents, former ones too, in the order of
// their RFC 7638 thumbprints.
func (x *Export) SigningKeys(visit func(a *agent.State, kid string, key agent.Key) error) error {
	type place struct {
		kid   string
		agent parley.AgentID
	}
	compare := func(a, b place) int {
		if a.kid != b.kid {
			return bytes.Compare([]byte(a.kid), []byte(b.kid))
		}
		return bytes.Compare(a.agent[:], b.agent[:])
	}
	list := func(add func(place)) error {
		return x.eachAgent(func(id parley.AgentID) error {
			a, err := x.agent(id)
			if a == nil || err != nil {
				return err
			}
			add(place{parley.Thumbprint(parley.Ed25519, a.GetSigningKey()), id})
			for _, k := range a.GetFormerKeys() {
				if k.Curve == parley.Ed25519 {
					add(place{parley.Thumbprint(parley.Ed25519, k.Raw), id})
				}
			}
			return nil
		})
	}
	return ascend(max(x.capacity/4, 16), compare, list, func(p place) error {
		a, err := x.agent(p.agent)
		if a == nil || err != nil {
			return err
		}
		key, _ := a.KeyByKid(p.kid)
		return visit(a, p.kid, key)
	})
}

// Webhooks visits the webhooks of the organization's agents.
func (x *Export) Webhooks(visit func(*webhook.State) error) error {
	list := func(add func(parley.AnyID)) error {
		return x.eachAgent(func(id parley.AgentID) error {
			return x.view.Rows(id.Slot(), journal.WebhookTable, id[:], nil, false, func(key, value []byte) bool {
				if record.DecodeEventFilter(value).Task.Zero() {
					add(parley.IDFromBytes[parley.AnyID](key[16:]))
				}
				return true
			})
		})
	}
	return x.ascendIDs(list, func(id parley.AnyID) error {
		s := &webhook.State{}
		_, _, err := rules.Webhook.Load(rules.StoredIn(x.view), rules.WebhookStream(webhook.ID(id)), s)
		if err != nil || !s.Exists() || s.Deleted() {
			return unlessErased(err)
		}
		return visit(s)
	})
}

// Groups visits the groups that the organization owns, deleted ones too.
func (x *Export) Groups(visit func(*group.State) error) error {
	return x.ascendIDs(x.ownedGroups, func(id parley.AnyID) error {
		g, err := x.group(parley.GroupID(id))
		if g == nil || err != nil {
			return err
		}
		return visit(g)
	})
}

// Memberships visits the members of the organization's groups, and the organization's
// agents in the groups of others.
func (x *Export) Memberships(visit func(*group.State, group.Member) error) error {
	return x.groupsOfInterest(x.capacity, func(g *group.State, owned bool) error {
		if g.Deleted() {
			return nil
		}
		members := slices.Clone(g.Members())
		slices.SortFunc(members, func(a, b group.Member) int { return compareIDs(a.ID(g.ID), b.ID(g.ID)) })
		for _, m := range members {
			if owned || m.Org == x.org {
				if err := visit(g, m); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Requests visits the join requests, live and settled, of the organization's groups and
// of its agents.
func (x *Export) Requests(visit func(*group.State, *group.Request) error) error {
	type place [32]byte // request, group
	shown := func(r *group.Request, owned bool) bool {
		return owned || parley.IDFromBytes[parley.OrgID](r.GetOrg()) == x.org
	}
	list := func(add func(place)) error {
		return x.groupsOfInterest(innerIDs, func(g *group.State, owned bool) error {
			put := func(r *group.Request) {
				if shown(r, owned) {
					add(place(slices.Concat(r.GetId(), g.ID[:])))
				}
			}
			for _, r := range g.Requests() {
				put(r)
			}
			return x.settled(g.ID, put)
		})
	}
	var last *group.State
	return ascend(x.capacity, func(a, b place) int { return bytes.Compare(a[:], b[:]) }, list, func(p place) error {
		id, of := parley.JoinRequestID(p[:16]), parley.GroupID(p[16:])
		if last == nil || last.ID != of {
			g, err := x.group(of)
			if g == nil || err != nil {
				return err
			}
			last = g
		}
		if r := last.Request(id); r != nil {
			return visit(last, r)
		}
		value, found, err := x.view.Row(of.Slot(), journal.RequestTable, append(of.Bytes(), id[:]...))
		if err != nil || !found {
			return err
		}
		r := &group.Request{}
		if err := encoding.Unmarshal(value, r); err != nil {
			return err
		}
		return visit(last, r)
	})
}
