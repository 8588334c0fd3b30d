package record

import (
	"testing"

	"parley/journal"
)

// TestUndecodableMessages lists messages that no actor can decode.
func TestUndecodableMessages(t *testing.T) {
	id := make([]byte, 16)
	for name, x := range map[string]struct {
		to   journal.StreamKind
		said *SagaMessage
		fine bool
	}{
		"an offer":                   {journal.AgentStream, &SagaMessage{Kind: SagaMessage_offer, Group: id}, true},
		"an offer of no group":       {journal.AgentStream, &SagaMessage{Kind: SagaMessage_offer}, false},
		"an offer to a group":        {journal.GroupStream, &SagaMessage{Kind: SagaMessage_offer, Group: id}, false},
		"an answer":                  {journal.GroupStream, &SagaMessage{Kind: SagaMessage_answer, Agent: id}, true},
		"an answer of half an agent": {journal.GroupStream, &SagaMessage{Kind: SagaMessage_answer, Agent: id[:8]}, false},
		"a concern":                  {journal.AgentStream, &SagaMessage{Kind: SagaMessage_concern, Group: id, Request: id}, true},
		"a concern without a request": {
			journal.AgentStream, &SagaMessage{Kind: SagaMessage_concern, Group: id}, false,
		},
		"the end of a group":     {journal.OrgStream, &SagaMessage{Kind: SagaMessage_ended, Group: id}, true},
		"a retirement as a word": {journal.OrgStream, &SagaMessage{Kind: SagaMessage_retired, Agent: id}, false},
		"a word of a new kind":   {journal.AgentStream, &SagaMessage{Kind: 99, Group: id}, false},
		"the end of a webhook":   {journal.WebhookStream, &SagaMessage{Kind: SagaMessage_forget, Agent: id}, true},
		"a word for a conversation": {
			journal.ConversationStream, &SagaMessage{Kind: SagaMessage_forget, Agent: id}, false,
		},
	} {
		word, err := x.said.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeSagaMessage(x.to, word); (err == nil) != x.fine {
			t.Errorf("%s: %v", name, err)
		}
	}
	if said, err := DecodeSagaMessage(journal.OrgStream, append([]byte{Retired}, id...)); err != nil || said.GetKind() != SagaMessage_retired {
		t.Errorf("a retirement: %v, %v", said, err)
	}
	if _, err := DecodeSagaMessage(journal.OrgStream, []byte("\xff\xffthis is no word")); err == nil {
		t.Error("an invalid message was decoded")
	}
}
