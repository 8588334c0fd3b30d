package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley"
	"parley/actors/agent"
	"parley/actors/org"
)

// way is how a script is run; none of it may show in the answers.
type way struct {
	journals   int
	stateEvery uint64 // of conversations, 0: as ever
	passivate  bool   // every actor leaves after every command
	restart    int    // one command in so many is followed by a restart
	forget     bool   // no record stays at hand
}

// TestHowItRunsDoesNotShow runs one script of commands in many ways and
// compares everything that was answered and everything that can be read.
func TestHowItRunsDoesNotShow(t *testing.T) {
	seeds, commands := uint64(3), 250
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		want := play(t, seed, commands, way{journals: 1})
		if len(want) < 10_000 {
			t.Fatalf("the script says only %d bytes", len(want))
		}
		for name, w := range map[string]way{
			"state at every event": {journals: 1, stateEvery: 1},
			"state never":          {journals: 1, stateEvery: 1 << 60},
			"passivation":          {journals: 1, stateEvery: 3, passivate: true},
			"restarts":             {journals: 1, stateEvery: 5, restart: 20},
			"no facts at hand":     {journals: 1, forget: true},
			"four journals":        {journals: 4},
			"everything":           {journals: 4, stateEvery: 2, passivate: true, restart: 30, forget: true},
		} {
			t.Run(fmt.Sprintf("seed %d, %s", seed, name), func(t *testing.T) {
				if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(play(t, seed, commands, w), "\n")); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// player runs a script. What it draws depends on the seed and on what was
// answered, which is the same in every way.
type player struct {
	*rig
	way
	hand   *hand
	random *rand.Rand
	whims  *rand.Rand // of the way
	out    bytes.Buffer
	names  map[string]string // of ids, by the order in which they appear

	owner    parley.OrgID
	ids      []parley.AgentID
	messages []*Record
	clients  []parley.ClientID
	settled  byte
}

func play(t *testing.T, seed uint64, commands int, w way) string {
	t.Helper()
	clock := newHand(noon)
	p := &player{way: w, hand: clock, random: rand.New(rand.NewPCG(seed, 1)), whims: rand.New(rand.NewPCG(seed, 2)), names: map[string]string{}}
	// The journal's own clock stays on the first day: it must not forget keys
	// that the script's days still know.
	began := time.Now()
	wheel := func() time.Time { return noon.Add(time.Since(began)) }
	p.rig = newRig(t, withJournals(w.journals), withClock(clock.now), withTuning(p.tune), func(r *rig) { r.wheel = wheel })
	p.owner = p.org("acme").Org.OrgID()
	for n := range 4 {
		p.ids = append(p.ids, p.agent(p.owner, fmt.Sprintf("first%d", n)))
		clock.advance(time.Millisecond)
	}
	for n := range commands {
		clock.advance(time.Duration(1+p.random.IntN(int(20*time.Minute/time.Millisecond))) * time.Millisecond)
		fmt.Fprintf(&p.out, "%d: ", n)
		p.command(n)
		p.between()
	}
	p.readAll()
	p.close()
	return p.out.String()
}

func (p *player) tune(n *Node) {
	n.engine.idleFor = time.Hour
	if p.passivate {
		n.engine.idleFor = 0
	}
	if p.stateEvery != 0 {
		k := n.conversationKind()
		k.stateEvery = p.stateEvery
		register(n.engine, k)
	}
}

// between brings about what must not show.
func (p *player) between() {
	p.settle()
	if p.passivate {
		eventually(p.t, "all actors have left", func() bool { p.node.engine.sweepOnce(); return p.node.Live() == 0 })
	}
	if p.way.restart != 0 && p.whims.IntN(p.way.restart) == 0 {
		p.rig.restart()
	}
	if p.forget {
		p.node.facts.agents.cache.InvalidateAll()
		p.node.facts.orgs.cache.InvalidateAll()
		p.node.facts.firsts.InvalidateAll()
	}
}

// settle waits until every lane is empty: a row sent through each has arrived.
func (p *player) settle() {
	const table = parley.Table(200)
	p.settled++
	journals := p.rig.journals
	for source := range journals {
		e := &parley.Entry{Slot: parley.Slot(source), At: p.clock(), Release: func(error) {}}
		for target := range journals {
			e.Words = append(e.Words, parley.Put{Row: parley.Row{
				Slot: parley.Slot(target), Table: table, Key: []byte{byte(source)}, Value: []byte{p.settled},
			}})
		}
		p.store.Append(e)
	}
	for n := range journals * journals {
		source, target := n/journals, parley.Slot(n%journals)
		eventually(p.t, "the lanes are empty", func() bool {
			value, _, err := p.store.Row(target, table, []byte{byte(source)})
			return err == nil && len(value) == 1 && value[0] == p.settled
		})
	}
}

// id gives an id the name it has in this script.
func (p *player) id(id fmt.Stringer) string {
	name, known := p.names[id.String()]
	if !known {
		name = fmt.Sprintf("#%d", len(p.names))
		p.names[id.String()] = name
	}
	return name
}

// say notes what a command came to.
func (p *player) say(err error, format string, args ...any) {
	if refusal := (*parley.Refusal)(nil); errors.As(err, &refusal) {
		fmt.Fprintf(&p.out, "refused: %s %v\n", refusal.Code, refusal.Extra)
	} else if err != nil {
		p.t.Fatalf("%s\n%v", p.out.String(), err)
	} else {
		fmt.Fprintf(&p.out, format+"\n", args...)
	}
}

func (p *player) message(m Message) string {
	r := m.Record
	return fmt.Sprintf("%s in %s from %s to %s after %x at %d: %s %s %v", p.id(r.MessageID()), p.id(r.Conversation()), p.id(r.Sender()),
		p.id(r.Recipient()), len(r.InReplyTo), r.CreatedAt().UnixMilli(), r.Type, r.Content, m.Marks)
}

func (p *player) someone() parley.AgentID { return p.ids[p.random.IntN(len(p.ids))] }

// facts fills in what a door knows about a recipient.
func (p *player) facts(s *DirectSend) {
	to := must(p.node.Agent(context.Background(), s.To))(p.t)
	s.ToRevoked, s.ToGroupsOnly = to.Revoked(), to.GetIncomingPolicy() == agent.GroupsOnly
}

func (p *player) command(n int) {
	ctx := context.Background()
	key := ""
	if p.random.IntN(2) == 0 {
		key = fmt.Sprint("k", p.random.IntN(6))
	}
	switch draw := p.random.IntN(20); {
	case draw < 6:
		s := direct(p.owner, p.someone(), p.someone(), fmt.Sprint("said ", n), key)
		p.facts(&s)
		p.posted(p.send(s))
	case draw < 12 && len(p.messages) > 0:
		a := answerTo(p.owner, p.messages[p.random.IntN(len(p.messages))], fmt.Sprint("answered ", n), key)
		if p.random.IntN(3) == 0 {
			a.From, a.To = a.To, a.From
		} else {
			mine := must(p.node.MessageFor(ctx, a.From.Slot(), a.Original))(p.t)
			a.Reads, a.Position = true, mine.Position
		}
		a.ToRevoked = must(p.node.Agent(ctx, a.To))(p.t).Revoked()
		p.posted(p.reply(a))
	case draw < 15 && len(p.messages) > 0:
		m := p.messages[p.random.IntN(len(p.messages))]
		words := []string{"open", "paused", "input_required", "completed", "failed", "canceled", "rejected", "submitted"}
		s, err := p.node.ChangeStatus(ctx, ChangeStatus{
			Conversation: m.Conversation(), By: []parley.AgentID{m.Sender(), m.Recipient()}, Status: words[p.random.IntN(len(words))], Reason: "so",
		})
		p.say(err, "moved to %s at %d", s.GetStatus(), s.GetUpdatedMs())
	case draw < 17:
		p.markSome(ctx)
	default:
		p.manage(ctx, n, draw)
	}
}

func (p *player) posted(posted Posted, err error) {
	if err != nil {
		p.say(err, "")
		return
	}
	if !posted.Repeated {
		p.messages = append(p.messages, posted.Message)
	}
	p.say(nil, "repeated %v %s", posted.Repeated, p.message(Message{Record: posted.Message, Marks: posted.Marks}))
}

// markSome delivers or reads the newest few messages of an inbox.
func (p *player) markSome(ctx context.Context) {
	id := p.someone()
	page, _, err := p.node.Inbox(ctx, id, 0, 3, "")
	at, marks := p.clock().UnixMilli(), []parley.Mark(nil)
	for i, m := range page {
		mark := parley.Mark{Recipient: id, Message: m.Record.MessageID(), Position: m.Position, Marks: parley.Marks{Delivered: at}}
		if i%2 == 0 {
			mark.Marks.Read = at
		}
		marks = append(marks, mark)
	}
	if err == nil {
		err = p.node.Mark(ctx, id, marks)
	}
	p.say(err, "marked %d", len(marks))
}

// manage creates, changes and revokes.
func (p *player) manage(ctx context.Context, n, draw int) {
	switch id := p.someone(); {
	case draw == 17:
		a, err := p.create(p.owner, fmt.Sprint("agent", p.random.IntN(12)))
		if err == nil {
			p.ids = append(p.ids, a.AgentID())
		}
		p.say(err, "made %s %s", p.id(a.AgentID()), a.GetName())
	case n%5 == 0:
		client, err := p.node.AddCredential(ctx, p.owner, []byte{byte(n)})
		p.clients = append(p.clients, client)
		p.say(err, "added %s", p.id(client))
	case n%5 == 1 && len(p.clients) > 0:
		p.say(p.node.RevokeCredential(ctx, p.owner, p.clients[p.random.IntN(len(p.clients))]), "a credential is gone")
	case n%5 == 2 && len(p.ids) > 3:
		a, err := p.node.ChangeAgent(ctx, id, agent.Revoke{})
		p.say(err, "revoked %s at %d", p.id(id), a.GetRevokedMs())
	case n%5 == 3:
		a, err := p.node.ChangeAgent(ctx, id, agent.RotateKeys{Signing: key(byte(n), "rotated")})
		p.say(err, "rotated %s, %d former", p.id(id), len(a.GetFormerKeys()))
	default:
		policy := []string{agent.AcceptAll, agent.GroupsOnly}[p.random.IntN(2)]
		a, err := p.node.ChangeAgent(ctx, id, agent.Change{IncomingPolicy: &policy})
		p.say(err, "%s is %s", p.id(id), a.GetIncomingPolicy())
	}
	p.settle() // the effect may follow the answer after a while
	o := must(p.node.OrgNow(ctx, p.owner))(p.t)
	first, err := p.node.FirstActive(ctx, p.owner)
	p.say(err, "  %d active, the first is %s; %s", o.GetActiveAgents(), p.id(first.AgentID()), credentials(o))
}

func credentials(o *org.State) string {
	live := ""
	for _, c := range o.GetCredentials() {
		live += map[bool]string{true: "+", false: "-"}[c.Live()]
	}
	return live
}

// readAll notes everything that can be read.
func (p *player) readAll() {
	ctx := context.Background()
	p.say(p.node.Agents(ctx, p.owner, func(a *agent.State) bool {
		fmt.Fprintf(&p.out, "agent %s %s %d %d %s\n", p.id(a.AgentID()), a.GetName(), a.GetCreatedMs(), a.GetRevokedMs(), a.GetIncomingPolicy())
		return true
	}), "end of agents")
	for _, id := range p.ids {
		for _, m := range p.inbox(id) {
			fmt.Fprintf(&p.out, "inbox of %s: %s\n", p.id(id), p.message(m))
		}
		list, _, err := p.node.Conversations(ctx, id, 0, 1000)
		for _, c := range list {
			fmt.Fprintf(&p.out, "conversation of %s: %s %s %d messages %d\n", p.id(id), p.id(c.ConversationID()), c.GetStatus(), c.GetMessages(), c.GetUpdatedMs())
			for _, m := range p.transcript(c.ConversationID()) {
				fmt.Fprintf(&p.out, "  %s\n", p.message(m))
			}
		}
		count, counting := p.node.CountSince(ctx, id, noon.Add(12*time.Hour).UnixMilli())
		p.say(errors.Join(err, counting), "%d since midnight", count)
		p.feed(id)
	}
	used, err := p.node.Used(ctx, p.owner)
	p.say(err, "%d used today", used)
}

// feed notes an agent's feed and what of it was not carried.
func (p *player) feed(id parley.AgentID) {
	sub := p.node.Follow(id, 0, func() {})
	defer sub.Close()
	for {
		entries, err := sub.Next(10)
		if err != nil {
			p.t.Fatal(err)
		}
		if len(entries) == 0 {
			break
		}
		for _, e := range entries {
			fmt.Fprintf(&p.out, "feed of %s: %d %s %x\n", p.id(id), e.Kind, p.id(e.Ref), e.Note)
		}
	}
	start, err := p.node.Resume(context.Background(), id, parley.MessageID{}, false)
	p.say(err, "begins after %s", p.id(start.Last))
}
