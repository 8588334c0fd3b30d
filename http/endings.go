package http

import "parley/client/parley"

// endings end the streams of an agent or a credential that was revoked, and of an organization
// that was suspended, on all nodes of a cluster. The other nodes are told as they are told what
// callers spend: endings is a limit.Counter too. What they miss they find out when a heartbeat
// is due.
type endings struct {
	*core
	note func(key string, n int)
}

func newEndings(s *core) *endings { return &endings{s, func(string, int) {}} }

// of ends the streams of an agent, a credential or an organization.
func (x *endings) of(id [16]byte) {
	x.here(id)
	x.note(string(id[:]), 1)
}

func (x *endings) here(id [16]byte) {
	x.streams.End(id)
	x.bridge.EndStreams(id)
}

// Report implements limit.Counter.
func (x *endings) Report(note func(key string, n int)) { x.note = note }

// Spend implements limit.Counter.
func (x *endings) Spend(key string, _ int) {
	if id := parley.IDFromBytes[parley.OrgID]([]byte(key)); !id.Zero() {
		x.here(id)
	}
}
