// Package client is the Go SDK of Parley: one call for each endpoint, by subject, tokens
// that renew themselves, and streams that resume themselves. The agents of package e2ee
// seal what they send and verify what they open.
//
//	c, err := client.New("http://127.0.0.1:8080")
//	credentials, err := c.Register(ctx, api.Register{Email: "a@b.example", OrgSlug: "acme"})
//	c = c.Authenticated(*credentials)
//	ring, err := e2ee.CreateKeyRing("keys/ann.json")
//	ann, err := e2ee.NewAgent(ctx, c, api.CreateAgent{Name: "ann"}, ring)
//	sent, err := ann.SendSealed(ctx, "bob@other.localhost", []byte(`{"hello":1}`), "svc.v1.dm")
//
// A group message is sealed once for all members, with a key that the sender
// gives to each of them; sessions exchange these keys by themselves:
//
//	sent, err := ann.Broadcast(ctx, group, []byte(`{"hello":"all"}`), "svc.v1.dm")
//
// A call is repeated by itself only where a repeat can do no harm: always when
// the server says that nothing happened, and for reads and keyed sends also when
// the outcome is unknown.
package client
