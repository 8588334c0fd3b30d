package keys

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

func TestKeys(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("keyed")
		a := s.Call(t, "", "GET", g.Path("/keys"), nil).Want(200)
		kit.Exactly(t, "keys", a.Body, "agent_id handle signing_public_key encryption_public_key pq_public_key key_binding unbound_since")
		a.Shaped(kit.KeysShape).Is("agent_id", g.ID, "handle", g.Handle,
			"signing_public_key", kit.Merged(kit.SignJWK(g.Sign), obj{"kid": g.SignKid()}),
			"encryption_public_key", kit.Merged(kit.SealJWK(g.Seal), obj{"kid": kit.Thumbprint("X25519", g.Seal.PublicKey().Bytes())}))
		s.Call(t, "", "GET", "/agents/"+kit.Nobody+"/keys", nil).Refused(404, "not_found")
		s.Call(t, "", "GET", "/agents/x/keys", nil).Invalid("path", "uuid_parsing")
	})
}

func TestKeyRotation(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("rotating")
		public := func(query string) *kit.Answer { return s.Call(t, "", "GET", g.Path("/keys")+query, nil) }
		sign, seal := kit.NewKeys()
		g.Post(g.Path("/keys"), obj{}).Invalid("body", "")
		g.Post(g.Path("/keys"), obj{"signing_public_key": nil, "encryption_public_key": nil}).As("nulls").Invalid("body", "")
		old := g.SignKid()
		a := g.Post(g.Path("/keys"), obj{"signing_public_key": kit.SignJWK(sign)}).Want(200).Shaped(kit.AgentShape)
		a.Is("signing_public_key.x", kit.SignJWK(sign)["x"], "encryption_public_key.x", kit.SealJWK(g.Seal)["x"])
		if a.At("verification_words") == g.Record["verification_words"] {
			a.Errorf("the words did not change with the key")
		}
		public("").Want(200).Is("signing_public_key.x", kit.SignJWK(sign)["x"], "encryption_public_key.x", kit.SealJWK(g.Seal)["x"])
		public("?kid="+old).Want(200).Is("agent_id", g.ID, "signing_public_key", kit.Merged(kit.SignJWK(g.Sign), obj{"kid": old}))
		public("?kid="+kit.Thumbprint("Ed25519", sign.Public().(ed25519.PublicKey))).Want(200).Is("signing_public_key.x", kit.SignJWK(sign)["x"])
		public("?kid=unknown").Refused(404, "not_found")

		g.Post(g.Path("/keys"), obj{"encryption_public_key": kit.SealJWK(seal)}).Want(200).Is("encryption_public_key.x", kit.SealJWK(seal)["x"], "signing_public_key.x", kit.SignJWK(sign)["x"])
		oldSeal := kit.Thumbprint("X25519", g.Seal.PublicKey().Bytes())
		public("?kid="+oldSeal).Want(200).Is("encryption_public_key", kit.Merged(kit.SealJWK(g.Seal), obj{"kid": oldSeal}))
		public("?kid="+old).Want(200).Is("signing_public_key.kid", old)
		s.Call(t, "", "GET", "/agents/keys?ids="+g.ID, nil).Want(200).Is("keys."+g.ID+".encryption_public_key.x", kit.SealJWK(seal)["x"])
		g.Post(g.Path("/keys"), obj{"signing_public_key": kit.SignJWK(g.Sign), "encryption_public_key": kit.SealJWK(g.Seal)}).As("both, back").Want(200)
		public("").Want(200).Is("signing_public_key.kid", old, "encryption_public_key.kid", oldSeal)
	})
}

// nonCanonical sets the unused low bits of a 32-byte value's base64url form.
func nonCanonical(x string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	i := strings.IndexByte(alphabet, x[len(x)-1])
	return x[:len(x)-1] + string(alphabet[i|1])
}

func badKeys(curve, x string) map[string]obj {
	raw, _ := base64.RawURLEncoding.DecodeString(x)
	other := map[string]string{"Ed25519": "X25519", "X25519": "Ed25519"}[curve]
	good := obj{"kty": "OKP", "crv": curve, "x": x}
	return map[string]obj{
		"private member": kit.Merged(good, obj{"d": x}),
		"other curve":    kit.Merged(good, obj{"crv": other}),
		"curve in small": kit.Merged(good, obj{"crv": strings.ToLower(curve)}),
		"kty EC":         kit.Merged(good, obj{"kty": "EC"}),
		"no kty":         kit.Without(good, "kty"),
		"no crv":         kit.Without(good, "crv"),
		"no x":           kit.Without(good, "x"),
		"x a number":     kit.Merged(good, obj{"x": 1}),
		"x empty":        kit.Merged(good, obj{"x": ""}),
		"31 bytes":       kit.Merged(good, obj{"x": kit.B64(raw[:31])}),
		"33 bytes":       kit.Merged(good, obj{"x": kit.B64(append(bytes.Clone(raw), 0))}),
		"padded":         kit.Merged(good, obj{"x": x + "="}),
		"not canonical":  kit.Merged(good, obj{"x": nonCanonical(x)}),
		"standard":       kit.Merged(good, obj{"x": "+/" + x[2:]}),
		"all zero":       kit.Merged(good, obj{"x": kit.B64(make([]byte, 32))}),
		"point of one":   kit.Merged(good, obj{"x": kit.B64(append([]byte{1}, make([]byte, 31)...))}),
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		g := o.Agent("holder")
		sign, seal := kit.NewKeys()
		for field, key := range map[string]obj{"signing_public_key": kit.SignJWK(sign), "encryption_public_key": kit.SealJWK(seal)} {
			for name, bad := range badKeys(kit.Text(key, "crv"), kit.Text(key, "x")) {
				o.Post("/agents", kit.Merged(kit.NewAgent("bad"), obj{field: bad})).As("%s, %s", field, name).Invalid("body."+field, "")
				g.Post(g.Path("/keys"), obj{field: bad}).As("rotate %s, %s", field, name).Invalid("body."+field, "")
			}
		}
		if n := len(o.Get("/agents").Want(200).List); n != 1 {
			t.Errorf("%d agents, want 1", n)
		}
		g.Get(g.Path("")).Want(200).Is("signing_public_key.x", kit.SignJWK(g.Sign)["x"], "encryption_public_key.x", kit.SealJWK(g.Seal)["x"])
	})
}

func TestPublicMembersOfKeysAreDropped(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		sign, seal := kit.NewKeys()
		extra := obj{"kid": "mine", "use": "sig", "alg": "EdDSA", "key_ops": []any{"verify"}, "ext": true}
		body := obj{"name": "extras", "signing_public_key": kit.Merged(kit.SignJWK(sign), extra), "encryption_public_key": kit.Merged(kit.SealJWK(seal), extra)}
		a := s.Org(t).Post("/agents", body).Want(201)
		a.Is("signing_public_key", kit.Merged(kit.SignJWK(sign), obj{"kid": kit.Thumbprint("Ed25519", sign.Public().(ed25519.PublicKey))}),
			"encryption_public_key", kit.Merged(kit.SealJWK(seal), obj{"kid": kit.Thumbprint("X25519", seal.PublicKey().Bytes())}))
	})
}

func TestVerificationWords(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		key := obj{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
		a := s.Org(t).Post("/agents", kit.Merged(kit.NewAgent("rfc8037"), obj{"signing_public_key": key})).Want(201)
		a.Is("verification_words", "capable various jewel dress enforce", "signing_public_key.kid", "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k")
	})
}

func TestBatchKeys(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a, b, gone := o.Agent("a"), s.Org(t).Agent("b"), o.Agent("gone")
		gone.Delete(gone.Path("")).Want(204)
		fetch := func(query string) *kit.Answer { return s.Call(t, "", "GET", "/agents/keys"+query, nil) }
		both := fetch("?ids=" + a.ID + "," + kit.Nobody + "," + b.ID + "," + gone.ID).Want(200)
		kit.Exactly(t, "keys", both.At("keys").(obj), a.ID+" "+b.ID)
		for _, g := range []*kit.Agent{a, b} {
			one := both.At("keys." + g.ID).(obj)
			kit.Exactly(t, "keys of one", one, "agent_id handle signing_public_key encryption_public_key pq_public_key key_binding unbound_since")
			kit.Shaped(t, "keys of one", one, kit.KeysShape)
			both.Is("keys."+g.ID, fetch("?ids="+g.ID).Want(200).At("keys."+g.ID))
			both.Is("keys."+g.ID, s.Call(t, "", "GET", g.Path("/keys"), nil).Want(200).Body)
		}
		fetch("?ids="+a.ID+"&ids="+b.ID).As("repeated").Want(200).Is("keys", both.At("keys"))
		fetch("?ids="+a.ID+","+a.ID).As("twice the same").Want(200).Is("keys."+a.ID, both.At("keys."+a.ID))
		fetch("?ids="+kit.Nobody).Want(200).Is("keys", obj{})
		fetch("").As("none").Invalid("query.ids", "")
		fetch("?ids=x").Invalid("query.ids", "")
		fetch("?ids="+a.ID+",x").As("one malformed").Invalid("query.ids", "")
		many := strings.Repeat(kit.Nobody+",", 199)
		kit.Exactly(t, "200 ids", fetch("?ids="+many+a.ID).As("200").Want(200).At("keys").(obj), a.ID)
		fetch("?ids="+many+a.ID+","+b.ID).As("201").Invalid("query.ids", "")
	})
}
