package host

import (
	"parley"
	"parley/journal"
)

// A Meter counts what requests make the store hold against what their payers may use. It judges
// every request that has a payer and is no query.
type Meter interface {
	// Ready is called before the turn. It returns a Lacking if it is not known what the payer
	// used.
	Ready(e *journal.Entry, p *parley.Payer, request any) error
	// Take adds to the entry of the turn what it counts, or refuses the entry.
	Take(e *journal.Entry, p *parley.Payer, request any, stored []Stored) error
}

// Stored is how many more bytes an organization stores after a turn; fewer if it is negative.
type Stored struct {
	Org   parley.OrgID
	Bytes int64
}

// Store has an organization pay for bytes that the turn stores, or no longer pay if they are
// negative. It refuses nothing: the meter does, when the turn is over.
func (t *Turn[S, C, E]) Store(org parley.OrgID, bytes int64) {
	if bytes != 0 && t.Payer != nil {
		t.stored = append(t.stored, Stored{org, bytes})
	}
}

// handleMetered has the kind handle a request, and the meter judge what that adds. A refusal of the meter
// is a failure: nothing of the turn is stored, and because its state is changed already, the actor is
// loaded anew.
func (e *entity[S, C, E]) handleMetered(t *Turn[S, C, E], request any) (reply any, refusal, failure error) {
	meter := e.engine.Meter
	if t.Payer == nil {
		meter = nil
	}
	if meter != nil {
		if err := meter.Ready(t.Entry, t.Payer, request); err != nil {
			return nil, nil, err
		}
	}
	reply, err := e.kind.Handle(t, request)
	if err != nil && !parley.IsRefusal(err) {
		return nil, nil, err
	}
	if meter != nil && !t.empty() {
		failure = meter.Take(t.Entry, t.Payer, request, t.stored)
	}
	return reply, err, failure
}
