package client

import (
	"encoding/json"
	"net/http"
	"testing"

	"parley/client/api"
	"parley/client/parley"
)

// TestFieldsTravelAsTagged: the fields of a request are put into the path, the query, the
// header and the body as their tags say.
func TestFieldsTravelAsTagged(t *testing.T) {
	s, err := New("http://127.0.0.1:1", WithBrand("acme"))
	if err != nil {
		t.Fatal(err)
	}
	id := parley.AgentID{15: 1}
	for name, c := range map[string]struct {
		in                any
		path, query, body string
		header            http.Header
	}{
		"no request":            {nil, "/x/{id}", "", "null", http.Header{}},
		"zero values":           {api.Inbox{ID: id}, "/x/" + id.String(), "", "null", http.Header{}},
		"an empty text":         {api.Inbox{ID: id, Type: new("")}, "/x/" + id.String(), "type=", "null", http.Header{}},
		"a name to escape":      {api.GetKeys{ID: "a/b?c@d"}, "/x/a%2Fb%3Fc@d", "", "null", http.Header{}},
		"a required zero":       {api.GetInclusionProof{Size: 1}, "/x/{id}", "index=0&size=1", "null", http.Header{}},
		"a list in one field":   {api.GetBatchKeys{IDs: []parley.AgentID{id, id}}, "/x/{id}", "ids=" + id.String() + "%2C" + id.String(), "null", http.Header{}},
		"a list in many fields": {api.GetWebFinger{Resource: "r", Rel: []string{"a", "b"}}, "/x/{id}", "rel=a&rel=b&resource=r", "null", http.Header{}},
		"an id":                 {id, "/x/" + id.String(), "", "null", http.Header{}},
		"a list in no pages":    {api.ListAgents{IncludeRevoked: true, Paging: api.Paging{Limit: new(3)}}, "/x/{id}", "include_revoked=true", "null", http.Header{}},
		"an embedded body":      {api.BindKeys{ID: id, KeyProof: api.KeyProof{Signature: "s", SignedAt: "t"}}, "/x/" + id.String(), "", `{"signature":"s","signed_at":"t"}`, http.Header{}},
		"an embedded request": {
			api.Sync{Send: api.Send{IdempotencyKey: "k", ActingAgent: "ann", Type: "t", EncryptedPayload: "p"}, TimeoutMS: 1500},
			"/x/{id}", "timeout_ms=1500", `{"type":"t","encrypted_payload":"p"}`,
			http.Header{"Idempotency-Key": {"k"}, "X-Acme-Agent": {"ann"}},
		},
	} {
		k := s.call(get("/x/{id}"), c.in)
		body, err := json.Marshal(k.in)
		if err != nil || k.path != c.path || k.query.Encode() != c.query || string(body) != c.body {
			t.Errorf("%s: %s ? %s, body %s, %v", name, k.path, k.query.Encode(), body, err)
		}
		if len(k.header) != len(c.header) {
			t.Errorf("%s: header %v, want %v", name, k.header, c.header)
		}
		for field, values := range c.header {
			if got := k.header[field]; len(got) != 1 || got[0] != values[0] {
				t.Errorf("%s: %s is %q, want %q", name, field, got, values)
			}
		}
	}
	first, second := s.call(post("/messages"), api.Send{}), s.call(post("/messages"), api.Send{})
	if key := first.header.Get("Idempotency-Key"); key == "" || key == second.header.Get("Idempotency-Key") {
		t.Errorf("the client generated the idempotency keys %q and %q", key, second.header.Get("Idempotency-Key"))
	}
}
