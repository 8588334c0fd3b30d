package demo

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

const (
	greetingText = "Hello Bob. Can your side deliver forty crates on Monday?"
	answerText   = "We can. Which gate?"
	questionText = "What do forty crates cost?"
	priceText    = "1,200 euros, delivered."
	keyedText    = "Forty crates on Monday, please. This is the order."
	lastText     = "Gate seven. I hope this reaches you."
	demoKey      = "order-forty-crates"
)

func (s *story) organizationsRegister() {
	s.title("Two organizations register with a proof of work")
	s.register("acme")
	s.register("globex")
}

// register registers an organization and stores its credentials in the profile of
// the same name.
func (s *story) register(name string) {
	c, slug := must(client.New(s.url)), s.slug(name)
	challenge := must(c.Challenge(s.ctx, api.Register{Email: "ops@" + name + ".example", OrgSlug: slug}))
	start := time.Now()
	nonce := must(client.SolveProof(s.ctx, challenge.Challenge, challenge.Difficulty, nil))
	took := time.Since(start)
	credentials := must(c.Solve(s.ctx, api.Solve{ChallengeID: challenge.ChallengeID, Nonce: nonce}))
	a := &profile.Account{URL: s.url, Brand: must(c.Version(s.ctx)).Brand, Credentials: *credentials}
	must(0, a.Save(s.profile(name).Profile))
	org := must(c.Authenticated(*credentials).Org.Get(s.ctx))
	s.check(program.Text(org.Slug) == slug && org.TrustTier >= 1,
		"%s is registered at trust tier %[4]d: it solved the %[2]d-bit proof of work in %[3]s", slug, challenge.Difficulty, millis(took), org.TrustTier)
}

func (s *story) agentsAppear() {
	s.title("Each organization creates an agent, whose private keys stay on this machine")
	s.alice, s.bob = s.create("acme", "alice"), s.create("globex", "bob")
	private := func(a *e2ee.Agent) bool { return must(os.Stat(a.Keys.Path())).Mode().Perm() == 0o600 }
	s.check(private(s.alice) && private(s.bob), "the private keys are in files that only this user can read (mode 600)")
}

// create creates an agent of an organization and stores its keys in the profile.
func (s *story) create(organization, name string) *e2ee.Agent {
	flags := s.profile(organization)
	c, directory, err := flags.Open()
	must(0, err)
	agent := must(profile.CreateAgent(s.ctx, c, profile.RingPath(directory, name), api.CreateAgent{Name: name}, false))
	published := must(c.Keys.Get(s.ctx, agent.Handle(), ""))
	s.check(published.AgentID == agent.ID() && published.EncryptionPublicKey.X == agent.Keys.EncryptionKey().X,
		"anyone can look up %s and its public keys; verification words: %s", agent.Handle(), program.Text(agent.Record.VerificationWords))
	return agent
}

func (s *story) aliceWrites() {
	s.title("Bob opens his event stream; Alice sends him an encrypted message")
	s.stream = listen(s.ctx, s.bob, "")
	s.quote("alice", greetingText)
	start := time.Now()
	s.greeting = s.send(greetingText, "")
	answered := time.Since(start)
	heard := s.stream.message()
	arrived := time.Since(start)
	s.check(heard.Message.ID == s.greeting.ID, "the server acknowledged it, on disk, after %s; Bob's stream had it after %s", millis(answered), millis(arrived))

	sealed := must(base64.RawURLEncoding.DecodeString(heard.Message.EncryptedPayload))
	s.check(!bytes.Contains(sealed, []byte("crates")), "the server saw %d bytes of ciphertext, not the text", len(sealed))
	stranger := must(e2ee.GenerateKeyRing())
	_, err := e2ee.Open(stranger, s.alice.ID(), heard.Message.EncryptedPayload, nil)
	s.check(errors.Is(err, e2ee.ErrCannotOpen), "another key cannot decrypt it")
	s.check(string(heard.Opened.Payload) == greetingText, "Bob's key decrypts it to the exact text")
	s.check(heard.Opened.SenderKid == s.alice.Keys.SigningKey().Kid, "the signature inside matches Alice's published key %s…", heard.Opened.SenderKid[:8])
}

func (s *story) bobReplies() {
	s.title("Bob replies, which opens the conversation")
	status := func() string {
		return must(s.alice.Client.Messages.Conversation(s.ctx, s.greeting.ConversationID)).Status
	}
	before := status()
	s.quote("bob", answerText)
	reply := must(s.reply(s.greeting.Message, answerText, "dm"))
	after := status()
	s.check(before == api.Submitted && after == api.Open, "the conversation's status changes from %s to %s", before, after)

	inbox := must(s.alice.Client.Messages.Inbox(s.ctx, api.Inbox{ID: s.alice.ID()}))
	s.check(len(inbox.Items) == 1 && inbox.Items[0].ID == reply.ID, "the reply is in Alice's inbox")
	opened := must(s.alice.OpenMessage(s.ctx, inbox.Items[0]))
	s.check(string(opened.Payload) == answerText && opened.SenderKid == s.bob.Keys.SigningKey().Kid, "she decrypts it and verifies Bob's signature")

	var marked *api.Message
	read := s.eventually(func() bool {
		marked = must(s.alice.Client.Messages.Get(s.ctx, api.GetMessage{ID: s.greeting.ID, ActingAgent: s.alice.ID().String()}))
		return marked.DeliveredAt != nil && marked.ReadAt != nil
	})
	s.check(read && marked.Status == api.MessageRead, "Alice's message is marked delivered, and read because Bob replied")
}

// aliceCalls shows a sync call. Bob answers it like any other message, from his
// stream.
func (s *story) aliceCalls() {
	s.title("Alice sends a message and waits for the reply in one request")
	s.quote("alice", questionText)
	var result *api.SyncResult
	var failed error
	var call sync.WaitGroup
	start := time.Now()
	call.Go(func() {
		result, failed = s.alice.SyncSealed(s.ctx, s.bob.Handle(), []byte(questionText), s.alice.Client.MessageType("task_request"), demoPatience, plainText)
	})
	must(s.reply(*s.stream.message().Message, priceText, "task_response"))
	call.Wait()
	took := time.Since(start)
	must(0, failed)
	s.check(result.Status == api.SyncReplied && result.Reply != nil, "the request returned Bob's reply after %s", millis(took))
	opened := must(s.alice.OpenMessage(s.ctx, *result.Reply))
	s.quote("bob", string(opened.Payload))
	s.check(string(opened.Payload) == priceText, "the reply is encrypted and signed like any other message")
}

func (s *story) statusMoves() {
	s.title("Alice changes the conversation's status; the server enforces the rules")
	id := s.greeting.ConversationID
	move := func(to string) (*api.Conversation, error) {
		return s.alice.Client.Messages.SetStatus(s.ctx, api.StatusPatch{ID: id, ActingAgent: s.alice.ID().String(), Status: to})
	}
	moves := []string{api.InputRequired, api.Open, api.Completed}
	for _, to := range moves {
		s.check(must(move(to)).Status == to, "the status is now %s", to)
	}
	_, err := move(api.Open)
	s.check(errors.Is(err, client.InvalidTransition), "a completed conversation cannot be reopened: %v", refusal(err))
	_, err = s.reply(s.greeting.Message, "One more thing.", "dm")
	s.check(errors.Is(err, client.ConversationClosed), "nor can it be replied to: %v", refusal(err))

	statuses := func() (seen []string) {
		for _, event := range s.stream.heard {
			if event.Status != nil && event.Status.ConversationID == id {
				seen = append(seen, event.Status.Status)
			}
		}
		return seen
	}
	s.stream.next("the last status", func(e2ee.Incoming) bool { return slices.Contains(statuses(), api.Completed) })
	want := append([]string{api.Open}, moves...)
	s.check(slices.Equal(statuses(), want), "Bob's stream reported every change: %s", strings.Join(statuses(), ", "))
}

func (s *story) sendsTwice() {
	s.title("Alice repeats a request with the same idempotency key; it takes effect once")
	s.quote("alice", keyedText)
	s.keyed = s.send(keyedText, demoKey)
	again := s.send(keyedText, demoKey)
	s.check(!s.keyed.Replayed && again.Replayed && again.ID == s.keyed.ID, "the repeat returns the first message, %s", s.keyed.ID)
	s.check(s.stream.message().Message.ID == s.keyed.ID, "Bob's stream delivered it")
	copies := slices.DeleteFunc(s.bobsInbox(), func(id parley.MessageID) bool { return id != s.keyed.ID })
	s.check(len(copies) == 1, "his inbox has it once")
}

// send encrypts a text for Bob, anew for each call, and sends it from Alice. Without an
// idempotency key it uses a random one.
func (s *story) send(text, key string) *client.SentMessage {
	return must(s.alice.SendSealed(s.ctx, s.bob.Handle(), []byte(text), s.alice.Client.MessageType("dm"), plainText, func(in *api.Send) {
		in.IdempotencyKey = key
	}))
}

// reply encrypts Bob's reply to a message and sends it.
func (s *story) reply(to api.Message, text, kind string) (*client.SentMessage, error) {
	return s.bob.ReplySealed(s.ctx, to, []byte(text), s.bob.Client.MessageType(kind), func(in *api.Reply) { in.ContentType = plainType })
}

// transcript returns the messages of the first conversation as Alice reads them.
func (s *story) transcript() []api.Message {
	in := api.Transcript{ID: s.greeting.ConversationID, ActingAgent: s.alice.ID().String(), Limit: parley.TranscriptLimitMax}
	return must(program.Collect(client.All(s.ctx, s.alice.Client.Messages.Transcript, in), 0))
}

// refusal returns the HTTP status and error code of a rejected request.
func refusal(err error) string {
	var refused *client.Error
	if !errors.As(err, &refused) {
		return "not rejected"
	}
	return fmt.Sprintf("%d %s", refused.Status, refused.Code)
}

const plainType = "text/plain; charset=utf-8"

func plainText(in *api.Send) { in.ContentType = plainType }
