// Package cluster makes several nodes one journal and one set of actors. The node that
// leads decides: its actors answer requests and its journal takes entries. Every node
// answers reads from its own replica, behind a fence.
package cluster
