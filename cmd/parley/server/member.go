package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"parley"
	"parley/cmd/parley/membership"
	"parley/cmd/parley/program"
)

// newMember returns the server's part of a cluster, if its data directory belongs to one or
// is to join one.
func newMember(ctx context.Context, cfg *Config) (member, error) {
	part, err := membership.Open(ctx, membership.Options{
		Data: cfg.Data, Listen: cfg.ClusterListen, Advertise: cfg.ClusterAdvertise, Name: cfg.NodeName,
		Join: cfg.join, Token: cfg.joinToken, Clock: time.Now, Logger: slog.Default(),
		Fatal: func(err error) {
			slog.Error("the node cannot go on; what was acknowledged is on other nodes", "error", err)
			os.Exit(program.ExitUnexpected)
		},
	})
	if part == nil || err != nil {
		return member{}, err
	}
	if cfg.acceptLoss { // others count on what this node has acknowledged
		return member{}, program.ExitError{Code: program.ExitUsage, Err: errors.New("--accept-loss: the directory belongs to a node of a cluster, whose other nodes have what it lost; put a new node in its place with \"parley cluster replace\"")}
	}
	return member{
		part: part, sequencer: part.Sequencer(), journals: part.Journals(), blank: part.Blank(), serverKey: part.ServerKey(),
		connect: part.Connect, keys: part, end: part.Close,
		begin: func(ctx context.Context, h *running, keys *orgKeys) error {
			return part.Begin(ctx, h.node, h.store, membership.NewKeys(keys.keyring, keys.sealer, keys.list))
		},
	}, nil
}

// keysOr is what changes keys.
func (m *member) keysOr(here keyChanges) keyChanges {
	if m.keys != nil {
		return m.keys
	}
	return here
}

// elsewhere is the Elsewhere of the node.
func (m *member) elsewhere() func() bool {
	if m.part == nil {
		return nil
	}
	return m.part.Elsewhere
}

// contact returns the ClusterTrouble and the CutOff of the service.
func (m *member) contact() (trouble func() *parley.Refusal, cutOff func() bool) {
	if m.part == nil {
		return nil, nil
	}
	return m.part.Ready, m.part.CutOff
}
