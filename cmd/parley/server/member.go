//go:build !pair

package server

// newMember returns the server's part of a cluster: it is on its own.
func newMember() member { return member{} }
