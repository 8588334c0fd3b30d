package blackbox

import (
	"strings"
	"testing"
)

func TestOrgPatch(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, other := s.org(t), s.org(t)
		before := o.get("/org").want(200).shaped(orgShape)
		o.patch("/org", obj{}).want(200).shaped(orgShape).is("name", before.at("name"))
		o.patch("/org", nil).as("empty body").want(200).is("name", before.at("name"))
		a := o.patch("/org", obj{"name": "New", "contact_email": "x@y.z", "country_code": "de", "unheard_of": 1}).want(200).shaped(orgShape)
		a.is("name", "New", "contact_email", "x@y.z", "country_code", "DE", "slug", o.slug, "id", o.id)
		o.get("/org").want(200).is("name", "New", "country_code", "DE", "created_at", before.at("created_at"))
		o.patch("/org", obj{"name": nil, "slug": nil}).as("null ignored").want(200).is("name", "New", "slug", o.slug)
		o.patch("/org", obj{"contact_email": nil, "country_code": nil}).as("null clears").want(200).is("contact_email", nil, "country_code", nil)
		o.get("/org").want(200).is("contact_email", nil, "country_code", nil, "name", "New")
		o.patch("/org", obj{"slug": o.slug}).as("own slug").want(200).is("slug", o.slug)
		o.patch("/org", obj{"slug": freshSlug()}).as("another slug").refused(409, "slug_immutable")
		if c := o.patch("/org", obj{"slug": other.slug}).as("slug of another").want(409); c.at("code") != "slug_immutable" && c.at("code") != "slug_taken" {
			c.errorf("want slug_immutable or slug_taken")
		}
		o.patch("/org", obj{"slug": "NOT A SLUG"}).invalid("body.slug", "")
		o.patch("/org", obj{"name": ""}).invalid("body.name", "")
		o.patch("/org", obj{"name": strings.Repeat("n", 201)}).invalid("body.name", "string_too_long")
		o.patch("/org", obj{"contact_email": "none"}).invalid("body.contact_email", "")
		for _, c := range []string{"", "D", "DEU", "D1", "ÄÖ"} {
			o.patch("/org", obj{"country_code": c}).as("country %q", c).invalid("body.country_code", "")
		}
		o.get("/org").want(200).is("name", "New", "contact_email", nil, "slug", o.slug)
	})
}

func TestOrgCountsActiveAgents(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		a := o.agent("one")
		o.agent("two")
		o.get("/org").want(200).is("agent_count", 2)
		o.delete(a.path("")).want(204)
		o.get("/org").want(200).is("agent_count", 1)
	})
}

func TestQuotas(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		o.agent("one")
		a := o.get("/org/quotas").want(200).is("tier", 1, "quotas.agents.used", 1)
		quotas, _ := a.at("quotas").(obj)
		for _, name := range []string{"agents", "messages_per_day", "groups", "webhooks_per_agent", "group_members", "streams_per_agent", "exports_per_hour"} {
			q, ok := quotas[name].(obj)
			if _, has := q["limit"]; !ok || !has {
				a.errorf("no limit of %s", name)
				continue
			}
			if name == "exports_per_hour" {
				a.is("quotas.exports_per_hour.limit", 1)
			} else if q["limit"] != nil {
				a.errorf("the open profile limits %s", name)
			}
		}
		if !ofKind(a.at("quotas.messages_per_day.resets_at"), "time") || !strings.HasSuffix(a.str("quotas.messages_per_day.resets_at"), "T00:00:00.000000Z") {
			a.errorf("messages_per_day does not reset at 00:00 UTC")
		}
	})
}

func TestCredentials(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		a := o.post("/org/credentials", nil).want(201).shaped("client_id:str client_secret:str")
		id, secret := a.str("client_id"), a.str("client_secret")
		if id == o.client || secret == o.secret {
			a.errorf("the second credential is the first")
		}
		second := s.grant(t, id, secret).want(200).str("access_token")
		s.call(t, second, "GET", "/org", nil).want(200).is("id", o.id)
		s.grant(t, id, o.secret).as("secret of another credential").want(401)

		foreign := s.org(t)
		if c := foreign.delete("/org/credentials/" + id).as("foreign credential"); c.status != 404 && c.status != 403 {
			c.errorf("want 404 or 403")
		}
		o.delete("/org/credentials/"+nobody).refused(404, "not_found")
		o.delete("/org/credentials/" + id).want(204)
		s.call(t, second, "GET", "/org", nil).as("token of a deleted credential").want(401).is("error", "AuthenticationError")
		s.grant(t, id, secret).as("deleted credential").want(401).is("error", "invalid_client")
		o.get("/org").as("the other credential").want(200)
		s.grant(t, o.client, o.secret).want(200)
	})
}

// TestTenCredentials: an organization has at most ten live credentials. Revoking one
// makes room.
func TestTenCredentials(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		client := ""
		for range 9 {
			client = o.post("/org/credentials", obj{}).want(201).str("client_id")
		}
		o.post("/org/credentials", obj{}).as("the eleventh").refused(403, "quota_exceeded").is("quota", "credentials", "limit", 10, "used", 10)
		o.delete("/org/credentials/" + client).want(204)
		o.post("/org/credentials", obj{}).want(201)
	})
}
