package delivery

import (
	"context"
	"errors"

	"parley/actors/record"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// paused reports whether a webhook must not begin attempts because its organization is
// suspended. The webhook is woken when the suspension ends.
func (hooks *Webhooks) paused(s *webhook.State) (bool, error) {
	suspended, err := hooks.Suspended(s.Owner())
	if err != nil || !suspended {
		return false, err
	}
	// A resumption before it was parked did not wake it, so park checks again.
	return hooks.dispatch().parking.park(s.Owner(), s.Source(), func() (bool, error) { return hooks.Suspended(s.Owner()) })
}

// Suspended reports whether an organization is suspended; false if there is none.
func (hooks *Webhooks) Suspended(id parley.OrgID) (bool, error) {
	o, err := hooks.queries.Orgs.Get(context.Background(), id)
	if errors.Is(err, parley.ErrNotFound) {
		return false, nil
	}
	return hooks.Suspends(o), err
}

// Resume wakes the webhooks of an organization that its suspension has paused.
func (hooks *Webhooks) Resume(id parley.OrgID) {
	d := hooks.dispatch()
	for _, agent := range d.parking.unpark(id) {
		d.look(agent)
	}
}

// Forget drops webhooks whose organization was erased. Attempts that have not begun are not
// made.
func (hooks *Webhooks) Forget(gone map[webhook.ID]parley.AgentID) {
	d := hooks.dispatch()
	d.registry.touchAll(gone)
	sources := map[webhook.ID]parley.AnyID{}
	for _, source := range d.registry.all() {
		for _, id := range d.registry.of(source) {
			if _, erased := gone[id]; erased {
				sources[id] = source
			}
		}
	}
	for id, source := range sources {
		d.setFilter(source, id, record.EventFilter{})
		hooks.Courier.Drop(id)
	}
}

// erasedError is the error of an attempt at a delivery about something that was erased.
const erasedError = "What the event is about was erased."

// aboutErased reports whether the message, the conversation or the group of a delivery was
// erased with its organization.
func (hooks *Webhooks) aboutErased(x *Delivery) (bool, error) {
	var err error
	switch {
	case !x.Message.Zero():
		if hooks.opens(x.Agent, x.Message) {
			return false, nil
		}
		_, err = hooks.queries.Messages.GetRecord(context.Background(), x.Agent.Slot(), x.Message)
	case !x.Group.Zero():
		err = hooks.queries.Groups.Exists(context.Background(), x.Group)
	case !x.Conversation.Zero():
		_, err = hooks.queries.Messages.Conversation(context.Background(), x.Conversation)
	}
	if errors.Is(err, journal.ErrErased) {
		return true, nil
	}
	if parley.IsRefusal(err) && !errors.Is(err, parley.ErrOverloaded) { // the courier knows what to do
		err = nil
	}
	return false, err
}

// opens reports whether the record of a message is stored at the home of its recipient and
// can be opened. It waits for nothing: the job about the message is durable, and so is the
// message.
func (hooks *Webhooks) opens(to parley.AgentID, id parley.MessageID) (found bool) {
	v := hooks.journal.Latest()
	defer v.Close()
	_, err := v.Message(to.Slot(), id, func([]byte) error {
		found = true
		return nil
	})
	return found && err == nil
}
