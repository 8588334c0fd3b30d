package parley

import "context"

// Operator is who operates the server and makes the call that a request serves.
type Operator struct {
	// ID names the operator's token. It is zero for the token of the data directory.
	ID OperatorID
	// Reason says why the call is made, nil if the operator did not say.
	Reason *string
}

type operatorKey struct{}

// WithOperator returns a context for the requests of an operator's call.
func WithOperator(ctx context.Context, o *Operator) context.Context {
	return context.WithValue(ctx, operatorKey{}, o)
}

// OperatorOf returns the operator whose call a context belongs to, nil if it is none's.
func OperatorOf(ctx context.Context) *Operator {
	o, _ := ctx.Value(operatorKey{}).(*Operator)
	return o
}
