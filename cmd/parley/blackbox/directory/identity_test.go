package directory

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// didOf returns the DID of an agent of a server with a domain.
func didOf(g *kit.Agent, domain string) string {
	return "did:web:" + g.Org.Slug + "." + strings.ReplaceAll(domain, ":", "%3A") + ":agents:" + g.Name
}

func TestWebFinger(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("found")
		card, well := s.Base+"/agents/"+g.ID+"/card", s.Base+"/.well-known/agent-cards/"+g.ID+".json"
		links := map[string]any{
			"self":       obj{"rel": "self", "type": "application/json", "href": card},
			"agent-card": obj{"rel": "agent-card", "type": "application/json", "href": well},
			"did":        obj{"rel": "did", "type": "application/did+json", "href": s.Base + "/agents/found/did.json?org=" + g.Org.Slug},
		}
		all := []any{links["self"], links["agent-card"], links["did"]}
		resource := "acct:found@" + g.Org.Slug + ".localhost"
		ask := func(query string) *kit.Answer { return s.Call(t, "", "GET", "/.well-known/webfinger"+query, nil) }
		finds := func(query string, want []any) {
			a := ask(query).Want(200).Is("subject", resource, "aliases", []any{didOf(g, "localhost")}, "links", want)
			kit.Exactly(t, "WebFinger", a.Body, "subject aliases links")
			if a.Header.Get("Content-Type") != "application/jrd+json" || a.Header.Get("Access-Control-Allow-Origin") != "*" {
				a.Errorf("headers %v", a.Header)
			}
		}
		for _, query := range []string{
			"?resource=" + resource, "?resource=" + url.QueryEscape(resource), "?resource=" + strings.ToUpper(resource), "?resource=AcCt:Found@" + strings.ToUpper(g.Org.Slug) + ".LocalHost",
			"?unknown=1&resource=" + resource, "?resource=" + strings.Replace(resource, "found", "%2566ound", 1), "?resource=" + resource + "&rel=self&rel=did&rel=agent-card",
		} {
			finds(query, all)
		}
		for rel, want := range map[string][]any{
			"&rel=did": {links["did"]}, "&rel=did&rel=self": {links["self"], links["did"]}, "&rel=none": {}, "&rel=http%3A%2F%2Fx.example%2Frel": {}, "&rel=Self": {},
		} {
			finds("?resource="+resource+rel, want)
		}
		for _, query := range []string{
			"", "?resource=", "?resource", "?rel=self", "?resource=found@" + g.Org.Slug + ".localhost", "?resource=acct:found", "?resource=acct:@x.localhost", "?resource=%zz",
			"?resource=acct:%25zz@" + g.Org.Slug + ".localhost", "?resource=" + resource + "&resource=" + resource, "?resource=acct:a%20b@x.localhost", "?resource=%ff",
			"?resource=acct:" + strings.Repeat("a", 2100) + "@x.localhost", "?resource=" + resource + strings.Repeat("&rel=x", 33), "?resource=acct:%23board@" + g.Org.Slug + ".localhost",
		} {
			a := ask(query).Refused(400, "validation_error")
			if a.Header.Get("Access-Control-Allow-Origin") != "*" || a.Header.Get("Cache-Control") != "no-store" {
				a.Errorf("headers %v", a.Header)
			}
		}
		other := s.Org(t).Agent("other")
		for _, resource := range []string{
			"acct:nobody@" + g.Org.Slug + ".localhost", "acct:other@" + g.Org.Slug + ".localhost", "acct:found@" + other.Org.Slug + ".localhost", "acct:found@nobody-here.localhost",
			"acct:found@" + g.Org.Slug + ".example.org", "acct:found@localhost", "acct:found@" + g.Org.Slug + ".localhost:80", "acct:found@" + g.Org.Slug + ".localhost.",
			"acct:%2523board@" + g.Org.Slug + ".localhost", "https://" + g.Org.Slug + ".localhost/agents/found", "mailto:found@" + g.Org.Slug + ".localhost", didOf(g, "localhost"), "acct:" + g.ID + "@" + g.Org.Slug + ".localhost",
		} {
			ask("?resource="+resource).As("%s", resource).Refused(404, "not_found")
		}
		s.Call(t, "", "POST", "/.well-known/webfinger", obj{}).Refused(405, "method_not_allowed")
	})
}

// checkDID compares a DID document with the agent's keys.
func checkDID(a *kit.Answer, g *kit.Agent, domain, base string) {
	a.T.Helper()
	did := didOf(g, domain)
	sealKid := kit.Thumbprint("X25519", g.Seal.PublicKey().Bytes())
	signs, seals := did+"#"+g.SignKid(), did+"#"+sealKid
	method := func(id string, key obj) obj {
		return obj{"id": id, "type": "JsonWebKey2020", "controller": did, "publicKeyJwk": key}
	}
	a.Want(200).Is("id", did, "alsoKnownAs", []any{"acct:" + g.Handle}, "verificationMethod", []any{
		method(signs, kit.Merged(kit.SignJWK(g.Sign), obj{"kid": g.SignKid()})), method(seals, kit.Merged(kit.SealJWK(g.Seal), obj{"kid": sealKid})),
	}, "authentication", []any{signs}, "assertionMethod", []any{signs}, "keyAgreement", []any{seals},
		"service", []any{obj{"id": did + "#messaging", "type": "AgentMessaging", "serviceEndpoint": base + "/messages"}})
	if a.Header.Get("Content-Type") != "application/did+json" || a.Header.Get("Vary") != "Host" || a.Header.Get("Access-Control-Allow-Origin") != "*" {
		a.Errorf("headers %v", a.Header)
	}
}

func TestDIDDocument(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g, other := s.Org(t).Agent("known"), s.Org(t).Agent("known")
		at := func(host, path string) *kit.Answer {
			return s.Call(t, "", "GET", path, nil, "Host", host).As("on %s", host)
		}
		own := g.Org.Slug + ".localhost"
		for _, host := range []string{own, strings.ToUpper(own), own + ":8080", own + ":65535"} {
			checkDID(at(host, "/agents/known/did.json"), g, "localhost", s.Base)
		}
		checkDID(at(other.Org.Slug+".localhost", "/agents/known/did.json"), other, "localhost", s.Base)
		for _, host := range []string{"localhost", "127.0.0.1:1", "evil.example", "x." + own, own + ".", own + ".evil.example", g.Org.Slug + ".localhost2", "[::1]:80"} {
			at(host, "/agents/known/did.json").Refused(404, "not_found")
		}
		for _, path := range []string{"/agents/nobody/did.json", "/agents/KNOWN/did.json", "/agents/known%20/did.json", "/agents/" + kit.Nobody + "/did.json", "/agents/@/did.json", "/agents/known@nobody-here.localhost/did.json"} {
			a := at(own, path).Refused(404, "not_found")
			if a.Header.Get("Vary") != "Host" || a.Header.Get("Cache-Control") != "no-store" {
				a.Errorf("headers %v", a.Header)
			}
		}
		// By id and handle an agent is found on the server's own host too, and on that of
		// its organization, but not on that of another one.
		for _, name := range []string{g.ID, g.Handle, url.PathEscape(strings.ToUpper(g.Handle))} {
			checkDID(at(s.Addr, "/agents/"+name+"/did.json"), g, "localhost", s.Base)
			checkDID(at(own, "/agents/"+name+"/did.json"), g, "localhost", s.Base)
			at(other.Org.Slug+".localhost", "/agents/"+name+"/did.json").Refused(404, "not_found")
		}
		// --dev reads ?org=, which takes precedence over the host.
		for _, host := range []string{s.Addr, own, other.Org.Slug + ".localhost"} {
			checkDID(at(host, "/agents/known/did.json?org="+g.Org.Slug), g, "localhost", s.Base)
		}
		for _, slug := range []string{"nobody-here", "", "A", "x@y"} {
			at(s.Addr, "/agents/known/did.json?org="+slug).Refused(404, "not_found")
		}
		s.Call(t, "", "PUT", "/agents/known/did.json", nil).Refused(405, "method_not_allowed")
	})
}

// TestWellKnownCard: the card of an active agent is there while it is public, also that of
// an unlisted agent, and equals the card at its own address.
func TestWellKnownCard(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("carded")
		there := func() *kit.Answer { return s.Call(t, "", "GET", kit.WellKnownCard(g), nil) }
		there().As("without a card").Refused(404, "not_found")
		g.Put(g.Path("/card"), kit.PlainCard()).Want(200)
		there().As("not public").Refused(404, "not_found")
		g.Put(g.Path("/card"), kit.Merged(kit.FullCard(), obj{"is_public": true})).Want(200)
		a, b := there().Want(200), s.Call(t, "", "GET", g.Path("/card"), nil).Want(200)
		if string(a.Raw) != string(b.Raw) || a.Header.Get("ETag") != b.Header.Get("ETag") || a.Header.Get("Cache-Control") != "public, max-age=300" || a.Header.Get("Access-Control-Allow-Origin") != "*" {
			a.Errorf("headers %v, and the card itself is %s", a.Header, b.Raw)
		}
		s.Call(t, "", "GET", kit.WellKnownCard(g), nil, "If-None-Match", a.Header.Get("ETag")).Want(304)
		if h := s.Call(t, "", "HEAD", kit.WellKnownCard(g), nil).Want(200); len(h.Raw) != 0 {
			h.Errorf("HEAD has a body")
		}
		g.Patch(g.Path(""), obj{"unlisted": true}).Want(200)
		there().As("unlisted").Want(200)
		s.Call(t, "", "GET", "/.well-known/agent-cards/"+kit.Nobody+".json", nil).Refused(404, "not_found")
		s.Call(t, "", "GET", "/.well-known/agent-cards/x.json", nil).Invalid("path", "uuid_parsing")
		for _, path := range []string{"/.well-known/agent-cards/" + g.ID, "/.well-known/agent-cards/" + g.ID + ".xml", "/.well-known/agent-cards/"} {
			s.Call(t, "", "GET", path, nil).As("%s", path).Refused(404, "not_found")
		}
		g.Put(g.Path("/card"), kit.PlainCard()).Want(200)
		there().As("no longer public").Refused(404, "not_found")
		g.Put(g.Path("/card"), kit.Merged(kit.PlainCard(), obj{"is_public": true})).Want(200)
		g.Delete(g.Path("")).Want(204)
		there().As("revoked").Refused(404, "not_found")
	})
}

// TestA2AInDIDDocument: the document lists the bridge while the agent's card enables it.
// Every change is seen by clients that compare tags or dates.
func TestA2AInDIDDocument(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("bridged")
		path := g.Path("/did.json")
		did := didOf(g, "localhost")
		bridge := obj{"id": did + "#a2a", "type": "A2A", "serviceEndpoint": s.Base + "/a2a/" + g.Handle}
		for _, step := range []struct {
			change  func() *kit.Answer
			bridged bool
		}{
			{func() *kit.Answer { return g.Put(g.Path("/card"), kit.Extended("a2a_enabled", true)).Want(200) }, true},
			{func() *kit.Answer { return g.Delete(g.Path("/card")).Want(204) }, false},
			{func() *kit.Answer { return g.Put(g.Path("/card"), kit.Extended("a2a_enabled", true)).Want(200) }, true},
			{func() *kit.Answer { return g.Put(g.Path("/card"), kit.PlainCard()).Want(200) }, false},
		} {
			kit.ASecondPasses()
			settled := s.Call(t, "", "GET", path, nil).Want(200)
			step.change()
			lists := func(condition, value string) {
				a := s.Call(t, "", "GET", path, nil, condition, value).As("%s: %s", condition, value).Want(200)
				services, _ := a.At("service").([]any)
				if listed := len(services) == 2 && fmt.Sprint(services[1]) == fmt.Sprint(bridge); listed != step.bridged || len(services) > 2 {
					a.Errorf("services %v, want the bridge: %v", services, step.bridged)
				}
			}
			lists("If-None-Match", settled.Header.Get("ETag"))
			kit.ASecondPasses()
			lists("If-Modified-Since", settled.Header.Get("Last-Modified"))
		}
	})
}

// TestUnlistedAndRevokedIdentity: the documents of an unlisted agent are found by its
// handle and id. A revoked agent has none.
func TestUnlistedAndRevokedIdentity(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		g, h := o.Agent("hidden"), o.Agent("gone")
		g.Patch(g.Path(""), obj{"unlisted": true}).Want(200)
		for g, status := range map[*kit.Agent]int{g: 200, h: 404} {
			if status == 404 {
				g.Delete(g.Path("")).Want(204)
			}
			for _, path := range []string{kit.WebFinger(g), g.Path("/did.json"), "/agents/" + g.Handle + "/did.json", "/agents/" + g.Name + "/did.json?org=" + o.Slug, g.Path("/keys")} {
				for _, method := range []string{"GET", "HEAD"} {
					s.Call(t, "", method, path, nil).Want(status)
				}
			}
			s.Call(t, "", "GET", "/agents/"+g.Name+"/did.json", nil, "Host", o.Slug+".localhost").Want(status)
		}
	})
}

// TestIdentityOfAPublicServer: without --dev, hosts alone name organizations, and links
// lead to them. A port of the domain is encoded in DIDs.
func TestIdentityOfAPublicServer(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		for _, domain := range []string{"svc.test", "svc.test:8443"} {
			s := kit.Start(t, "--journals", journals, "--dev=false", "--pow-bits", "8", "--domain", domain, "--base-url", "https://api.svc.test/parley")
			g := s.Org(t).Agent("public")
			host := g.Org.Slug + "." + domain
			a := s.Call(t, "", "GET", kit.WebFinger(g), nil).Want(200).Is("aliases", []any{didOf(g, domain)}, "subject", "acct:public@"+host)
			for i, href := range []string{"https://api.svc.test/parley/agents/" + g.ID + "/card", "https://api.svc.test/parley/.well-known/agent-cards/" + g.ID + ".json", "https://" + host + "/agents/public/did.json"} {
				if links, _ := a.At("links").([]any); len(links) != 3 || links[i].(obj)["href"] != href {
					a.Errorf("links, want %s", href)
				}
			}
			for _, host := range []string{host, g.Org.Slug + ".svc.test", g.Org.Slug + ".SVC.test:1"} {
				checkDID(s.Call(t, "", "GET", "/agents/public/did.json", nil, "Host", host), g, domain, "https://api.svc.test/parley")
			}
			for _, host := range []string{s.Addr, "svc.test", "api.svc.test", "other.svc.test"} {
				s.Call(t, "", "GET", "/agents/public/did.json?org="+g.Org.Slug, nil, "Host", host).As("?org= on %s", host).Refused(404, "not_found")
			}
			checkDID(s.Call(t, "", "GET", "/agents/public/did.json?org=other", nil, "Host", host), g, domain, "https://api.svc.test/parley")
		}
	})
}

// TestServerBelowItsDomain: a server whose own host has the form of an organization's finds
// every agent there by handle and id, and no organization can register as that host.
func TestServerBelowItsDomain(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		for _, domain := range []string{"svc.test", "svc.test:8443"} {
			s := kit.Start(t, "--journals", journals, "--domain", domain, "--base-url", "https://Hub.svc.test:8443")
			g := s.Org(t).Agent("public")
			for _, name := range []string{g.ID, g.Handle} {
				for _, host := range []string{"hub.svc.test", "HUB.svc.test:8443"} {
					checkDID(s.Call(t, "", "GET", "/agents/"+name+"/did.json", nil, "Host", host), g, domain, "https://Hub.svc.test:8443")
				}
				s.Call(t, "", "GET", "/agents/"+name+"/did.json", nil, "Host", "other.svc.test").As("%s", name).Refused(404, "not_found")
			}
			s.Call(t, "", "GET", "/agents/public/did.json", nil, "Host", "hub.svc.test").Refused(404, "not_found")
			s.Call(t, "", "POST", "/auth/register", obj{"email": "a@b.c", "org_slug": "hub"}).Invalid("body.org_slug", "value_error")
			s.Call(t, "", "POST", "/auth/register", obj{"email": "a@b.c", "org_slug": "hub2"}).Want(201)
		}
	})
}

// TestVerifyKeys: the command finds an agent's documents to agree, and exits with 10 if
// the server returns other keys than the DID document lists.
func TestVerifyKeys(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		bob := s.ProfileAt(t, s.Base, "bob")
		words := bob.Run("agent", "show", "bob")["verification_words"]
		shown := bob.Run("verify-keys", bob.Handle())
		if shown["verification_words"] != words || shown["agent_id"] != bob.ID || fmt.Sprint(shown["differences"]) != "[]" {
			t.Errorf("%v", shown)
		}
		out, said, code := kit.Command(t, "verify-keys", strings.ToUpper(bob.Handle()), "--url", s.Base, "--profile", "none")
		kit.CheckMessage(t, "without a profile", out, bob.Handle(), fmt.Sprint(words), "did:web:"+bob.Slug+".localhost:agents:bob", "agree with the keys")
		if code != 0 {
			t.Errorf("exit code %d: %s", code, said)
		}

		// The profile remembers the log: it must go on from there.
		log, _ := shown["key_log"].(obj)
		again, _ := bob.Run("verify-keys", bob.Handle())["key_log"].(obj)
		if log["remembered"] != true || log["size_before"] != 0. || again["size_before"] != log["size"] || again["index"] != log["index"] || log["entries"] != 2. {
			t.Errorf("%v, then %v", log, again)
		}
		remembered := filepath.Join(bob.Dir, "keys", "pins", "key-logs.json")
		text, err := os.ReadFile(remembered)
		if err != nil {
			t.Fatal(err)
		}
		other := bytes.Replace(text, []byte(again["root"].(string)), []byte(strings.Repeat("A", 43)+"="), 1)
		if err := os.WriteFile(remembered, other, 0o600); err != nil {
			t.Fatal(err)
		}
		out, said, code = kit.Command(t, "verify-keys", bob.Handle(), "--profile", bob.Dir)
		if code != kit.ExitKeys {
			t.Errorf("a log that is not the one seen before: exit code %d\n%s", code, out)
		}
		kit.CheckMessage(t, "another log", out+said, "not the one seen before", "do not trust")
		bob.Run("verify-keys", bob.Handle(), "--accept-key-log")
		bob.Run("verify-keys", bob.Handle())

		liar := kit.NewLyingServer(t, s)
		sign, seal := kit.NewKeys()
		liar.Impersonate(bob.ID, bob.Handle(), sign, seal)
		out, said, code = kit.Command(t, "verify-keys", bob.Handle(), "--url", liar.URL, "--profile", "none")
		if code != kit.ExitKeys || strings.Contains(out, fmt.Sprint(words)) || strings.Contains(out, "agree with") {
			t.Errorf("exit code %d\n%s%s", code, out, said)
		}
		kit.CheckMessage(t, "other keys", out+said, "another key for authentication", "another key for assertionMethod", "another key for keyAgreement", "names other keys than the server returns", "do not trust")

		for code, args := range map[int][]string{
			2: {"verify-keys", "bob", "--url", s.Base}, 5: {"verify-keys", "nobody@" + bob.Slug + ".localhost", "--url", s.Base}, 4: {"verify-keys", bob.Handle()},
		} {
			if _, said, got := kit.Command(t, append(args, "--profile", "none")...); got != code {
				t.Errorf("%v: exit code %d, want %d: %s", args, got, code, said)
			}
		}
		if _, _, got := kit.Command(t, "verify-keys", "#board@"+bob.Slug+".localhost", "--url", s.Base, "--profile", "none"); got != 2 {
			t.Errorf("a group: exit code %d", got)
		}
	})
}

// TestVerifyKeysBinding: the command exits with 10 if everything is true but the binding of
// the keys.
func TestVerifyKeysBinding(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		bob := s.ProfileAt(t, s.Base, "bob")
		foreign, box := kit.NewKeys()
		binding := bob.Run("agent", "keys", "bob")["key_binding"].(obj)
		at := fmt.Sprint(binding["signed_at"])
		for change, says := range map[string]string{
			kit.BindingBy(foreign, box, bob.ID, bob.Handle(), at): "the signing key has not signed it",
			"":       "the signing key has not signed it",
			"broken": "the former signing key has not signed it",
		} {
			lie := kit.Merged(binding, obj{"signature": change})
			if change == "broken" {
				lie = kit.Merged(binding, obj{"continuity": change})
			}
			liar := kit.NewLyingServer(t, s)
			liar.Rebind(bob.ID, lie)
			out, said, code := kit.Command(t, "verify-keys", bob.Handle(), "--url", liar.URL, "--profile", "none")
			if code != kit.ExitKeys || strings.Contains(out, "agree with") {
				t.Errorf("%v: exit code %d\n%s%s", lie, code, out, said)
			}
			kit.CheckMessage(t, "a broken binding", out+said, says, "do not trust")
		}
	})
}
