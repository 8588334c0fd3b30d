package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/org"
	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/registration"
	"parley/client/parley"
	"parley/journal"
)

// client runs one request after another.
type client struct {
	*workload
	rng    *rand.Rand
	number int
}

func (c *client) node() *Node { return c.running.node }

// pick returns a random element of a growing set, false while it is empty.
func pick[T any](c *client, from *[]T) (one T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(*from) == 0 {
		return one, false
	}
	return (*from)[c.rng.IntN(len(*from))], true
}

// note records what is about to be requested.
func note[T any](w *workload, to *[]T, x T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*to = append(*to, x)
}

func (c *client) requestChallenge(slug string, difficulty int) (one *registration.Challenge, ok bool) {
	one, err := challengeFor(c.node(), slug, fmt.Sprint("challenge ", c.next()), difficulty, time.Hour)
	switch {
	case !c.answered(err, registration.ErrSlugTaken):
		return nil, false
	case err != nil:
		c.claim(func(k *knownFacts) { k.slug(slug, parley.OrgID{}) })
		return nil, false
	}
	one.OrgName = "v0"
	note(c.workload, &c.challenges, one)
	return one, true
}

// solve submits a solution and records the outcome.
func (c *client) solve(one *registration.Challenge, slug string) {
	made, err := c.node().Orgs.Register(context.Background(), Solution{Challenge: one, Nonce: "n", Tier: 1, SecretHash: []byte("hash")})
	switch {
	case !c.answered(err, registration.ErrSlugTaken, registration.ErrUsed, registration.ErrPowWrong):
	case errors.Is(err, registration.ErrSlugTaken):
		c.claim(func(k *knownFacts) { k.slug(slug, parley.OrgID{}) })
	case errors.Is(err, registration.ErrUsed):
		c.claim(func(k *knownFacts) { k.used[one.GetText()] = parley.OrgID{} })
	case errors.Is(err, registration.ErrPowWrong): // counted in memory only
	default:
		owner := made.Org.OrgID()
		note(c.workload, &c.orgs, owner)
		c.claim(func(k *knownFacts) {
			k.slug(slug, owner)
			k.org(owner).clients[made.ClientID] = false
			k.used[one.GetText()] = owner
		})
	}
}

// provokeRefusals provokes every refusal once and repeats an idempotency key, so that
// no test depends on random clients to do so. It runs before other clients begin.
func (c *client) provokeRefusals() {
	c.register("contested") // a wrong proof of work, a taken slug, a used challenge
	if len(c.orgs) == 0 {
		return // the outcome is unknown
	}
	owner := c.orgs[0]
	for _, name := range []string{"alice", "alice", "bob", "carol"} { // a taken name
		c.create(owner, name)
	}
	if len(c.active) < 3 {
		return
	}
	c.sendTwice() // and repeats
	if len(c.pool) > 0 {
		c.moveTo(c.pool[0], "completed")
		c.moveTo(c.pool[0], "open") // a completed conversation cannot be reopened
	}
	alice, bob, carol := c.active[0].id, c.active[1].id, c.active[2].id
	beyond, limit := direct(owner, alice, bob, "0:beyond the quota", ""), 1
	beyond.DayLimit = &limit
	c.post(beyond)
	c.changeAgent(2, agent.Revoke{}, func(s *agent.State) { s.RevokedMs, s.PollTokenHash = 1, nil })
	c.post(direct(owner, alice, carol, "0:to nobody", ""))
}

// register submits wrong solutions, then solves two challenges for a slug concurrently,
// and then both again.
func (c *client) register(slug string) {
	note(c.workload, &c.slugs, slug)
	if hard, ok := c.requestChallenge(slug, 250); ok {
		c.solve(hard, slug)
		c.solve(hard, slug)
	}
	var solving sync.WaitGroup
	var issued []*registration.Challenge
	for range 2 {
		if id, ok := c.requestChallenge(slug, 0); ok {
			issued = append(issued, id)
			solving.Go(func() { c.solve(id, slug) })
		}
	}
	solving.Wait()
	for _, id := range issued {
		c.solve(id, slug)
	}
}

// administer creates, changes and revokes agents.
func (c *client) administer() {
	owner, ok := pick(c, &c.orgs)
	switch draw := c.rng.IntN(12); {
	case !ok || draw == 0:
		c.register(fmt.Sprint("slug", c.next()))
	case draw < 4:
		c.create(owner, fmt.Sprint("name", c.rng.IntN(9)))
	case draw < 9:
		c.change()
	case draw == 9:
		c.credentials(owner)
	case draw == 10:
		c.rename(owner)
	default:
		c.readOrg(owner)
	}
}

// create creates an agent, unless its name is taken.
func (c *client) create(owner parley.OrgID, name string) {
	full := fullName{owner, name}
	note(c.workload, &c.names, full)
	ask := agent.Create{OrgID: owner, Name: name, HumanOversight: true}
	ask.SigningKey, ask.EncryptionKey, ask.PollTokenHash = full.key(1), full.key(2), full.key(3)
	made, err := c.node().Agents.Create(context.Background(), NewAgent{Create: ask})
	switch {
	case !c.answered(err, org.ErrNameTaken):
	case err != nil:
		c.claim(func(k *knownFacts) { k.name(full, parley.AgentID{}) })
	default:
		id := made.AgentID()
		a := &crashAgent{id: id, owner: owner, name: name, versions: []string{fingerprint(made)}}
		c.mu.Lock()
		c.agents[id] = a
		c.active = append(c.active, a)
		c.mu.Unlock()
		c.claim(func(k *knownFacts) { k.name(full, id); k.agent(id, 0) })
	}
}

// key returns a raw key of the given kind for an agent of that name.
func (n fullName) key(kind byte) []byte {
	return key(kind, n.name+string(n.owner[8:]))
}

// change changes an agent. Each agent is changed by one client only.
func (c *client) change() {
	a, ok := pick(c, &c.active)
	if !ok || a.lost || int(a.id[15])%2 != c.number%2 {
		return
	}
	before, err := c.node().Agents.Get(context.Background(), a.id)
	if !c.answered(err, parley.ErrNotFound) || err != nil {
		return // not created at its home yet
	}
	want := proto.CloneOf(before)
	var do []agent.Command
	switch draw := c.rng.IntN(8); {
	case draw == 0:
		do = append(do, agent.Revoke{})
		want.RevokedMs, want.PollTokenHash = 1, nil
	case draw < 4:
		want.Unlisted, want.IncomingPolicy = !want.Unlisted, []string{agent.AcceptAll, agent.GroupsOnly}[c.rng.IntN(2)]
		do = append(do, agent.Change{Unlisted: &want.Unlisted, IncomingPolicy: &want.IncomingPolicy})
		fallthrough // so that all versions differ
	case draw < 6:
		want.SigningKey = numbered(uint64(c.next()))
		do = append(do, agent.RotateKeys{Signing: want.SigningKey})
	default:
		want.PollTokenHash = numbered(uint64(c.next()))
		do = append(do, agent.IssuePollToken{Hash: want.PollTokenHash})
	}
	state := before
	for _, command := range do {
		if state = c.changeOne(a, state, want, command); state == nil {
			return
		}
	}
}

// changeOne makes one change towards want, after recording its possible outcome.
func (c *client) changeOne(a *crashAgent, state, want *agent.State, command agent.Command) *agent.State {
	next := proto.CloneOf(state)
	switch command.(type) {
	case agent.Change:
		next.Unlisted, next.IncomingPolicy = want.Unlisted, want.IncomingPolicy
	case agent.RotateKeys:
		next.SigningKey = want.SigningKey
	case agent.IssuePollToken:
		next.PollTokenHash = want.PollTokenHash
	case agent.Revoke:
		next.RevokedMs, next.PollTokenHash = 1, nil
	}
	if !state.Revoked() {
		c.mu.Lock()
		a.versions = append(a.versions, fingerprint(next))
		c.mu.Unlock()
	}
	now, err := c.node().Agents.Change(context.Background(), a.id, command)
	switch {
	case !c.answered(err, agent.ErrRevoked, agent.ErrUnknown):
		a.lost = true
		return nil
	case err != nil:
		if errors.Is(err, agent.ErrRevoked) {
			c.claim(func(k *knownFacts) { k.revoked[a.id] = true })
		}
		return nil
	}
	c.sawAgent(now)
	return now
}

// credentials adds a credential and revokes one.
func (c *client) credentials(owner parley.OrgID) {
	made, err := c.node().Orgs.AddCredential(context.Background(), owner, org.AddCredential{SecretHash: []byte("hash")})
	if !c.answered(err) {
		return
	}
	client := made.Client()
	c.claim(func(k *knownFacts) { k.org(owner).clients[client] = false })
	if c.rng.IntN(2) == 0 && c.answered(c.node().Orgs.RevokeCredential(context.Background(), owner, client)) {
		c.claim(func(k *knownFacts) { k.org(owner).clients[client] = true })
	}
}

// rename increases the version in an organization's name. Each organization is renamed
// by one client only.
func (c *client) rename(owner parley.OrgID) {
	if int(owner[15])%2 != c.number%2 {
		return
	}
	name := fmt.Sprint("v", c.next())
	now, err := c.node().Orgs.Change(context.Background(), owner, org.Change{Name: &name})
	if c.answered(err) {
		c.sawOrg(now)
	}
}

func (c *client) readOrg(owner parley.OrgID) {
	now, err := c.node().Orgs.Current(context.Background(), owner)
	if c.answered(err) {
		c.sawOrg(now)
	}
	c.answered(c.node().Agents.Each(context.Background(), owner, func(a *agent.State) bool { c.sawAgent(a); return true }))
	used, err := c.node().Orgs.Used(context.Background(), owner)
	if c.answered(err) {
		c.claim(func(k *knownFacts) { k.org(owner).used = max(k.org(owner).used, used.Messages) })
	}
}

// sawOrg records the state of an organization that was read.
func (c *client) sawOrg(now *org.State) {
	id, version := now.OrgID(), 0
	if !strings.HasPrefix(now.GetName(), "v") {
		c.t.Errorf("unexpected name of an organization: %q", now.GetName())
	}
	_, _ = fmt.Sscanf(now.GetName(), "v%d", &version)
	clients := map[parley.ClientID]bool{}
	for _, x := range now.GetCredentials() {
		clients[x.Client()] = !x.Live(time.Time{})
	}
	c.claim(func(k *knownFacts) {
		o := k.org(id)
		for client, gone := range clients {
			o.clients[client] = o.clients[client] || gone
		}
		o.version = max(o.version, version)
	})
}

// converse sends, replies, changes statuses and repeats requests.
func (c *client) converse() {
	original, ok := pick(c, &c.pool)
	switch draw := c.rng.IntN(12); {
	case !ok || draw < 4:
		c.send()
	case draw < 7:
		c.answer(original)
	case draw < 10:
		c.move(original)
	default:
		c.repeat()
	}
}

// text returns the content of a message: the number of its attempt, often followed by
// much more.
func (c *client) text(n int) string {
	size := c.rng.IntN(2000)
	if c.rng.IntN(40) == 0 {
		size = 30 << 10 // more than half a memtable
	}
	filler := make([]byte, size)
	for i := range filler {
		filler[i] = byte('a' + c.rng.IntN(26))
	}
	return fmt.Sprintf("%d:%s", n, filler)
}

// dayLimit returns an organization's quota: half of the organizations have one.
func dayLimit(owner parley.OrgID) *int {
	if owner[15]%2 == 0 {
		return nil
	}
	limit := 9
	return &limit
}

// outOfQuota records that an organization's quota was reported as used up.
func (c *client) outOfQuota(owner parley.OrgID, err error) {
	refusal := (*parley.Refusal)(nil)
	if errors.As(err, &refusal) {
		used := int64(refusal.Extra["used"].(int))
		c.claim(func(k *knownFacts) { k.org(owner).used = max(k.org(owner).used, used) })
	}
}

func (c *client) send() {
	from, ok := pick(c, &c.active)
	to, _ := pick(c, &c.active)
	if !ok || from == to {
		return
	}
	n := c.next()
	s := direct(from.owner, from.id, to.id, c.text(n), "")
	s.ToOrg, s.DayLimit = to.owner, dayLimit(from.owner)
	if c.rng.IntN(2) == 0 {
		s.Key = fmt.Sprint("k", n)
		note(c.workload, &c.attempts, attempt{attemptKey: attemptKey{from: s.From, key: s.Key}, send: s})
	}
	c.post(s)
}

// post sends as the HTTP handler does, with what is known about the recipient.
func (c *client) post(s DirectSend) {
	ctx := context.Background()
	to, err := c.node().Agents.Get(ctx, s.To)
	if !c.answered(err, parley.ErrNotFound) || err != nil {
		return
	}
	s.ToRevoked, s.ToGroupsOnly, s.RecipientGroups = to.Revoked(), to.GetIncomingPolicy() == agent.GroupsOnly, to.GetGroups()
	p, err := c.node().Messages.Send(ctx, s)
	switch {
	case !c.answered(err, agent.ErrRecipientRevoked, agent.ErrIncomingPolicy, agent.ErrSenderRevoked, agent.ErrIdempotencyMismatch, parley.ErrQuotaExceeded, parley.ErrIsolatedAgent):
	case errors.Is(err, parley.ErrIsolatedAgent): // depends on a state that groups change as well
	case errors.Is(err, parley.ErrQuotaExceeded):
		c.outOfQuota(s.FromOrg, err)
	case errors.Is(err, agent.ErrRecipientRevoked), errors.Is(err, agent.ErrIncomingPolicy):
		c.sawAgent(to)
	case errors.Is(err, agent.ErrSenderRevoked):
		c.claim(func(k *knownFacts) { k.revoked[s.From] = true })
	case err != nil:
		c.claim(func(k *knownFacts) { k.key(attemptKey{from: s.From, key: s.Key}, parley.MessageID{}) })
	default:
		c.posted(p, attemptKey{from: s.From, key: s.Key})
	}
}

// posted records an acknowledged message.
func (c *client) posted(p Posted, a attemptKey) {
	if p.Repeated {
		c.mu.Lock()
		c.answers["repeated"]++
		c.mu.Unlock()
	} else {
		note(c.workload, &c.pool, p.Message)
	}
	c.sawMessages(query.Message{Record: p.Message, Receipts: p.Receipts})
	if a.key != "" {
		id := p.Message.MessageID()
		c.claim(func(k *knownFacts) { k.key(a, id) })
	}
}

// answer replies to a message, which marks it as read.
func (c *client) answer(original *record.Message) {
	n := c.next()
	r := answerTo(original.RecipientOrg(), original, c.text(n), "")
	r.ToOrg, r.DayLimit = original.SenderOrg(), dayLimit(r.FromOrg)
	if c.rng.IntN(2) == 0 {
		r.Key = fmt.Sprint("k", n)
		note(c.workload, &c.attempts, attempt{attemptKey: attemptKey{r.From, r.Conversation, r.Key}, reply: r})
	}
	c.reply(r)
}

func (c *client) reply(r ReplyTo) {
	ctx := context.Background()
	mine, err := c.node().Messages.GetFor(ctx, r.From.Slot(), r.Original)
	if !c.answered(err) {
		return
	}
	c.sawMessages(mine)
	to, err := c.node().Agents.Get(ctx, r.To)
	if !c.answered(err) {
		return
	}
	r.ToRevoked, r.Reads, r.Position = to.Revoked(), mine.Position != 0, mine.Position
	p, err := c.node().Messages.Reply(ctx, r)
	closed := (*parley.Refusal)(nil)
	switch {
	case !c.answered(err, conversation.ErrClosed, conversation.ErrRecipientRevoked, conversation.ErrIdempotencyMismatch, parley.ErrQuotaExceeded):
	case errors.Is(err, parley.ErrQuotaExceeded):
		c.outOfQuota(r.FromOrg, err)
	case errors.Is(err, conversation.ErrRecipientRevoked):
		c.sawAgent(to)
	case errors.Is(err, conversation.ErrClosed) && errors.As(err, &closed):
		c.claim(func(k *knownFacts) { k.status(r.Conversation, closed.Extra["current_status"].(string)) })
	case err != nil:
		c.claim(func(k *knownFacts) { k.key(attemptKey{r.From, r.Conversation, r.Key}, parley.MessageID{}) })
	default:
		c.posted(p, attemptKey{r.From, r.Conversation, r.Key})
		if r.Reads && !p.Repeated {
			mine.Receipts = journal.Receipts{TransferredAt: p.Message.CreatedAt().UnixMilli() + 1, ReadAt: p.Message.CreatedAt().UnixMilli() + 1}
			c.sawMessages(mine)
		}
	}
}

// move changes a conversation's status.
func (c *client) move(m *record.Message) {
	words := []string{"open", "paused", "input_required", "paused", "input_required", "completed", "failed", "canceled", "rejected"}
	c.moveTo(m, words[c.rng.IntN(len(words))])
}

// moveTo changes a status and gives a unique reason.
func (c *client) moveTo(m *record.Message, word string) {
	change := ChangeStatus{
		Conversation: m.Conversation(), By: []parley.AgentID{m.Sender(), m.Recipient()},
		Status: word, Reason: fmt.Sprint("r", c.next()),
	}
	s, err := c.node().Messages.ChangeStatus(context.Background(), change)
	refusal := (*parley.Refusal)(nil)
	switch {
	case !c.answered(err, conversation.ErrInvalidTransition):
	case errors.As(err, &refusal):
		c.claim(func(k *knownFacts) { k.status(change.Conversation, refusal.Extra["current_status"].(string)) })
	default:
		c.sawState(s)
		c.claim(func(k *knownFacts) { k.conversation(change.Conversation).reasons[change.Reason] = true })
	}
}

// repeat sends again under an earlier key, encrypted again, sometimes with other
// content.
func (c *client) repeat() {
	a, ok := pick(c, &c.attempts)
	if !ok {
		return
	}
	again := &a.send.Content
	if !a.in.Zero() {
		again = &a.reply.Content
	}
	again.Body = append(again.Body[:len(again.Body):len(again.Body)], "again"...)
	if c.rng.IntN(4) == 0 {
		again.Type = "svc.v1.task_request"
	}
	if a.in.Zero() {
		c.post(a.send)
	} else {
		c.reply(a.reply)
	}
}
