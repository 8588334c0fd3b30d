package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/client/api"
)

var testSite = Site{Version: "1", BaseURL: "https://home.example", Domain: "home.example", Brand: "svc"}

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                      "plain",
		"two\nlines\r\n":             "two\nlines\n",
		"a\u202eb\u2066c\u200fd":     "abcd",
		"bell\x07\x1b[31m\x00\u0085": "bell[31m",
		"tab\tand\u2028end":          "tab and end",
		"\U0001f469\u200d\U0001f4bb": "\U0001f469\u200d\U0001f4bb",
		"tag\U000e0041\ufeff\u3164":  "tag",
		"broken\xff":                 "broken",
		"מתרגם 天気":                   "מתרגם 天気",
	} {
		if got := visible(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func TestExcerpt(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		" a \n b ":                "a b",
		"0123456789":              "0123456789",
		"01234567890":             "012345678…",
		"0123456 890 abc":         "0123456 8…",
		"01234567, abc":           "01234567…",
		"0123456 \u202e \u202e90": "0123456 90",
		strings.Repeat("é", 11):   strings.Repeat("é", 9) + "…",
	} {
		if got := excerpt(text, 10); got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	}
	if got := excerpt(strings.Repeat("天", 5000), aboutMax); utf8.RuneCountInString(got) != aboutMax || !utf8.ValidString(got) {
		t.Errorf("a long text is cut to %q", got)
	}
}

func TestWeb(t *testing.T) {
	for _, address := range []string{"https://acme.example", "http://acme.example:8080/a?b=c#d", "HTTPS://acme.example/"} {
		if web(address) != address {
			t.Errorf("%q is no link", address)
		}
	}
	for _, address := range []string{
		"", "javascript:alert(1)", "JaVaScRiPt:alert(1)", " javascript:alert(1)", "java\nscript:alert(1)", "data:text/html,<b>", "vbscript:x", "file:///etc/passwd", "//acme.example",
		"/path", "https:///path", "https:acme.example", "https://acme.example\u202e", "https://bank.example@evil.example/", "mailto:a@acme.example", "urn:x:y",
	} {
		if got := web(address); got != "" {
			t.Errorf("%q is the link %q", address, got)
		}
	}
}

// TestHostileCard: a card that no request can publish is escaped as well.
func TestHostileCard(t *testing.T) {
	script := "javascript:steal()"
	card := api.ListedAgent{Card: api.Card{Name: "<canary>\u202e", Description: &script, Provider: &api.CardProvider{Organization: "<canary>", URL: script}}}
	card.Extension.PayloadSchemas = map[string]string{"<canary>": "data:text/html,<canary>"}
	card.Extension.Handle, card.Handle = `"><canary>@`, `"><canary>@`
	card.Extension.VerificationWords = "<canary>"
	page, err := testSite.Agent(card)
	if err != nil {
		t.Fatal(err)
	}
	for _, forbidden := range []string{"<canary", `href="javascript`, `href="data`, "\u202e"} {
		if bytes.Contains(page, []byte(forbidden)) {
			t.Errorf("the page has %q:\n%s", forbidden, page)
		}
	}
	if !bytes.Contains(page, []byte("&lt;canary&gt;")) {
		t.Error("the page does not show the card")
	}
}

func TestRefusalLinks(t *testing.T) {
	for path, root := range map[string]string{"/": "./", "/nowhere": "./", "/a/b": "../", "/a/b/c": "../../", "": "/", "*": "/", strings.Repeat("/", 1000): "/"} {
		page, err := testSite.Refusal(path, Refusal{Status: 404, Detail: "x", RequestID: "r"})
		if err != nil || !bytes.Contains(page, []byte(`class="brand" href="`+root+`"`)) {
			t.Errorf("%.20q links to another start page than %s: %v", path, root, err)
		}
	}
}

func TestAssets(t *testing.T) {
	total := 0
	for _, a := range Assets {
		r, err := gzip.NewReader(bytes.NewReader(a.Packed))
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := io.ReadAll(r); err != nil || !bytes.Equal(plain, a.Body) {
			t.Errorf("%s is compressed to something else: %v", a.Name, err)
		}
		if bytes.Contains(a.Body, []byte("@import")) || bytes.Contains(a.Body, []byte("url(")) || bytes.Contains(a.Body, []byte("innerHTML")) {
			t.Errorf("%s loads something, or makes HTML of texts", a.Name)
		}
		total += len(a.Packed)
	}
	if total > 12<<10 {
		t.Errorf("the files have %d bytes compressed", total)
	}
	t.Logf("%d bytes compressed", total)
}
