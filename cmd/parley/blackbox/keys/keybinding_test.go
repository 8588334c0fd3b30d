package keys

import (
	"fmt"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// shownBinding is a binding as the key endpoints return it.
func shownBinding(body obj, k kit.PairOfKeys, continuity string) obj {
	sign, seal := k.Kids()
	return obj{
		"signature": body["signature"], "signed_at": body["signed_at"], "signing_kid": sign, "encryption_kid": seal,
		"previous_signature": body["previous_signature"], "continuity": continuity,
	}
}

func TestKeyBinding(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, other := s.Org(t), s.Org(t).Agent("other")
		g := o.Agent("bound")
		keys := func() *kit.Answer { return s.Call(t, "", "GET", g.Path("/keys"), nil).Want(200) }
		bind := func(body any) *kit.Answer { return o.Put(g.Path("/key-binding"), body) }
		keys().Is("key_binding", nil, "unbound_since", nil)
		s.Call(t, "", "GET", g.Path("/key-bindings"), nil).Want(200).Is("items", []any{}, "has_more", false, "next_cursor", nil)

		first := g.Binding(g.Pair(), nil, time.Now().Add(-time.Minute).UTC().Format("2006-01-02T15:04:05.0Z"))
		want := shownBinding(first, g.Pair(), "first")
		a := bind(first).Want(200)
		kit.Exactly(t, "the answer", a.Body, "key_binding")
		a.Is("key_binding", want)
		keys().Is("key_binding", want, "unbound_since", nil)
		s.Call(t, "", "GET", "/agents/keys?ids="+g.ID, nil).Want(200).Is("keys."+g.ID+".key_binding", want)
		s.Call(t, "", "GET", g.Path("/keys?kid="+g.SignKid()), nil).Want(200).Is("key_binding", want)
		s.Call(t, "", "GET", "/agents/"+g.Handle+"/key-bindings", nil).Want(200).Is("items", []any{want})
		bind(first).As("the same again").Want(200).Is("key_binding", want)
		other.Put(g.Path("/key-binding"), first).Refused(403, "not_owner")
		o.Put("/agents/"+kit.Nobody+"/key-binding", first).Refused(404, "not_found")

		stranger := kit.NewPair()
		forged := func(k kit.PairOfKeys) obj {
			return obj{"signature": g.Binding(k, nil, kit.Instant(0))["signature"], "signed_at": first["signed_at"]}
		}
		for name, body := range map[string]obj{
			"by another key": g.Binding(kit.PairOfKeys{Sign: stranger.Sign, Seal: g.Seal}, nil, kit.Instant(0)), "of another key": g.Binding(kit.PairOfKeys{Sign: g.Sign, Seal: stranger.Seal}, nil, kit.Instant(0)),
			"of another instant": forged(g.Pair()), "for another agent": other.Binding(g.Pair(), nil, kit.Instant(0)),
			"no base64url": {"signature": "!!!", "signed_at": kit.Instant(0)}, "cut short": {"signature": kit.Text(first, "signature")[:40], "signed_at": kit.Instant(0)}, "empty": {"signature": "", "signed_at": kit.Instant(0)},
			"a previous one by a stranger": g.Binding(g.Pair(), stranger.Sign, kit.Instant(0)), "and an empty one": kit.Merged(g.Binding(g.Pair(), nil, kit.Instant(0)), obj{"previous_signature": ""}),
		} {
			bind(body).As("%s", name).Refused(403, "signature_invalid")
		}
		for _, at := range []string{kit.Text(first, "signed_at"), kit.Instant(-time.Hour), kit.Instant(6 * time.Minute)} {
			body := g.Binding(g.Pair(), nil, at)
			if at == kit.Text(first, "signed_at") {
				body["previous_signature"] = nil
				bind(body).As("null is absent").Want(200)
				continue
			}
			bind(body).As("%s", at).RefusedByRule("binding_stale")
		}
		for _, at := range []string{
			"2026-11-22T09:00:00", "2026-11-22T09:00:00z", "2026-11-22T09:00:00+00:00", "2026-11-22 09:00:00Z", "2026-11-22T09:00:00.1234567Z",
			"2026-11-22T09:00:60Z", "2026-02-30T09:00:00Z", "", "now",
		} {
			bind(g.Binding(g.Pair(), nil, at)).As("%q", at).Invalid("body.signed_at", "")
			g.Post(g.Path("/keys"), kit.Merged(obj{"signing_public_key": kit.SignJWK(g.Sign)}, obj{"key_binding": g.Binding(g.Pair(), nil, at)})).As("with keys, %q", at).Invalid("body.key_binding.signed_at", "")
		}
		bind(obj{"signed_at": kit.Instant(0)}).Invalid("body.signature", "missing")
		bind(obj{"signature": first["signature"]}).Invalid("body.signed_at", "missing")
		keys().Is("key_binding", want, "unbound_since", nil)
		ahead := g.Binding(g.Pair(), nil, kit.Instant(4*time.Minute))
		bind(ahead).As("four minutes ahead").Want(200).Is("key_binding", shownBinding(ahead, g.Pair(), "signed"))
	})
}

// TestReplacedKeyIsUnbound: a caller with a token of the organization but without the
// agent's signing key can replace the encryption key. The server then reports the keys as
// unbound, and since when.
func TestReplacedKeyIsUnbound(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g, mallory := s.Org(t).Agent("bob"), kit.NewPair()
		keys := func() *kit.Answer { return s.Call(t, "", "GET", g.Path("/keys"), nil).Want(200) }
		first := g.Binding(g.Pair(), nil, kit.Instant(-time.Minute))
		g.Put(g.Path("/key-binding"), first).Want(200)
		stolen := kit.PairOfKeys{Sign: g.Sign, Seal: mallory.Seal}
		wrong := g.Binding(kit.PairOfKeys{Sign: mallory.Sign, Seal: mallory.Seal}, nil, kit.Instant(0))
		replace := obj{"encryption_public_key": kit.SealJWK(mallory.Seal)}
		g.Post(g.Path("/keys"), kit.Merged(replace, obj{"key_binding": wrong})).Refused(403, "signature_invalid")
		g.Post(g.Path("/keys"), kit.Merged(replace, obj{"key_binding": first})).As("the binding of other keys").Refused(403, "signature_invalid")
		keys().Is("encryption_public_key.x", kit.SealJWK(g.Seal)["x"], "key_binding", shownBinding(first, g.Pair(), "first"))

		before := time.Now().Add(-time.Second)
		words := g.Get(g.Path("")).Want(200).At("verification_words")
		g.Post(g.Path("/keys"), replace).Want(200).Is("verification_words", words)
		a := keys().Is("encryption_public_key.x", kit.SealJWK(mallory.Seal)["x"], "key_binding", nil)
		since, err := time.Parse(kit.Microseconds, a.Str("unbound_since"))
		if err != nil || since.Before(before) || since.After(time.Now().Add(time.Second)) {
			a.Errorf("unbound since %v", since)
		}
		g.Post(g.Path("/keys"), obj{"encryption_public_key": kit.SealJWK(g.Seal)}).As("and back").Want(200)
		keys().Is("key_binding", nil, "unbound_since", a.At("unbound_since"))
		s.Call(t, "", "GET", "/agents/keys?ids="+g.ID, nil).Want(200).Is("keys."+g.ID+".key_binding", nil, "keys."+g.ID+".unbound_since", a.At("unbound_since"))
		s.Call(t, "", "GET", g.Path("/key-bindings"), nil).Want(200).Is("items", []any{shownBinding(first, g.Pair(), "first")})
		g.Put(g.Path("/key-binding"), first).As("the former binding").RefusedByRule("binding_stale")
		g.Put(g.Path("/key-binding"), g.Binding(stolen, nil, kit.Instant(0))).As("of the key that was there").Refused(403, "signature_invalid")
		again := g.Binding(g.Pair(), nil, kit.Instant(0))
		g.Put(g.Path("/key-binding"), again).Want(200)
		keys().Is("key_binding", shownBinding(again, g.Pair(), "signed"), "unbound_since", nil)

		never := s.Org(t).Agent("never")
		never.Post(never.Path("/keys"), replace).Want(200)
		if a := s.Call(t, "", "GET", never.Path("/keys"), nil).Want(200).Is("key_binding", nil); a.At("unbound_since") == nil {
			a.Errorf("the key of an agent without a binding changed, but the answer does not show it")
		}
	})
}

// TestRotationWithBinding: keys and their binding take effect together or not at all, and
// each binding says whether the former signing key signed it.
func TestRotationWithBinding(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("rotating")
		one, two, three := g.Pair(), kit.NewPair(), kit.NewPair()
		keys := func() *kit.Answer { return s.Call(t, "", "GET", g.Path("/keys"), nil).Want(200) }
		rotate := func(to kit.PairOfKeys, binding obj) *kit.Answer {
			return g.Post(g.Path("/keys"), obj{"signing_public_key": kit.SignJWK(to.Sign), "encryption_public_key": kit.SealJWK(to.Seal), "key_binding": binding})
		}
		start := time.Now().Add(-time.Minute)
		at := func(n int) string {
			return start.Add(time.Duration(n) * time.Microsecond).UTC().Format(kit.Microseconds)
		}
		first := g.Binding(one, nil, at(1))
		g.Post(g.Path("/keys"), obj{"key_binding": first}).As("no keys").Invalid("body", "")
		rotate(one, first).As("the keys that it has").Want(200)
		rotate(one, first).As("again").Want(200)
		rotate(two, g.Binding(two, three.Sign, at(2))).As("a stranger vouches").Refused(403, "signature_invalid")
		if a := rotate(two, g.Binding(two, one.Sign, at(1))).As("not later").RefusedByRule("binding_stale"); fmt.Sprint(a.At("detail").([]any)[0].(obj)["loc"]) != "[body key_binding signed_at]" {
			a.Errorf("at another place")
		}
		keys().Is("signing_public_key.x", kit.SignJWK(one.Sign)["x"], "key_binding", shownBinding(first, one, "first"))
		second, third := g.Binding(two, one.Sign, at(2)), g.Binding(three, nil, at(3))
		rotate(two, second).Want(200).Shaped(kit.AgentShape)
		keys().Is("signing_public_key.x", kit.SignJWK(two.Sign)["x"], "key_binding", shownBinding(second, two, "signed"))
		rotate(two, second).As("a retry").Want(200)
		rotate(three, third).Want(200)
		keys().Is("key_binding", shownBinding(third, three, "broken"), "unbound_since", nil)
		all := []any{shownBinding(first, one, "first"), shownBinding(second, two, "signed"), shownBinding(third, three, "broken")}
		list := func(query string) *kit.Answer { return s.Call(t, "", "GET", g.Path("/key-bindings")+query, nil) }
		list("").Want(200).Is("items", all)
		page := list("?limit=2").Want(200).Is("items", all[:2], "has_more", true)
		list("?limit=2&cursor="+page.Str("next_cursor")).Want(200).Is("items", all[2:], "has_more", false, "next_cursor", nil)
		other := s.Org(t).Agent("other")
		s.Call(t, "", "GET", other.Path("/key-bindings?cursor="+page.Str("next_cursor")), nil).Refused(400, "invalid_cursor")
		list("?limit=0").Invalid("query.limit", "")
		list("?limit=201").Invalid("query.limit", "")
	})
}

func TestKeyValidityAndRetirement(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g, b := s.Org(t).Agent("signer"), s.Org(t).Agent("bob")
		old, oldSeal := g.Pair().Kids()
		fresh := kit.NewPair()
		record := func(kid string) *kit.Answer { return s.Call(t, "", "GET", g.Path("/keys?kid="+kid), nil).Want(200) }
		retire := func(kid string) *kit.Answer { return g.Post(g.Path("/keys/retire"), obj{"kid": kid}) }
		created := g.Record["created_at"]
		record(old).Is("valid_from", created, "valid_until", nil, "retired_at", nil)
		retire(old).As("a current key").Refused(409, "invalid_transition")
		retire(oldSeal).As("a current key").Refused(409, "invalid_transition")
		retire("unknown").Refused(404, "not_found")
		g.Post(g.Path("/keys/retire"), obj{}).Invalid("body.kid", "missing")
		b.Post(g.Path("/keys/retire"), obj{"kid": old}).Refused(403, "not_owner")

		g.Post(g.Path("/keys"), obj{"signing_public_key": kit.SignJWK(fresh.Sign)}).Want(200)
		until := record(old).Is("valid_from", created, "retired_at", nil, "signing_public_key.kid", old).Str("valid_until")
		kid, _ := fresh.Kids()
		record(kid).Is("valid_from", until, "valid_until", nil)
		attest := obj{"sender_attestations": []any{attested(g.Sign, old, false, false)}}
		m := g.TrySend(b, attest).As("by a former key").Want(201)

		a := retire(old).Want(200).Is("agent_id", g.ID, "signing_public_key.kid", old, "valid_until", until, "encryption_public_key.kid", oldSeal)
		if a.At("retired_at") == nil {
			a.Errorf("the answer does not show when the key was retired")
		}
		retire(old).As("again").Want(200).Is("retired_at", a.At("retired_at"))
		record(old).Is("retired_at", a.At("retired_at"), "valid_until", until)
		g.TrySend(b, attest).As("by a retired key").Refused(403, "signature_invalid")
		did := "did:web:" + g.Org.Slug + ".localhost:agents:signer#" + old
		g.TrySend(b, obj{"sender_attestations": []any{attested(g.Sign, did, true, false)}}).As("by its DID").Refused(403, "signature_invalid")
		b.TryReply(m.Body, attest).As("in a reply").Refused(403, "signature_invalid")
		g.TrySend(b, obj{"sender_attestations": []any{attested(fresh.Sign, kid, false, false)}}).As("by the current key").Want(201)
		g.Post(g.Path("/keys"), obj{"signing_public_key": kit.SignJWK(g.Sign)}).As("a retired key").Refused(409, "invalid_transition")
		s.Call(t, "", "GET", g.Path("/keys"), nil).Want(200).Is("signing_public_key.kid", kid)
	})
}

// TestAKeyIsRetiredByItsOwner: another organization that uploads an agent's public key
// cannot retire it for the server and cannot bring it back once retired.
func TestAKeyIsRetiredByItsOwner(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g, thief, b := s.Org(t).Agent("signer"), s.Org(t).Agent("thief"), s.Org(t).Agent("bob")
		kid, _ := g.Pair().Kids()
		attest := obj{"sender_attestations": []any{attested(g.Sign, kid, false, false)}}
		upload := func(by *kit.Agent, k kit.PairOfKeys) {
			by.Post(by.Path("/keys"), obj{"signing_public_key": kit.SignJWK(k.Sign)}).Want(200)
		}
		upload(thief, g.Pair())
		upload(thief, kit.NewPair())
		thief.Post(thief.Path("/keys/retire"), obj{"kid": kid}).Want(200)
		g.TrySend(b, attest).As("by a key that another organization retired").Want(201)

		upload(g, kit.NewPair())
		g.Post(g.Path("/keys/retire"), obj{"kid": kid}).Want(200)
		robber := thief.Org.Agent("robber")
		upload(robber, g.Pair())
		robber.TrySend(b, attest).As("by a retired key that another organization uploaded").Refused(403, "signature_invalid")
	})
}

// TestStolenTokenCannotEndContinuity: a thief with the organization's token and none of
// the agent's keys cannot retire the keys for good and cannot use up the owner's limits.
func TestStolenTokenCannotEndContinuity(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("victim")
		owner, thief, next := g.Pair(), kit.NewPair(), kit.NewPair()
		upload := func(k kit.PairOfKeys, bound obj) *kit.Answer {
			body := obj{"signing_public_key": kit.SignJWK(k.Sign), "encryption_public_key": kit.SealJWK(k.Seal)}
			if bound != nil {
				body["key_binding"] = bound
			}
			return g.Post(g.Path("/keys"), body)
		}
		retire := func(kid string) *kit.Answer { return g.Post(g.Path("/keys/retire"), obj{"kid": kid}) }
		sign, seal := owner.Kids()
		first := g.Binding(owner, nil, kit.Instant(-time.Hour))
		g.Put(g.Path("/key-binding"), first).Want(200)
		upload(thief, nil).Want(200)
		retire(sign).As("by a thief").Refused(409, "invalid_transition")
		retire(seal).As("by a thief").Want(200) // it returns with a binding
		for n := range 1100 {                   // the documents: an agent has at most 1,000 key bindings
			g.Put(g.Path("/key-binding"), g.Binding(thief, nil, kit.Instant(-time.Hour+time.Duration(n+1)*time.Second))).As("by a thief").Want(200)
		}
		retire(sign).As("by a thief who bound his keys").Refused(409, "invalid_transition")

		upload(owner, nil).As("a retired encryption key, not bound").Refused(409, "invalid_transition")
		upload(owner, g.Binding(owner, nil, kit.Instant(0))).As("the owner restores its keys").Want(200)
		upload(next, g.Binding(next, owner.Sign, kit.Instant(time.Second))).As("and rotates them").Want(200)
		s.Call(t, "", "GET", g.Path("/keys"), nil).Want(200).Is("key_binding.continuity", "signed")
		retire(sign).As("the owner's former key").Want(200)
		s.Call(t, "", "GET", g.Path("/key-bindings?limit=1"), nil).Want(200).Is("items", []any{shownBinding(first, owner, "first")})
	})
}

// TestKeysOfTheRevoked: the keys of a revoked agent cannot be changed or read.
func TestKeysOfTheRevoked(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("leaving")
		old := g.SignKid()
		fresh := kit.NewPair()
		g.Post(g.Path("/keys"), obj{"signing_public_key": kit.SignJWK(fresh.Sign)}).Want(200)
		g.Delete(g.Path("")).Want(204)
		bound := g.Binding(kit.PairOfKeys{Sign: fresh.Sign, Seal: g.Seal}, nil, kit.Instant(0))
		g.Put(g.Path("/key-binding"), bound).Refused(410, "gone")
		g.Post(g.Path("/keys"), obj{"encryption_public_key": kit.SealJWK(fresh.Seal), "key_binding": bound}).Refused(410, "gone")
		g.Post(g.Path("/keys/retire"), obj{"kid": old}).Refused(410, "gone")
		s.Call(t, "", "GET", g.Path("/key-bindings"), nil).Refused(404, "not_found")
	})
}

// TestBindingsSurviveACrash: after a crash, bindings have their exact text.
func TestBindingsSurviveACrash(t *testing.T) {
	t.Parallel()
	s := kit.Start(t, "--journals", "4")
	g, fresh := s.Org(t).Agent("bound"), kit.NewPair()
	first := g.Binding(g.Pair(), nil, time.Now().UTC().Add(-time.Minute).Format("2006-01-02T15:04:05Z"))
	g.Put(g.Path("/key-binding"), first).Want(200)
	g.Post(g.Path("/keys"), obj{"encryption_public_key": kit.SealJWK(fresh.Seal)}).Want(200)
	_, oldSeal := g.Pair().Kids()
	g.Post(g.Path("/keys/retire"), obj{"kid": oldSeal}).Want(200)
	read := func() []any {
		all := []any{}
		for _, path := range []string{"/keys", "/key-bindings", "/keys?kid=" + oldSeal} {
			all = append(all, s.Call(t, "", "GET", g.Path(path), nil).Want(200).Body)
		}
		return all
	}
	before := read()
	s.Kill()
	s.Restart(t)
	if after := read(); !kit.Same(before, after) {
		t.Errorf("after a crash %v, before %v", after, before)
	}
}
