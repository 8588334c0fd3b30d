package demo

import (
	"net"
	"net/url"
	"slices"
	"time"

	"parley"
	"parley/cmd/parley/profile"
	"parley/http/api"
	"parley/http/client"
)

// serverDies shows what an answer is worth: all that was confirmed is there
// after a SIGKILL.
func (s *story) serverDies() {
	s.title("The server dies without warning, and starts again")
	if s.server == nil {
		s.aside("skipped: %s is not this demonstration's to kill. Run it without --url to see that.", s.url)
		return
	}
	before, inbox := s.transcript(), s.bobsInbox()
	lastSeen := s.stream.lastID
	s.stream.close()
	s.aside("Bob stops listening, Alice writes once more, and the moment she has her answer:")
	s.quote("alice", lastText)
	missed := s.tell(lastText)
	process := s.server.cmd.Process.Pid
	s.server.kill()
	address := must(url.Parse(s.url)).Host
	connection, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		_ = connection.Close()
	}
	s.check(err != nil, "kill -9 %d: nobody answers at %s", process, s.url)

	start := time.Now()
	s.server = must(startChild(s.ctx, s.dir, address))
	s.check(s.server.url == s.url, "started again on the same data: listening after %s", millis(time.Since(start)))
	s.returns(before, append([]parley.MessageID{missed.ID}, inbox...), missed, lastSeen)
}

// returns checks that nothing is gone, with clients that know no more than what
// is in the two profiles on disk.
func (s *story) returns(before []api.Message, inbox []parley.MessageID, missed *client.SentMessage, lastSeen string) {
	alice, bob := s.alice.ID(), s.bob.ID()
	s.alice = must((&profile.AgentFlags{Flags: *s.profile("acme")}).Session(s.ctx, nil))
	s.bob = must((&profile.AgentFlags{Flags: *s.profile("globex")}).Session(s.ctx, nil))
	s.check(s.alice.ID() == alice && s.bob.ID() == bob, "both organizations sign in, both agents are there with their keys")
	after := s.transcript()
	s.check(len(after) == 2 && slices.EqualFunc(before, after, sameRow), "the first conversation is the same, row for row (%d rows)", len(after))
	s.check(slices.Equal(s.bobsInbox(), inbox), "Bob's inbox has all %d messages, the last one on top", len(inbox))
	newest := must(s.bob.Client.Message(s.ctx, api.GetMessage{ID: inbox[0], ActingAgent: s.bob.ID().String()}))
	opened := must(s.bob.OpenMessage(s.ctx, *newest))
	s.check(string(opened.Payload) == lastText, "the last one opens and is Alice's: “%s”", opened.Payload)

	s.stream = must(listen(s.ctx, s.bob, lastSeen))
	resumed := must(s.stream.next("an event", func(client.Incoming) bool { return true }))
	s.check(resumed.Message != nil && resumed.Message.ID == missed.ID, "his stream resumes after the last message he had seen, with the one he missed")
	again := s.tell(keyedText, under(demoKey))
	s.check(again.Replayed && again.ID == s.keyed.ID, "the key used before the crash still gives the same message")
	live := s.tell("Still there?")
	heard := must(s.stream.message())
	s.check(heard.Message.ID == live.ID, "and life goes on: a new message is on Bob's stream at once")
	announced := s.announce(returnText)
	all := s.heardByAll()
	must(0, all.OpenError)
	s.check(len(announced.Given) == 0 && string(all.Opened.Payload) == returnText, "also to the group, with the keys that both have kept")
}

// bobsInbox are the ids of Bob's messages, newest first.
func (s *story) bobsInbox() (ids []parley.MessageID) {
	for m, err := range s.bob.Client.InboxAll(s.ctx, api.Inbox{ID: s.bob.ID()}) {
		must(0, err)
		ids = append(ids, m.ID)
	}
	return ids
}

// sameRow compares what must not change: who, what, when, and the marks.
func sameRow(a, b api.Message) bool {
	return a.ID == b.ID && a.FromAgentID == b.FromAgentID && a.ToAgentID == b.ToAgentID && a.Type == b.Type &&
		a.EncryptedPayload == b.EncryptedPayload && a.CreatedAt.Equal(b.CreatedAt.Time) && a.Status == b.Status
}
