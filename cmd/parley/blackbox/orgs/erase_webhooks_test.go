package orgs

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// TestErasedWebhooksAreUnknown: a webhook of an erased organization is to others what one that
// never existed is.
func TestErasedWebhooksAreUnknown(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		gone, other := s.Org(t), s.Org(t)
		hook := gone.Post("/webhooks", obj{"agent_id": gone.Agent("a").ID, "url": "http://127.0.0.1:9/"}).Want(201).Str("id")
		gone.Delete("/orgs/" + gone.ID).Want(200)
		for _, id := range []string{hook, kit.Nobody} {
			at := "/webhooks/" + id
			other.Patch(at, obj{"active": false}).As("%s", id).Refused(404, "not_found")
			other.Delete(at).As("%s", id).Refused(404, "not_found")
			other.Post(at+"/rotate-secret", nil).As("%s", id).Refused(404, "not_found")
			other.Get(at+"/deliveries").As("%s", id).Refused(404, "not_found")
		}
	})
}
