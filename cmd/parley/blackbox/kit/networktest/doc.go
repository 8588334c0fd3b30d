// Package networktest has network namespaces for the nodes of a cluster, whose links lose packets
// or are cut. It needs Linux and root.
package networktest
