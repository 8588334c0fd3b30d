package blackbox

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// webFinger is the path that finds an agent by its handle.
func webFinger(g *agent) string {
	return "/.well-known/webfinger?resource=" + url.QueryEscape("acct:"+g.handle)
}

// didOf returns the DID of an agent of a server with a domain.
func didOf(g *agent, domain string) string {
	return "did:web:" + g.org.slug + "." + strings.ReplaceAll(domain, ":", "%3A") + ":agents:" + g.name
}

func TestWebFinger(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("found")
		card, well := s.base+"/agents/"+g.id+"/card", s.base+"/.well-known/agent-cards/"+g.id+".json"
		links := map[string]any{
			"self":       obj{"rel": "self", "type": "application/json", "href": card},
			"agent-card": obj{"rel": "agent-card", "type": "application/json", "href": well},
			"did":        obj{"rel": "did", "type": "application/did+json", "href": s.base + "/agents/found/did.json?org=" + g.org.slug},
		}
		all := []any{links["self"], links["agent-card"], links["did"]}
		resource := "acct:found@" + g.org.slug + ".localhost"
		ask := func(query string) *answer { return s.call(t, "", "GET", "/.well-known/webfinger"+query, nil) }
		finds := func(query string, want []any) {
			a := ask(query).want(200).is("subject", resource, "aliases", []any{didOf(g, "localhost")}, "links", want)
			exactly(t, "WebFinger", a.body, "subject aliases links")
			if a.header.Get("Content-Type") != "application/jrd+json" || a.header.Get("Access-Control-Allow-Origin") != "*" {
				a.errorf("headers %v", a.header)
			}
		}
		for _, query := range []string{
			"?resource=" + resource, "?resource=" + url.QueryEscape(resource), "?resource=" + strings.ToUpper(resource), "?resource=AcCt:Found@" + strings.ToUpper(g.org.slug) + ".LocalHost",
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
			"", "?resource=", "?resource", "?rel=self", "?resource=found@" + g.org.slug + ".localhost", "?resource=acct:found", "?resource=acct:@x.localhost", "?resource=%zz",
			"?resource=acct:%25zz@" + g.org.slug + ".localhost", "?resource=" + resource + "&resource=" + resource, "?resource=acct:a%20b@x.localhost", "?resource=%ff",
			"?resource=acct:" + strings.Repeat("a", 2100) + "@x.localhost", "?resource=" + resource + strings.Repeat("&rel=x", 33), "?resource=acct:%23board@" + g.org.slug + ".localhost",
		} {
			a := ask(query).refused(400, "validation_error")
			if a.header.Get("Access-Control-Allow-Origin") != "*" || a.header.Get("Cache-Control") != "no-store" {
				a.errorf("headers %v", a.header)
			}
		}
		other := s.org(t).agent("other")
		for _, resource := range []string{
			"acct:nobody@" + g.org.slug + ".localhost", "acct:other@" + g.org.slug + ".localhost", "acct:found@" + other.org.slug + ".localhost", "acct:found@nobody-here.localhost",
			"acct:found@" + g.org.slug + ".example.org", "acct:found@localhost", "acct:found@" + g.org.slug + ".localhost:80", "acct:found@" + g.org.slug + ".localhost.",
			"acct:%2523board@" + g.org.slug + ".localhost", "https://" + g.org.slug + ".localhost/agents/found", "mailto:found@" + g.org.slug + ".localhost", didOf(g, "localhost"), "acct:" + g.id + "@" + g.org.slug + ".localhost",
		} {
			ask("?resource="+resource).as("%s", resource).refused(404, "not_found")
		}
		s.call(t, "", "POST", "/.well-known/webfinger", obj{}).refused(405, "method_not_allowed")
	})
}

// checkDID compares a DID document with the agent's keys.
func checkDID(a *answer, g *agent, domain, base string) {
	a.t.Helper()
	did := didOf(g, domain)
	sealKid := thumbprint("X25519", g.seal.PublicKey().Bytes())
	signs, seals := did+"#"+g.signKid(), did+"#"+sealKid
	method := func(id string, key obj) obj {
		return obj{"id": id, "type": "JsonWebKey2020", "controller": did, "publicKeyJwk": key}
	}
	a.want(200).is("id", did, "alsoKnownAs", []any{"acct:" + g.handle}, "verificationMethod", []any{
		method(signs, merged(signJWK(g.sign), obj{"kid": g.signKid()})), method(seals, merged(sealJWK(g.seal), obj{"kid": sealKid})),
	}, "authentication", []any{signs}, "assertionMethod", []any{signs}, "keyAgreement", []any{seals},
		"service", []any{obj{"id": did + "#messaging", "type": "AgentMessaging", "serviceEndpoint": base + "/messages"}})
	if a.header.Get("Content-Type") != "application/did+json" || a.header.Get("Vary") != "Host" || a.header.Get("Access-Control-Allow-Origin") != "*" {
		a.errorf("headers %v", a.header)
	}
}

func TestDIDDocument(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g, other := s.org(t).agent("known"), s.org(t).agent("known")
		at := func(host, path string) *answer {
			return s.call(t, "", "GET", path, nil, "Host", host).as("on %s", host)
		}
		own := g.org.slug + ".localhost"
		for _, host := range []string{own, strings.ToUpper(own), own + ":8080", own + ":65535"} {
			checkDID(at(host, "/agents/known/did.json"), g, "localhost", s.base)
		}
		checkDID(at(other.org.slug+".localhost", "/agents/known/did.json"), other, "localhost", s.base)
		for _, host := range []string{"localhost", "127.0.0.1:1", "evil.example", "x." + own, own + ".", own + ".evil.example", g.org.slug + ".localhost2", "[::1]:80"} {
			at(host, "/agents/known/did.json").refused(404, "not_found")
		}
		for _, path := range []string{"/agents/nobody/did.json", "/agents/KNOWN/did.json", "/agents/known%20/did.json", "/agents/" + nobody + "/did.json", "/agents/@/did.json", "/agents/known@nobody-here.localhost/did.json"} {
			a := at(own, path).refused(404, "not_found")
			if a.header.Get("Vary") != "Host" || a.header.Get("Cache-Control") != "no-store" {
				a.errorf("headers %v", a.header)
			}
		}
		// By id and handle an agent is found on the server's own host too, and on that of
		// its organization, but not on that of another one.
		for _, name := range []string{g.id, g.handle, url.PathEscape(strings.ToUpper(g.handle))} {
			checkDID(at(s.addr, "/agents/"+name+"/did.json"), g, "localhost", s.base)
			checkDID(at(own, "/agents/"+name+"/did.json"), g, "localhost", s.base)
			at(other.org.slug+".localhost", "/agents/"+name+"/did.json").refused(404, "not_found")
		}
		// --dev reads ?org=, which takes precedence over the host.
		for _, host := range []string{s.addr, own, other.org.slug + ".localhost"} {
			checkDID(at(host, "/agents/known/did.json?org="+g.org.slug), g, "localhost", s.base)
		}
		for _, slug := range []string{"nobody-here", "", "A", "x@y"} {
			at(s.addr, "/agents/known/did.json?org="+slug).refused(404, "not_found")
		}
		s.call(t, "", "PUT", "/agents/known/did.json", nil).refused(405, "method_not_allowed")
	})
}

func wellKnownCard(g *agent) string { return "/.well-known/agent-cards/" + g.id + ".json" }

// TestWellKnownCard: the card of an active agent is there while it is public, also that of
// an unlisted agent, and equals the card at its own address.
func TestWellKnownCard(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("carded")
		there := func() *answer { return s.call(t, "", "GET", wellKnownCard(g), nil) }
		there().as("without a card").refused(404, "not_found")
		g.put(g.path("/card"), plainCard()).want(200)
		there().as("not public").refused(404, "not_found")
		g.put(g.path("/card"), merged(fullCard(), obj{"is_public": true})).want(200)
		a, b := there().want(200), s.call(t, "", "GET", g.path("/card"), nil).want(200)
		if string(a.raw) != string(b.raw) || a.header.Get("ETag") != b.header.Get("ETag") || a.header.Get("Cache-Control") != "public, max-age=300" || a.header.Get("Access-Control-Allow-Origin") != "*" {
			a.errorf("headers %v, and the card itself is %s", a.header, b.raw)
		}
		s.call(t, "", "GET", wellKnownCard(g), nil, "If-None-Match", a.header.Get("ETag")).want(304)
		if h := s.call(t, "", "HEAD", wellKnownCard(g), nil).want(200); len(h.raw) != 0 {
			h.errorf("HEAD has a body")
		}
		g.patch(g.path(""), obj{"unlisted": true}).want(200)
		there().as("unlisted").want(200)
		s.call(t, "", "GET", "/.well-known/agent-cards/"+nobody+".json", nil).refused(404, "not_found")
		s.call(t, "", "GET", "/.well-known/agent-cards/x.json", nil).invalid("path", "uuid_parsing")
		for _, path := range []string{"/.well-known/agent-cards/" + g.id, "/.well-known/agent-cards/" + g.id + ".xml", "/.well-known/agent-cards/"} {
			s.call(t, "", "GET", path, nil).as("%s", path).refused(404, "not_found")
		}
		g.put(g.path("/card"), plainCard()).want(200)
		there().as("no longer public").refused(404, "not_found")
		g.put(g.path("/card"), merged(plainCard(), obj{"is_public": true})).want(200)
		g.delete(g.path("")).want(204)
		there().as("revoked").refused(404, "not_found")
	})
}

// TestA2AInDIDDocument: the document lists the bridge while the agent's card enables it.
// Every change is seen by clients that compare tags or dates.
func TestA2AInDIDDocument(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("bridged")
		path := g.path("/did.json")
		did := didOf(g, "localhost")
		bridge := obj{"id": did + "#a2a", "type": "A2A", "serviceEndpoint": s.base + "/a2a/" + g.handle}
		for _, step := range []struct {
			change  func() *answer
			bridged bool
		}{
			{func() *answer { return g.put(g.path("/card"), extended("a2a_enabled", true)).want(200) }, true},
			{func() *answer { return g.delete(g.path("/card")).want(204) }, false},
			{func() *answer { return g.put(g.path("/card"), extended("a2a_enabled", true)).want(200) }, true},
			{func() *answer { return g.put(g.path("/card"), plainCard()).want(200) }, false},
		} {
			aSecondPasses()
			settled := s.call(t, "", "GET", path, nil).want(200)
			step.change()
			lists := func(condition, value string) {
				a := s.call(t, "", "GET", path, nil, condition, value).as("%s: %s", condition, value).want(200)
				services, _ := a.at("service").([]any)
				if listed := len(services) == 2 && fmt.Sprint(services[1]) == fmt.Sprint(bridge); listed != step.bridged || len(services) > 2 {
					a.errorf("services %v, want the bridge: %v", services, step.bridged)
				}
			}
			lists("If-None-Match", settled.header.Get("ETag"))
			aSecondPasses()
			lists("If-Modified-Since", settled.header.Get("Last-Modified"))
		}
	})
}

// TestUnlistedAndRevokedIdentity: the documents of an unlisted agent are found by its
// handle and id. A revoked agent has none.
func TestUnlistedAndRevokedIdentity(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		g, h := o.agent("hidden"), o.agent("gone")
		g.patch(g.path(""), obj{"unlisted": true}).want(200)
		for g, status := range map[*agent]int{g: 200, h: 404} {
			if status == 404 {
				g.delete(g.path("")).want(204)
			}
			for _, path := range []string{webFinger(g), g.path("/did.json"), "/agents/" + g.handle + "/did.json", "/agents/" + g.name + "/did.json?org=" + o.slug, g.path("/keys")} {
				for _, method := range []string{"GET", "HEAD"} {
					s.call(t, "", method, path, nil).want(status)
				}
			}
			s.call(t, "", "GET", "/agents/"+g.name+"/did.json", nil, "Host", o.slug+".localhost").want(status)
		}
	})
}

// TestIdentityOfAPublicServer: without --dev, hosts alone name organizations, and links
// lead to them. A port of the domain is encoded in DIDs.
func TestIdentityOfAPublicServer(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		for _, domain := range []string{"svc.test", "svc.test:8443"} {
			s := start(t, "--journals", journals, "--dev=false", "--pow-bits", "8", "--domain", domain, "--base-url", "https://api.svc.test/parley")
			g := s.org(t).agent("public")
			host := g.org.slug + "." + domain
			a := s.call(t, "", "GET", webFinger(g), nil).want(200).is("aliases", []any{didOf(g, domain)}, "subject", "acct:public@"+host)
			for i, href := range []string{"https://api.svc.test/parley/agents/" + g.id + "/card", "https://api.svc.test/parley/.well-known/agent-cards/" + g.id + ".json", "https://" + host + "/agents/public/did.json"} {
				if links, _ := a.at("links").([]any); len(links) != 3 || links[i].(obj)["href"] != href {
					a.errorf("links, want %s", href)
				}
			}
			for _, host := range []string{host, g.org.slug + ".svc.test", g.org.slug + ".SVC.test:1"} {
				checkDID(s.call(t, "", "GET", "/agents/public/did.json", nil, "Host", host), g, domain, "https://api.svc.test/parley")
			}
			for _, host := range []string{s.addr, "svc.test", "api.svc.test", "other.svc.test"} {
				s.call(t, "", "GET", "/agents/public/did.json?org="+g.org.slug, nil, "Host", host).as("?org= on %s", host).refused(404, "not_found")
			}
			checkDID(s.call(t, "", "GET", "/agents/public/did.json?org=other", nil, "Host", host), g, domain, "https://api.svc.test/parley")
		}
	})
}

// TestServerBelowItsDomain: a server whose own host has the form of an organization's finds
// every agent there by handle and id, and no organization can register as that host.
func TestServerBelowItsDomain(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		for _, domain := range []string{"svc.test", "svc.test:8443"} {
			s := start(t, "--journals", journals, "--domain", domain, "--base-url", "https://Hub.svc.test:8443")
			g := s.org(t).agent("public")
			for _, name := range []string{g.id, g.handle} {
				for _, host := range []string{"hub.svc.test", "HUB.svc.test:8443"} {
					checkDID(s.call(t, "", "GET", "/agents/"+name+"/did.json", nil, "Host", host), g, domain, "https://Hub.svc.test:8443")
				}
				s.call(t, "", "GET", "/agents/"+name+"/did.json", nil, "Host", "other.svc.test").as("%s", name).refused(404, "not_found")
			}
			s.call(t, "", "GET", "/agents/public/did.json", nil, "Host", "hub.svc.test").refused(404, "not_found")
			s.call(t, "", "POST", "/auth/register", obj{"email": "a@b.c", "org_slug": "hub"}).invalid("body.org_slug", "value_error")
			s.call(t, "", "POST", "/auth/register", obj{"email": "a@b.c", "org_slug": "hub2"}).want(201)
		}
	})
}

// TestVerifyKeys: the command finds an agent's documents to agree, and exits with 10 if
// the server returns other keys than the DID document lists.
func TestVerifyKeys(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		bob := s.profileAt(t, s.base, "bob")
		words := bob.run("agent", "show", "bob")["verification_words"]
		shown := bob.run("verify-keys", bob.handle())
		if shown["verification_words"] != words || shown["agent_id"] != bob.id || fmt.Sprint(shown["differences"]) != "[]" {
			t.Errorf("%v", shown)
		}
		out, said, code := command(t, "verify-keys", strings.ToUpper(bob.handle()), "--url", s.base, "--profile", "none")
		checkMessage(t, "without a profile", out, bob.handle(), fmt.Sprint(words), "did:web:"+bob.slug+".localhost:agents:bob", "agree with the keys")
		if code != 0 {
			t.Errorf("exit code %d: %s", code, said)
		}

		// The profile remembers the log: it must go on from there.
		log, _ := shown["key_log"].(obj)
		again, _ := bob.run("verify-keys", bob.handle())["key_log"].(obj)
		if log["remembered"] != true || log["size_before"] != 0. || again["size_before"] != log["size"] || again["index"] != log["index"] || log["entries"] != 2. {
			t.Errorf("%v, then %v", log, again)
		}
		remembered := filepath.Join(bob.dir, "keys", "pins", "key-logs.json")
		text, err := os.ReadFile(remembered)
		if err != nil {
			t.Fatal(err)
		}
		other := bytes.Replace(text, []byte(again["root"].(string)), []byte(strings.Repeat("A", 43)+"="), 1)
		if err := os.WriteFile(remembered, other, 0o600); err != nil {
			t.Fatal(err)
		}
		out, said, code = command(t, "verify-keys", bob.handle(), "--profile", bob.dir)
		if code != exitKeys {
			t.Errorf("a log that is not the one seen before: exit code %d\n%s", code, out)
		}
		checkMessage(t, "another log", out+said, "not the one seen before", "do not trust")
		bob.run("verify-keys", bob.handle(), "--accept-key-log")
		bob.run("verify-keys", bob.handle())

		liar := newLyingServer(t, s)
		sign, seal := newKeys()
		liar.impersonate(bob.id, bob.handle(), sign, seal)
		out, said, code = command(t, "verify-keys", bob.handle(), "--url", liar.URL, "--profile", "none")
		if code != exitKeys || strings.Contains(out, fmt.Sprint(words)) || strings.Contains(out, "agree with") {
			t.Errorf("exit code %d\n%s%s", code, out, said)
		}
		checkMessage(t, "other keys", out+said, "another key for authentication", "another key for assertionMethod", "another key for keyAgreement", "names other keys than the server returns", "do not trust")

		for code, args := range map[int][]string{
			2: {"verify-keys", "bob", "--url", s.base}, 5: {"verify-keys", "nobody@" + bob.slug + ".localhost", "--url", s.base}, 4: {"verify-keys", bob.handle()},
		} {
			if _, said, got := command(t, append(args, "--profile", "none")...); got != code {
				t.Errorf("%v: exit code %d, want %d: %s", args, got, code, said)
			}
		}
		if _, _, got := command(t, "verify-keys", "#board@"+bob.slug+".localhost", "--url", s.base, "--profile", "none"); got != 2 {
			t.Errorf("a group: exit code %d", got)
		}
	})
}
