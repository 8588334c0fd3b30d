package nodes

import (
	"parley/cmd/parley/blackbox/kit"
)

// numberOf is the number of a node.
func numberOf(n *kit.Nodes, s *kit.Server) int {
	for i := range n.All {
		if n.Node(i) == s {
			return i
		}
	}
	return -1
}
