package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"parley/cluster/identity"
	"parley/cmd/parley/datadir"
	"parley/cmd/parley/membership"
	"parley/cmd/parley/program"
	"parley/persistence"
)

// ClusterCmd begins a cluster and changes it.
type ClusterCmd struct {
	Init    clusterInitCmd    `cmd:"" help:"Make the data directory of a stopped server, or a new one, the first node of a cluster."`
	Token   clusterTokenCmd   `cmd:"" help:"Print a token with which one new node can join within an hour: serve --join HOST:PORT --join-token TOKEN."`
	Status  clusterStatusCmd  `cmd:"" help:"Show the nodes of the cluster and who leads."`
	Drain   clusterDrainCmd   `cmd:"" help:"Have a node hand over its leadership and report that it is not ready, before it is stopped."`
	Remove  clusterRemoveCmd  `cmd:"" help:"Take a node out of the cluster for good."`
	Replace clusterReplaceCmd `cmd:"" help:"Print a token with which a new node takes the place of another one, such as one that lost its disk."`
	Recover clusterRecoverCmd `cmd:"" help:"Go on with one stopped node alone, when a majority is lost for good."`
	Balance clusterBalanceCmd `cmd:"" help:"Hand the leadership to a node, or to any other one."`
}

type clusterInitCmd struct {
	Data      string `env:"PARLEY_DATA" default:"./parley-data" placeholder:"DIR" help:"Data directory, new or of a stopped server. Default: ${default}."`
	Advertise string `required:"" placeholder:"HOST:PORT" help:"Address by which the other nodes will reach this one."`
	NodeName  string `name:"node-name" placeholder:"NAME" help:"What people call this node; default: the name of the machine."`
}

// ClusterInit is the answer of cluster init with --json.
type ClusterInit struct {
	Cluster identity.ClusterID `json:"cluster_id"`
	Node    identity.NodeID    `json:"node_id"`
	Address string             `json:"address"`
}

// Run begins a cluster.
func (c *clusterInitCmd) Run(std *program.Streams) error {
	id, err := membership.Init(membership.Options{
		Data: c.Data, Advertise: c.Advertise, Name: c.NodeName, Clock: time.Now, Logger: slog.Default(),
	}, func() (*persistence.Store, error) { return c.store(std) })
	if err != nil {
		return err
	}
	if std.JSON {
		return std.Value(ClusterInit{id.Cluster, id.ID, id.Address})
	}
	return std.Say("cluster %s begins with node %s at %s\n  start it     %s", id.Cluster, id.ID, id.Address,
		program.Typed(fmt.Sprintf("serve --data %s --cluster-listen %s", c.Data, id.Address)))
}

// store opens the store of the data directory, or makes it.
func (c *clusterInitCmd) store(std *program.Streams) (*persistence.Store, error) {
	store, _, _, err := datadir.OpenForBackup(c.Data, std)
	if err == nil || !datadir.Blank(c.Data) {
		return store, err
	}
	made, err := datadir.Create(c.Data, 0, std)
	if err != nil {
		return nil, err
	}
	if err := made.Finish(); err != nil {
		return nil, err
	}
	store, _, _, err = datadir.OpenForBackup(c.Data, std)
	return store, err
}

type clusterTokenCmd struct{ changeFlags }

// Run prints a token. It is made from the files of the data directory, unless the address of a
// running node is given.
func (c *clusterTokenCmd) Run(ctx context.Context, std *program.Streams) error {
	if c.Admin != "" {
		return c.token(ctx, "cluster/token", "", std)
	}
	id, err := identity.Open(c.Data)
	if err != nil {
		return noNode(err)
	}
	token, err := id.NewToken(time.Now(), 0)
	if err != nil {
		return err
	}
	if std.JSON {
		return std.Value(membership.Token{Token: token})
	}
	return std.Say("%s", token)
}

// noNode gives an error its exit code, if it means that a data directory belongs to no cluster.
func noNode(err error) error {
	if errors.Is(err, identity.ErrNone) {
		return program.ExitError{Code: program.ExitNotFound, Err: err}
	}
	return err
}

// token prints the token that a call answers with.
func (f *changeFlags) token(ctx context.Context, path, node string, std *program.Streams) error {
	var t membership.Token
	if err := f.change(ctx, path, membership.NodeRequest{Node: node}, &t); err != nil {
		return err
	}
	if std.JSON {
		return std.Value(t)
	}
	return std.Say("%s", t.Token)
}

type clusterStatusCmd struct{ operatorFlags }

// Run prints the status.
func (c *clusterStatusCmd) Run(ctx context.Context, std *program.Streams) error {
	var s membership.Status
	if err := c.get(ctx, "cluster/status", nil, &s); err != nil {
		return err
	}
	if std.JSON {
		return std.Value(s)
	}
	rows := [][]string{{"NODE", "NAME", "ADDRESS", "STATE", "LEADS", "VERSION", "LAG", "DISK FREE", "LAST CONTACT", ""}}
	for _, n := range s.Nodes {
		rows = append(rows, nodeRow(n))
	}
	if err := std.Table(rows); err != nil {
		return err
	}
	for _, n := range s.Nodes {
		if n.Reason != nil {
			if err := std.Say("%s is not ready: %s", n.Name, *n.Reason); err != nil {
				return err
			}
		}
	}
	for _, g := range s.Groups {
		if g.Leader == nil {
			if err := std.Say("no node leads: a majority of the %d voters must be up", len(g.Voters)); err != nil {
				return err
			}
		}
	}
	return nil
}

// nodeRow is a node as people read it.
func nodeRow(n membership.NodeStatus) []string {
	var leads, self, version, lag, free, contact string
	if len(n.Leads) > 0 {
		leads = "yes"
	}
	if n.Self {
		self = "answers"
	}
	if n.Version != nil {
		version, lag, free = *n.Version, fmt.Sprint(*n.LagEntries), size(int64(*n.DiskFreeBytes))
	}
	if n.LastContactAt != nil {
		contact = n.LastContactAt.Format(time.RFC3339)
	}
	return []string{n.ID.String(), n.Name, n.Address, n.State, leads, version, lag, free, contact, self}
}

// nodeFlags name a node of the cluster.
type nodeFlags struct {
	Node string `arg:"" help:"Id or name of the node."`
	changeFlags
}

func (f *changeFlags) changeNode(ctx context.Context, path, node string, std *program.Streams, said string) error {
	var changed membership.Changed
	if err := f.change(ctx, path, membership.NodeRequest{Node: node}, &changed); err != nil {
		return err
	}
	if std.JSON {
		return std.Value(changed)
	}
	return std.Say("%s", strings.TrimSpace(fmt.Sprintf(said, changed.Node)))
}

type clusterDrainCmd struct{ changeFlags }

// Run drains the node at the admin address.
func (c *clusterDrainCmd) Run(ctx context.Context, std *program.Streams) error {
	return c.changeNode(ctx, "cluster/drain", "", std, "node %s is drained: stop it, or start it again to use it")
}

type clusterRemoveCmd struct{ nodeFlags }

// Run removes a node.
func (c *clusterRemoveCmd) Run(ctx context.Context, std *program.Streams) error {
	return c.changeNode(ctx, "cluster/remove", c.Node, std, "node %s is removed: stop it, and delete its data directory")
}

type clusterReplaceCmd struct{ nodeFlags }

// Run prints a token for the node that takes the place of another one.
func (c *clusterReplaceCmd) Run(ctx context.Context, std *program.Streams) error {
	return c.token(ctx, "cluster/replace", c.Node, std)
}

type clusterBalanceCmd struct {
	To string `placeholder:"NODE" help:"Id or name of the node that shall lead; default: any other one."`
	changeFlags
}

// Run hands the leadership over.
func (c *clusterBalanceCmd) Run(ctx context.Context, std *program.Streams) error {
	return c.changeNode(ctx, "cluster/balance", c.To, std, "node %s leads")
}
