package query

import (
	"context"
	"errors"
	"time"

	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// ErrNoCard is returned for an agent that has no card.
var ErrNoCard = parley.ErrNotFound.Saying("The agent has no card.")

// Card returns an agent's card; ErrNoCard if it has none. A revoked agent has none.
func (q *Agents) Card(ctx context.Context, id parley.AgentID) (card *record.Card, err error) {
	err = q.row(ctx, func(v journal.View) error {
		value, found, err := v.Row(id.Slot(), journal.CardTable, id[:])
		if err != nil {
			return err
		}
		if !found {
			return ErrNoCard
		}
		card = &record.Card{}
		return card.UnmarshalVT(value)
	})
	return card, err
}

// Changes returns a number that is another one once the answer to a change of an agent, an
// organization or a card is out.
func (q *Agents) Changes() uint64 { return q.lookups.changes.Load() }

// LastActive returns the hour in which an agent last sent a message; zero if it has not.
// It is also zero if the agent has sent nothing since servers record the hour.
// // spec: Directory and discovery (all public, no auth)
func (q *Agents) LastActive(ctx context.Context, id parley.AgentID) (at time.Time, err error) {
	err = q.row(ctx, func(v journal.View) error {
		value, found, err := v.Row(id.Slot(), journal.ActivityTable, id[:])
		if found && err == nil {
			at, _ = record.HourOf(value)
		}
		return err
	})
	return at, err
}

// EachCard calls fn with every card, those that are not public included, in no order,
// until fn returns false. If it returns an error, the cards that fn got must not be
// shown.
func (q *Agents) EachCard(ctx context.Context, fn func(parley.AgentID, *record.Card) bool) error {
	return q.view(ctx, func(v journal.View) error {
		var bad error
		scan := v.Table(journal.CardTable, func(key, value []byte) bool {
			card := &record.Card{}
			if bad = card.UnmarshalVT(value); bad != nil {
				return false
			}
			return fn(parley.IDFromBytes[parley.AgentID](key), card)
		})
		return errors.Join(scan, bad)
	})
}
