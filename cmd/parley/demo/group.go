package demo

import (
	"errors"

	"parley/http/api"
	"parley/http/client"
)

const (
	harbourText = "The harbour opens at nine. Bring the papers."
	closedText  = "Change of plan: the harbour opens at ten."
	returnText  = "The harbour is open."
)

// groupVotes shows a group of three organizations in which nobody has the last
// word alone.
func (s *story) groupVotes() {
	s.title("Alice founds a group; from then on its members vote on who comes in")
	s.register("initech")
	s.carol = s.create("initech", "carol")
	alice, bob, carol := s.alice.ID().String(), s.bob.ID().String(), s.carol.ID().String()
	founded := must(s.alice.Client.CreateGroup(s.ctx, api.CreateGroup{ActingAgent: alice, Name: "harbour", EnrollmentPolicy: api.EnrollMajority}))
	s.group = &founded.Group
	s.check(founded.MemberCount == 1, "%s: Alice alone is in it, new members by majority", founded.Handle)

	bobsID := s.bob.ID()
	nominated := must(s.alice.Client.Invite(s.ctx, api.Invite{ID: s.group.ID, ActingAgent: alice, AgentID: &bobsID}))
	joined := must(s.bob.Client.JoinGroup(s.ctx, api.Join{ID: s.group.ID, ActingAgent: bob}))
	s.check(nominated.Status == api.InvitePending && joined.Status == api.Joined, "she nominates Bob, he consents: one of one is a majority")

	words := "I bring the papers."
	applied := must(s.carol.Client.JoinGroup(s.ctx, api.Join{ID: s.group.ID, ActingAgent: carol, Message: &words}))
	s.quote("carol", words)
	request := applied.Request
	s.check(request != nil && request.Approvals != nil && *request.ApprovalsNeeded == 2, "Carol of a third organization applies: %s, %d of %d needed", applied.Status, *request.Approvals, *request.ApprovalsNeeded)
	vote := func(by *client.Agent) (*api.VoteResult, error) {
		return by.Client.Vote(s.ctx, api.Vote{ID: s.group.ID, RequestID: request.ID, ActingAgent: by.ID().String(), Vote: api.Approve})
	}
	_, err := vote(s.carol)
	s.check(errors.Is(err, client.NotInElectorate), "her own vote does not count: %s", refusal(err))
	first := must(vote(s.alice))
	s.check(first.Status == "pending", "Alice approves: still %s", first.Status)
	second := must(vote(s.bob))
	members := 0
	for _, err := range s.alice.Client.MembersAll(s.ctx, api.ListMembers{ID: s.group.ID}) {
		must(0, err)
		members++
	}
	s.check(second.Status == "approved" && members == 3, "Bob approves: %s, and %d are in", second.Status, members)
}

// groupBroadcasts shows that a message is sealed once for all, and for nobody
// who is gone.
func (s *story) groupBroadcasts() {
	s.title("One message for all of them, sealed once")
	s.quote("alice", harbourText)
	sent := s.announce(harbourText)
	s.check(len(sent.Given) == 2 && sent.RecipientCount != nil && *sent.RecipientCount == 2,
		"Bob and Carol are each given Alice's key, sealed to theirs; then both get the message")
	bobs := s.heardByAll()
	must(0, bobs.OpenError)
	carols := s.carolsCopy()
	opened := must(s.carol.OpenMessage(s.ctx, carols))
	s.check(string(bobs.Opened.Payload) == harbourText && string(opened.Payload) == harbourText, "both open it and verify that Alice wrote it")
	s.check(bobs.Message.EncryptedPayload == carols.EncryptedPayload && bobs.Message.ID != carols.ID, "one ciphertext, two copies, each with an id and marks of its own")

	must(0, s.alice.Client.RemoveMember(s.ctx, api.RemoveMember{ID: s.group.ID, AgentID: s.carol.ID(), ActingAgent: s.alice.ID().String()}))
	s.aside("Alice, who is admin, takes Carol out of the group.")
	s.quote("alice", closedText)
	again := s.announce(closedText)
	s.check(again.Generation > sent.Generation && len(again.Given) == 1, "she notices that somebody is gone: a new key, for Bob alone")
	bobs = s.heardByAll()
	must(0, bobs.OpenError)
	s.check(string(bobs.Opened.Payload) == closedText, "Bob opens it")
	_, err := s.carol.OpenMessage(s.ctx, *bobs.Message)
	s.check(errors.Is(err, client.ErrNoSenderKey), "the same ciphertext in Carol's hands stays shut, with all the keys she had")
}

// announce sends a text from Alice to the group.
func (s *story) announce(words string) *client.SentBroadcast {
	return must(s.alice.Broadcast(s.ctx, s.group, []byte(words), s.alice.Client.MessageType("dm"), plainText))
}

// heardByAll is the next message to the group on Bob's stream.
func (s *story) heardByAll() client.Incoming {
	return must(s.stream.next("a message to the group", func(in client.Incoming) bool { return in.Message != nil && in.Message.GroupID != nil }))
}

// carolsCopy is the newest message to the group in Carol's inbox.
func (s *story) carolsCopy() (found api.Message) {
	arrived := s.eventually(func() bool {
		for _, m := range must(s.carol.Client.Inbox(s.ctx, api.Inbox{ID: s.carol.ID()})).Items {
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
