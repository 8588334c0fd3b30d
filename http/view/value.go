package view

import (
	"strings"
	"time"

	"parley/client/api"
	"parley/client/parley"
	"parley/http/auth"
	"parley/journal"
)

// Channels are the wire names of the channels, each with a description.
var Channels = map[journal.Channel][2]string{
	journal.InboxChannel:  {api.ChannelInbox, "A page of the inbox, or a request for the message, was answered with it."},
	journal.StreamChannel: {api.ChannelStream, "It was written to a stream of the agent."},
	journal.SyncChannel:   {api.ChannelSync, "It was the reply that a request waited for."},
	journal.WaitChannel:   {api.ChannelWait, "A request that waited was answered with it."},
	journal.BridgeChannel: {api.ChannelA2A, "It was carried over the A2A bridge."},

	journal.TranscriptChannel: {api.ChannelTranscript, "A page of the conversation was answered with it."},
}

// OrNull returns nil for an empty text.
func OrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Millis returns an instant of Unix milliseconds.
func Millis(ms int64) api.Time { return api.At(time.UnixMilli(ms)) }

// MaybeMillis is Millis, and nil for zero.
func MaybeMillis(ms int64) *api.Time {
	if ms == 0 {
		return nil
	}
	return new(Millis(ms))
}

// Once returns words without repetitions, in the order in which they first occur.
func Once(words []string) (all []string) {
	seen := make(map[string]bool, len(words))
	for _, word := range words {
		if !seen[word] {
			all = append(all, word)
		}
		seen[word] = true
	}
	return all
}

// Folded returns words trimmed and in lower case, each once, without blank ones. The
// directory compares them in this form.
func Folded(words []string) []string {
	all := make([]string, 0, len(words))
	for _, word := range words {
		if word = strings.ToLower(strings.TrimSpace(word)); word != "" {
			all = append(all, word)
		}
	}
	return Once(all)
}

// SigningKey is a key of a key document.
func SigningKey(public []byte, kid string) api.SigningKey {
	jwk := api.NewJWK(parley.Ed25519, public)
	return api.SigningKey{KeyType: jwk.KeyType, Curve: jwk.Curve, X: jwk.X, Kid: kid, Use: "sig", Algorithm: auth.Algorithm}
}
