package a2a

import (
	"testing"

	"parley/actors/conversation"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/parley"
)

// TestFormerArtifacts: artifacts that a state does not know, because a former server posted them,
// are shown as long as they are among the latest messages.
func TestFormerArtifacts(t *testing.T) {
	responder := parley.AgentID{15: 1}
	v := view{bridge: &Bridge{Options: Options{Brand: "svc"}}, responder: responder}
	result := func(n byte) query.Message {
		return query.Message{Record: &record.Message{Id: parley.MessageID{15: n}.Bytes(), From: responder.Bytes(), Type: "svc.v1.task_response"}}
	}
	m := query.Moment{State: &conversation.State{}}
	for n := range byte(70) {
		m.Messages = append(m.Messages, result(n))
	}
	for _, c := range []struct {
		known          int64
		artifacts      []query.Message
		shown, omitted int
	}{
		{0, nil, 64, 6},
		{1, m.Messages[69:], 64, 6},
		{1, []query.Message{result(200)}, 64, 7},
		{100, m.Messages[6:], 64, 36},
	} {
		m.State.ArtifactCount, m.Artifacts = c.known, c.artifacts
		if shown, omitted := v.artifacts(&m); len(shown) != c.shown || omitted != c.omitted {
			t.Errorf("%d known, %d read: %d are shown, %d omitted, want %d and %d", c.known, len(c.artifacts), len(shown), omitted, c.shown, c.omitted)
		}
	}
}
