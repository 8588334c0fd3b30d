package api

import (
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// TestNearMissesAreNamed: an unknown member is ignored. But if a required member is
// missing, the 422 names the unknown one that was probably meant. The kind and location
// of the error do not change.
func TestNearMissesAreNamed(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a := o.Agent("near")
		whole := obj{"to_handle": a.Handle, "type": "svc.v1.dm", "encrypted_payload": "QQ"}
		for _, c := range []struct {
			missing, sent, loc, kind string
		}{
			{"to_handle", "to", "body.to_agent_id", "value_error"},
			{"to_handle", "handle", "body.to_agent_id", "value_error"},
			{"encrypted_payload", "payload", "body.encrypted_payload", "missing"},
			{"encrypted_payload", "encryptedPayload", "body.encrypted_payload", "missing"},
			{"type", "typ", "body.type", "missing"},
		} {
			body := kit.Without(whole, c.missing)
			body[c.sent] = whole[c.missing]
			got := o.Post("/messages", body).As("%s for %s", c.sent, c.missing)
			want := "; you sent '" + c.sent + "', did you mean '" + c.missing + "'?"
			if got.Invalid(c.loc, c.kind); !strings.Contains(string(got.Raw), want) {
				got.Errorf("want %s", want)
			}
			if c.kind == "missing" && !strings.Contains(string(got.Raw), "Field required"+want) {
				got.Errorf("want Field required and the near miss")
			}
		}
		far := kit.Without(whole, "type")
		far["colour"] = "red"
		if got := o.Post("/messages", far).Invalid("body.type", "missing"); !strings.Contains(string(got.Raw), `"Field required"`) {
			got.Errorf("a member that looks like nothing is named")
		}
		other := o.Agent("other")
		extra := obj{"to_handle": other.Handle, "type": "svc.v1.dm", "encrypted_payload": "QQ", "to": "x", "colour": "red"}
		o.Post("/messages", extra, "X-Svc-Agent", a.ID).Want(201)
		named := kit.NewAgent("n" + kit.RandomHex(6))
		named["nmae"] = named["name"]
		delete(named, "name")
		if got := o.Post("/agents", named).Invalid("body.nmae", "extra_forbidden"); !strings.Contains(string(got.Raw), "did you mean 'name'?") {
			got.Errorf("want the near miss of name")
		}
	})
}
