package e2ee

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
)

// groups has the sender keys of an agent's groups, and exchanges them with other members.
type groups struct {
	agent *Agent
	// keys are stored beside the ring, which may have been saved after the session began.
	keys func() *groupKeys

	mu      sync.Mutex
	rosters map[parley.GroupID]roster
	// searched are generations that no distribution in the inbox contained, with the time
	// of the search.
	searched map[chainScope]time.Time
}

// roster is the members of a group, with their memberships, as of an instant.
type roster struct {
	at      time.Time
	members map[parley.AgentID]string
}

const (
	// rosterLife is how long a roster may be used to judge a distribution: when many
	// members rotate at once, each sends one.
	rosterLife = 2 * time.Second
	// searchLife is how long the inbox is not searched again for the same key.
	searchLife = 2 * time.Second
)

// roster returns the members of a group. It asks the service unless the last answer is
// younger than age.
func (s *groups) roster(ctx context.Context, group parley.GroupID, age time.Duration) (map[parley.AgentID]string, error) {
	now := s.agent.clock()
	s.mu.Lock()
	known, have := s.rosters[group]
	s.mu.Unlock()
	if have && now.Sub(known.at) < age {
		return known.members, nil
	}
	members := map[parley.AgentID]string{}
	for m, err := range client.All(ctx, s.agent.Client.Groups.Members, api.ListMembers{ID: group, Limit: 200}) {
		if err != nil {
			return nil, fmt.Errorf("members of the group: %w", err)
		}
		members[m.AgentID] = ""
		if m.ID != nil {
			members[m.AgentID] = m.ID.String()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rosters == nil {
		s.rosters = map[parley.GroupID]roster{}
	}
	s.rosters[group] = roster{at: now, members: members}
	return members, nil
}

var (
	// ErrMLSGroup means that a group takes MLS messages only, which an MLS client sends.
	ErrMLSGroup = errors.New("the group has an MLS group: its broadcasts are MLS messages, which an MLS client sends (examples/mls-ts)")
	// ErrMLSMessage means that a message is one of MLS, which an MLS client opens.
	ErrMLSMessage = errors.New("the message is one of MLS: an MLS client opens it (examples/mls-ts)")
)

// SentBroadcast is the answer to a broadcast.
type SentBroadcast struct {
	client.SentMessage
	// Generation is the generation of the sender's keys. It is a new one if a member that
	// had the former keys has left the group.
	Generation uint64
	// Given are the members that received the key now, Missed those that could not, with
	// the reason. They may request it.
	Given  []parley.AgentID
	Missed map[parley.AgentID]error
}

// Broadcast seals payload with the agent's sender key to all members of a group, and a
// copy to the agent itself, and sends both. Members that lack the key receive it first.
// If a member that had it is gone, the key is replaced. The functions may change the
// request before it is sealed, for instance its content type or its idempotency key. The
// error is ErrMLSGroup for a group with an MLS group: nothing is sent.
func (a *Agent) Broadcast(ctx context.Context, to *api.Group, payload []byte, messageType string, change ...func(*api.Send)) (*SentBroadcast, error) {
	if to.MLSEnabled {
		return nil, ErrMLSGroup
	}
	if limit := a.Keys.payloadMax(); len(payload) > limit {
		return nil, tooLong(payload, limit)
	}
	members, err := a.groups.roster(ctx, to.ID, 0)
	if err != nil {
		return nil, err
	}
	sent := &SentBroadcast{Missed: map[parley.AgentID]error{}}
	scope, link, err := a.groups.takeLink(ctx, to.ID, members, sent)
	if err != nil {
		return nil, err
	}
	in := api.Send{
		ActingAgent: a.ID().String(), ToHandle: &to.Handle, Type: messageType, ContentType: "application/json",
		EncryptionVersion: api.SenderKeyV1,
	}
	for _, f := range change {
		f(&in)
	}
	if in.ContentType == "" {
		in.ContentType = "application/json"
	}
	if err := a.groups.sealBroadcast(&in, scope, link, payload); err != nil {
		return nil, err
	}
	answer, err := a.signed().Send(ctx, in)
	if err != nil {
		return nil, a.groups.orMLSGroup(ctx, to.ID, err)
	}
	sent.SentMessage, sent.Generation = *answer, scope.generation
	return sent, nil
}

// orMLSGroup returns ErrMLSGroup, with the server's refusal of a broadcast, if the group has
// an MLS group that the caller did not know of; else the refusal.
func (s *groups) orMLSGroup(ctx context.Context, id parley.GroupID, err error) error {
	refused := (*client.Error)(nil)
	if !errors.As(err, &refused) || refused.Status != http.StatusConflict && refused.Status != http.StatusUnprocessableEntity {
		return err
	}
	if g, unread := s.agent.Client.Groups.Get(ctx, id); unread == nil && g.MLSEnabled {
		return fmt.Errorf("%w: %w", ErrMLSGroup, err)
	}
	return err
}

// sealBroadcast seals a payload with a link of the agent's chain, and a copy to the agent
// itself.
func (s *groups) sealBroadcast(in *api.Send, scope chainScope, link chainLink, payload []byte) error {
	key, err := link.messageKey(scope)
	if err != nil {
		return err
	}
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // never fails since Go 1.24
	_, signing := s.agent.Keys.signer()
	m := broadcast{chainScope: scope, counter: link.Counter, messageType: in.Type, contentType: in.ContentType}
	if in.EncryptedPayload, err = m.seal(key, nonce, signing, payload); err != nil {
		return err
	}
	copied, err := s.agent.Keys.sealToSelf(payload)
	in.SelfEncryptedPayload, in.SenderSigningKid = &copied, &signing.kid
	return err
}

// takeLink prepares the agent's chain for these members, sends it to those that lack it
// and takes its next link. The chain is stored before the link is used.
func (s *groups) takeLink(ctx context.Context, group parley.GroupID, members map[parley.AgentID]string, sent *SentBroadcast) (scope chainScope, link chainLink, err error) {
	scope = chainScope{group: group, sender: s.agent.ID()}
	others := map[parley.AgentID]string{}
	for id, membership := range members {
		if id != s.agent.ID() {
			others[id] = membership
		}
	}
	if _, member := members[s.agent.ID()]; !member {
		others = nil // the service will refuse, so no member needs the key
	}
	for {
		var due []parley.AgentID
		err = s.keys().own(group, func(o *ownKeys) (bool, error) {
			g, missing, fresh := o.prepare(s.agent.clock(), others)
			scope.generation, link, due = g.Generation, g.chainLink, missing
			return fresh, nil
		})
		if err != nil {
			return scope, link, err
		}
		if err := s.distribute(ctx, scope, link, others, due, sent); err != nil {
			return scope, link, err
		}
		taken := false
		err = s.keys().own(group, func(o *ownKeys) (bool, error) {
			g := o.current()
			if g == nil || g.Generation != scope.generation || g.Counter >= generationMessages {
				return false, nil // another session of this agent changed it
			}
			taken = true
			link, err = g.take(scope)
			return true, err
		})
		if err != nil || taken {
			return scope, link, err
		}
	}
}

// openBroadcast opens a group message. It searches the inbox for a missing key, then
// requests it from its sender.
func (s *groups) open(ctx context.Context, m api.Message) (*Opened, error) {
	opened, err := s.openKnown(ctx, m)
	if !errors.Is(err, ErrNoSenderKey) {
		return opened, err
	}
	t, err := decodeGroupText(m.EncryptedPayload)
	if err != nil {
		return nil, err
	}
	scope := chainScope{*m.GroupID, m.FromAgentID, t.generation}
	found, err := s.search(ctx, scope)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w (and could not be looked for: %w)", ErrNoSenderKey, err)
	case found:
		return s.openKnown(ctx, m)
	}
	if err := s.request(ctx, scope, t.counter); err != nil {
		return nil, fmt.Errorf("%w (and could not be asked for: %w)", ErrNoSenderKey, err)
	}
	return nil, ErrNoSenderKey
}

// openKnown opens a group message with the stored keys. The chain advances only for a
// message that its sender has signed.
func (s *groups) openKnown(ctx context.Context, in api.Message) (*Opened, error) {
	t, err := decodeGroupText(in.EncryptedPayload)
	if err != nil {
		return nil, err
	}
	m := broadcast{
		chainScope:  chainScope{*in.GroupID, in.FromAgentID, t.generation},
		counter:     t.counter,
		messageType: in.Type, contentType: in.ContentType,
	}
	var key []byte
	err = s.keys().peer(m.group, m.sender, func(p *peerKeys) (_ bool, err error) {
		key, err = p.key(m, in.ID)
		return false, err
	})
	if err != nil {
		return nil, err
	}
	former := false
	payload, kid, err := m.open(key, t, s.agent.lookup(ctx, in, &former))
	if err != nil {
		return nil, err
	}
	err = s.keys().peer(m.group, m.sender, func(p *peerKeys) (bool, error) {
		return true, p.opened(m, in.ID)
	})
	if err != nil {
		return nil, err
	}
	return &Opened{Message: in, Payload: payload, SenderKid: kid, FormerKey: former}, nil
}

// LeaveGroup removes the agent from a group and drops its keys for it.
func (a *Agent) LeaveGroup(ctx context.Context, group parley.GroupID) error {
	err := a.Client.Groups.RemoveMember(ctx, api.RemoveMember{ID: group, AgentID: a.ID(), ActingAgent: a.ID().String()})
	if err != nil {
		return err
	}
	return a.groups.keys().forget(group)
}

func compareIDs(x, y parley.AgentID) int { return bytes.Compare(x[:], y[:]) }

// senderKey is the payload of the two messages of the key exchange. Chain keys are
// base64url.
type senderKey struct {
	Kind    string         `json:"kind"`
	Version int            `json:"version"`
	GroupID parley.GroupID `json:"group_id"`
	// SenderAgentID is the agent whose key it is.
	SenderAgentID parley.AgentID `json:"sender_agent_id"`
	Generation    uint64         `json:"generation"`
	// Counter is that of the first message the chain key opens; in a request, that of the
	// message that could not be opened.
	Counter  uint32 `json:"counter"`
	ChainKey string `json:"chain_key,omitempty"`
}

func readSenderKey(payload []byte, kind string) (*senderKey, error) {
	var k senderKey
	if err := json.Unmarshal(payload, &k); err != nil || k.Kind != kind || k.Version != 1 || k.Generation == 0 {
		return nil, ErrSenderKeyForm
	}
	return &k, nil
}
