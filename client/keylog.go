package client

import (
	"context"
	"errors"

	"parley/client/api"
)

// KeyLog makes the calls about the server's log of agents' keys. No credentials are needed
// for them. Package keylog verifies the answers.
type KeyLog struct{ s *Session }

// Get returns the key that signs checkpoints of the log.
func (l KeyLog) Get(ctx context.Context) (*api.KeyLog, error) {
	return fetch[api.KeyLog](ctx, l.s, get("/key-log").forAnyone(), nil)
}

// Entries returns a page of the entries of the agent in.ID, oldest first.
func (l KeyLog) Entries(ctx context.Context, in api.GetKeyLogEntries) (*api.Page[api.KeyLogEntry], error) {
	return fetch[api.Page[api.KeyLogEntry]](ctx, l.s, get("/agents/{id}/key-log").forAnyone(), in)
}

// Inclusion returns a proof that a leaf is in the log.
func (l KeyLog) Inclusion(ctx context.Context, in api.GetInclusionProof) (*api.KeyLogProof, error) {
	return fetch[api.KeyLogProof](ctx, l.s, get("/key-log/proofs/inclusion").forAnyone(), in)
}

// Consistency returns a proof that the log begins with an earlier one.
func (l KeyLog) Consistency(ctx context.Context, in api.GetConsistencyProof) (*api.KeyLogProof, error) {
	return fetch[api.KeyLogProof](ctx, l.s, get("/key-log/proofs/consistency").forAnyone(), in)
}

// checkpointBytesMax bounds a checkpoint.
const checkpointBytesMax = 64 << 10

// Checkpoint returns the newest checkpoint of the log: a signed note.
func (l KeyLog) Checkpoint(ctx context.Context) (string, error) {
	k := l.s.call(get("/key-log/checkpoint").forAnyone(), nil)
	k.header.Set("Accept", "text/plain")
	var body plainText
	if _, err := l.s.do(ctx, k, &body); err != nil {
		return "", err
	}
	if len(body) > checkpointBytesMax {
		return "", errors.New("it is too long")
	}
	return string(body), nil
}

// plainText takes an answer that is not JSON as it is.
type plainText string
