// Package target runs systems under test as processes: Parley's own binary on its own
// directory, a server that already runs, and peers that do comparable work.
package target

import (
	"context"
	"errors"
)

// Kind is the protocol of a target.
type Kind string

const (
	// Parley is the complete interface of the product.
	Parley Kind = "parley"
	// Plain supports only the same send and the same inbox page, with one token.
	Plain Kind = "plain"
	// NATS is the NATS text protocol.
	NATS Kind = "nats"
)

// Endpoint holds the addresses and tokens of a target that is ready.
type Endpoint struct {
	// Address is host:port.
	Address string
	// Token is a bearer token; empty for Parley, where the bench registers.
	Token string
	Kind  Kind
	// Nodes are the addresses of the nodes behind Address, each host:port; empty if there
	// is no balancer.
	Nodes []string
	// Admin is host:port of the operator's interface; empty if it is not known.
	Admin string
	// AdminToken is the token for operator calls at Admin.
	AdminToken string
	// Version is the version that the target reports; it may be empty.
	Version string
}

// Target is a system under test. Its methods are called from one goroutine.
type Target interface {
	// Name returns the target's name in reports.
	Name() string
	// Start starts the target, on its former directory if there is one, and waits until
	// it is ready.
	Start(ctx context.Context) (Endpoint, error)
	// Processes returns the roots of the process trees that count as the target's cost;
	// none if they cannot be observed.
	Processes() []int
	// Kill ends the target with SIGKILL. A later Start is a restart.
	Kill() error
	// Stop stops the target in an orderly way. It does nothing if the target was not
	// started.
	Stop() error
}

// ErrNotOurs is returned if a target cannot be killed because the bench did not start it.
var ErrNotOurs = errors.New("the server was not started by the bench and is not the bench's to kill")
