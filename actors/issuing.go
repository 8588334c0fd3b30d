package actors

import (
	"context"

	"parley"
	"parley/actors/issuer"
	"parley/journal"
)

// SigningKeyStream is the one stream of the platform's signing keys. Its state is
// stored with each event.
var SigningKeyStream = journal.Stream{Kind: journal.IssuerStream, ID: parley.AnyID{6: 0x70, 8: 0x80, 15: 1}}

type issuerTurn = turn[*issuer.State, issuer.Command, issuer.Event]

// MintKey offers a signing key. It is taken if the current one is due to be
// replaced; the answer is what holds then.
func (n *Node) MintKey(_ context.Context, c issuer.Mint) (*issuer.State, error) {
	return question[*issuer.State](n, SigningKeyStream, 0, c)
}

// SigningKeys are the platform's signing keys as they hold now.
func (n *Node) SigningKeys(context.Context) (*issuer.State, error) {
	return inquire[*issuer.State](n, SigningKeyStream, lookAt{})
}

func (n *Node) issuerKind() *kind[*issuer.State, issuer.Command, issuer.Event] {
	return &kind[*issuer.State, issuer.Command, issuer.Event]{
		stream: journal.IssuerStream, rules: issuerRules, stateEvery: 1,
		blank: func() *issuer.State { return &issuer.State{} },
		handle: func(t *issuerTurn, request any) (any, error) {
			switch r := request.(type) {
			case lookAt:
			case issuer.Mint:
				if err := t.decide(r); err != nil {
					return nil, err
				}
			default:
				panic("issuer: unknown request")
			}
			return cloned(t.state, &issuer.State{}), nil
		},
	}
}
