package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"parley/bench"
	"parley/bench/target"
)

// nodesMost is how many nodes can be named by a letter each.
const nodesMost = 9

func (c *runCmd) checkNodes() error {
	switch {
	case c.Nodes < 0 || c.Nodes > nodesMost:
		return fmt.Errorf("%d nodes are not between 1 and %d", c.Nodes, nodesMost)
	case c.Single && c.Nodes == 0:
		return errors.New("--beside-single goes with --nodes")
	case c.InTurn && c.Nodes < 2:
		return errors.New("--in-turn goes with --nodes, two or more")
	case c.Nodes > 0 && c.URL != "":
		return errors.New("--nodes are started by the bench; --url names a server that runs already")
	case c.Nodes > 0 && c.Goals:
		return errors.New("--goals are those of one server; --nodes has goals of its own, which need no flag")
	}
	return nil
}

// clusters returns the nodes, and the single server beside them.
func (c *runCmd) clusters(dir, binary string) (all []target.Target) {
	one := target.Cluster{Label: fmt.Sprintf("%d nodes", c.Nodes), Binary: binary, Args: c.serveArgs(), Env: childEnvironment(), Dir: filepath.Join(dir, "nodes"), Nodes: c.Nodes}
	switch {
	case c.Nodes == 1:
		one.Label = "1 node"
	case c.InTurn:
		one.Label += ", in turn"
	default:
		one.LeaderFirst = true
	}
	all = append(all, &one)
	if c.Single {
		single := one
		single.Label, single.Dir, single.Nodes, single.LeaderFirst = bench.Single, filepath.Join(dir, bench.Single), 0, false
		all = append(all, &single)
	}
	return all
}
