package blackbox

import (
	"strings"
	"testing"
)

// blockedHosts are spellings of addresses that are not public.
var blockedHosts = []string{
	// Loopback, in all spellings that URLs allow.
	"127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0x7F.0x0.0x0.0x1", "017700000001", "0177.0.0.1", "0177.1",
	"127.0.0.1.", "127.1.", "127.255.255.254", "0", "0.0.0.0", "0x0", "00", "%31%32%37.0.0.1", "127%2e0.0.1",
	"１２７.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1",
	"localhost", "LOCALHOST", "localhost.", "a.localhost", "ｌｏｃａｌｈｏｓｔ",
	"[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::a00:1]", "[::ffff:93.184.216.34]", "[2002:7f00:1::]", "[2002:a00:1::1]",
	// Private networks, shared and link-local addresses, cloud metadata services.
	"10.0.0.1", "10.255.255.255", "0xa.0.0.1", "167772161", "172.16.0.1", "172.31.255.254", "192.168.0.1", "192.168.257", "0xc0.0xa8.1.1", "100.64.0.1",
	"169.254.169.254", "2852039166", "0xa9fea9fe", "0xA9.0xFE.0xA9.0xFE", "0251.0376.0251.0376", "169.254.43518", "168.63.129.16", "[::ffff:169.254.169.254]", "[fd00:ec2::254]",
	"[fc00::1]", "[fdff::1]", "[fe80::1]", "[fec0::1]", "[2001:db8::1]", "[100::1]", "[2001::1]", "[ff02::1]",
	// Reserved, documentation, benchmarking, multicast and broadcast addresses.
	"192.0.0.1", "192.0.2.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "4294967295", "192.88.99.1",
}

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
	s := Start(t, "--dev=false", "--pow-bits", "8", "--quota-profile", "open")
	g := s.Org(t).Agent("g")
	refused := func(a *Answer) {
		t.Helper()
		if a.Err != nil || a.Status != 422 || a.Body["code"] != "ssrf_blocked" || a.Body["error"] != "ssrf_blocked" {
			a.Errorf("want 422 ssrf_blocked")
			return
		}
		for _, c := range a.complaintsOf() {
			if !Same(c["loc"], []string{"body", "url"}) || c["type"] != "value_error" {
				a.Errorf("want value_error at body.url")
			}
		}
	}
	forms := 0
	for _, host := range blockedHosts {
		for _, spelled := range []string{"https://" + host + "/hook", "https://" + host + ":8443", `HTTPS:\\` + host + `\hook`, "https:" + host, "\t https:////" + host + "/?a=b \n"} {
			refused(g.hooksAt(spelled).As("%q", spelled))
		}
		forms++
	}
	if forms < 40 {
		t.Errorf("only %d spellings of addresses", forms)
	}
	for _, host := range publicHosts {
		g.hooksAt("https://"+host+"/hook").As("control: %s", host).Want(201).Is("url", "https://"+host+"/hook")
	}
	for _, bad := range badTargets {
		g.hooksAt(bad).As("%q", bad).Invalid("body.url", "")
	}
	if rows := g.Get("/webhooks?include_inactive=true").Want(200).List; len(rows) != len(publicHosts) {
		t.Errorf("%d webhooks, want only the %d of the control", len(rows), len(publicHosts))
	}
	refusesPushTargets(t, s)
}

// complaintsOf returns the details of a 422 of any code.
func (a *Answer) complaintsOf() []obj {
	rows, _ := a.Body["detail"].([]any)
	if len(rows) == 0 {
		a.Errorf("detail is not an array of complaints")
	}
	return Objects(rows)
}

// TestAddressesInDevelopment: development mode also allows plain http and this machine,
// and nothing else.
func TestAddressesInDevelopment(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		for _, host := range []string{"10.0.0.1", "169.254.169.254", "[fc00::1]", "0.0.0.0", "0xa9fea9fe", "192.168.0.1", "[::ffff:10.0.0.1]", "100.64.0.1", "metadata.localhost.@10.0.0.1"} {
			answered := b.hooksAt("http://"+host+"/hook").As("%s", host)
			if answered.Status != 422 {
				answered.Errorf("want 422")
			}
		}
		plain := theSink(t).targetAt("http" + strings.TrimPrefix(theSink(t).bad["not TLS"], "https"))
		h := b.hook(plain)
		h.waitForStatus(a.Send(b), "delivered")
		h.to.waitForDelivery(t, 1).judged(t, h)
	})
}
