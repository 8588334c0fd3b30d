package webhooks

import (
	"log/slog"
	"testing"
	"time"

	"parley/actors/delivery"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/http/auth"
	"parley/http/egress"
)

func TestPayloads(t *testing.T) {
	id := func(last byte) (id [16]byte) {
		id[15] = last
		return id
	}
	at := time.Date(2026, 11, 21, 9, 8, 7, 6543000, time.UTC)
	const (
		head = `{"message_id":"00000000-0000-0000-0000-000000000001","agent_id":"00000000-0000-0000-0000-000000000002","event":"`
		none = `{"message_id":null,"agent_id":"00000000-0000-0000-0000-000000000002","event":"`
		when = `","timestamp":"2026-11-21T09:08:07.006543Z"`
	)
	all := delivery.Delivery{
		Agent: parley.AgentID(id(2)), Happened: at, Message: parley.MessageID(id(1)), Conversation: parley.ConversationID(id(3)),
		Group: parley.GroupID(id(4)), Request: parley.JoinRequestID(id(5)),
	}
	handle := "a@b.example"
	for _, c := range []struct {
		event  webhook.What
		change func(*delivery.Delivery)
		member *string
		want   string
	}{
		{webhook.MessageReceived, nil, nil, head + "message.received" + when + `}`},
		{webhook.MessageRead, nil, nil, head + "message.read" + when + `}`},
		{webhook.MessageDelivered, func(d *delivery.Delivery) { *d = delivery.Delivery{Agent: d.Agent, Happened: at, Message: d.Message} }, nil, head + "message.delivered" + when + `}`},
		{
			webhook.ConversationUpdated, func(d *delivery.Delivery) { d.Group, d.Request = parley.GroupID{}, parley.JoinRequestID{} }, nil,
			none + "conversation.updated" + when + `,"conversation_id":"00000000-0000-0000-0000-000000000003"}`,
		},
		{
			webhook.GroupRequestResolved, func(d *delivery.Delivery) { d.Conversation = parley.ConversationID{} }, nil,
			none + "group.request.resolved" + when + `,"group_id":"00000000-0000-0000-0000-000000000004","request_id":"00000000-0000-0000-0000-000000000005"}`,
		},
		{
			webhook.GroupMemberJoined, func(d *delivery.Delivery) {
				*d = delivery.Delivery{Agent: d.Agent, Happened: at, Group: d.Group, Member: d.Agent}
			}, &handle,
			none + "group.member.joined" + when + `,"group_id":"00000000-0000-0000-0000-000000000004","member_agent_id":"00000000-0000-0000-0000-000000000002","member_handle":"a@b.example"}`,
		},
		{
			webhook.GroupMemberLeft, func(d *delivery.Delivery) {
				*d = delivery.Delivery{Agent: d.Agent, Happened: at, Group: d.Group, Member: d.Agent}
			}, nil,
			none + "group.member.left" + when + `,"group_id":"00000000-0000-0000-0000-000000000004","member_agent_id":"00000000-0000-0000-0000-000000000002","member_handle":null}`,
		},
		{webhook.TestEvent, func(d *delivery.Delivery) { *d = delivery.Delivery{Agent: d.Agent, Happened: at} }, nil, none + "webhook.test" + when + `}`},
	} {
		d := all
		if c.change != nil {
			c.change(&d)
		}
		d.Event = c.event
		if got := string(payloadOf(d, c.member)); got != c.want {
			t.Errorf("%v:\ngot  %s\nwant %s", c.event, got, c.want)
		}
	}
}

// TestUnsendableDeliveryIsAFailedAttempt: deliveries that no sender accepts become
// failed attempts that give the reason to their owners.
func TestUnsendableDeliveryIsAFailedAttempt(t *testing.T) {
	vault, err := auth.NewMasterKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	guard := egress.NewGuard(egress.Allow{}, nil)
	sender, err := egress.NewSender(egress.Options{Clock: time.Now, Guard: guard})
	if err != nil {
		t.Fatal(err)
	}
	courier := NewCourier(CourierOptions{Guard: guard, Sender: sender, Vault: vault, Entropy: parley.CountingEntropy(), Logger: slog.New(slog.DiscardHandler)})
	id := webhook.ID{1}
	sealed := vault.SealSecret(sealOfHooks, id.Bytes(), []byte("whsec_AAAA"))
	for name, c := range map[string]struct {
		d    delivery.Delivery
		want string
	}{
		"a target that is closed now":   {delivery.Delivery{Webhook: id, URL: "http://127.0.0.1/", Sealed: [][]byte{sealed}}, "The url must be an https URL."},
		"an address that is not public": {delivery.Delivery{Webhook: id, URL: "https://127.0.0.1/", Sealed: [][]byte{sealed}}, "The url points to a private or reserved address."},
		"the secret of another webhook": {delivery.Delivery{Webhook: webhook.ID{2}, URL: "https://example.com/", Sealed: [][]byte{sealed}}, unsealable},
	} {
		ended := make(chan webhook.Outcome, 1)
		if _, taken := courier.Deliver(c.d, func(o webhook.Outcome) { ended <- o }); !taken {
			t.Errorf("%s: not accepted", name)
			continue
		}
		o := <-ended
		if o.Error != c.want || o.Unsent || o.Code != 0 || o.Jitter < -webhook.JitterMax || o.Jitter > webhook.JitterMax {
			t.Errorf("%s: %+v", name, o)
		}
	}
	sender.Shutdown(t.Context())
	d := delivery.Delivery{Webhook: id, URL: "https://example.com/", Sealed: [][]byte{sealed}}
	if held, taken := courier.Deliver(d, func(webhook.Outcome) { t.Error("called for a delivery that was not taken") }); taken || held <= 0 {
		t.Errorf("after the shutdown: held %v, taken %v", held, taken)
	}
}
