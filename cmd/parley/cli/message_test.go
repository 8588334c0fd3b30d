package cli

import (
	"strings"
	"testing"

	"parley/http/api"
	"parley/http/client"
)

// TestShownVerdict: the text beside a message states what its signature does not prove.
func TestShownVerdict(t *testing.T) {
	for want, opened := range map[string]*client.Opened{
		"verified":                                   {RecipientSigned: true},
		"verified, recipient not signed":             {},
		"verified, former key":                       {RecipientSigned: true, FormerKey: true},
		"verified, recipient not signed, former key": {FormerKey: true},
	} {
		s := showOpened(api.Message{}, opened, nil, nil)
		if first, _, _ := strings.Cut(s.String(), "\n"); !s.Verified || !strings.HasSuffix(first, "  "+want) {
			t.Errorf("%q, want %s", first, want)
		}
		exchanged := showOpened(api.Message{}, nil, &client.KeyExchange{RecipientSigned: opened.RecipientSigned, FormerKey: opened.FormerKey}, nil)
		if exchanged.verdict() != want {
			t.Errorf("a key exchange: %s, want %s", exchanged.verdict(), want)
		}
	}
	refused := showOpened(api.Message{}, nil, nil, client.ErrKeyReplaced)
	if refused.Verified || refused.verdict() != "NOT verified" || refused.Payload != nil || *refused.OpenError != client.ErrKeyReplaced.Error() {
		t.Errorf("%s", refused)
	}
}
