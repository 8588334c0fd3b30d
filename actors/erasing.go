package actors

import (
	"context"
	"errors"
	"time"

	"parley/actors/erasure"
	"parley/actors/group"
	"parley/actors/host"
	"parley/actors/org"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// beginErasure begins the erasure of an organization. Row says so where it can be read
// without the organization's key.
type beginErasure struct{ Row []byte }

func (orgs *Orgs) beginErasure(t *orgTurn, r beginErasure) (any, error) {
	if err := t.Decide(org.Erase{}); err != nil {
		return nil, err
	}
	if len(t.Events) > 0 {
		t.PutOwnedRow(journal.ErasureTable, t.State.GetId(), r.Row, journal.Owners{})
		id := t.State.OrgID()
		t.OnDurable(func() { orgs.erasures.Begin(id) })
	}
	return nil, nil
}

// erasureHost is a node for the package erasure.
type erasureHost struct{ *core }

func newErasures(c *core) *erasure.Erasures {
	return erasure.New(erasure.Options{Journal: c.journal, Clock: c.clock, Logger: c.logger, Host: erasureHost{c}, Elsewhere: c.elsewhere})
}

// Begin implements erasure.Host.
func (h erasureHost) Begin(id parley.OrgID, row []byte) error {
	_, err := host.Ask[any](context.Background(), h.engine, rules.OrgStream(id), len(row), beginErasure{row})
	return err
}

// GroupExists implements erasure.Host.
func (h erasureHost) GroupExists(id parley.GroupID) (bool, error) {
	v, err := host.Query[group.View](h.engine, rules.GroupStream(id), group.GetView{})
	if errors.Is(err, group.ErrUnknown) {
		return false, nil
	}
	return err == nil && !v.Deleted(), err
}

// AwaitLoss implements erasure.Host.
func (h erasureHost) AwaitLoss(id parley.GroupID, of parley.AgentID) { h.agents.awaitLoss(id, of) }

// DestroyKey implements erasure.Host.
func (h erasureHost) DestroyKey(id parley.OrgID, at time.Time) error {
	if h.destroyKey == nil {
		return errNoKeys
	}
	return h.destroyKey(id, at)
}

var errNoKeys = errors.New("actors: the node cannot destroy keys")

// Forget implements erasure.Host.
func (h erasureHost) Forget(id parley.OrgID, agents []parley.AgentID) {
	h.queries.ForgetErased(id, agents)
	if told := h.erased.Load(); told != nil {
		(*told)(id)
	}
}

// Drop implements erasure.Host.
func (h erasureHost) Drop(s journal.Stream) { h.engine.Drop(s) }

// ForgetWebhooks implements erasure.Host.
func (h erasureHost) ForgetWebhooks(gone map[webhook.ID]parley.AgentID) { h.webhooks.Forget(gone) }
