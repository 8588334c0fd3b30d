// Package erasure erases organizations. An erasure is a saga over all homes that goes on
// after a crash: each of its steps may be repeated, and a row says how far it has come.
//
// The point of no return is the destruction of the organization's key. From then on
// nobody can append or read anything that the organization owns, a part of which are
// all messages from and to its agents, so the steps that follow work with what is stored
// in the clear: ids, rosters, seats, positions in feeds. They are the same for an
// organization that a restored backup brought back.
package erasure
