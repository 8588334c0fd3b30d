package client

import (
	"context"
	"errors"

	"parley/client/api"
)

// KeyLog makes the calls about the server's log of agents' keys. No credentials are needed
// for them. Package keylog verifies the answers.
type KeyLog struct {
	// Get returns the key that signs checkpoints of the log.
	Get Fetch[api.KeyLog] `call:"GET /key-log public"`
	// Entries returns a page of the entries of the agent in.ID, oldest first.
	Entries Call[api.GetKeyLogEntries, api.Page[api.KeyLogEntry]] `call:"GET /agents/{id}/key-log public"`
	// Inclusion returns a proof that a leaf is in the log.
	Inclusion Call[api.GetInclusionProof, api.KeyLogProof] `call:"GET /key-log/proofs/inclusion public"`
	// Consistency returns a proof that the log begins with an earlier one.
	Consistency Call[api.GetConsistencyProof, api.KeyLogProof] `call:"GET /key-log/proofs/consistency public"`

	s *Session
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
