package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"parley"
	"parley/http/api"
	"parley/http/client"
)

// What a signature does not prove is said beside the message.
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

// Scripts tell changed keys from other failures, and which keys to accept.
func TestChangedKeysHaveAnExitCode(t *testing.T) {
	var out strings.Builder
	changed := &client.KeyChangedError{Handle: "bob@globex.localhost", AgentID: parley.AgentID{1}, Problem: client.KeysChanged, Accept: []string{"kid-1", "kid-2"}}
	code := (&streams{out: &out, err: &out, json: true}).fail(fmt.Errorf("send: %w", changed))
	var f failure
	if err := json.Unmarshal([]byte(out.String()), &f); err != nil || code != exitKeys || f.Exit != exitKeys || f.Code != "keys_changed" || fmt.Sprint(f.Accept) != "[kid-1 kid-2]" {
		t.Errorf("exit %d, %s", code, out.String())
	}
	if !strings.Contains(changed.Error(), "--accept-key kid-1 --accept-key kid-2") || exitCode(errors.New("x")) != exitUnexpected {
		t.Error(changed)
	}
}
