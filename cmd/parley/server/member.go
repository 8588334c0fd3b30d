package server

import (
	"context"
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

// apart is the Apart of the service.
func (m *member) apart() func() *parley.Refusal {
	if m.part == nil {
		return nil
	}
	return m.part.Ready
}
