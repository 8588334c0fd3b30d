package e2ee

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
)

// The two messages of the key exchange: the suffixes of their types, and the kinds named
// in their payloads, because a message's type is not sealed.
const (
	distributionType = "sender_key_distribution"
	requestType      = "sender_key_request"
)

const (
	// distributeAtOnce is how many members are sent a key concurrently.
	distributeAtOnce = 8
	// searchMax is how many distributions in the inbox are searched for a key.
	searchMax = 1000
)

// ErrNoMember means that a key came from, or was requested by, an agent that is not in
// the group.
var ErrNoMember = errors.New("the other agent is not a member of the group")

// KeyExchange is the outcome of a message of the key exchange.
type KeyExchange struct {
	// Kind is sender_key_distribution or sender_key_request.
	Kind    string
	GroupID parley.GroupID
	// With is the other agent.
	With       parley.AgentID
	Generation uint64
	// Fresh reports that something changed: the key was not known, or the request has
	// been answered now.
	Fresh bool
	// FormerKey is that of Opened.
	FormerKey bool
}

// HandleKeyExchange handles a message of the key exchange: it stores a sender's key, or
// answers a request for the agent's own key. It accepts only messages of the group's
// members. It is safe to call twice for a message.
func (a *Agent) HandleKeyExchange(ctx context.Context, m api.Message) (*KeyExchange, error) {
	if m.FromAgentID == a.ID() {
		return &KeyExchange{Kind: a.groups.kind(m), With: m.ToAgentID}, nil
	}
	opened, err := a.OpenMessage(ctx, m)
	if err != nil {
		return nil, err
	}
	k, err := readSenderKey(opened.Payload, a.groups.kind(m))
	if err != nil {
		return nil, err
	}
	out := &KeyExchange{Kind: k.Kind, GroupID: k.GroupID, With: m.FromAgentID, Generation: k.Generation, FormerKey: opened.FormerKey}
	if k.Kind == distributionType {
		out.Fresh, err = a.groups.keepKey(ctx, m.FromAgentID, k, false)
	} else {
		out.Fresh, err = a.groups.answerRequest(ctx, m, k)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *groups) kind(m api.Message) string {
	if m.Type == s.agent.Client.MessageType(distributionType) {
		return distributionType
	}
	return requestType
}

// member returns an agent's membership of a group.
func (s *groups) member(ctx context.Context, group parley.GroupID, agent parley.AgentID) (string, error) {
	members, err := s.roster(ctx, group, rosterLife)
	if err != nil {
		return "", err
	}
	membership, is := members[agent]
	if !is {
		return "", ErrNoMember
	}
	return membership, nil
}

// keepKey stores a chain key that its sender sent. vouched means that the service has
// delivered a message of this sender to this group, so it was a member when it wrote,
// even if it has left since.
func (s *groups) keepKey(ctx context.Context, from parley.AgentID, k *senderKey, vouched bool) (fresh bool, err error) {
	scope := chainScope{k.GroupID, from, k.Generation}
	key, err := base64.RawURLEncoding.Strict().DecodeString(k.ChainKey)
	if err != nil || k.SenderAgentID != from {
		return false, ErrSenderKeyForm
	}
	known := false
	err = s.keys().peer(scope.group, from, func(p *peerKeys) (bool, error) {
		known = p.find(scope.generation) != nil
		return false, nil
	})
	if err != nil || known {
		return false, err
	}
	if !vouched {
		if _, err := s.member(ctx, scope.group, from); err != nil {
			return false, err
		}
	}
	err = s.keys().peer(scope.group, from, func(p *peerKeys) (bool, error) {
		fresh, err = p.accept(scope, chainLink{k.Counter, key})
		return fresh, err
	})
	return fresh, err
}

// distribute sends a link to the members that are due and records which have it. Members
// that permanently cannot receive it are recorded as missed; temporary failures are
// returned as an error.
func (s *groups) distribute(ctx context.Context, scope chainScope, link chainLink, members map[parley.AgentID]string, due []parley.AgentID, sent *SentBroadcast) error {
	for len(due) > 0 {
		batch := due[:min(len(due), parley.BatchKeysMax)]
		due = due[len(batch):]
		given, err := s.distributeBatch(ctx, scope, link, batch, sent)
		kept := s.keys().own(scope.group, func(o *ownKeys) (bool, error) {
			g := o.find(scope.generation)
			if g == nil {
				return false, nil
			}
			for _, id := range given {
				g.give(id, members[id], link)
			}
			return true, nil
		})
		sent.Given = append(sent.Given, given...)
		if err := errors.Join(err, kept); err != nil {
			return err
		}
	}
	return nil
}

func (s *groups) distributeBatch(ctx context.Context, scope chainScope, link chainLink, batch []parley.AgentID, sent *SentBroadcast) (given []parley.AgentID, failed error) {
	keys, err := s.agent.Client.Keys.Batch(ctx, batch...)
	if err != nil {
		return nil, err
	}
	refused, err := s.agent.Contacts.meet(ctx, true, served(keys, batch)...)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, distributeAtOnce)
	for _, id := range batch {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			recipient, err := keys[id], refused[id]
			switch {
			case err != nil:
			case recipient.AgentID != id:
				err = ErrNoEncryptionKey
			default:
				err = s.give(ctx, &recipient, scope, link, fmt.Sprintf("%s/%s/%d/%s", distributionType, scope.group, scope.generation, id))
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				given = append(given, id)
			case lasting(err):
				sent.Missed[id] = err
			default:
				failed = err
			}
		})
	}
	all.Wait()
	return given, failed
}

// served returns the keys of those agents of a batch for which the service returned keys.
func served(keys map[parley.AgentID]api.AgentKeys, batch []parley.AgentID) (all []api.AgentKeys) {
	for _, id := range batch {
		if k, has := keys[id]; has && k.AgentID == id {
			all = append(all, k)
		}
	}
	return all
}

// lasting reports whether an agent permanently cannot receive a key.
func lasting(err error) bool {
	for _, code := range []client.Code{client.NotFound, client.Gone, client.IsolatedAgent, client.IncomingPolicy, client.OutgoingPolicy} {
		if errors.Is(err, code) {
			return true
		}
	}
	return lastingKeyError(err)
}

// give seals a link to one agent. It makes no copy for the sender, so that no chain key
// can be read from a transcript.
func (s *groups) give(ctx context.Context, to *api.AgentKeys, scope chainScope, link chainLink, idempotency string) error {
	return s.exchange(ctx, to, distributionType, senderKey{
		GroupID: scope.group, SenderAgentID: scope.sender, Generation: scope.generation, Counter: link.Counter,
		ChainKey: base64.RawURLEncoding.EncodeToString(link.Key),
	}, idempotency)
}

func (s *groups) exchange(ctx context.Context, to *api.AgentKeys, kind string, k senderKey, idempotency string) error {
	k.Kind, k.Version = kind, 1
	payload, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if to.EncryptionPublicKey == nil {
		return ErrNoEncryptionKey
	}
	text, err := SealTo(s.agent.Keys, to, payload)
	if err != nil {
		return err
	}
	kid := s.agent.Keys.SigningKey().Kid
	_, err = s.agent.signed().Send(ctx, api.Send{
		ActingAgent: s.agent.ID().String(), ToAgentID: &to.AgentID, Type: s.agent.Client.MessageType(kind), EncryptedPayload: text,
		EncryptionVersion: api.HPKEv1, SenderSigningKid: &kid, ContentType: "application/json", IdempotencyKey: idempotency,
	})
	return err
}

// search looks for a key among the distributions in the inbox, which may be unread, or
// whose keys may have been lost.
func (s *groups) search(ctx context.Context, scope chainScope) (bool, error) {
	now := s.agent.clock()
	s.mu.Lock()
	last, searched := s.searched[scope]
	s.mu.Unlock()
	if searched && now.Sub(last) < searchLife {
		return false, nil
	}
	kind, rows := s.agent.Client.MessageType(distributionType), 0
	for m, err := range client.All(ctx, s.agent.Client.Messages.Inbox, api.Inbox{ID: s.agent.ID(), Type: &kind, Limit: parley.InboxLimitMax}) {
		if err != nil {
			return false, err
		}
		if rows++; rows > searchMax {
			break
		}
		if m.FromAgentID != scope.sender {
			continue
		}
		opened, err := s.agent.OpenMessage(ctx, m)
		if err != nil {
			continue
		}
		k, err := readSenderKey(opened.Payload, distributionType)
		if err == nil && k.GroupID == scope.group && k.Generation == scope.generation {
			if fresh, err := s.keepKey(ctx, m.FromAgentID, k, true); err == nil && fresh {
				return true, nil
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.searched == nil || len(s.searched) >= signersMax {
		s.searched = map[chainScope]time.Time{}
	}
	s.searched[scope] = now
	return false, nil
}

// request requests a generation from a sender, unless it did so recently.
func (s *groups) request(ctx context.Context, scope chainScope, counter uint32) error {
	due := false
	err := s.keys().peer(scope.group, scope.sender, func(p *peerKeys) (bool, error) {
		due = p.ask(scope.generation, s.agent.clock())
		return due, nil
	})
	if err != nil || !due {
		return err
	}
	to, err := s.agent.Contacts.recipient(ctx, scope.sender.String())
	if err != nil {
		return err
	}
	return s.exchange(ctx, to, requestType, senderKey{GroupID: scope.group, SenderAgentID: scope.sender, Generation: scope.generation, Counter: counter}, "")
}

// answerRequest sends a requesting member what it received before or, if it received
// nothing, the chain in its current state.
func (s *groups) answerRequest(ctx context.Context, m api.Message, k *senderKey) (bool, error) {
	if k.SenderAgentID != s.agent.ID() {
		return false, ErrSenderKeyForm
	}
	answered := false
	err := s.keys().own(k.GroupID, func(o *ownKeys) (bool, error) {
		answered = o.answered(m.ID)
		return false, nil
	})
	if err != nil || answered {
		return false, err
	}
	membership, err := s.member(ctx, k.GroupID, m.FromAgentID)
	if err != nil {
		return false, err
	}
	scope, link, has := chainScope{group: k.GroupID, sender: s.agent.ID()}, chainLink{}, false
	err = s.keys().own(k.GroupID, func(o *ownKeys) (bool, error) {
		var g *ownGeneration
		if g, link, has = o.again(k.Generation, m.FromAgentID, membership); has {
			scope.generation = g.Generation
		}
		return false, nil
	})
	if err != nil || !has {
		return false, err
	}
	to, err := s.agent.Contacts.recipient(ctx, m.FromAgentID.String())
	if err != nil {
		return false, err
	}
	if err := s.give(ctx, to, scope, link, requestType+"/"+m.ID.String()); err != nil {
		return false, err
	}
	return true, s.keys().own(k.GroupID, func(o *ownKeys) (bool, error) {
		if g := o.find(scope.generation); g != nil {
			g.give(m.FromAgentID, membership, link)
		}
		o.answer(m.ID)
		return true, nil
	})
}
