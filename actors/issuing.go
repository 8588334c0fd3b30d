package actors

import (
	"context"

	"parley/actors/issuer"
	"parley/actors/rules"
	"parley/journal"
)

type issuerTurn = turn[*issuer.State, issuer.Command, issuer.Event]

// MintKey offers a signing key. It is taken if the current one is due to be
// replaced; the answer is what holds then.
func (n *Node) MintKey(_ context.Context, c issuer.Mint) (*issuer.State, error) {
	return question[*issuer.State](n, rules.SigningKeyStream, 0, c)
}

// SigningKeys are the platform's signing keys as they hold now.
func (n *Node) SigningKeys(context.Context) (*issuer.State, error) {
	return inquire[*issuer.State](n, rules.SigningKeyStream, lookAt{})
}

func (n *Node) issuerKind() *kind[*issuer.State, issuer.Command, issuer.Event] {
	return &kind[*issuer.State, issuer.Command, issuer.Event]{
		stream: journal.IssuerStream, rules: rules.Issuer, stateEvery: 1,
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
