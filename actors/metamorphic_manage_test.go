package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/actors/agent"
	"parley/actors/issuer"
	"parley/actors/org"
	"parley/client/parley"
	"parley/journal"
)

// register requests challenges and solves them, not always correctly.
func (p *scriptRunner) register(ctx context.Context) {
	if len(p.challenges) == 0 || !p.likely(3) {
		slug := fmt.Sprint("b", p.random.IntN(3))
		issued, err := challengeFor(p.node, slug, fmt.Sprint("challenge ", len(p.challenges)), 1, 12*time.Hour)
		if err == nil {
			p.challenges = append(p.challenges, issued)
		}
		p.noteResult(err, "challenge %v", issued)
		return
	}
	made, err := p.node.Orgs.Register(ctx, Solution{
		Challenge: one(p, p.challenges[max(0, len(p.challenges)-3):]), Nonce: fmt.Sprint(p.random.IntN(30)), Tier: 1, SecretHash: []byte("hash"),
	})
	if err == nil {
		p.orgs = append(p.orgs, made.Org.OrgID())
		p.clients[made.Org.OrgID()] = []parley.ClientID{made.ClientID}
	}
	p.noteResult(err, "%s is registered as %s with %s", made.Org.GetSlug(), made.Org.OrgID(), made.ClientID)
}

// manage creates, changes and revokes agents and credentials.
func (p *scriptRunner) manage(ctx context.Context, n int) {
	owner, id := one(p, p.orgs), one(p, p.ids)
	switch p.random.IntN(9) {
	case 0, 1:
		a, err := p.create(owner, fmt.Sprint("agent", p.random.IntN(6)))
		if err == nil {
			p.joined(owner, a.AgentID())
		}
		p.noteResult(err, "%s now has %s %s", owner, a.AgentID(), a.GetName())
	case 2:
		p.credential(ctx, owner, n)
	case 3:
		if len(p.ids) > 4 && !p.likely(3) {
			p.changeAgent(ctx, id, agent.Revoke{})
			break
		}
		p.changeOrg(ctx, owner)
	case 4:
		raw := key(byte(n), "rotated")
		p.kids = append(p.kids, parley.Thumbprint(parley.Ed25519, raw))
		p.changeAgent(ctx, id, agent.RotateKeys{Signing: raw})
	case 5:
		token := key(byte(n), "token")
		p.tokens = append(p.tokens, token)
		p.changeAgent(ctx, id, one(p, []agent.Command{agent.IssuePollToken{Hash: token}, agent.IssuePollToken{Hash: token}, agent.RevokePollToken{}}))
	case 6:
		p.mint(ctx)
	default:
		in, out := one(p, []string{agent.AcceptAll, agent.AcceptAll, agent.GroupsOnly}), one(p, []string{agent.SendAll, agent.SendAll, agent.GroupsOnly})
		c := agent.Change{IncomingPolicy: &in, OutgoingPolicy: &out}
		if name := "other"; !p.likely(3) {
			c.Name = &name
		}
		p.changeAgent(ctx, id, c)
	}
	p.settle() // the effect may follow the answer later
	o := must(p.node.Orgs.Current(ctx, owner))(p.t)
	first, err := p.node.Agents.FirstActive(ctx, owner)
	p.noteResult(err, "  %d active, the first is %s; %s", o.GetActiveAgents(), first.AgentID(), credentials(o))
}

func (p *scriptRunner) changeAgent(ctx context.Context, id parley.AgentID, c agent.Command) {
	a, err := p.node.Agents.Change(ctx, id, c)
	at, revoked := a.RevokedAt()
	p.noteResult(err, "%T changed %s: %s, %s, %d keys rotated, poll token %x, revoked %v %d", c, id, a.GetIncomingPolicy(), a.GetOutgoingPolicy(),
		len(a.GetFormerKeys()), a.GetPollTokenHash(), revoked, at.UnixMilli())
}

func (p *scriptRunner) changeOrg(ctx context.Context, owner parley.OrgID) {
	name, slug := fmt.Sprint("name", p.random.IntN(3)), one(p, []string{"acme", "metered", "b0"})
	c := org.Change{Name: &name, CountryCode: org.Clearable{Set: true, Value: "ch", Null: !p.likely(3)}}
	if !p.likely(2) {
		c.Slug = &slug
	}
	o, err := p.node.Orgs.Change(ctx, owner, c)
	p.noteResult(err, "changed %s: %s %s %s", owner, o.GetName(), o.GetSlug(), o.GetCountryCode())
}

func (p *scriptRunner) credential(ctx context.Context, owner parley.OrgID, n int) {
	if has := p.clients[owner]; len(has) > 0 && p.likely(2) {
		client := one(p, has)
		p.noteResult(p.node.Orgs.RevokeCredential(ctx, owner, client), "%s is gone", client)
		return
	}
	made, err := p.node.Orgs.AddCredential(ctx, owner, org.AddCredential{SecretHash: []byte{byte(n)}})
	client := made.Client()
	p.clients[owner] = append(p.clients[owner], client)
	p.noteResult(err, "%s may enter", client)
}

func (p *scriptRunner) mint(ctx context.Context) {
	p.minted++
	s, err := p.node.Keys.Mint(ctx, issuer.Mint{Kid: fmt.Sprint("kid", p.minted), Public: []byte("public"), SealedSeed: []byte("seed"), Force: !p.likely(2)})
	p.noteResult(err, "minted, or not: %s", keysOf(s, p.clock()))
}

func keysOf(s *issuer.State, now time.Time) string {
	kids := ""
	for _, k := range s.Published(now) {
		kids += fmt.Sprintf("%s of %d ", k.Kid, k.MintedMs)
	}
	return kids
}

// lookUp looks up agents by names, keys and tokens.
func (p *scriptRunner) lookUp(ctx context.Context) {
	id := one(p, p.ids)
	switch p.random.IntN(6) {
	case 0:
		name := fmt.Sprint("agent", p.random.IntN(6))
		found, err := p.node.Agents.ByName(ctx, one(p, p.orgs), name)
		p.noteResult(err, "%s found by name", found)
	case 1:
		kid := parley.Thumbprint(parley.Ed25519, must(p.node.Agents.Get(ctx, id))(p.t).GetSigningKey())
		if len(p.kids) > 0 && p.likely(2) {
			kid = one(p, p.kids)
		}
		found, err := p.node.Agents.ByKid(ctx, kid)
		p.noteResult(err, "%s found by %s", found, kid)
	case 2:
		token := key(3, "first0")
		if len(p.tokens) > 0 {
			token = one(p, p.tokens)
		}
		found, err := p.node.Agents.ByPollToken(ctx, token)
		p.noteResult(err, "%s found by token", found)
	case 3:
		found, err := p.node.Orgs.BySlug(ctx, one(p, []string{"acme", "b0", "b1", "b2", "b3"}))
		p.noteResult(err, "%s found by slug", found)
	case 4:
		keys, err := p.node.Keys.Current(ctx)
		p.noteResult(err, "signing keys %s", keysOf(keys, p.clock()))
	default:
		owner := one(p, p.orgs)
		used, err := p.node.Orgs.Used(ctx, owner)
		count, counting := p.node.Messages.CountSince(ctx, id, p.clock().Add(-5*time.Hour).UnixMilli())
		p.noteResult(errors.Join(err, counting), "%s used %v, %s was sent %d", owner, used, id, count)
	}
}

// readAll notes everything that can be read.
func (p *scriptRunner) readAll() {
	ctx := context.Background()
	for _, owner := range p.orgs {
		o := must(p.node.Orgs.Current(ctx, owner))(p.t)
		used, err := p.node.Orgs.Used(ctx, owner)
		p.noteResult(err, "%s %v %s used %v", owner, o.GetName(), credentials(o), used)
		p.noteResult(p.node.Agents.Each(ctx, owner, func(a *agent.State) bool {
			p.note("agent %s %s %d %d %s\n", a.AgentID(), a.GetName(), a.GetCreatedMs(), a.GetRevokedMs(), a.GetIncomingPolicy())
			return true
		}), "end of agents")
		for _, client := range p.clients[owner] {
			of, err := p.node.Orgs.ByClient(ctx, client)
			p.noteResult(err, "%s is of %s", client, of)
		}
	}
	for _, id := range p.ids {
		p.readMLS(ctx, id)
		for _, m := range p.inbox(id) {
			p.note("inbox of %s: %s\n", id, textAndReceipts(m))
		}
		list, _, err := p.node.Messages.Conversations(ctx, id, 0, 1000)
		for _, c := range list {
			p.note("conversation of %s: %s %s %d messages %d\n", id, c.ConversationID(), c.GetStatus(), c.GetMessages(), c.GetUpdatedMs())
			for _, m := range p.transcript(c.ConversationID()) {
				p.note("  %s\n", textAndReceipts(m))
			}
		}
		p.noteResult(err, "end of conversations")
		p.feed(id)
	}
	for _, g := range p.groups {
		p.readGroup(ctx, g)
	}
}

// feed notes an agent's feed and its untransferred messages.
func (p *scriptRunner) feed(id parley.AgentID) {
	sub := p.node.Feeds.Follow(id, 0, func() {})
	defer sub.Close()
	var news []string
	for {
		entries, err := sub.Next(10)
		if err != nil {
			p.t.Fatal(err)
		}
		if len(entries) == 0 {
			break
		}
		for _, e := range entries {
			line := fmt.Sprintf("feed of %s: %d %s %x\n", id, e.Kind, e.Ref, e.Note)
			if e.Kind == journal.GroupEntry {
				news = append(news, line)
				continue
			}
			p.note("%s", line)
		}
	}
	slices.Sort(news)
	p.note("%s", strings.Join(news, ""))
	start, err := p.node.Feeds.Resume(context.Background(), id, parley.MessageID{}, false)
	p.noteResult(err, "begins after %s", start.Last)
}
