package http

import (
	"runtime"
	"time"

	"parley/client/api"
	"parley/http/rest"
)

// health reports whether requests can be served. // spec: Compliance and infrastructure
func (s serverInfo) health(c *rest.Call, _ *api.Nothing) (api.Health, error) {
	h := api.Health{
		Status: "ok", Version: s.Version, UptimeS: int(c.Now().Sub(s.began) / time.Second), Durability: "fsync",
		Checks: map[string]string{"journal": "ok"},
	}
	c.SetHeader("Cache-Control", "no-store")
	if trouble := s.Node.Trouble(); trouble != nil {
		h.Status, h.Checks["journal"] = "unavailable", trouble.Text
	}
	if s.Node.Damage() != "" {
		h.Status, h.Checks["journal"] = "damaged", "A file is damaged. What lies in it is refused; the rest is served."
	}
	if h.Status != "ok" {
		c.SetStatus(503)
	}
	return h, nil
}

func (s serverInfo) version(*rest.Call, *api.Nothing) (api.Version, error) {
	return api.Version{
		Name: "parley", Version: s.Version, Go: runtime.Version(), Brand: s.Brand, ServiceDomain: s.Domain,
	}, nil
}
