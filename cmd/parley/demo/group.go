package demo

import (
	"errors"

	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
	"parley/cmd/parley/program"
)

const (
	harbourText = "The harbour opens at nine. Bring the papers."
	closedText  = "Change of plan: the harbour opens at ten."
	returnText  = "The harbour is open."
)

// groupVotes shows a group of three organizations whose members vote on who joins.
func (s *story) groupVotes() {
	s.title("Alice creates a group whose members vote on who joins")
	s.register("initech")
	s.carol = s.create("initech", "carol")
	alice, bob, carol := s.alice.ID().String(), s.bob.ID().String(), s.carol.ID().String()
	founded := must(s.alice.Client.Groups.Create(s.ctx, api.CreateGroup{ActingAgent: alice, Name: "harbour", EnrollmentPolicy: api.EnrollMajority}))
	s.group = &founded.Group
	s.check(founded.MemberCount == 1, "%s has one member, Alice; a majority of the members admits new ones", founded.Handle)

	bobsID := s.bob.ID()
	nominated := must(s.alice.Client.Groups.Invite(s.ctx, api.Invite{ID: s.group.ID, ActingAgent: alice, AgentID: &bobsID}))
	joined := must(s.bob.Client.Groups.Join(s.ctx, api.Join{ID: s.group.ID, ActingAgent: bob}))
	s.check(nominated.Status == api.InvitePending && joined.Status == api.Joined, "Alice nominates Bob and he accepts: one vote of one is a majority")

	note := "I bring the papers."
	applied := must(s.carol.Client.Groups.Join(s.ctx, api.Join{ID: s.group.ID, ActingAgent: carol, Message: &note}))
	s.quote("carol", note)
	request := applied.Request
	s.check(request != nil && request.Approvals != nil && *request.ApprovalsNeeded == 2, "Carol, of a third organization, asks to join: %s, %d of %d approvals", applied.Status, *request.Approvals, *request.ApprovalsNeeded)
	vote := func(by *e2ee.Agent) (*api.VoteResult, error) {
		return by.Client.Groups.Vote(s.ctx, api.Vote{ID: s.group.ID, RequestID: request.ID, ActingAgent: by.ID().String(), Vote: api.Approve})
	}
	_, err := vote(s.carol)
	s.check(errors.Is(err, client.NotInElectorate), "she cannot vote on her own request: %s", refusal(err))
	first := must(vote(s.alice))
	s.check(first.Status == "pending", "Alice approves: the request is still %s", first.Status)
	second := must(vote(s.bob))
	members := must(program.Collect(client.All(s.ctx, s.alice.Client.Groups.Members, api.ListMembers{ID: s.group.ID}), 0))
	s.check(second.Status == "approved" && len(members) == 3, "Bob approves: the request is %s, and the group has %d members", second.Status, len(members))
}

// groupBroadcasts shows that a group message is encrypted once for all members, and
// that a former member cannot decrypt later ones.
func (s *story) groupBroadcasts() {
	s.title("Alice sends one message to the group, encrypted once")
	s.quote("alice", harbourText)
	sent := s.broadcast(harbourText)
	s.check(len(sent.Given) == 2 && sent.RecipientCount != nil && *sent.RecipientCount == 2,
		"Bob and Carol first receive Alice's sender key, encrypted to their own keys, then the message")
	bobs, carols := s.nextBroadcast(), s.carolsCopy()
	s.check(string(bobs.Opened.Payload) == harbourText && string(must(s.carol.OpenMessage(s.ctx, carols)).Payload) == harbourText, "both decrypt it and verify Alice's signature")
	s.check(bobs.Message.EncryptedPayload == carols.EncryptedPayload && bobs.Message.ID != carols.ID, "they received the same ciphertext as two messages, each with its own id and receipts")

	must(0, s.alice.Client.Groups.RemoveMember(s.ctx, api.RemoveMember{ID: s.group.ID, AgentID: s.carol.ID(), ActingAgent: s.alice.ID().String()}))
	s.aside("Alice, the group's admin, removes Carol.")
	s.quote("alice", closedText)
	again := s.broadcast(closedText)
	s.check(again.Generation > sent.Generation && len(again.Given) == 1, "Alice's client notices that a member left and gives a new sender key to Bob only")
	bobs = s.nextBroadcast()
	s.check(string(bobs.Opened.Payload) == closedText, "Bob decrypts the message")
	_, err := s.carol.OpenMessage(s.ctx, *bobs.Message)
	s.check(errors.Is(err, e2ee.ErrNoSenderKey), "Carol cannot decrypt it with any key she has")
}

// broadcast sends a text from Alice to the group.
func (s *story) broadcast(text string) *e2ee.SentBroadcast {
	return must(s.alice.Broadcast(s.ctx, s.group, []byte(text), s.alice.Client.MessageType("dm"), plainText))
}

// nextBroadcast returns the next message to the group on Bob's stream.
func (s *story) nextBroadcast() e2ee.Incoming {
	event := s.stream.next("a message to the group", func(in e2ee.Incoming) bool { return in.Message != nil && in.Message.GroupID != nil })
	return must(event, event.OpenError)
}

// carolsCopy returns the newest message to the group in Carol's inbox.
func (s *story) carolsCopy() (found api.Message) {
	arrived := s.eventually(func() bool {
		for _, m := range must(s.carol.Client.Messages.Inbox(s.ctx, api.Inbox{ID: s.carol.ID()})).Items {
			if m.GroupID != nil {
				found = m
				return true
			}
		}
		return false
	})
	if !arrived {
		panic(mismatch("Carol's inbox has her copy"))
	}
	return found
}
