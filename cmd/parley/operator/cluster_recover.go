package operator

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"parley/cluster/identity"
	"parley/cmd/parley/datadir"
	"parley/cmd/parley/membership"
	"parley/cmd/parley/program"
	"parley/persistence"
	"parley/persistence/keyring"
)

type clusterRecoverCmd struct {
	Data        string `env:"PARLEY_DATA" default:"./parley-data" placeholder:"DIR" help:"Data directory of the stopped node. Default: ${default}."`
	AcceptLoss  bool   `name:"i-accept-loss" help:"Do it. What only the other nodes had is lost. Without this the command only says how far this node's content goes."`
	ErasureList string `name:"erasure-list" env:"PARLEY_ERASURE_LIST" placeholder:"FILE" help:"File that lists the erased organizations. Default: DATA/erasures.jsonl."`
}

// ClusterRecovery is the answer of cluster recover with --json. Cluster and Node are null if
// nothing was changed.
type ClusterRecovery struct {
	Cluster *identity.ClusterID `json:"cluster_id"`
	Node    *identity.NodeID    `json:"node_id"`
	membership.LogEnd
}

// Run makes a stopped node the only one of a new cluster, or says how far its content goes.
func (c *clusterRecoverCmd) Run(std *program.Streams) error {
	o := membership.Options{
		Data: c.Data, ErasureList: c.ErasureList, Clock: time.Now, Logger: slog.Default(),
		Fatal: func(err error) { os.Exit(std.Fail(err)) },
	}
	open := func(s persistence.Sequencer) (*persistence.Store, *keyring.Keyring, error) {
		return datadir.OpenReplica(c.Data, s, std)
	}
	if !c.AcceptLoss {
		return c.tell(o, open, std)
	}
	id, end, err := membership.Recover(o, open)
	if err != nil {
		return noNode(err)
	}
	if std.JSON {
		return std.Value(ClusterRecovery{&id.Cluster, &id.ID, end})
	}
	return std.Say("cluster %s begins with node %s at %s, and has everything up to term %d, index %d.\nNever start the other nodes' directories again: join new ones.\n  start it     %s",
		id.Cluster, id.ID, id.Address, end.Term, end.Index, program.Typed(fmt.Sprintf("serve --data %s --cluster-listen %s", c.Data, id.Address)))
}

// tell says how far the node's content goes.
func (c *clusterRecoverCmd) tell(o membership.Options, open membership.StoreOpener, std *program.Streams) error {
	end, err := membership.Ends(o, open)
	if err != nil {
		return noNode(err)
	}
	if std.JSON {
		return std.Value(ClusterRecovery{LogEnd: end})
	}
	return std.Say("The content of this node goes up to term %d, index %d. Nothing was changed.\nAsk all nodes that are left. The one with the highest term, and of those the highest index, loses least; only if no majority can be started again, go on with it:\n  %s",
		end.Term, end.Index, program.Typed(fmt.Sprintf("cluster recover --data %s --i-accept-loss", c.Data)))
}
