package blackbox

import (
	"strings"
	"testing"
)

// TestNearMissesAreNamed: an unknown member is ignored. But if a required member is
// missing, the 422 names the unknown one that was probably meant. The kind and location
// of the error do not change.
func TestNearMissesAreNamed(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		a := o.agent("near")
		whole := obj{"to_handle": a.handle, "type": "svc.v1.dm", "encrypted_payload": "QQ"}
		for _, c := range []struct {
			missing, sent, loc, kind string
		}{
			{"to_handle", "to", "body.to_agent_id", "value_error"},
			{"to_handle", "handle", "body.to_agent_id", "value_error"},
			{"encrypted_payload", "payload", "body.encrypted_payload", "missing"},
			{"encrypted_payload", "encryptedPayload", "body.encrypted_payload", "missing"},
			{"type", "typ", "body.type", "missing"},
		} {
			body := without(whole, c.missing)
			body[c.sent] = whole[c.missing]
			got := o.post("/messages", body).as("%s for %s", c.sent, c.missing)
			want := "; you sent '" + c.sent + "', did you mean '" + c.missing + "'?"
			if got.invalid(c.loc, c.kind); !strings.Contains(string(got.raw), want) {
				got.errorf("want %s", want)
			}
			if c.kind == "missing" && !strings.Contains(string(got.raw), "Field required"+want) {
				got.errorf("want Field required and the near miss")
			}
		}
		far := without(whole, "type")
		far["colour"] = "red"
		if got := o.post("/messages", far).invalid("body.type", "missing"); !strings.Contains(string(got.raw), `"Field required"`) {
			got.errorf("a member that looks like nothing is named")
		}
		other := o.agent("other")
		extra := obj{"to_handle": other.handle, "type": "svc.v1.dm", "encrypted_payload": "QQ", "to": "x", "colour": "red"}
		o.post("/messages", extra, "X-Svc-Agent", a.id).want(201)
		named := newAgent("n" + randomHex(6))
		named["nmae"] = named["name"]
		delete(named, "name")
		if got := o.post("/agents", named).invalid("body.nmae", "extra_forbidden"); !strings.Contains(string(got.raw), "did you mean 'name'?") {
			got.errorf("want the near miss of name")
		}
	})
}
