package http

import (
	"errors"

	"github.com/valyala/fasthttp"

	"parley/client/api"
	"parley/client/parley"
	"parley/http/rest"
)

var (
	errDamaged = parley.Refuse(parley.Unavailable, "damaged", "A file of the data directory is damaged.")
	errFollows = parley.Refuse(parley.Unavailable, "follows", "Another node of the cluster leads, or none does.")
)

// Ready returns why this server should receive no requests: it is stopping, a data file is
// damaged, it is not part of its cluster, or, unless only reads are asked about, its disk takes no
// writes. It returns nil if the server is ready. If leads is set, a node is ready only while it
// leads.
func (s *core) Ready(ask api.GetReadiness) *parley.Refusal {
	if s.closing.Load() {
		return rest.ErrDraining
	}
	if s.Node.Damage() != "" {
		return errDamaged
	}
	if s.ClusterTrouble != nil {
		if trouble := s.ClusterTrouble(); trouble != nil {
			return trouble
		}
	}
	if ask.Leads && s.Elsewhere != nil && s.Elsewhere() {
		return errFollows
	}
	if ask.For == api.ForReads {
		return nil
	}
	return s.Node.Trouble()
}

// IsReady reports whether this server should receive all kinds of requests.
func (s *core) IsReady() bool { return s.Ready(api.GetReadiness{}) == nil }

// ReadyStatus is the status code of an answer with what Ready returned.
func ReadyStatus(ask api.GetReadiness, reason *parley.Refusal) int {
	switch {
	case reason == nil:
		return fasthttp.StatusOK
	case ask.Graceful && errors.Is(reason, rest.ErrDraining):
		return fasthttp.StatusNotFound
	}
	return fasthttp.StatusServiceUnavailable
}

// cutOff reports that this node has lost contact with its cluster, so that nothing new appears
// here. Callers that wait should ask another node.
func (s *core) cutOff() bool { return s.CutOff != nil && s.CutOff() }

var errOthersHave = parley.ErrOverloaded.Saying("A file of this node is damaged; other nodes have what was asked for. Try again.").ForOne()

// Damaged returns how a request that failed is refused if a file of this node is damaged:
// another node should be asked. What a write has done is not known. It returns nil if there is
// no other node, or no damage.
func (s *core) Damaged(reads bool) *parley.Refusal {
	switch {
	case s.ClusterTrouble == nil || s.Node.Damage() == "":
		return nil
	case reads:
		return errOthersHave
	}
	return parley.ErrOutcomeUnknown
}

// ready returns the result of Ready to a load balancer.
func (s serverInfo) ready(c *rest.Call, in *api.GetReadiness) (api.Ready, error) {
	c.SetHeader("Cache-Control", "no-store")
	if reason := s.Ready(*in); reason != nil {
		c.SetStatus(ReadyStatus(*in, reason))
		return api.Ready{Status: "unavailable", Reason: &reason.Text}, nil
	}
	return api.Ready{Status: "ready"}, nil
}
