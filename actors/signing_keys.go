package actors

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"parley/actors/host"
	"parley/actors/issuer"
	"parley/actors/rules"
	"parley/journal"
)

type issuerTurn = host.Turn[*issuer.State, issuer.Command, issuer.Event]

// Mint offers a signing key. The issuer accepts it if the current key is due for
// replacement. Mint returns the keys in force afterwards.
func (ks *Keys) Mint(ctx context.Context, c issuer.Mint) (*issuer.State, error) {
	return host.Ask[*issuer.State](ctx, ks.engine, ks.stream, 0, c)
}

// Current returns the signing keys in force.
func (ks *Keys) Current(context.Context) (*issuer.State, error) {
	return host.Query[*issuer.State](ks.engine, ks.stream, host.GetState{})
}

// Minted returns every key that was ever accepted, oldest first, former ones that are no
// longer in force included.
func (ks *Keys) Minted(ctx context.Context) (all []*issuer.Minted, err error) {
	err = journal.Durably(ctx, ks.journal.View(), func(v journal.View) error {
		var bad error
		scan := v.Events(ks.stream, 1, false, func(_ uint64, _ int64, stored journal.StoredEvent) bool {
			var e issuer.Event
			if e, bad = rules.Issuer.Decode(stored); bad != nil {
				return false
			}
			switch e := e.(type) {
			case *issuer.Minted:
				all = append(all, e)
			}
			return true
		})
		return errors.Join(scan, bad)
	})
	return all, err
}

// Observe calls changed when a key was accepted or retired, here or on another node, and when
// that may have happened. It must not block. Who passes a fence after that finds it called.
func (ks *Keys) Observe(changed func()) {
	ks.journal.Observe(journal.Observer{
		Streams: []journal.StreamKind{journal.IssuerStream}, Replaced: changed,
		Changed: func(c journal.Change) {
			if c.Stream == ks.stream {
				changed()
			}
		},
	})
}

func (ks *Keys) kind() *host.Kind[*issuer.State, issuer.Command, issuer.Event] {
	return &host.Kind[*issuer.State, issuer.Command, issuer.Event]{
		Stream: journal.IssuerStream, Rules: rules.Issuer, StateEvery: 1,
		Blank: func() *issuer.State { return &issuer.State{} },
		Handle: func(t *issuerTurn, request any) (any, error) {
			switch r := request.(type) {
			case host.GetState:
			case issuer.Mint:
				if err := t.Decide(r); err != nil {
					return nil, err
				}
			default:
				panic("issuer: unknown request")
			}
			return proto.CloneOf(t.State), nil
		},
	}
}
