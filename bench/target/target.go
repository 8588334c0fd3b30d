// Package target runs systems under test as processes: Parley's own binary on
// a directory of its own, a server that is there already, and peers that do
// comparable work.
package target

import (
	"context"
	"errors"
)

// Kind is how a target is spoken to.
type Kind string

const (
	// Parley is the whole interface of the product.
	Parley Kind = "parley"
	// Plain takes the same send and gives the same inbox page under one token,
	// and nothing else.
	Plain Kind = "plain"
	// NATS speaks its own text protocol.
	NATS Kind = "nats"
)

// Door is how to reach a target that is ready.
type Door struct {
	// Address is host:port.
	Address string
	// Token is a bearer token; empty for Parley, where one registers.
	Token string
	Kind  Kind
	// Admin is host:port of the operator's door; empty where it is not known.
	Admin string
	// AdminToken is what operator calls there need.
	AdminToken string
	// Version is what the target says of itself; it may be empty.
	Version string
}

// Target is a system under test. Its methods are called from one goroutine.
type Target interface {
	// Name is what reports call it.
	Name() string
	// Start makes it ready, on the directory it had before if there is one.
	Start(ctx context.Context) (Door, error)
	// Processes are the roots of the process trees that are its cost; none where
	// they cannot be seen.
	Processes() []int
	// Kill ends it with SIGKILL. Start afterwards is a restart.
	Kill() error
	// Stop ends it in order. What was not started is stopped already.
	Stop() error
}

// ErrNotOurs says that a target cannot be killed because it was not started
// here.
var ErrNotOurs = errors.New("the server was not started by the bench and is not the bench's to kill")
