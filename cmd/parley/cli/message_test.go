package cli

import (
	"encoding/base64"
	"strings"
	"testing"

	"parley/client/api"
	"parley/client/e2ee"
)

// TestShownVerdict: the text beside a message states what its signature does not prove.
func TestShownVerdict(t *testing.T) {
	for want, opened := range map[string]*e2ee.Opened{
		"verified":             {},
		"verified, former key": {FormerKey: true},
	} {
		s := showOpened(api.Message{}, opened, nil, nil)
		if first, _, _ := strings.Cut(s.text().String(), "\n"); !s.Verified || !strings.HasSuffix(first, "  "+want) {
			t.Errorf("%q, want %s", first, want)
		}
		exchanged := showOpened(api.Message{}, nil, &e2ee.KeyExchange{FormerKey: opened.FormerKey}, nil)
		if exchanged.verdict() != want {
			t.Errorf("a key exchange: %s, want %s", exchanged.verdict(), want)
		}
	}
	refused := showOpened(api.Message{}, nil, nil, e2ee.ErrKeyReplaced)
	if refused.Verified || refused.verdict() != "NOT verified" || refused.Payload != nil || *refused.OpenError != e2ee.ErrKeyReplaced.Error() {
		t.Errorf("%s", refused.text())
	}
}

// TestShownCleartext: a message that an A2A client did not seal is shown with its text and as what
// it is, and so is the answer to one.
func TestShownCleartext(t *testing.T) {
	long := base64.RawURLEncoding.EncodeToString([]byte(`[{"text":"long"}]`))
	for _, c := range []struct{ metadata, payload, want string }{
		{`{"provenance":{"via":"a2a"},"a2a":{"cleartext":true,"parts":[{"text":"Hi."},{"data":7}]}}`, long, "Hi.\n{\"data\":7}"},
		{`{"provenance":{"via":"a2a"},"a2a":{"cleartext":true}}`, long, "long"},
		{`{"provenance":{"via":"a2a"},"a2a":{"cleartext":true}}`, "AA", ""},
		{`{"provenance":{"via":"a2a"},"a2a":{"parts":[{"text":"Hi."}]}}`, long, ""},
		{`{"provenance":{"via":"api"},"a2a":{"cleartext":true,"parts":[{"text":"Hi."}]}}`, long, "Hi."},
		{`{"provenance":{"via":"api"},"a2a":{"parts":[{"text":"Hi."}]}}`, long, "Hi."},
		{`{"provenance":{"via":"api"},"a2a":{"cleartext":true}}`, long, "long"},
		{`{"provenance":{"via":"api"},"a2a":{"as":"message"}}`, long, ""},
	} {
		s := showOpened(api.Message{Metadata: []byte(c.metadata), EncryptedPayload: c.payload}, nil, nil, e2ee.ErrKeyReplaced)
		switch {
		case s.Verified, (s.Payload != nil) != (c.want != ""), s.CleartextOverA2A != (c.want != ""), (s.OpenError == nil) != (c.want != ""):
			t.Errorf("%s is shown as %+v", c.metadata, s)
		case c.want != "" && (*s.Payload != c.want || s.verdict() != "cleartext over A2A"):
			t.Errorf("%s is shown as %s", c.metadata, s.text())
		}
	}
}
