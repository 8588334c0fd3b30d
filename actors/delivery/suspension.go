package delivery

import (
	"context"
	"errors"

	"parley"
	"parley/actors/webhook"
)

// paused reports whether a webhook is to begin nothing, because its organization
// is suspended. It is woken when that is over.
func (hooks *Webhooks) paused(s *webhook.State) (bool, error) {
	suspended, err := hooks.Suspended(s.Owner())
	if err != nil || !suspended {
		return false, err
	}
	// Who resumed it before it was parked did not wake it.
	return hooks.dispatch.park(s.Owner(), s.Watched(), func() (bool, error) { return hooks.Suspended(s.Owner()) })
}

func (hooks *Webhooks) Suspended(id parley.OrgID) (bool, error) {
	o, err := hooks.queries.Orgs.Get(context.Background(), id)
	if errors.Is(err, parley.ErrNotFound) {
		return false, nil
	}
	return hooks.Suspends(o), err
}

// Suspend takes back the deliveries of an agent's webhooks that have not begun.
func (hooks *Webhooks) Suspend(agent parley.AgentID) {
	for _, id := range hooks.dispatch.webhooksOf(agent) {
		hooks.Courier.Drop(id)
	}
}

// Resume has the webhooks of an organization go on that its suspension has stopped.
func (hooks *Webhooks) Resume(id parley.OrgID) { hooks.dispatch.unpark(id) }
