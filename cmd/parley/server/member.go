package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"parley/actors/host"
	"parley/client/parley"
	"parley/cmd/parley/membership"
	"parley/cmd/parley/program"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/keyring"
)

// member is a server's part of a cluster. The zero member is a server on its own.
type member struct {
	// part is set for a node of a cluster.
	part *membership.Part
	// journals is the number of journals of a store that is to be made, blank that it may
	// have to be made, and serverKey that of its keyring.
	journals  int
	blank     bool
	serverKey *keyring.Key
	// sequencer orders the batches of the server's store.
	sequencer persistence.Sequencer
	// connect returns the journal and the router of the server's node.
	connect func(*persistence.Store) (journal.Journal, host.Router, error)
	// begin starts the node and joins the cluster.
	begin func(context.Context, *running, *orgKeys) error
	// keys changes the keys of organizations on all nodes; nil changes those here.
	keys keyChanges
	// end leaves the connections of the cluster.
	end func() error
}

// open returns the journal and the router of a node over a store.
func (m *member) open(s *persistence.Store) (journal.Journal, host.Router, error) {
	if m.connect == nil {
		return s.Journal, nil, nil
	}
	return m.connect(s)
}

// start starts a node, and goes on with erasures.
func (m *member) start(ctx context.Context, h *running, keys *orgKeys) error {
	if m.begin != nil {
		return m.begin(ctx, h, keys)
	}
	if err := keys.destroyListed(); err != nil { // before anything is delivered
		return err
	}
	if err := h.node.Start(); err != nil {
		return err
	}
	return h.node.Erasures.Resume(h.keyring.Erased())
}

// newMember returns the server's part of a cluster, if its data directory belongs to one or
// is to join one.
func newMember(ctx context.Context, cfg *Config) (member, error) {
	part, err := membership.Open(ctx, membership.Options{
		Data: cfg.Data, Listen: cfg.ClusterListen, Advertise: cfg.ClusterAdvertise, Name: cfg.NodeName,
		Join: cfg.join, Token: cfg.joinToken, Clock: time.Now, Logger: slog.Default(), Settings: cfg.alike(),
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

// leaving is the Leaving of the HTTP server.
func (m *member) leaving() func() bool {
	if m.part == nil {
		return nil
	}
	return m.part.Draining
}

// contact returns the ClusterTrouble and the CutOff of the service.
func (m *member) contact() (trouble func() *parley.Refusal, cutOff func() bool) {
	if m.part == nil {
		return nil, nil
	}
	return m.part.Ready, m.part.CutOff
}

// scopesKnown is the ScopesKnown of the service.
func (m *member) scopesKnown(ctx context.Context) error {
	if m.part == nil {
		return nil
	}
	return m.part.ScopesKnown(ctx)
}

// alike are the settings that should be the same on all nodes of a cluster, as NAME=VALUE.
func (c *Config) alike() []string {
	return []string{
		"--base-url=" + strings.TrimSuffix(cmp.Or(c.BaseURL, c.Listen), "/"), "--domain=" + c.Domain, "--brand=" + c.Brand, fmt.Sprint("--pow-bits=", c.PowBits),
		"--tier1=" + c.Tier1, "--registration=" + c.Registration, "--quota-profile=" + c.QuotaProfile, "--quota=" + joined(c.Quota), "--rate=" + joined(c.Rate), "--poll-limit=" + c.PollLimit.String(),
		"--cors-origins=" + strings.Join(slices.Sorted(slices.Values(c.CORSOrigins)), " "),
	}
}

// joined lists terms in a fixed order.
func joined[T fmt.Stringer](terms []T) string {
	all := make([]string, len(terms))
	for i, t := range terms {
		all[i] = t.String()
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
