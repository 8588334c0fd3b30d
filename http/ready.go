package http

import (
	"parley"
	"parley/http/api"
	"parley/http/rest"
)

var (
	errDraining = parley.Refuse(parley.Unavailable, "draining", "The server is stopping.")
	errDamaged  = parley.Refuse(parley.Unavailable, "damaged", "A file of the data directory is damaged.")
)

// Ready is why this server should be sent no requests, nil if it should: it is
// stopping, its disk takes no writes, or a file of its data is damaged.
func (s *core) Ready() *parley.Refusal {
	if s.closing.Load() {
		return errDraining
	}
	if trouble := s.Node.Trouble(); trouble != nil {
		return trouble
	}
	if s.Node.Damage() != "" {
		return errDamaged
	}
	return nil
}

// ready tells a load balancer what Ready tells.
func (s serverInfo) ready(c *rest.Call, _ *api.Nothing) (api.Ready, error) {
	c.SetHeader("Cache-Control", "no-store")
	if reason := s.Ready(); reason != nil {
		c.SetStatus(503)
		return api.Ready{Status: "unavailable", Reason: &reason.Text}, nil
	}
	return api.Ready{Status: "ready"}, nil
}
