package keys

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// pqThumbprint returns the key id of RFC 7638, whose members of an AKP key are alg, kty and
// pub.
func pqThumbprint(alg string, raw []byte) string {
	sum := sha256.Sum256([]byte(`{"alg":"` + alg + `","kty":"AKP","pub":"` + kit.B64(raw) + `"}`))
	return kit.B64(sum[:])
}

func TestPostQuantumKeys(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("quantum")
		public := func(query string) *kit.Answer { return s.Call(t, "", "GET", g.Path("/keys")+query, nil) }
		set := func(key obj) *kit.Answer { return g.Post(g.Path("/keys/pq"), obj{"pq_public_key": key}) }
		public("").Want(200).Is("pq_public_key", nil)
		g.Get(g.Path("")).Want(200).Is("pq_public_key", nil)

		kem := kit.RawKEMKey()
		served := kit.Merged(kit.PQJWK("ML-KEM-768", kem), obj{"kid": pqThumbprint("ML-KEM-768", kem)})
		extra := obj{"kid": "mine", "use": "enc", "key_ops": []any{}, "ext": true}
		set(kit.Merged(kit.PQJWK("ML-KEM-768", kem), extra)).Want(200).Shaped(kit.AgentShape).Is("pq_public_key", served, "id", g.ID)
		hybrid := append(bytes.Clone(kem), g.Seal.PublicKey().Bytes()...)
		kid := pqThumbprint("X-Wing", hybrid)
		served = kit.Merged(kit.PQJWK("X-Wing", hybrid), obj{"kid": kid})
		set(kit.PQJWK("X-Wing", hybrid)).As("in its place").Want(200).Is("pq_public_key", served)
		set(kit.PQJWK("X-Wing", hybrid)).As("again").Want(200).Is("pq_public_key", served)
		g.Get(g.Path("")).Want(200).Shaped(kit.AgentShape).Is("pq_public_key", served)
		public("").Want(200).Shaped(kit.KeysShape).Is("pq_public_key", served, "unbound_since", nil)
		s.Call(t, "", "GET", "/agents/keys?ids="+g.ID, nil).Want(200).Is("keys."+g.ID+".pq_public_key", served)
		public("?kid="+g.SignKid()).Want(200).Is("pq_public_key", served)
		public("?kid="+kid).Want(200).Is("pq_public_key", served, "valid_until", nil, "signing_public_key.kid", g.SignKid())
		public("?kid="+pqThumbprint("ML-KEM-768", kem)).As("a former one").Refused(404, "not_found")
		g.Post(g.Path("/keys/retire"), obj{"kid": kid}).Refused(409, "invalid_transition")

		sign, seal := kit.NewKeys()
		g.Post(g.Path("/keys"), obj{"signing_public_key": kit.SignJWK(sign)}).As("another signing key").Want(200).Is("pq_public_key", served)
		g.Post(g.Path("/keys"), obj{"encryption_public_key": kit.SealJWK(seal)}).As("another encryption key").Want(200).Is("pq_public_key", nil)
		set(kit.KEMKey()).Want(200)
		g.Delete(g.Path("/keys/pq")).Want(204)
		public("").Want(200).Is("pq_public_key", nil)
		g.Delete(g.Path("/keys/pq")).As("again").Want(204)
		s.Org(t).Post(g.Path("/keys/pq"), obj{"pq_public_key": kit.KEMKey()}).As("another organization").Refused(403, "not_owner")
		g.Delete(g.Path("")).Want(204)
		set(kit.KEMKey()).As("revoked").Refused(410, "gone")
		g.Delete(g.Path("/keys/pq")).As("revoked").Refused(410, "gone")
	})
}

func TestBadPostQuantumKeysAreRefused(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("holder")
		kem := kit.RawKEMKey()
		hybrid := append(bytes.Clone(kem), g.Seal.PublicKey().Bytes()...)
		good := kit.PQJWK("X-Wing", hybrid)
		pub := kit.Text(good, "pub")
		tooLarge := bytes.Clone(hybrid)
		tooLarge[0], tooLarge[1] = 0xff, 0xff
		for name, bad := range map[string]any{
			"absent": nil, "a text": pub,
			"private member":    kit.Merged(good, obj{"priv": kit.B64(kem[:64])}),
			"private member d":  kit.Merged(good, obj{"d": kit.B64(kem[:32])}),
			"kty OKP":           kit.Merged(good, obj{"kty": "OKP"}),
			"ML-KEM-1024":       kit.Merged(good, obj{"alg": "ML-KEM-1024"}),
			"no kty":            kit.Without(good, "kty"),
			"no alg":            kit.Without(good, "alg"),
			"no pub":            kit.Without(good, "pub"),
			"pub a number":      kit.Merged(good, obj{"pub": 1}),
			"of the other alg":  kit.Merged(good, obj{"alg": "ML-KEM-768"}),
			"X-Wing of one":     kit.PQJWK("X-Wing", kem),
			"one byte more":     kit.PQJWK("X-Wing", append(bytes.Clone(hybrid), 0)),
			"padded":            kit.Merged(good, obj{"pub": base64.URLEncoding.EncodeToString(hybrid)}),
			"not canonical":     kit.Merged(good, obj{"pub": nonCanonical(pub)}),
			"coefficients":      kit.PQJWK("X-Wing", tooLarge),
			"low-order X25519":  kit.PQJWK("X-Wing", append(bytes.Clone(kem), make([]byte, 32)...)),
			"an encryption key": kit.SealJWK(g.Seal),
		} {
			g.Post(g.Path("/keys/pq"), obj{"pq_public_key": bad}).As("%s", name).Invalid("body.pq_public_key", "")
		}
		g.Post(g.Path("/keys/pq"), obj{}).Invalid("body.pq_public_key", "missing")
		g.Get(g.Path("")).Want(200).Is("pq_public_key", nil)
		g.Post("/agents", kit.Merged(kit.NewAgent("early"), obj{"pq_public_key": good})).As("at creation").Invalid("body.pq_public_key", "extra_forbidden")
	})
}
