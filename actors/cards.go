package actors

import (
	"context"

	"google.golang.org/protobuf/proto"

	"parley/actors/agent"
	"parley/actors/host"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// PublishedCard is a card as it was stored, and its agent.
type PublishedCard struct {
	Agent *agent.State
	Card  *record.Card
}

// publishCard asks an agent's actor to publish a card.
type publishCard struct {
	agent.PublishCard
	Card *record.Card
}

// PublishCard publishes an agent's card, in place of any it had before. The instants and
// the number of the card are set here. The caller must not use the card afterwards; the
// one that is returned is its own. // spec: Agent cards
func (as *Agents) PublishCard(ctx context.Context, id parley.AgentID, c agent.PublishCard, card *record.Card) (PublishedCard, error) {
	return host.Ask[PublishedCard](ctx, as.engine, rules.AgentStream(id), card.SizeVT(), publishCard{c, card})
}

func (as *Agents) publishCard(t *agentTurn, r publishCard) (any, error) {
	if _, err := as.change(t, r.PublishCard); err != nil {
		return nil, err
	}
	now, card := proto.CloneOf(t.State), r.Card
	card.IsPublic, card.A2AEnabled = r.Public, r.A2AEnabled
	card.CreatedMs, card.UpdatedMs, card.Revision = now.GetCard().GetCreatedMs(), now.GetCard().GetUpdatedMs(), now.GetCardRevision()
	stored, err := card.MarshalVT()
	if err != nil {
		return nil, err
	}
	id := now.AgentID()
	if err := releaseCard(t, id, now.Owner()); err != nil {
		return nil, err
	}
	t.PutRow(journal.CardTable, id.Bytes(), stored)
	t.Store(now.Owner(), journal.RoundStored(len(stored)))
	return PublishedCard{now, card}, nil
}

// releaseCard has an agent's owner no longer pay for its card, which the turn deletes or replaces.
func releaseCard(t *agentTurn, id parley.AgentID, owner parley.OrgID) error {
	card, _, err := t.Row(journal.CardTable, id.Bytes())
	t.Store(owner, -journal.RoundStored(len(card)))
	return err
}
