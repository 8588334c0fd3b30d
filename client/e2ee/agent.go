// Package e2ee is for agents that seal what they send and verify what they open. It has
// their private keys, what they remember of the keys of others, and the keys of groups.
// docs/encryption.md describes the formats.
package e2ee

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
)

// Agent is a session of one agent: a client, the agent's record, and its keys. It is safe
// for concurrent use.
type Agent struct {
	// Client makes the calls.
	Client *client.Session
	// Keys seal, sign and open.
	Keys *KeyRing
	// Record is the agent as the service described it when the session began; its
	// PollURL is set only after NewAgent.
	Record api.Agent

	// BindError is why a missing binding of the agent's keys, or its post-quantum key,
	// could not be published; nil otherwise. The next session tries again.
	BindError error

	// Contacts are the other agents.
	Contacts *Contacts

	clock  parley.Clock
	groups *groups
}

func newAgent(c *client.Session, ring *KeyRing, record *api.Agent) *Agent {
	a := &Agent{Client: c, Keys: ring, Record: *record, clock: c.Clock()}
	a.Contacts = &Contacts{session: c, ring: ring, clock: a.clock}
	a.groups = &groups{agent: a, keys: sync.OnceValue(func() *groupKeys { return groupKeysBeside(ring.Path()) })}
	return a
}

// ErrNoEncryptionKey means that an agent publishes no key to seal to.
var ErrNoEncryptionKey = errors.New("the agent publishes no encryption key")

// ErrNoSender means that the sender of a message publishes no keys (any more), so that
// the message can be opened but not verified.
var ErrNoSender = errors.New("the sender publishes no keys: the message cannot be verified")

// ErrNotHPKE means that a message is sealed in a way this client cannot open, or is not
// sealed.
var ErrNotHPKE = errors.New("the message is not sealed with hpke-v1")

// NewAgent creates an agent with the ring's keys, binds the ring to it and begins a
// session. Save the ring first: if the keys are lost, messages sealed to them cannot be
// opened. An interrupted call may be repeated with the same name and ring: an agent that
// already has these keys is taken over.
func NewAgent(ctx context.Context, c *client.Session, in api.CreateAgent, ring *KeyRing) (*Agent, error) {
	if !ring.AgentID().Zero() {
		return nil, ErrOtherAgent
	}
	signing, encryption := ring.SigningKey(), ring.EncryptionKey()
	in.SigningPublicKey, in.EncryptionPublicKey = &signing, &encryption
	record, err := c.Agents.Create(ctx, in)
	if errors.Is(err, client.NameTaken) {
		record, err = agentWith(ctx, c, in.Name, signing, err)
	}
	if err != nil {
		return nil, err
	}
	a := newAgent(c, ring, record)
	if err := ring.Bind(record.ID, a.Handle()); err != nil {
		return nil, err
	}
	published := a.publishPQ(ctx, record.PQPublicKey)
	if published == nil {
		a.Record.PQPublicKey = ring.PQKey()
	}
	a.BindError = errors.Join(a.BindKeys(ctx), published)
	return a, nil
}

// agentWith finds the organization's agent with that name and signing key.
func agentWith(ctx context.Context, c *client.Session, name string, signing api.JWK, refused error) (*api.Agent, error) {
	agents, err := c.Agents.List(ctx, api.ListAgents{})
	if err != nil {
		return nil, errors.Join(refused, err)
	}
	for _, a := range agents {
		if a.Name == name && a.SigningPublicKey != nil && a.SigningPublicKey.X == signing.X {
			return &a, nil
		}
	}
	return nil, refused
}

// OpenAgent begins a session of the agent the ring is bound to. It checks that the service
// publishes the keys of the ring, completes an interrupted rotation, binds the keys if a
// binding is missing, and publishes the ring's post-quantum key if there is none.
func OpenAgent(ctx context.Context, c *client.Session, ring *KeyRing) (*Agent, error) {
	if ring.AgentID().Zero() {
		return nil, ErrUnbound
	}
	record, err := c.Agents.Get(ctx, ring.AgentID())
	if err != nil {
		return nil, err
	}
	a := newAgent(c, ring, record)
	published := api.AgentKeys{SigningPublicKey: record.SigningPublicKey, EncryptionPublicKey: record.EncryptionPublicKey}
	if err := ring.settle(&published); err != nil {
		return nil, err
	}
	if err := ring.checkPQ(record.PQPublicKey); err != nil {
		return nil, err
	}
	if record.RevokedAt == nil {
		a.BindError = errors.Join(a.BindKeys(ctx), a.publishPQ(ctx, record.PQPublicKey))
	}
	return a, nil
}

// Restored reports which of an agent's published keys were not its ring's.
type Restored struct {
	Signing     bool
	Encryption  bool
	PostQuantum bool
}

// RestoreKeys publishes the ring's current keys again, with a binding, after other keys
// have been published for the agent. Clients that have pinned the ring's keys accept them
// without a warning. If the ring's keys are the published ones, it replaces nothing: it
// completes an interrupted rotation, and binds the keys if a binding is missing.
func RestoreKeys(ctx context.Context, c *client.Session, ring *KeyRing) (a *Agent, was Restored, err error) {
	if ring.AgentID().Zero() {
		return nil, was, ErrUnbound
	}
	record, err := c.Agents.Get(ctx, ring.AgentID())
	if err != nil {
		return nil, was, err
	}
	a = newAgent(c, ring, record)
	published := api.AgentKeys{SigningPublicKey: record.SigningPublicKey, EncryptionPublicKey: record.EncryptionPublicKey}
	err = ring.settle(&published)
	if err == nil {
		was.PostQuantum, err = a.restorePQ(ctx, record.PQPublicKey)
		return a, was, errors.Join(err, a.BindKeys(ctx))
	}
	if !errors.Is(err, ErrKeysNotPublished) {
		return nil, was, err
	}
	pair, _ := ring.pairs()
	was.Signing = record.SigningPublicKey == nil || record.SigningPublicKey.X != pair.publicSigning().X
	was.Encryption = record.EncryptionPublicKey == nil || record.EncryptionPublicKey.X != pair.publicEncryption().X
	if err := a.publish(ctx, &pair, nil); err != nil {
		return a, was, err
	}
	if was.Encryption { // the server removed the post-quantum key with the encryption key
		return a, was, a.publishPQ(ctx, nil)
	}
	was.PostQuantum, err = a.restorePQ(ctx, record.PQPublicKey)
	return a, was, err
}

// ID returns the agent's id.
func (a *Agent) ID() parley.AgentID { return a.Record.ID }

// Handle returns the agent's handle.
func (a *Agent) Handle() string {
	if a.Record.Handle == nil {
		return ""
	}
	return *a.Record.Handle
}

// RotateKeys creates new keys, stores them, publishes them and only then uses them. A
// send in progress at that moment may be refused with SignatureInvalid. If it is
// interrupted, the next call or OpenAgent completes it. The former encryption key is kept,
// so that messages sealed to it can still be opened. The new keys include a post-quantum
// key if the current ones do.
func (a *Agent) RotateKeys(ctx context.Context) error {
	return a.rotateKeys(ctx, a.Keys.PQKey() != nil)
}

func (a *Agent) rotateKeys(ctx context.Context, postQuantum bool) error {
	if _, _, err := a.Keys.prepare(postQuantum); err != nil {
		return err
	}
	current, upcoming := a.Keys.pairs()
	if err := a.publish(ctx, upcoming, &current.signing); err != nil {
		// The answer may be to a retry of a request that had succeeded.
		served, asked := a.Client.Keys.Get(ctx, a.ID().String(), "")
		if asked != nil || matches(served, upcoming.publicSigning(), upcoming.publicEncryption()) != nil {
			return err
		}
	}
	signing, encryption := upcoming.publicSigning(), upcoming.publicEncryption()
	if err := a.Keys.settle(&api.AgentKeys{SigningPublicKey: &signing, EncryptionPublicKey: &encryption}); err != nil {
		return err
	}
	return a.publishPQ(ctx, nil)
}

// publish uploads a pair of keys with a binding, in which the former signing key vouches
// for them.
func (a *Agent) publish(ctx context.Context, pair *keyPair, former *signingKey) error {
	signedAt, err := a.nextSignedAt(ctx)
	if err != nil {
		return err
	}
	signing, encryption := pair.publicSigning(), pair.publicEncryption()
	_, err = a.Client.Keys.Rotate(ctx, api.UploadKeys{
		ID: a.ID(), SigningPublicKey: &signing, EncryptionPublicKey: &encryption, KeyBinding: a.bound().prove(pair, former, signedAt),
	})
	return err
}

// SendSealed seals payload to the agent named by handle or id, and a copy to the sender
// itself, and sends both. The functions may change the request before it is sent, for
// instance its content type or its idempotency key.
func (a *Agent) SendSealed(ctx context.Context, to string, payload []byte, messageType string, change ...func(*api.Send)) (*client.SentMessage, error) {
	in, err := a.seal(ctx, to, payload, messageType, change)
	if err != nil {
		return nil, err
	}
	return a.signed().Send(ctx, *in)
}

// SyncSealed is SendSealed that waits for the reply. wait is 1 s to 5 min, or 0 for the
// server's default.
func (a *Agent) SyncSealed(ctx context.Context, to string, payload []byte, messageType string, wait time.Duration, change ...func(*api.Send)) (*api.SyncResult, error) {
	in, err := a.seal(ctx, to, payload, messageType, change)
	if err != nil {
		return nil, err
	}
	return a.signed().Sync(ctx, api.Sync{Send: *in, TimeoutMS: int(wait.Milliseconds())})
}

func (a *Agent) seal(ctx context.Context, to string, payload []byte, messageType string, change []func(*api.Send)) (*api.Send, error) {
	recipient, err := a.Contacts.recipient(ctx, to)
	if err != nil {
		return nil, err
	}
	s, err := a.sealTo(recipient, payload)
	if err != nil {
		return nil, err
	}
	in := &api.Send{
		ActingAgent: a.ID().String(), ToAgentID: &recipient.AgentID, Type: messageType, EncryptedPayload: s.payload,
		EncryptionVersion: api.HPKEv1, SenderSigningKid: &s.kid, SelfEncryptedPayload: &s.copy,
	}
	for _, f := range change {
		f(in)
	}
	return in, nil
}

// ReplySealed seals payload to the other party of a message and replies to it.
func (a *Agent) ReplySealed(ctx context.Context, to api.Message, payload []byte, messageType string, change ...func(*api.Reply)) (*client.SentMessage, error) {
	other := to.FromAgentID
	if other == a.ID() {
		other = to.ToAgentID
	}
	recipient, err := a.Contacts.recipient(ctx, other.String())
	if err != nil {
		return nil, err
	}
	s, err := a.sealTo(recipient, payload)
	if err != nil {
		return nil, err
	}
	in := api.Reply{
		ID: to.ID, ActingAgent: a.ID().String(), Type: messageType, EncryptedPayload: s.payload,
		EncryptionVersion: api.HPKEv1, SenderSigningKid: &s.kid, SelfEncryptedPayload: &s.copy,
	}
	for _, f := range change {
		f(&in)
	}
	return a.signed().Reply(ctx, in)
}

type sealedPair struct{ payload, copy, kid string }

// sealTo seals to the recipient and to the agent itself.
func (a *Agent) sealTo(recipient *api.AgentKeys, payload []byte) (s sealedPair, err error) {
	if s.payload, err = SealTo(a.Keys, recipient, payload); err != nil {
		return s, err
	}
	s.copy, err = a.Keys.sealToSelf(payload)
	s.kid = a.Keys.SigningKey().Kid
	return s, err
}

// signed returns the calls about messages with bodies signed by the ring.
func (a *Agent) signed() client.Messages { return a.Client.Messages.Signed(a.signBody) }

// signBody signs a request's body, so that the service rejects a body that the ring's
// current key did not sign. // docs: encryption.md
func (a *Agent) signBody(body []byte) string {
	sum := sha256.Sum256(body)
	text := a.Client.Brand() + "-msg-v1\n" + hex.EncodeToString(sum[:])
	return base64.RawURLEncoding.EncodeToString(a.Keys.Sign([]byte(text)))
}

// Opened is a message whose payload was opened and whose sender was verified.
type Opened struct {
	Message api.Message
	Payload []byte
	// SenderKid is the key id under which the sender publishes the key that signed.
	SenderKid string
	// FormerKey reports that the sender has since replaced the key that signed.
	FormerKey bool
	// PostQuantum reports that the payload was sealed to a post-quantum key. It is false
	// for a group message, whose keys were sealed in other messages.
	PostQuantum bool
}

// OpenMessage opens a message that the agent received, or its own copy of one that it
// sent, and verifies that the sender signed it for this recipient with the key that is
// pinned for the sender. The signature does not cover type, content type and metadata,
// except for the type and content type of a group message. For a group message whose
// sender's key is missing, the error is ErrNoSenderKey, and the client has requested the
// key from the sender.
func (a *Agent) OpenMessage(ctx context.Context, m api.Message) (*Opened, error) {
	text := m.EncryptedPayload
	if m.FromAgentID == a.ID() {
		if m.SelfEncryptedPayload == nil {
			return nil, ErrCannotOpen
		}
		text = *m.SelfEncryptedPayload
	}
	switch {
	case m.EncryptionVersion == api.SenderKeyV1 && m.FromAgentID == a.ID(): // the agent's own copy is sealed with hpke-v1
	case m.EncryptionVersion == api.SenderKeyV1 && m.GroupID != nil:
		return a.groups.open(ctx, m)
	case m.EncryptionVersion != api.HPKEv1:
		return nil, ErrNotHPKE
	}
	former := false
	opened, err := Open(a.Keys, m.FromAgentID, text, a.lookup(ctx, m, &former))
	if err != nil {
		return nil, err
	}
	return &Opened{Message: m, Payload: opened.Payload, SenderKid: opened.SenderKid, FormerKey: former, PostQuantum: opened.PostQuantum}, nil
}

// lookup returns signatureKey for a message. It records whether the key is a former one.
func (a *Agent) lookup(ctx context.Context, m api.Message, former *bool) KeyLookup {
	return func(kid string) (key api.JWK, err error) {
		key, *former, err = a.Contacts.signatureKey(ctx, m, kid)
		return key, err
	}
}
