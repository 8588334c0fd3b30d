package client

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"parley"
	"parley/http/api"
)

// Agent is a session of one agent: a client, who it is, and its keys. It is safe
// for concurrent use.
type Agent struct {
	// Client makes the calls.
	Client *Client
	// Keys seal, sign and open.
	Keys *KeyRing
	// Record is the agent as the service described it when the session began; its
	// PollURL is set only after NewAgent.
	Record api.Agent

	mu      sync.Mutex
	signers map[signer]api.JWK
	groups  groupSession
}

// signer names a published signing key. Kids are thumbprints: what one names
// never changes.
type signer struct {
	agent parley.AgentID
	kid   string
}

const signersMax = 4096

// ErrNoEncryptionKey says that an agent publishes no key to seal to.
var ErrNoEncryptionKey = errors.New("the agent publishes no encryption key")

// ErrNoSender says that the sender of a message publishes no keys (any more), so
// that it can be opened but not verified.
var ErrNoSender = errors.New("the sender publishes no keys: the message cannot be verified")

// ErrNotHPKE says that a message is sealed in a way this client cannot open, or
// is not sealed.
var ErrNotHPKE = errors.New("the message is not sealed with hpke-v1")

// NewAgent makes an agent of the ring's keys, binds the ring to it and begins a
// session. The ring should be on disk before: keys that exist nowhere else open
// nothing. A call that was cut short may be made again with the same name and
// ring: an agent that already has these keys is taken over.
func (c *Client) NewAgent(ctx context.Context, in api.CreateAgent, ring *KeyRing) (*Agent, error) {
	if !ring.AgentID().Zero() {
		return nil, ErrOtherAgent
	}
	signing, encryption := ring.SigningKey(), ring.EncryptionKey()
	in.SigningPublicKey, in.EncryptionPublicKey = &signing, &encryption
	record, err := c.CreateAgent(ctx, in)
	if errors.Is(err, NameTaken) {
		record, err = c.agentWith(ctx, in.Name, signing, err)
	}
	if err != nil {
		return nil, err
	}
	a := &Agent{Client: c, Keys: ring, Record: *record}
	return a, ring.Bind(record.ID, a.Handle())
}

// agentWith finds the organization's agent of that name and signing key.
func (c *Client) agentWith(ctx context.Context, name string, signing api.JWK, refused error) (*api.Agent, error) {
	agents, err := c.Agents(ctx, api.ListAgents{})
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

// Session begins a session of the agent the ring is bound to. It checks that the
// service publishes the ring's keys, and finishes a rotation that was cut short.
func (c *Client) Session(ctx context.Context, ring *KeyRing) (*Agent, error) {
	if ring.AgentID().Zero() {
		return nil, ErrUnbound
	}
	record, err := c.Agent(ctx, ring.AgentID())
	if err != nil {
		return nil, err
	}
	if record.SigningPublicKey == nil {
		return nil, ErrKeysNotPublished
	}
	return &Agent{Client: c, Keys: ring, Record: *record}, ring.settle(*record.SigningPublicKey)
}

// ID is the agent's id.
func (a *Agent) ID() parley.AgentID { return a.Record.ID }

// Handle is the agent's handle.
func (a *Agent) Handle() string {
	if a.Record.Handle == nil {
		return ""
	}
	return *a.Record.Handle
}

// RotateKeys makes new keys, keeps them, publishes them and only then uses them.
// A send under way at that moment may be refused with SignatureInvalid.
// If it is cut short, the next call or Session takes it up where it stopped. The
// former encryption key is kept: mail sealed to it can still be opened.
func (a *Agent) RotateKeys(ctx context.Context) error {
	signing, encryption, err := a.Keys.prepare()
	if err != nil {
		return err
	}
	in := api.UploadKeys{ID: a.ID(), SigningPublicKey: &signing, EncryptionPublicKey: &encryption}
	if _, err := a.Client.RotateKeys(ctx, in); err != nil {
		return err
	}
	return a.Keys.settle(signing)
}

// SendSealed seals payload to the agent named by handle or id, and a copy to the
// sender itself, and sends both. The functions may change the request before it
// goes, for instance its content type or its idempotency key.
func (a *Agent) SendSealed(ctx context.Context, to string, payload []byte, messageType string, change ...func(*api.Send)) (*SentMessage, error) {
	in, err := a.seal(ctx, to, payload, messageType, change)
	if err != nil {
		return nil, err
	}
	return a.Client.send(ctx, *in, a.signBody)
}

// SyncSealed is SendSealed that waits for the reply; wait is 1 s to 5 min, or 0
// for the server's default.
func (a *Agent) SyncSealed(ctx context.Context, to string, payload []byte, messageType string, wait time.Duration, change ...func(*api.Send)) (*api.SyncResult, error) {
	in, err := a.seal(ctx, to, payload, messageType, change)
	if err != nil {
		return nil, err
	}
	return a.Client.sync(ctx, api.Sync{Send: *in, TimeoutMS: int(wait.Milliseconds())}, a.signBody)
}

func (a *Agent) seal(ctx context.Context, to string, payload []byte, messageType string, change []func(*api.Send)) (*api.Send, error) {
	recipient, err := a.Client.Keys(ctx, to, "")
	if err != nil {
		return nil, fmt.Errorf("keys of %s: %w", to, err)
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
func (a *Agent) ReplySealed(ctx context.Context, to api.Message, payload []byte, messageType string, change ...func(*api.Reply)) (*SentMessage, error) {
	other := to.FromAgentID
	if other == a.ID() {
		other = to.ToAgentID
	}
	recipient, err := a.Client.Keys(ctx, other.String(), "")
	if err != nil {
		return nil, fmt.Errorf("keys of %s: %w", other, err)
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
	return a.Client.reply(ctx, in, a.signBody)
}

type sealedPair struct{ payload, copy, kid string }

// sealTo seals to the recipient and to the agent itself.
func (a *Agent) sealTo(recipient *api.AgentKeys, payload []byte) (s sealedPair, err error) {
	if recipient.EncryptionPublicKey == nil {
		return s, ErrNoEncryptionKey
	}
	if s.payload, err = Seal(a.Keys, *recipient.EncryptionPublicKey, payload); err != nil {
		return s, err
	}
	s.copy, err = Seal(a.Keys, a.Keys.EncryptionKey(), payload)
	s.kid = a.Keys.SigningKey().Kid
	return s, err
}

// signBody signs a request's body, so that the service refuses what the ring's
// current key did not sign. // contract: 7
func (a *Agent) signBody(body []byte) string {
	sum := sha256.Sum256(body)
	text := a.Client.brand + "-msg-v1\n" + hex.EncodeToString(sum[:])
	return base64.RawURLEncoding.EncodeToString(a.Keys.Sign([]byte(text)))
}

// Opened is a message whose payload was opened and whose sender was verified.
type Opened struct {
	Message api.Message
	Payload []byte
	// SenderKid is the key id under which the sender publishes the key that signed.
	SenderKid string
}

// OpenMessage opens a message that the agent received, or its own copy of one
// that it sent, and verifies that the agent named as the sender signed it for
// this recipient. Type, content type and metadata are not covered by that, but
// for type and content type of a group message. A group message whose sender's
// key is not here is ErrNoSenderKey, and the sender has been asked for it.
func (a *Agent) OpenMessage(ctx context.Context, m api.Message) (*Opened, error) {
	text := m.EncryptedPayload
	if m.FromAgentID == a.ID() {
		if m.SelfEncryptedPayload == nil {
			return nil, ErrCannotOpen
		}
		text = *m.SelfEncryptedPayload
	}
	switch {
	case m.EncryptionVersion == api.SenderKeyV1 && m.FromAgentID == a.ID(): // the copy is sealed as ever
	case m.EncryptionVersion == api.SenderKeyV1 && m.GroupID != nil:
		return a.openBroadcast(ctx, m)
	case m.EncryptionVersion != api.HPKEv1:
		return nil, ErrNotHPKE
	}
	payload, kid, err := Open(a.Keys, m.FromAgentID, text, func(kid string) (api.JWK, error) {
		return a.signingKey(ctx, signer{m.FromAgentID, kid})
	})
	if err != nil {
		return nil, err
	}
	return &Opened{Message: m, Payload: payload, SenderKid: kid}, nil
}

// signingKey is a signing key of an agent, from memory or as the service
// publishes it.
func (a *Agent) signingKey(ctx context.Context, s signer) (api.JWK, error) {
	if own := a.Keys.SigningKey(); s.agent == a.ID() && s.kid == own.Kid {
		return own, nil
	}
	a.mu.Lock()
	key, known := a.signers[s]
	a.mu.Unlock()
	if known {
		return key, nil
	}
	key, err := a.Client.SigningKey(ctx, s.agent, s.kid)
	if err != nil {
		return api.JWK{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.signers == nil || len(a.signers) >= signersMax {
		a.signers = map[signer]api.JWK{}
	}
	a.signers[s] = key
	return key, nil
}

// SigningKey is the signing key that an agent publishes, or once published,
// under a key id. An agent that publishes keys, but never this one, gives
// ErrForged: nobody may sign in its name with it. One that publishes none, since
// it is revoked, gives ErrNoSender.
func (c *Client) SigningKey(ctx context.Context, agent parley.AgentID, kid string) (api.JWK, error) {
	keys, err := c.Keys(ctx, agent.String(), kid)
	if errors.Is(err, NotFound) {
		if _, err := c.Keys(ctx, agent.String(), ""); err == nil {
			return api.JWK{}, ErrForged
		}
		return api.JWK{}, fmt.Errorf("%w: %w", ErrNoSender, err)
	}
	if err != nil {
		return api.JWK{}, fmt.Errorf("keys of %s: %w", agent, err)
	}
	key := keys.SigningPublicKey
	if key == nil || key.Kid != kid {
		return api.JWK{}, ErrForged
	}
	return *key, nil
}
