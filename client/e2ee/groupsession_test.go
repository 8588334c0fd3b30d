package e2ee

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
	"parley/client/secretfile"
)

// circleOf returns a town with a group of these agents.
func circleOf(t *testing.T, names ...string) (*town, []*Agent) {
	t.Helper()
	w := newTown(t)
	var agents []*Agent
	for _, name := range names {
		agents = append(agents, w.enroll(t, name))
	}
	w.join(agents...)
	return w, agents
}

// again returns the same agent in another process.
func again(t *testing.T, a *Agent) *Agent {
	t.Helper()
	ring, err := OpenKeyRing(a.Keys.Path())
	if err != nil {
		t.Fatal(err)
	}
	other, err := OpenAgent(t.Context(), a.Client, ring)
	if err != nil {
		t.Fatal(err)
	}
	return other
}

func mustFail(t *testing.T, a *Agent, m api.Message, want error) {
	t.Helper()
	if o, err := a.OpenMessage(t.Context(), m); !errors.Is(err, want) || o != nil {
		t.Fatalf("%v %v, want %v", o, err, want)
	}
}

func TestGroupSession(t *testing.T) {
	w, agents := circleOf(t, "ann", "bob", "eve")
	ann, bob, eve := agents[0], agents[1], agents[2]
	first := tell(t, ann, "hello all")
	if len(first.Given) != 2 || first.EncryptionVersion != api.SenderKeyV1 {
		t.Fatalf("%+v", first)
	}
	for _, a := range []*Agent{bob, eve} {
		mustOpen(t, a, w.copyTo(t, a), "hello all")
	}
	mustOpen(t, ann, first.Message, "hello all") // her own copy
	// From now on each message is one send, and each sender has its own keys.
	before := len(w.sent)
	if second := tell(t, ann, "once more"); len(second.Given) != 0 || second.Generation != first.Generation || len(w.sent) != before+2 {
		t.Fatalf("%+v, %d messages", second, len(w.sent)-before)
	}
	mustOpen(t, bob, w.copyTo(t, bob), "once more")
	tell(t, bob, "and I")
	mustOpen(t, ann, w.copyTo(t, ann), "and I")
	mustOpen(t, eve, w.copyTo(t, eve), "and I")
	for _, m := range w.sent {
		if m.Type == "svc.v1.sender_key_distribution" && (m.EncryptionVersion != api.HPKEv1 || m.GroupID != nil) {
			t.Fatalf("the message with a key is %+v", m)
		}
	}
}

// TestNewcomerCannotDecryptEarlierMessages: a newcomer gets the chain's current key and
// cannot decrypt earlier messages.
func TestNewcomerCannotDecryptEarlierMessages(t *testing.T) {
	w, agents := circleOf(t, "ann", "bob")
	ann, bob := agents[0], agents[1]
	first := tell(t, ann, "before")
	old := w.copyTo(t, bob)
	eve := w.enroll(t, "eve")
	w.join(eve)
	second := tell(t, ann, "after")
	if second.Generation != first.Generation || !slices.Equal(second.Given, []parley.AgentID{eve.ID()}) {
		t.Fatalf("%+v", second)
	}
	mustOpen(t, eve, w.copyTo(t, eve), "after")
	mustFail(t, eve, old, ErrKeyForgotten)
	mustOpen(t, bob, old, "before")
	mustOpen(t, bob, w.copyTo(t, bob), "after")
}

// TestRemovedMemberCannotDecryptLaterMessages: a removed member cannot decrypt later
// messages, even with the ciphertext, and its request for a key is refused.
func TestRemovedMemberCannotDecryptLaterMessages(t *testing.T) {
	w, agents := circleOf(t, "ann", "bob", "eve")
	ann, bob, eve := agents[0], agents[1], agents[2]
	first := tell(t, ann, "one")
	mustOpen(t, bob, w.copyTo(t, bob), "one")
	tell(t, ann, "two")
	leaked := w.copyTo(t, eve)
	mustOpen(t, bob, leaked, "two") // Bob has this key: the control
	w.remove(bob)
	second := tell(t, ann, "three")
	if second.Generation <= first.Generation || !slices.Equal(second.Given, []parley.AgentID{eve.ID()}) {
		t.Fatalf("%+v", second)
	}
	leaked = w.copyTo(t, eve)
	mustFail(t, bob, leaked, ErrNoSenderKey)
	asked := w.of(ann, "sender_key_request")
	if len(asked) != 1 || asked[0].FromAgentID != bob.ID() {
		t.Fatalf("asked %d times", len(asked))
	}
	if _, err := ann.HandleKeyExchange(t.Context(), asked[0]); !errors.Is(err, ErrNoMember) {
		t.Fatalf("Bob's request: %v", err)
	}
	mustOpen(t, eve, leaked, "three")
	// A key that he sends is refused too.
	if _, err := bob.Broadcast(t.Context(), townGroup, []byte("me too"), "svc.v1.dm"); !errors.Is(err, client.NotMember) {
		t.Fatalf("Bob's broadcast: %v", err)
	}
	keys := w.keys[eve.ID().String()]
	if err := bob.groups.give(t.Context(), keys, chainScope{circle, bob.ID(), 77}, sampleLink(1), ""); err != nil {
		t.Fatal(err)
	}
	given := w.of(eve, "sender_key_distribution")
	if _, err := again(t, eve).HandleKeyExchange(t.Context(), given[len(given)-1]); !errors.Is(err, ErrNoMember) {
		t.Fatalf("Bob's key: %v", err)
	}
	// A member that returns is treated as a newcomer.
	w.join(bob)
	third := tell(t, ann, "four")
	if third.Generation != second.Generation || !slices.Equal(third.Given, []parley.AgentID{bob.ID()}) {
		t.Fatalf("%+v", third)
	}
	w.remove(bob)
	w.join(bob)
	if fourth := tell(t, ann, "five"); fourth.Generation == second.Generation || len(fourth.Given) != 2 {
		t.Fatalf("removed and added between two messages: %+v", fourth)
	}
}

func TestDisorderLossAndReplay(t *testing.T) {
	w, agents := circleOf(t, "ann", "bob")
	ann, bob := agents[0], agents[1]
	var copies []api.Message
	for _, text := range []string{"0", "1", "2", "3", "4", "5"} {
		tell(t, ann, text)
		copies = append(copies, w.copyTo(t, bob))
	}
	for _, i := range []int{4, 1, 5, 0} { // 2 and 3 are missing so far
		mustOpen(t, bob, copies[i], string(rune('0'+i)))
		bob = again(t, bob)
	}
	mustOpen(t, bob, copies[4], "4") // read again
	replayed := copies[4]
	replayed.ID = parley.NextID(w.last.ID, w.last.ID.Time(), [10]byte{})
	mustFail(t, bob, replayed, ErrReplayed)
	early := copies[2]
	early.ID = replayed.ID
	mustOpen(t, bob, early, "2") // the copy that arrives first is the valid one
	mustFail(t, bob, copies[2], ErrReplayed)
	mustOpen(t, bob, copies[3], "3")
}

func TestForgedBroadcastsFail(t *testing.T) {
	w, agents := circleOf(t, "ann", "bob", "eve")
	ann, bob, eve := agents[0], agents[1], agents[2]
	tell(t, ann, "true")
	m := w.copyTo(t, bob)
	for why, change := range map[string]func(*api.Message){
		"type":         func(m *api.Message) { m.Type = "svc.v1.receipt" },
		"content type": func(m *api.Message) { m.ContentType = "text/html" },
		"text":         func(m *api.Message) { m.EncryptedPayload = changed(t, m.EncryptedPayload, 40, 1) },
	} {
		untrue := m
		change(&untrue)
		t.Run(why, func(t *testing.T) { mustFail(t, bob, untrue, ErrTampered) })
	}
	other, foreign := m, parley.GroupID{9}
	other.GroupID = &foreign
	mustFail(t, bob, other, ErrNoSenderKey)
	other = m
	other.FromAgentID = eve.ID()
	mustFail(t, bob, other, ErrNoSenderKey)
	other = m
	other.GroupID = nil
	mustFail(t, bob, other, ErrNotHPKE)
	// Eve has Ann's chain and seals a message with it that Ann never wrote.
	forged := m
	forged.EncryptedPayload = eve.forge(t, ann.ID(), "false")
	mustFail(t, bob, forged, ErrForged)
	mustOpen(t, bob, m, "true")
	// A key that Eve sends as Ann's is refused.
	stolen, _ := readSenderKey(mustPayload(t, eve, w.of(eve, "sender_key_distribution")[0]), distributionType)
	scope := chainScope{circle, ann.ID(), stolen.Generation + 1}
	if err := eve.groups.give(t.Context(), w.keys[bob.ID().String()], scope, sampleLink(1), ""); err != nil {
		t.Fatal(err)
	}
	given := w.of(bob, "sender_key_distribution")
	if _, err := bob.HandleKeyExchange(t.Context(), given[len(given)-1]); !errors.Is(err, ErrSenderKeyForm) {
		t.Fatalf("a key with another sender's name: %v", err)
	}
	// A text that names another kind is not a key, whatever message type it has.
	another, err := json.Marshal(senderKey{Kind: requestType, Version: 1, GroupID: circle, SenderAgentID: eve.ID(), Generation: 4, ChainKey: stolen.ChainKey})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eve.SendSealed(t.Context(), bob.ID().String(), another, "svc.v1.sender_key_distribution"); err != nil {
		t.Fatal(err)
	}
	given = w.of(bob, "sender_key_distribution")
	if _, err := bob.HandleKeyExchange(t.Context(), given[len(given)-1]); !errors.Is(err, ErrSenderKeyForm) {
		t.Fatalf("a request with the message type of a key: %v", err)
	}
}

func mustPayload(t *testing.T, a *Agent, m api.Message) []byte {
	t.Helper()
	o, err := a.OpenMessage(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return o.Payload
}

// forge seals a text with another member's chain, which the agent was given, and signs
// it with its own key.
func (a *Agent) forge(t *testing.T, victim parley.AgentID, text string) (sealed string) {
	t.Helper()
	m := broadcast{messageType: "svc.v1.dm", contentType: "application/json"}
	var key []byte
	// She has the key once she has the chain. The counter is the next one.
	given, err := a.groups.search(t.Context(), chainScope{circle, victim, a.generationOf(t, victim)})
	if err != nil || !given {
		t.Fatal(err)
	}
	err = a.groups.keys().peer(circle, victim, func(p *peerKeys) (_ bool, err error) {
		m.chainScope, m.counter = chainScope{circle, victim, p.Generations[0].Generation}, p.Generations[0].Counter+1
		key, err = p.key(m, parley.MessageID{1})
		return false, err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, signing := a.Keys.signer()
	if sealed, err = m.seal(key, make([]byte, nonceSize), signing, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return sealed
}

// generationOf returns the generation of the first key in the inbox from this sender.
func (a *Agent) generationOf(t *testing.T, sender parley.AgentID) uint64 {
	t.Helper()
	kind := a.Client.MessageType(distributionType)
	for m, err := range client.All(t.Context(), a.Client.Messages.Inbox, api.Inbox{ID: a.ID(), Type: &kind}) {
		if err != nil {
			t.Fatal(err)
		}
		if k, err := readSenderKey(mustPayload(t, a, m), distributionType); err == nil && m.FromAgentID == sender {
			return k.Generation
		}
	}
	t.Fatal("the inbox has no key")
	return 0
}

// TestMessageWaitsForItsKey: a session asks for a key that was lost, and keeps the
// message until the key arrives.
func TestMessageWaitsForItsKey(t *testing.T) {
	w, agents := circleOf(t, "ann", "bob")
	ann, bob := agents[0], agents[1]
	w.lose = func(m api.Message) bool { return m.Type == "svc.v1.sender_key_distribution" }
	for _, text := range []string{"one", "two"} {
		tell(t, ann, text)
	}
	w.mu.Lock()
	w.lose = nil
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var told []string
	asked := 0
	for in, err := range bob.Listen(ctx, client.StreamOptions{}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case in.KeyExchange != nil:
			told = append(told, "key")
		case errors.Is(in.OpenError, ErrNoSenderKey):
			told = append(told, "waits")
			if requests := w.of(ann, "sender_key_request"); len(told) == 2 && len(requests) == 1 {
				asked++
				news, err := ann.HandleKeyExchange(ctx, requests[0])
				if err != nil || !news.Fresh || news.With != bob.ID() {
					t.Fatalf("%+v %v", news, err)
				}
				if news, err = again(t, ann).HandleKeyExchange(ctx, requests[0]); err != nil || news.Fresh {
					t.Fatalf("answered twice: %+v %v", news, err)
				}
			}
		case in.OpenError != nil:
			t.Fatal(in.OpenError)
		default:
			late := ""
			if in.Late {
				late = "late "
			}
			told = append(told, late+string(in.Opened.Payload))
		}
		if len(told) == 5 {
			break
		}
	}
	if want := []string{"waits", "waits", "key", "late one", "late two"}; asked != 1 || !slices.Equal(told, want) {
		t.Fatalf("got %q, asked %d times", told, asked)
	}
}

// TestKeysAreFoundInTheInbox: a reader that opens the newest message first finds the
// unread keys in the inbox, including those of a sender that has left since.
func TestKeysAreFoundInTheInbox(t *testing.T) {
	w, agents := circleOf(t, "ann", "bob")
	ann, bob := agents[0], agents[1]
	for _, text := range []string{"one", "two", "farewell"} {
		tell(t, ann, text)
	}
	w.remove(ann)
	got := w.of(bob, "dm")
	for i, text := range []string{"farewell", "two", "one"} {
		mustOpen(t, again(t, bob), got[2-i], text)
	}
	if asked := w.of(ann, "sender_key_request"); len(asked) != 0 {
		t.Fatal("the session asked for a key that is in the inbox")
	}
}

func TestGroupKeysOnDisk(t *testing.T) {
	w, agents := circleOf(t, "ann", "bob")
	ann, bob := agents[0], agents[1]
	tell(t, ann, "one")
	mustOpen(t, bob, w.copyTo(t, bob), "one")
	dir := filepath.Join(filepath.Dir(bob.Keys.Path()), "bob.groups")
	path := filepath.Join(dir, circle.String(), ann.ID().String()+".json")
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[d.IsDir()]; err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v: %v", p, info.Mode().Perm(), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	mustFail(t, bob, w.copyTo(t, bob), secretfile.ErrOpenToOthers)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, bob, w.copyTo(t, bob), "one")
	if err := bob.LeaveGroup(t.Context(), circle); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the keys of a group that was left: %v", err)
	}
}

// TestSessionsShareAChain: sessions of one agent in several processes never use a
// counter twice.
func TestSessionsShareAChain(t *testing.T) {
	w, agents := circleOf(t, "ann", "bob")
	ann, bob := agents[0], agents[1]
	tell(t, ann, "first")
	var all sync.WaitGroup
	for range 4 {
		session := again(t, ann)
		all.Go(func() {
			for range 5 {
				if _, err := session.Broadcast(context.Background(), townGroup, []byte("x"), "svc.v1.dm"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	seen := map[uint32]bool{}
	for _, m := range w.of(bob, "dm") {
		text, err := decodeGroupText(m.EncryptedPayload)
		if err != nil || seen[text.counter] {
			t.Fatalf("counter %d was used twice: %v", text.counter, err)
		}
		seen[text.counter] = true
	}
	if len(seen) != 21 {
		t.Fatalf("%d counters", len(seen))
	}
}

// TestGenerationReplacedDuringSend: another session begins a generation while this one
// distributes the previous one. The message uses the new generation, and all members
// get its key.
func TestGenerationReplacedDuringSend(t *testing.T) {
	w, agents := circleOf(t, "ann", "bob")
	ann, bob := agents[0], agents[1]
	other := again(t, ann)
	meddled := false
	w.lose = func(api.Message) bool {
		if !meddled {
			meddled = true
			err := other.groups.keys().own(circle, func(o *ownKeys) (bool, error) { o.rotate(time.Now()); return true, nil })
			if err != nil {
				t.Error(err)
			}
		}
		return false
	}
	if sent := tell(t, ann, "one"); len(sent.Given) != 2 {
		t.Fatalf("%+v", sent)
	}
	mustOpen(t, bob, w.copyTo(t, bob), "one")
	if keys := w.of(bob, "sender_key_distribution"); len(keys) != 2 {
		t.Fatalf("%d keys", len(keys))
	}
}

// TestFailedDistributionIsRepeated: a member that cannot be given a key does not keep
// the others from reading the message. After a temporary failure, the next send
// distributes the key.
func TestFailedDistributionIsRepeated(t *testing.T) {
	w, agents := circleOf(t, "ann", "bob", "eve")
	ann, bob, eve := agents[0], agents[1], agents[2]
	w.mu.Lock()
	keys := w.keys[eve.ID().String()]
	delete(w.keys, eve.ID().String())
	w.mu.Unlock()
	sent, err := ann.Broadcast(t.Context(), townGroup, []byte("one"), "svc.v1.dm")
	if err != nil || !errors.Is(sent.Missed[eve.ID()], ErrNoEncryptionKey) || len(sent.Given) != 1 {
		t.Fatalf("%+v %v", sent, err)
	}
	mustOpen(t, bob, w.copyTo(t, bob), "one")
	w.mu.Lock()
	w.keys[eve.ID().String()] = keys
	w.mu.Unlock()
	if sent = tell(t, ann, "two"); !slices.Equal(sent.Given, []parley.AgentID{eve.ID()}) {
		t.Fatalf("%+v", sent)
	}
	mustOpen(t, eve, w.copyTo(t, eve), "two")
}
