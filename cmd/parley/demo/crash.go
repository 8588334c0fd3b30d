package demo

import (
	"net"
	"net/url"
	"slices"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

// serverDies shows that every acknowledged message survives a SIGKILL.
func (s *story) serverDies() {
	s.title("Kill the server with SIGKILL and restart it")
	if s.server == nil {
		s.aside("skipped, because the demo did not start the server at %s. Run it without --url to see this step.", s.url)
		return
	}
	before, inbox := s.transcript(), s.bobsInbox()
	lastSeen := s.stream.lastID
	s.stream.close()
	s.aside("Bob closes his stream. Alice sends once more; the server is killed as soon as it acknowledges:")
	s.quote("alice", lastText)
	missed := s.send(lastText, "")
	process := s.server.cmd.Process.Pid
	s.server.kill()
	address := must(url.Parse(s.url)).Host
	connection, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		_ = connection.Close()
	}
	s.check(err != nil, "after kill -9 %d nothing answers at %s", process, s.url)

	start := time.Now()
	s.server = startChild(s.ctx, s.dir, address)
	s.check(s.server.url == s.url, "restarted on the same data, the server listens after %s", millis(time.Since(start)))
	s.returns(before, append([]parley.MessageID{missed.ID}, inbox...), missed, lastSeen)
}

// returns checks that nothing is lost. It uses new clients, which know only what the
// two profiles on disk contain.
func (s *story) returns(before []api.Message, inbox []parley.MessageID, missed *client.SentMessage, lastSeen string) {
	alice, bob := s.alice.ID(), s.bob.ID()
	s.alice = must((&profile.AgentFlags{Flags: s.profile("acme")}).Session(s.ctx))
	s.bob = must((&profile.AgentFlags{Flags: s.profile("globex")}).Session(s.ctx))
	s.check(s.alice.ID() == alice && s.bob.ID() == bob, "both organizations sign in, and both agents have their keys")
	after := s.transcript()
	s.check(len(after) == 2 && slices.EqualFunc(before, after, sameRow), "the first conversation is unchanged (%d messages)", len(after))
	s.check(slices.Equal(s.bobsInbox(), inbox), "Bob's inbox has all %d messages, the newest first", len(inbox))
	newest := must(s.bob.Client.Messages.Get(s.ctx, api.GetMessage{ID: inbox[0], ActingAgent: s.bob.ID().String()}))
	opened := must(s.bob.OpenMessage(s.ctx, *newest))
	s.check(string(opened.Payload) == lastText, "the newest is the one that Alice sent last: “%s”", opened.Payload)

	s.stream = listen(s.ctx, s.bob, lastSeen)
	resumed := s.stream.next("an event", func(e2ee.Incoming) bool { return true })
	s.check(resumed.Message != nil && resumed.Message.ID == missed.ID, "his stream resumes after the last event he received, with the message he missed")
	again := s.send(keyedText, demoKey)
	s.check(again.Replayed && again.ID == s.keyed.ID, "the idempotency key used before the crash still returns the same message")
	live := s.send("Are you still there?", "")
	s.check(s.stream.message().Message.ID == live.ID, "a new message arrives on Bob's stream at once")
	announced := s.broadcast(returnText)
	all := s.nextBroadcast()
	s.check(len(announced.Given) == 0 && string(all.Opened.Payload) == returnText, "a new group message is decrypted with the sender key from before the crash")
}

// bobsInbox returns the ids of Bob's messages, newest first.
func (s *story) bobsInbox() (ids []parley.MessageID) {
	for _, m := range must(program.Collect(client.All(s.ctx, s.bob.Client.Messages.Inbox, api.Inbox{ID: s.bob.ID()}), 0)) {
		ids = append(ids, m.ID)
	}
	return ids
}

// sameRow reports whether two messages have equal ids, agents, contents, times and
// status.
func sameRow(a, b api.Message) bool {
	return a.ID == b.ID && a.FromAgentID == b.FromAgentID && a.ToAgentID == b.ToAgentID && a.Type == b.Type &&
		a.EncryptedPayload == b.EncryptedPayload && a.CreatedAt.Equal(b.CreatedAt.Time) && a.Status == b.Status
}
