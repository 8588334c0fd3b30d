// Package link carries what the nodes of a cluster tell each other, over gRPC with mutual
// TLS: messages, calls with their answers, and contents of any size. What they mean is not
// known here.
//
// Everything that waits to be sent to a peer at the same time leaves in one gRPC message. All
// frames are bytes, so no code is generated.
package link

import (
	"context"
	"errors"
	"io"
)

// Handler handles what peers send. Its methods are called from many goroutines.
type Handler interface {
	// Receive takes messages in the order in which the peer sent them. It must not block. An error
	// ends the stream, and the peer begins another one after a pause. Refuse, which may be called
	// later, ends it when the next batch arrives.
	Receive(from uint64, messages [][]byte, refuse func(error)) error
	// Answer answers a call. It is also called for nodes that are no members but have a
	// certificate of the cluster: the handler returns ErrNoMember unless it answers those too. An
	// ErrFrame ends the stream.
	Answer(ctx context.Context, from uint64, request []byte) ([]byte, error)
	// Take takes a content, and returns when it is done with it.
	Take(ctx context.Context, from uint64, header []byte, content io.Reader) error
}

var (
	// ErrFrame means that a peer sent something that cannot be read.
	ErrFrame = errors.New("link: a frame cannot be read")
	// ErrDamaged means that a message is not the one that its sender meant.
	ErrDamaged = errors.New("link: a message does not have its checksum")
	// ErrNoMember means that a node may not call this one, because it is no member.
	ErrNoMember = errors.New("the node is not a member of the cluster")
	// ErrUnreached means that a peer did not get a call.
	ErrUnreached = errors.New("the node cannot be reached")
	// ErrCut means that the connection ended after a call was sent: the peer may have
	// answered it.
	ErrCut = errors.New("the connection to the node ended before its answer came")
)
