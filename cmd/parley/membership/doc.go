// Package membership makes a server a node of a cluster: it opens the node's identity or
// joins, connects the server's store and actors with the cluster, and tells how it is.
package membership
