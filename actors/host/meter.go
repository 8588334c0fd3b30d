package host

import (
	"parley/client/parley"
	"parley/journal"
)

// A Meter counts what requests make the store hold against what their payers may use. It judges
// every request that has a payer and is no query.
type Meter interface {
	// Ready is called before the turn. It returns a Lacking if it is not known what the payer
	// used.
	Ready(e *journal.Entry, p *parley.Payer, request any) error
	// Take adds to the entry of the turn what it counts. Or it returns a refusal, and the entries on
	// which that depends.
	Take(m Metered) (rests []*Pending, err error)
}

// Metered is a turn that a Meter judges.
type Metered struct {
	Entry   *journal.Entry
	Payer   *parley.Payer
	Request any
	// Accepted: the rules did not refuse the request. What they refused counts as no change, though
	// the turn may store something.
	Accepted bool
	Stored   []Stored
	// Turn has the entry, for later refusals to depend on.
	Turn interface{ Pending() *Pending }
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

// handleMetered has the kind handle a request, and the meter judge what that adds. Of a turn that the
// meter refuses nothing is stored, and it is spoiled.
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
	if meter == nil || !t.adds() {
		return reply, err, nil
	}
	rests, over := meter.Take(Metered{t.Entry, t.Payer, request, err == nil, t.stored, t})
	if over == nil {
		return reply, err, nil
	}
	t.spoiled = true
	if !parley.IsRefusal(over) {
		return nil, nil, over
	}
	t.Entry, t.afterJournal = &journal.Entry{At: t.Entry.At}, false
	t.DependOn(rests)
	return nil, over, nil
}
