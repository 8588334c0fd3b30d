package blackbox

import "testing"

// TestKeyRotateOnNodes rotates the key of access tokens on a node that follows, and the keys
// of cards and receipts: at once every node accepts tokens of the new key, makes tokens with
// it, and publishes it.
func TestKeyRotateOnNodes(t *testing.T) {
	t.Parallel()
	n := startNodes(t, 3)
	o := n.server().org(t)
	signed := func(token string) any { header, _, _, _ := claimsOf(t, token); return header["kid"] }
	for _, purpose := range [][]string{nil, {"--cards"}, {"--receipts"}} {
		rotates := n.follower()
		before := len(publishedKeys(t, rotates))
		if said, err := rotates.operate(append([]string{"key", "rotate"}, purpose...)...); err != nil {
			t.Fatal(said, err)
		}
		fresh := rotates.grant(t, o.client, o.secret).want(200).str("access_token")
		if purpose == nil && signed(fresh) == signed(o.token) {
			t.Error("the node that rotated signs with the former key")
		}
		for _, s := range n.all {
			name := s.flag("--node-name")
			s.call(t, fresh, "GET", "/org", nil).as("at node %s", name).want(200)
			s.call(t, o.token, "GET", "/org", nil).as("with a token of the former key at node %s", name).want(200)
			if other := s.grant(t, o.client, o.secret).want(200).str("access_token"); signed(other) != signed(fresh) {
				t.Errorf("node %s signs with %v, the one that rotated %v with %v", name, signed(other), purpose, signed(fresh))
			}
			if keys := publishedKeys(t, s); len(keys) != before+1 || !keys[signed(fresh)] {
				t.Errorf("after rotate %v node %s publishes %v, there were %d", purpose, name, keys, before)
			}
		}
	}
}

// publishedKeys are the ids of the keys that a node publishes.
func publishedKeys(t *testing.T, s *server) map[any]bool {
	t.Helper()
	keys, _ := s.call(t, "", "GET", "/.well-known/jwks.json", nil).want(200).at("keys").([]any)
	all := map[any]bool{}
	for _, k := range objects(keys) {
		all[k["kid"]] = true
	}
	return all
}
