package actors

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"parley/actors/agent"
	"parley/actors/delivery"
	"parley/actors/group"
	"parley/actors/host"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

type agentTurn = host.Turn[*agent.State, agent.Command, agent.Event]

// Change alters an agent: agent.Change, RotateKeys, BindKeys, RetireKey,
// SetPQKey, RemovePQKey, IssuePollToken, RevokePollToken, WithdrawCard or Revoke. // spec: Agents
func (as *Agents) Change(ctx context.Context, id parley.AgentID, c agent.Command) (*agent.State, error) {
	request, err := as.logged(ctx, id, c)
	if err != nil {
		return nil, err
	}
	return host.Ask[*agent.State](ctx, as.engine, rules.AgentStream(id), 0, request)
}

// awaitLoss waits until a group has removed an agent, or the wait times out.
func (as *Agents) awaitLoss(id parley.GroupID, of parley.AgentID) {
	_, _ = host.Await(as.engine, rules.GroupStream(id), group.GetView{Agents: []parley.AgentID{of}}, func(v group.View) bool {
		return !v.Agents[0].Seated() || v.Deleted()
	})
}

func (as *Agents) kind() *host.Kind[*agent.State, agent.Command, agent.Event] {
	return &host.Kind[*agent.State, agent.Command, agent.Event]{
		Stream: journal.AgentStream, Rules: rules.Agent, StateEvery: 1,
		Blank: func() *agent.State { return &agent.State{} },
		Handle: func(t *agentTurn, request any) (any, error) {
			switch r := request.(type) {
			case DirectSend:
				return as.messages.send(t, &r)
			case TaskClaim:
				return as.messages.claimTask(t, &r)
			case releaseTask:
				return as.messages.releaseTask(t, &r)
			case delivery.CreateWebhook:
				return as.webhooks.CreateFor(t, r)
			case host.GetState:
				return proto.CloneOf(t.State), nil
			case loggedChange:
				return as.changeLogged(t, r)
			case publishCard:
				return as.publishCard(t, r)
			case storeKeyPackages:
				return as.storeKeyPackages(t, r)
			case claimKeyPackage:
				return as.claimKeyPackage(t, r)
			case agent.Command:
				return as.change(t, r)
			}
			panic("agent: unknown request")
		},
		HandleQueued: as.handleQueued,
	}
}

// handleQueued handles messages from groups: offers of a seat, which it answers, ended
// memberships, and new and settled requests about the agent.
func (as *Agents) handleQueued(t *agentTurn, m *record.SagaMessage) error {
	id := parley.IDFromBytes[parley.GroupID](m.GetGroup())
	self := parley.AgentID(t.Entry.Stream.ID)
	concern := append(self.Bytes(), m.GetRequest()...)
	switch m.GetKind() {
	case record.SagaMessage_offer:
		answer := &record.SagaMessage{Kind: record.SagaMessage_answer, Group: m.GetGroup(), Agent: self.Bytes(), Number: m.GetNumber()}
		err := t.Decide(agent.Enter{Group: id, Offer: m.GetNumber(), Isolated: m.GetIsolated()})
		switch {
		case errors.Is(err, agent.ErrIsolationConflict):
			answer.Reason = group.ReasonIsolation
		case parley.IsRefusal(err):
			answer.Reason = group.ReasonRevoked
		case err != nil:
			return err
		}
		t.Enqueue(rules.GroupStream(id), answer)
	case record.SagaMessage_depart:
		if err := t.Decide(agent.Depart{Group: id, Offer: m.GetNumber()}); err != nil {
			return host.IgnoreRefusal(err)
		}
	case record.SagaMessage_concern:
		if t.State.Revoked() {
			t.Enqueue(rules.GroupStream(id), &record.SagaMessage{Kind: record.SagaMessage_forget, Agent: self.Bytes()})
			return nil
		}
		t.PutRow(journal.ConcernTable, concern, m.GetGroup())
	case record.SagaMessage_settled:
		t.DeleteRow(journal.ConcernTable, concern)
	}
	return nil
}

// leaveGroups notifies the groups that an agent is in, and those with a request about it,
// that the agent was revoked.
func (as *Agents) leaveGroups(t *agentTurn, self parley.AgentID, in []*agent.Membership) error {
	concerned := map[parley.GroupID]bool{}
	for _, m := range in {
		concerned[m.GroupID()] = true
	}
	err := t.Rows(journal.ConcernTable, self[:], func(_, value []byte) {
		concerned[parley.IDFromBytes[parley.GroupID](value)] = true
	})
	for id := range concerned {
		t.Enqueue(rules.GroupStream(id), &record.SagaMessage{Kind: record.SagaMessage_forget, Agent: self.Bytes()})
	}
	return err
}

func (as *Agents) change(t *agentTurn, c agent.Command) (any, error) {
	before, groups, card := len(t.Entry.Events), t.State.GetGroups(), t.State.GetCard()
	packages := t.State.HasKeyPackages()
	if err := t.Decide(c); err != nil {
		return nil, err
	}
	now := proto.CloneOf(t.State)
	if len(t.Entry.Events) == before {
		return now, nil
	}
	id := now.AgentID()
	if packages && !now.HasKeyPackages() { // the key that signed them is not the agent's any more
		if err := dropKeyPackages(t, id); err != nil {
			return nil, err
		}
	}
	if logged, ok := c.(agent.Logged); ok {
		c = logged.Command
	}
	switch c := c.(type) {
	case agent.IssuePollToken:
		t.AddEffects(pollTokenRow(id, c.Hash))
	case agent.Revoke:
		t.AddEffects(journal.EnqueueFor{To: rules.OrgStream(now.Owner()), Data: append([]byte{record.Retired}, id[:]...)})
		if err := as.leaveGroups(t, id, groups); err != nil {
			return nil, err
		}
		if err := as.webhooks.Retire(t, id); err != nil {
			return nil, err
		}
		if card != nil {
			if err := releaseCard(t, id, now.Owner()); err != nil {
				return nil, err
			}
			t.DeleteRow(journal.CardTable, id.Bytes())
		}
		t.DeleteRow(journal.ActivityTable, id.Bytes())
	case agent.WithdrawCard:
		if err := releaseCard(t, id, now.Owner()); err != nil {
			return nil, err
		}
		t.DeleteRow(journal.CardTable, id.Bytes())
	case agent.BindKeys, agent.RetireKey, agent.Change, agent.Create, agent.Depart, agent.Enter, agent.RevokePollToken, agent.Send, agent.PublishCard, agent.SetPQKey, agent.RemovePQKey, agent.RotateKeys, agent.SetBlock, agent.EndBlock, agent.Logged, agent.StoreKeyPackages, agent.ClaimKeyPackage: // no effect on other actors
	}
	if _, revoked := c.(agent.Revoke); revoked {
		return as.leftGroups(now, groups), nil
	}
	return now, nil
}

// leftGroups is the reply of a turn that revoked an agent: its state, once its groups have removed it,
// or when the wait times out.
func (as *Agents) leftGroups(now *agent.State, in []*agent.Membership) *host.Unfinished {
	ids := make([]parley.GroupID, 0, len(in))
	for _, m := range in {
		ids = append(ids, m.GroupID())
	}
	return &host.Unfinished{Finish: func() (any, error) {
		awaitAll(ids, func(id parley.GroupID) { as.awaitLoss(id, now.AgentID()) })
		return now, nil
	}}
}
