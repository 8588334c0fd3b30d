package webhooks

import (
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/hooktest"
)

// publicHosts are equally unusual spellings of public addresses, or names that do not
// resolve here.
var publicHosts = []string{"93.184.216.34", "0x5d.184.0xd823", "1572395044", "[2606:2800:220:1:248:1893:25c8:1946]", "hooks.unknown.invalid", "xn--bcher-kva.unknown.invalid", "HOOKS.unknown.invalid.", "bücher.beyond.invalid"}

// badTargets are invalid targets.
var badTargets = []string{
	"http://hooks.unknown.invalid/", "ftp://hooks.unknown.invalid/", "file:///etc/passwd", "gopher://hooks.unknown.invalid/", "javascript:alert(1)", "//hooks.unknown.invalid/", "hooks.unknown.invalid", "https", "https:", "https://", "https:///", " ",
	"https://user@hooks.unknown.invalid/", "https://user:pass@hooks.unknown.invalid/", "https://@hooks.unknown.invalid/", "https://127.0.0.1@hooks.unknown.invalid/", "https://hooks.unknown.invalid@127.0.0.1/", "https://hooks.unknown.invalid/#part", "https://hooks.unknown.invalid#@127.0.0.1/",
	"https://hooks.unknown.invalid:0/", "https://hooks.unknown.invalid:65536/", "https://hooks.unknown.invalid:x/", "https://hooks.unknown.invalid:-1/", "https://256.0.0.1/", "https://1.2.3.4.5/", "https://0x100000000/", "https://1.2.3.4.0x/", "https://[::1/", "https://::1/", "https://[fe80::1%25eth0]/", "https://[1.2.3.4]/",
	"https://a b.invalid/", "https://a\x00b.invalid/", "https://a%00b.invalid/", "https://a%2fb.invalid/", "https://exa<mple.invalid/", "https://./", "https://../", "https://hooks.unknown.invalid/%zz", "https://xn--a.invalid/", "https://hooks.unknown.invalid/" + strings.Repeat("p", 2100),
}

// TestAddressesOfTargets: a server not in development mode rejects targets that are not
// public addresses, of webhooks and of push notifications.
func TestAddressesOfTargets(t *testing.T) {
	t.Parallel()
	s := kit.Start(t, "--dev=false", "--pow-bits", "8", "--quota-profile", "open")
	g := s.Org(t).Agent("g")
	refused := func(a *kit.Answer) {
		t.Helper()
		if a.Err != nil || a.Status != 422 || a.Body["code"] != "ssrf_blocked" || a.Body["error"] != "ssrf_blocked" {
			a.Errorf("want 422 ssrf_blocked")
			return
		}
		for _, c := range complaintsOf(a) {
			if !kit.Same(c["loc"], []string{"body", "url"}) || c["type"] != "value_error" {
				a.Errorf("want value_error at body.url")
			}
		}
	}
	forms := 0
	for _, host := range hooktest.BlockedHosts {
		for _, spelled := range []string{"https://" + host + "/hook", "https://" + host + ":8443", `HTTPS:\\` + host + `\hook`, "https:" + host, "\t https:////" + host + "/?a=b \n"} {
			refused(hooktest.TryNew(g, spelled).As("%q", spelled))
		}
		forms++
	}
	if forms < 40 {
		t.Errorf("only %d spellings of addresses", forms)
	}
	for _, host := range publicHosts {
		hooktest.TryNew(g, "https://"+host+"/hook").As("control: %s", host).Want(201).Is("url", "https://"+host+"/hook")
	}
	for _, bad := range badTargets {
		hooktest.TryNew(g, bad).As("%q", bad).Invalid("body.url", "")
	}
	if rows := g.Get("/webhooks?include_inactive=true").Want(200).List; len(rows) != len(publicHosts) {
		t.Errorf("%d webhooks, want only the %d of the control", len(rows), len(publicHosts))
	}
	hooktest.RefusesPushTargets(t, s)
}

// complaintsOf returns the details of a 422 of any code.
func complaintsOf(a *kit.Answer) []obj {
	rows, _ := a.Body["detail"].([]any)
	if len(rows) == 0 {
		a.Errorf("detail is not an array of complaints")
	}
	return kit.Objects(rows)
}

// TestAddressesInDevelopment: development mode also allows plain http and this machine,
// and nothing else.
func TestAddressesInDevelopment(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		for _, host := range []string{"10.0.0.1", "169.254.169.254", "[fc00::1]", "0.0.0.0", "0xa9fea9fe", "192.168.0.1", "[::ffff:10.0.0.1]", "100.64.0.1", "metadata.localhost.@10.0.0.1"} {
			answered := hooktest.TryNew(b, "http://"+host+"/hook").As("%s", host)
			if answered.Status != 422 {
				answered.Errorf("want 422")
			}
		}
		plain := hooktest.SharedSink(t).TargetAt("http" + strings.TrimPrefix(hooktest.SharedSink(t).Bad["not TLS"], "https"))
		h := hooktest.New(b, plain)
		h.WaitForStatus(a.Send(b), "delivered")
		h.To.WaitForDelivery(t, 1).Judged(t, h)
	})
}
