package egress_test

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"parley/http/egress"
)

// private lists spellings of hosts that are not public. Each must be recognized without
// a resolver.
var private = []string{
	// 127.0.0.1 in many spellings.
	"127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "127.1.", "2130706433", "017700000001", "0x7f000001", "0x7f.0.0.1", "0X7F.1", "0177.0.0.1", "0177.0x0.1",
	"127.000.000.001", "127.0.0.0x1", "0x7f.0x000000000001", "%31%32%37.0.0.1", "127%2e0%2e0%2e1", "１２７.０.０.１", "127。0。0。1", "①②⑦.⓪.⓪.①", "𝟏𝟐𝟕.𝟎.𝟎.𝟏",
	"0x7f.0.0.1:8443", "127.0.0.1:0443", "127.255.255.254", "127.0.\t0.1", "127.0.0.\u00ad1",
	// This network and the unspecified address.
	"0.0.0.0", "0", "0x", "0.1.2.3", "255.255.255.255", "4294967295", "240.0.0.1", "224.0.0.1",
	// Private, shared, link-local, metadata.
	"10.0.0.1", "10.1", "167772161", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.257", "0xc0a80001", "030052000001", "100.64.0.1", "100.100.100.200",
	"169.254.169.254", "169.254.43518", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.0.1", "192.0.0.192", "168.63.129.16",
	// Documentation, benchmarks, the former anycast range.
	"192.0.2.1", "198.51.100.7", "203.0.113.9", "198.18.0.1", "192.88.99.1",
	// IPv6: unspecified, loopback, unique local, link-local, site-local, multicast.
	"[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[0000:0000:0000:0000:0000:0000:0000:0001]", "[fc00::1]", "[fd00:ec2::254]", "[fe80::1]", "[febf::1]", "[fec0::1]", "[ff02::1]",
	// IPv4 inside IPv6: mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP.
	"[::ffff:127.0.0.1]", "[::FFFF:7f00:1]", "[::ffff:8.8.8.8]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::169.254.169.254]", "[64:ff9b:1::a00:1]",
	"[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "[2001:0:7f00:1::]", "[fe80::5efe:7f00:1]",
	// Documentation, discard, segment routing.
	"[2001:db8::1]", "[3fff::1]", "[100::1]", "[5f00::1]", "[2620:4f:8000::1]",
	// Names of this machine.
	"localhost", "LOCALHOST", "localhost.", "api.localhost", "ｌｏｃａｌｈｏｓｔ", "%6cocalhost", "localhost:8443",
}

func TestPrivateHostsAreBlocked(t *testing.T) {
	for _, host := range private {
		if got, err := egress.ParseTarget("https://"+host+"/hook", egress.Allow{}); !errors.Is(err, egress.ErrBlocked) {
			t.Errorf("%s: got %v and %v, want ErrBlocked", host, got, err)
		}
	}
}

// TestPrivateHostsControl: an ordinary check in place of the guard accepts much of the
// table, so the table tests something.
func TestPrivateHostsControl(t *testing.T) {
	passed := 0
	for _, host := range private {
		u, err := url.Parse("https://" + host + "/hook")
		if err != nil {
			continue
		}
		address, err := netip.ParseAddr(u.Hostname())
		if err != nil || address.IsGlobalUnicast() && !address.IsPrivate() {
			passed++
		}
	}
	if passed < 40 {
		t.Errorf("a naive check accepts %d of %d, want at least 40", passed, len(private))
	}
}

func TestLoopbackAllowsNothingElse(t *testing.T) {
	opened := map[string]bool{}
	for _, host := range private {
		if _, err := egress.ParseTarget("https://"+host+"/hook", loopback); err == nil {
			opened[host] = true
		}
	}
	for _, host := range []string{"127.1", "0x7f000001", "[::1]", "localhost", "api.localhost"} {
		if !opened[host] {
			t.Errorf("%s is refused", host)
		}
	}
	for host := range opened {
		got, err := egress.ParseTarget("https://"+host, loopback)
		address, _ := netip.ParseAddr(got.Host())
		if err != nil || !address.IsLoopback() && !strings.HasSuffix(strings.TrimSuffix(got.Host(), "."), "localhost") {
			t.Errorf("%s is accepted: %v", host, got)
		}
	}
}

func TestTargetsAreParsedByTheURLStandard(t *testing.T) {
	for text, want := range map[string]string{
		"https://example.com":                   "https://example.com/",
		"HTTPS://EXAMPLE.com:443/a/b?x=1&y":     "https://example.com/a/b?x=1&y",
		"https://example.com:0443":              "https://example.com/",
		"https://example.com:":                  "https://example.com/",
		" \thttps://example.com/\r\n ":          "https://example.com/",
		"https://exam\nple.com/":                "https://example.com/",
		"https:example.com/a":                   "https://example.com/a",
		`https:\\example.com\a\b`:               "https://example.com/a/b",
		"https:////example.com//a":              "https://example.com//a",
		"https://example.com?":                  "https://example.com/?",
		"https://example.com?a b":               "https://example.com/?a%20b",
		"https://example.com/ä b\"":             "https://example.com/%C3%A4%20b%22",
		"https://example.com/a%2fb":             "https://example.com/a%2fb",
		"https://example.com./":                 "https://example.com./",
		"https://a_b.example.com/":              "https://a_b.example.com/",
		"https://ｅｘａｍｐｌｅ.com/":                  "https://example.com/",
		"https://xn--bcher-kva.example:8443/":   "https://xn--bcher-kva.example:8443/",
		"https://bücher.example/":               "https://xn--bcher-kva.example/",
		"https://BÜCHER.example/":               "https://xn--bcher-kva.example/",
		"https://аpple.example/":                "https://xn--pple-43d.example/",
		"https://faß.example/":                  "https://xn--fa-hia.example/",
		"https://例え。テスト/":                       "https://xn--r8jz45g.xn--zckzah/",
		"https://XN--BCHER-KVA.example/":        "https://xn--bcher-kva.example/",
		"https://a--b.example/":                 "https://a--b.example/",
		"https://b%C3%BCcher.example/":          "https://xn--bcher-kva.example/",
		"https://ex%61mple.com/":                "https://example.com/",
		"https://8.8.8.8/":                      "https://8.8.8.8/",
		"https://134744072/":                    "https://8.8.8.8/",
		"https://0x8080808:65535/":              "https://8.8.8.8:65535/",
		"https://[2606:4700:0:0:0:0:0:1111]/a":  "https://[2606:4700::1111]/a",
		"https://[2606:4700::6810:84e5]:8443/":  "https://[2606:4700::6810:84e5]:8443/",
		"https://1.2.3.4.example/":              "https://1.2.3.4.example/",
		"https://0x7f.example/":                 "https://0x7f.example/",
		"https://example.com/@user":             "https://example.com/@user",
		"https://example.com?@127.0.0.1":        "https://example.com/?@127.0.0.1",
		"https://example.com\\@127.0.0.1/hook":  "https://example.com/@127.0.0.1/hook",
		"https://metadata.google.internal./x|y": "https://metadata.google.internal./x%7Cy",
	} {
		got, err := egress.ParseTarget(text, egress.Allow{})
		if err != nil || got.String() != want {
			t.Errorf("%q: got %q and %v, want %q", text, got.String(), err, want)
		}
	}
}

func TestInvalidTargetsAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "example.com", "//example.com/", "http://example.com/", "ftp://example.com/", "javascript:alert(1)", "https", "https:", "https://", "https:///", "https://?x", "https://:443/",
		"https://user@example.com/", "https://user:pass@example.com/", "https://@example.com/", "https://example.com@127.0.0.1/", "https://example.com/#f", "https://example.com#", "https://example.com/?#@127.0.0.1",
		"https://example.com:0/", "https://example.com:65536/", "https://example.com:99999999999999999999/", "https://example.com:-1/", "https://example.com:+443/", "https://example.com:8a/", "https://example.com:80:80/",
		"https://1.2.3.4.5/", "https://256.1.1.1/", "https://1.2.3.256/", "https://4294967296/", "https://08.1.1.1/", "https://1..2/", "https://example.09/", "https://example.0x/", "https://0xffffffffffffffffffff/", "https://1.2.3.0xzz.4/",
		"https://[::1/", "https://::1/", "https://[::1]x/", "https://[1.2.3.4]/", "https://[fe80::1%25eth0]/", "https://[fe80::1%eth0]/", "https://[::ffff:127.0.0.01]/", "https://[]/", "https://[::1]]/",
		"https://exa mple.com/", "https://exa%20mple.com/", "https://exa%00mple.com/", "https://exa%zzmple.com/", "https://exa<mple.com/", "https:}", "https://./", "https://..", "https://a'b.example/", "https://a,b.example/", "https://a%2fb/", "https://a%40b/", "https://a／b/", "https://a%5cb/", "https://\xff.example/", "https://%ff.example/",
		"https://xn--a.example/", "https://xn--99999999999999999.example/", "https://\u202ea.example/", "https://a\u200db.example/", "https://\u200b/", "https://example.com/%", "https://example.com/%zz", "https://example.com/" + strings.Repeat("a", 2048),
	} {
		if got, err := egress.ParseTarget(text, egress.Allow{}); !errors.Is(err, egress.ErrTarget) {
			t.Errorf("%q: got %q and %v, want ErrTarget", text, got.String(), err)
		}
	}
	if _, err := egress.ParseTarget("http://example.com/", egress.Allow{PlainHTTP: true}); err != nil {
		t.Errorf("plain http where it is allowed: %v", err)
	}
	if _, err := egress.ParseTarget("http://127.0.0.1/", egress.Allow{PlainHTTP: true}); !errors.Is(err, egress.ErrBlocked) {
		t.Errorf("plain http to loopback where only plain http is allowed: %v", err)
	}
}

// FuzzParseTarget: a target that is accepted means the same when it is read again, by
// this parser and by the standard library, and its host is not an address that is not
// public.
func FuzzParseTarget(f *testing.F) {
	for _, host := range private {
		f.Add("https://" + host + "/hook?a=b")
	}
	f.Add("https://8.8.8.8:8443/a%2fb//?q='\"")
	f.Fuzz(func(t *testing.T, text string) {
		first, err := egress.ParseTarget(text, egress.Allow{})
		if err != nil {
			if first.String() != "" {
				t.Fatalf("%q is refused, but read as %q", text, first)
			}
			return
		}
		second, err := egress.ParseTarget(first.String(), egress.Allow{})
		if err != nil && len(first.String()) <= 2048 {
			t.Fatalf("%q is read as %q, which is refused: %v", text, first, err)
		}
		if err == nil && second.String() != first.String() {
			t.Fatalf("%q is read as %q and that as %q", text, first, second)
		}
		u, err := url.Parse(first.String())
		if err != nil || u.Hostname() != first.Host() || u.User != nil || u.Fragment != "" {
			t.Fatalf("%q is read as %q, by the standard library as %v %v", text, first, u, err)
		}
		if address, err := netip.ParseAddr(first.Host()); err == nil && (!address.IsGlobalUnicast() || address.IsPrivate()) {
			t.Fatalf("%q leads to %v", text, address)
		}
	})
}
