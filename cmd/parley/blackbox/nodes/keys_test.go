package nodes

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// TestKeyRotateOnNodes rotates the key of access tokens on a node that follows, and the keys
// of cards and receipts: at once every node accepts tokens of the new key, makes tokens with
// it, and publishes it.
func TestKeyRotateOnNodes(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 3)
	o := n.Server().Org(t)
	signed := func(token string) any { header, _, _, _ := kit.ClaimsOf(t, token); return header["kid"] }
	for _, purpose := range [][]string{nil, {"--cards"}, {"--receipts"}} {
		rotates := n.Follower()
		before := len(kit.PublishedKeys(t, rotates))
		if said, err := rotates.Operate(append([]string{"key", "rotate", "--now"}, purpose...)...); err != nil {
			t.Fatal(said, err)
		}
		fresh := rotates.Grant(t, o.Client, o.Secret).Want(200).Str("access_token")
		if purpose == nil && signed(fresh) == signed(o.Token) {
			t.Error("the node that rotated signs with the former key")
		}
		for _, s := range n.All {
			name := s.Flag("--node-name")
			s.Call(t, fresh, "GET", "/org", nil).As("at node %s", name).Want(200)
			s.Call(t, o.Token, "GET", "/org", nil).As("with a token of the former key at node %s", name).Want(200)
			if other := s.Grant(t, o.Client, o.Secret).Want(200).Str("access_token"); signed(other) != signed(fresh) {
				t.Errorf("node %s signs with %v, the one that rotated %v with %v", name, signed(other), purpose, signed(fresh))
			}
			if keys := kit.PublishedKeys(t, s); len(keys) != before+1 || !keys[signed(fresh)] {
				t.Errorf("after rotate %v node %s publishes %v, there were %d", purpose, name, keys, before)
			}
		}
	}
}
