package actors

import (
	"context"

	"google.golang.org/protobuf/proto"

	"parley/actors/host"
	"parley/actors/operator"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

type operatorTurn = host.Turn[*operator.State, operator.Command, operator.Event]

// Operators keeps the tokens of operators, and those to register with.
type Operators struct{ *core }

// Tokens returns the tokens. The answer reflects every change that was acknowledged before.
func (os *Operators) Tokens(context.Context) (*operator.State, error) {
	return host.Query[*operator.State](os.engine, rules.OperatorStream, host.GetState{})
}

// AddToken adds a token of an operator, to which it gives an id.
func (os *Operators) AddToken(ctx context.Context, c operator.AddToken) (*operator.State, error) {
	c.ID = newOperatorID[parley.OperatorID](os.core)
	return host.Ask[*operator.State](ctx, os.engine, rules.OperatorStream, 0, c)
}

// AddRegistration adds a registration token, to which it gives an id.
func (os *Operators) AddRegistration(ctx context.Context, c operator.AddRegistration) (*operator.State, error) {
	c.ID = newOperatorID[parley.RegistrationID](os.core)
	return host.Ask[*operator.State](ctx, os.engine, rules.OperatorStream, 0, c)
}

// RevokeToken ends a token of an operator.
func (os *Operators) RevokeToken(ctx context.Context, name string) error {
	_, err := host.Ask[*operator.State](ctx, os.engine, rules.OperatorStream, 0, operator.RevokeToken{Name: name})
	return err
}

// RevokeRegistration ends a registration token.
func (os *Operators) RevokeRegistration(ctx context.Context, id parley.RegistrationID) error {
	_, err := host.Ask[*operator.State](ctx, os.engine, rules.OperatorStream, 0, operator.RevokeRegistration{ID: id})
	return err
}

// use takes one use of the registration token with a hash.
func (os *Operators) use(ctx context.Context, hash []byte) (*operator.Registration, error) {
	return host.Ask[*operator.Registration](ctx, os.engine, rules.OperatorStream, 0, operator.UseRegistration{Hash: hash})
}

// giveBack returns a use that certainly admitted nobody. If it fails, the use is lost.
func (os *Operators) giveBack(ctx context.Context, r *operator.Registration) {
	id := parley.IDFromBytes[parley.RegistrationID](r.GetId())
	if _, err := host.Ask[*operator.State](ctx, os.engine, rules.OperatorStream, 0, operator.ReturnRegistration{ID: id}); err != nil {
		os.logger.Warn("a registration token has lost a use to a registration that failed", "registration_id", id, "error", err)
	}
}

func newOperatorID[I ~[16]byte](c *core) I {
	return parley.NewID[I](rules.OperatorStream.Slot(), c.clock(), c.entropy())
}

func (os *Operators) kind() *host.Kind[*operator.State, operator.Command, operator.Event] {
	return &host.Kind[*operator.State, operator.Command, operator.Event]{
		Stream: journal.OperatorStream, Rules: rules.Operator, StateEvery: 1,
		// A use of a registration token must not cost a copy of all of them.
		Weight: func(s *operator.State) uint64 { return uint64(len(s.GetRegistrations())) / 8 },
		Blank:  func() *operator.State { return &operator.State{} },
		Handle: func(t *operatorTurn, request any) (any, error) {
			switch r := request.(type) {
			case host.GetState:
			case operator.UseRegistration:
				found := t.State.Registration(r.Hash, t.Now)
				if err := t.Decide(r); err != nil {
					return nil, err
				}
				return proto.CloneOf(found), nil
			case operator.Command:
				if err := t.Decide(r); err != nil {
					return nil, err
				}
			default:
				panic("operator: unknown request")
			}
			return proto.CloneOf(t.State), nil
		},
	}
}
