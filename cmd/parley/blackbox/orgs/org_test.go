package orgs

import (
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

func TestOrgPatch(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, other := s.Org(t), s.Org(t)
		before := o.Get("/org").Want(200).Shaped(kit.OrgShape)
		o.Patch("/org", obj{}).Want(200).Shaped(kit.OrgShape).Is("name", before.At("name"))
		o.Patch("/org", nil).As("empty body").Want(200).Is("name", before.At("name"))
		a := o.Patch("/org", obj{"name": "New", "contact_email": "x@y.z", "country_code": "de", "unheard_of": 1}).Want(200).Shaped(kit.OrgShape)
		a.Is("name", "New", "contact_email", "x@y.z", "country_code", "DE", "slug", o.Slug, "id", o.ID)
		o.Get("/org").Want(200).Is("name", "New", "country_code", "DE", "created_at", before.At("created_at"))
		o.Patch("/org", obj{"name": nil, "slug": nil}).As("null ignored").Want(200).Is("name", "New", "slug", o.Slug)
		o.Patch("/org", obj{"contact_email": nil, "country_code": nil}).As("null clears").Want(200).Is("contact_email", nil, "country_code", nil)
		o.Get("/org").Want(200).Is("contact_email", nil, "country_code", nil, "name", "New")
		o.Patch("/org", obj{"slug": o.Slug}).As("own slug").Want(200).Is("slug", o.Slug)
		o.Patch("/org", obj{"slug": kit.FreshSlug()}).As("another slug").Refused(409, "slug_immutable")
		if c := o.Patch("/org", obj{"slug": other.Slug}).As("slug of another").Want(409); c.At("code") != "slug_immutable" && c.At("code") != "slug_taken" {
			c.Errorf("want slug_immutable or slug_taken")
		}
		o.Patch("/org", obj{"slug": "NOT A SLUG"}).Invalid("body.slug", "")
		o.Patch("/org", obj{"name": ""}).Invalid("body.name", "")
		o.Patch("/org", obj{"name": strings.Repeat("n", 201)}).Invalid("body.name", "string_too_long")
		o.Patch("/org", obj{"contact_email": "none"}).Invalid("body.contact_email", "")
		for _, c := range []string{"", "D", "DEU", "D1", "ÄÖ"} {
			o.Patch("/org", obj{"country_code": c}).As("country %q", c).Invalid("body.country_code", "")
		}
		o.Get("/org").Want(200).Is("name", "New", "contact_email", nil, "slug", o.Slug)
	})
}

func TestOrgCountsActiveAgents(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a := o.Agent("one")
		o.Agent("two")
		o.Get("/org").Want(200).Is("agent_count", 2)
		o.Delete(a.Path("")).Want(204)
		o.Get("/org").Want(200).Is("agent_count", 1)
	})
}

func TestQuotas(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		o.Agent("one")
		a := o.Get("/org/quotas").Want(200).Is("tier", 1, "quotas.agents.used", 1)
		quotas, _ := a.At("quotas").(obj)
		for _, name := range []string{"agents", "messages_per_day", "groups", "webhooks_per_agent", "group_members", "streams_per_agent", "exports_per_hour"} {
			q, ok := quotas[name].(obj)
			if _, has := q["limit"]; !ok || !has {
				a.Errorf("no limit of %s", name)
				continue
			}
			if name == "exports_per_hour" {
				a.Is("quotas.exports_per_hour.limit", 1)
			} else if q["limit"] != nil {
				a.Errorf("the open profile limits %s", name)
			}
		}
		if !kit.OfKind(a.At("quotas.messages_per_day.resets_at"), "time") || !strings.HasSuffix(a.Str("quotas.messages_per_day.resets_at"), "T00:00:00.000000Z") {
			a.Errorf("messages_per_day does not reset at 00:00 UTC")
		}
	})
}

func TestCredentials(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a := o.Post("/org/credentials", nil).Want(201).Shaped("client_id:str client_secret:str")
		id, secret := a.Str("client_id"), a.Str("client_secret")
		if id == o.Client || secret == o.Secret {
			a.Errorf("the second credential is the first")
		}
		second := s.Grant(t, id, secret).Want(200).Str("access_token")
		s.Call(t, second, "GET", "/org", nil).Want(200).Is("id", o.ID)
		s.Grant(t, id, o.Secret).As("secret of another credential").Want(401)

		foreign := s.Org(t)
		if c := foreign.Delete("/org/credentials/" + id).As("foreign credential"); c.Status != 404 && c.Status != 403 {
			c.Errorf("want 404 or 403")
		}
		o.Delete("/org/credentials/"+kit.Nobody).Refused(404, "not_found")
		o.Delete("/org/credentials/" + id).Want(204)
		s.Call(t, second, "GET", "/org", nil).As("token of a deleted credential").Want(401).Is("error", "AuthenticationError")
		s.Grant(t, id, secret).As("deleted credential").Want(401).Is("error", "invalid_client")
		o.Get("/org").As("the other credential").Want(200)
		s.Grant(t, o.Client, o.Secret).Want(200)
	})
}

// TestTenCredentials: an organization has at most ten live credentials. Revoking one
// makes room.
func TestTenCredentials(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		client := ""
		for range 9 {
			client = o.Post("/org/credentials", obj{}).Want(201).Str("client_id")
		}
		o.Post("/org/credentials", obj{}).As("the eleventh").Refused(403, "quota_exceeded").Is("quota", "credentials", "limit", 10, "used", 10)
		o.Delete("/org/credentials/" + client).Want(204)
		o.Post("/org/credentials", obj{}).Want(201)
	})
}
