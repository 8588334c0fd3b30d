package e2ee

import (
	"crypto/rand"
	"maps"
	"slices"
	"time"

	"parley/client/parley"
)

const (
	// formerGenerations is how many former generations of the agent's own chains are
	// kept, for members that ask again.
	formerGenerations = 3
	// peerGenerationsMax and peerKeysMax bound what is kept of one sender in one group.
	// The oldest generation is dropped first.
	peerGenerationsMax = 32
	peerKeysMax        = 4 * generationMessages
	// answeredMax is how many requests are remembered as answered.
	answeredMax = 256
	// askAgainAfter is how long to wait for the answer to a request for a key before
	// asking again.
	askAgainAfter = 10 * time.Minute
)

// ownKeys is what a sender stores for one group: own.json.
type ownKeys struct {
	Version     int              `json:"version"`
	Generations []*ownGeneration `json:"generations"` // oldest first
	// Answered are requests that need no further answer, oldest first.
	Answered []parley.MessageID `json:"answered"`
}

// ownGeneration is one chain and the members that received it. A member's grant is kept
// so that a member that lost the key can receive it again, and no more than that.
type ownGeneration struct {
	Generation uint64 `json:"generation"`
	chainLink
	// Given are the links that members received, by their counters.
	Given map[uint32][]byte `json:"given"`
	// Members are the members that have the chain.
	Members map[parley.AgentID]grant `json:"members"`
}

// grant is what a member received. A member that left and came back has another
// membership.
type grant struct {
	Membership string `json:"membership"`
	Counter    uint32 `json:"counter"`
}

func (o *ownKeys) current() *ownGeneration {
	if len(o.Generations) == 0 {
		return nil
	}
	return o.Generations[len(o.Generations)-1]
}

func (o *ownKeys) find(generation uint64) *ownGeneration {
	for _, g := range o.Generations {
		if g.Generation == generation {
			return g
		}
	}
	return nil
}

// prepare returns the generation to use for sending to these members, given with their
// memberships: the current one unless a member that has it is gone or it is used up. due
// are the members that have not received it.
func (o *ownKeys) prepare(now time.Time, members map[parley.AgentID]string) (g *ownGeneration, due []parley.AgentID, fresh bool) {
	g = o.current()
	if fresh = g == nil || g.Counter >= generationMessages || g.lost(members); fresh {
		g = o.rotate(now)
	}
	for _, id := range slices.SortedFunc(maps.Keys(members), compareIDs) {
		if _, has := g.Members[id]; !has {
			due = append(due, id)
		}
	}
	return g, due, fresh
}

// lost reports whether an agent that has the generation is no longer a member.
func (g *ownGeneration) lost(members map[parley.AgentID]string) bool {
	for id, given := range g.Members {
		if membership, still := members[id]; !still || membership != given.Membership {
			return true
		}
	}
	return false
}

// rotate begins a generation. Its number is a time, so that an agent whose state was lost
// does not reuse a number.
func (o *ownKeys) rotate(now time.Time) *ownGeneration {
	generation := uint64(max(now.UnixMilli(), 1))
	if last := o.current(); last != nil {
		generation = max(generation, last.Generation+1)
	}
	key := make([]byte, chainKeySize)
	_, _ = rand.Read(key) // never fails since Go 1.24
	g := &ownGeneration{Generation: generation, chainLink: chainLink{Key: key}, Given: map[uint32][]byte{}, Members: map[parley.AgentID]grant{}}
	o.Generations = append(o.Generations, g)
	if over := len(o.Generations) - 1 - formerGenerations; over > 0 {
		o.Generations = slices.Delete(o.Generations, 0, over)
	}
	return g
}

// give records that a member has a link.
func (g *ownGeneration) give(to parley.AgentID, membership string, link chainLink) {
	g.Members[to] = grant{Membership: membership, Counter: link.Counter}
	g.Given[link.Counter] = link.Key
}

// take returns the link of the next message and advances the chain.
func (g *ownGeneration) take(scope chainScope) (chainLink, error) {
	link := g.chainLink
	next, err := link.next(scope)
	if err != nil {
		return chainLink{}, err
	}
	g.chainLink = next
	return link, nil
}

// again returns what a member that asks may receive: for the generation asked for, what
// it received before, else the current one from here on.
func (o *ownKeys) again(asked uint64, who parley.AgentID, membership string) (*ownGeneration, chainLink, bool) {
	if g := o.find(asked); g != nil {
		if given, has := g.Members[who]; has && given.Membership == membership {
			return g, chainLink{given.Counter, g.Given[given.Counter]}, true
		}
	}
	g := o.current()
	if g == nil {
		return nil, chainLink{}, false
	}
	return g, g.chainLink, true
}

func (o *ownKeys) answered(request parley.MessageID) bool {
	return slices.Contains(o.Answered, request)
}

func (o *ownKeys) answer(request parley.MessageID) {
	o.Answered = append(o.Answered, request)
	if over := len(o.Answered) - answeredMax; over > 0 {
		o.Answered = slices.Delete(o.Answered, 0, over)
	}
}

// peerKeys is what a member stores of one sender in one group.
type peerKeys struct {
	Version int `json:"version"`
	// Floor: generations up to it are permanently forgotten.
	Floor       uint64            `json:"floor"`
	Generations []*peerGeneration `json:"generations"` // oldest first
	// Asked is when a missing generation was requested.
	Asked map[uint64]time.Time `json:"asked,omitempty"`
}

// peerGeneration is one chain of a sender. Keys of skipped messages are kept until those
// arrive. Keys of opened messages are kept with the message's id, so that the message can
// be opened again and no other message with its counter can.
type peerGeneration struct {
	Generation uint64 `json:"generation"`
	chainLink
	Skipped map[uint32][]byte     `json:"skipped"`
	Opened  map[uint32]openedText `json:"opened"`
}

type openedText struct {
	Message parley.MessageID `json:"message_id"`
	Key     []byte           `json:"key"`
}

func (p *peerKeys) find(generation uint64) *peerGeneration {
	for _, g := range p.Generations {
		if g.Generation == generation {
			return g
		}
	}
	return nil
}

// accept takes a link from the sender. A known generation stays unchanged, so that an
// opened message cannot be opened as another.
func (p *peerKeys) accept(scope chainScope, link chainLink) (fresh bool, err error) {
	switch {
	case scope.generation == 0 || len(link.Key) != chainKeySize || link.Counter > generationMessages:
		return false, ErrSenderKeyForm
	case scope.generation <= p.Floor:
		return false, ErrKeyForgotten
	case p.find(scope.generation) != nil:
		return false, nil
	}
	p.Generations = append(p.Generations, &peerGeneration{
		Generation: scope.generation, chainLink: link, Skipped: map[uint32][]byte{}, Opened: map[uint32]openedText{},
	})
	slices.SortFunc(p.Generations, func(a, b *peerGeneration) int {
		if a.Generation < b.Generation {
			return -1
		}
		return 1
	})
	delete(p.Asked, scope.generation)
	p.evict()
	return p.find(scope.generation) != nil, nil
}

// evict drops the oldest generations beyond the bounds.
func (p *peerKeys) evict() {
	keys := 0
	for _, g := range p.Generations {
		keys += len(g.Skipped) + len(g.Opened)
	}
	for len(p.Generations) > 1 && (len(p.Generations) > peerGenerationsMax || keys > peerKeysMax) {
		oldest := p.Generations[0]
		keys -= len(oldest.Skipped) + len(oldest.Opened)
		p.Floor = oldest.Generation
		p.Generations = slices.Delete(p.Generations, 0, 1)
	}
}

// key returns the key of a message. It changes nothing, because the text may be forged.
func (p *peerKeys) key(m broadcast, message parley.MessageID) ([]byte, error) {
	g := p.find(m.generation)
	switch {
	case g == nil && m.generation <= p.Floor:
		return nil, ErrKeyForgotten
	case g == nil:
		return nil, ErrNoSenderKey
	}
	if opened, before := g.Opened[m.counter]; before {
		if opened.Message != message {
			return nil, ErrReplayed
		}
		return opened.Key, nil
	}
	if key, skipped := g.Skipped[m.counter]; skipped {
		return key, nil
	}
	link := g.chainLink
	if m.counter < link.Counter {
		return nil, ErrKeyForgotten
	}
	for link.Counter < m.counter {
		next, err := link.next(m.chainScope)
		if err != nil {
			return nil, err
		}
		link = next
	}
	return link.messageKey(m.chainScope)
}

// opened records that a message was opened with its key: the chain advances past it.
func (p *peerKeys) opened(m broadcast, message parley.MessageID) error {
	key, err := p.key(m, message) // another process may have opened one meanwhile
	if err != nil {
		return err
	}
	g := p.find(m.generation)
	for g.Counter <= m.counter {
		if g.Counter < m.counter {
			if g.Skipped[g.Counter], err = g.messageKey(m.chainScope); err != nil {
				return err
			}
		}
		if g.chainLink, err = g.next(m.chainScope); err != nil {
			return err
		}
	}
	delete(g.Skipped, m.counter)
	g.Opened[m.counter] = openedText{Message: message, Key: key}
	p.evict()
	return nil
}

// ask reports whether to request a missing generation now, and records the request.
func (p *peerKeys) ask(generation uint64, now time.Time) bool {
	if last, asked := p.Asked[generation]; asked && now.Sub(last) < askAgainAfter {
		return false
	}
	if p.Asked == nil || len(p.Asked) >= peerGenerationsMax {
		p.Asked = map[uint64]time.Time{}
	}
	p.Asked[generation] = now
	return true
}
