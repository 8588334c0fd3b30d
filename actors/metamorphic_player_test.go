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

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley"
	"parley/actors/agent"
	"parley/actors/group"
	"parley/actors/host"
	"parley/actors/org"
	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/registration"
	"parley/journal"
	"parley/persistence"
)

// player runs a script. What it draws depends on the seed and on what was
// answered, which is the same in every way.
type player struct {
	*testNode
	way
	memory      *vfs.MemFS // the disk
	hand        *manualClock
	random      *rand.Rand
	whims       *rand.Rand // of the way: when it interrupts
	rot         *rand.Rand // what of the unsynced is lost
	out         bytes.Buffer
	interrupted int
	settled     byte

	orgs       []parley.OrgID
	metered    parley.OrgID
	owners     map[parley.AgentID]parley.OrgID
	ids        []parley.AgentID
	messages   []*record.Message
	sends      []DirectSend // with a key
	clients    map[parley.OrgID][]parley.ClientID
	challenges []*registration.Challenge
	tokens     [][]byte
	kids       []string
	minted     int
	books      []*book
	playerGroups
	listeners []*listener
}

func play(t testing.TB, seed uint64, commands int, w way) (said string, interrupted int) {
	t.Helper()
	p := newPlayer(t, seed, w, func(*testNode) {})
	p.run(commands)
	return p.out.String(), p.interrupted
}

func newPlayer(t testing.TB, seed uint64, w way, alter option) *player {
	p := &player{
		way: w, memory: vfs.NewCrashableMem(), hand: newManualClock(noon),
		random: rand.New(rand.NewPCG(seed, 1)), whims: rand.New(rand.NewPCG(seed, 2)), rot: rand.New(rand.NewPCG(seed, 3)),
		owners: map[parley.AgentID]parley.OrgID{}, clients: map[parley.OrgID][]parley.ClientID{},
		playerGroups: playerGroups{founders: map[parley.GroupID]group.Caller{}, filed: map[parley.JoinRequestID]parley.GroupID{}},
	}
	// The journal's own clock stays on the first day: it must not forget keys
	// that the script's days still know.
	began := time.Now()
	wheel := func() time.Time { return noon.Add(time.Since(began)) }
	p.testNode = newTestNode(t, withJournals(w.journals), withClock(p.hand.now), withTuning(p.tune), func(r *testNode) {
		r.journalClock, r.tuneStore = wheel, func(o *persistence.Options) { o.FS = steady{p.memory} }
	}, alter)
	return p
}

func (p *player) run(commands int) {
	for _, slug := range []string{"acme", "metered"} {
		made := p.org(slug)
		p.orgs = append(p.orgs, made.Org.OrgID())
		p.clients[made.Org.OrgID()] = []parley.ClientID{made.ClientID}
	}
	p.metered = p.orgs[1]
	for n := range 5 {
		p.joined(p.orgs[n%2], p.agent(p.orgs[n%2], fmt.Sprintf("first%d", n)))
		p.hand.advance(time.Millisecond)
	}
	p.beginGroup(context.Background())
	for n := range commands {
		p.hand.advance(time.Duration(1+p.random.IntN(int(20*time.Minute/time.Millisecond))) * time.Millisecond)
		p.note("%d: ", n)
		p.command(n)
		p.between()
	}
	for _, l := range p.listeners {
		l.sub.Close()
	}
	p.readAll()
	p.close()
}

func (p *player) joined(owner parley.OrgID, id parley.AgentID) {
	p.ids, p.owners[id] = append(p.ids, id), owner
}

func (p *player) tune(n *Node) {
	n.engine.IdleFor = time.Hour
	if p.passivate {
		n.engine.IdleFor = 0
	}
	if p.stateEvery == 0 {
		return
	}
	talks, keys, challenges := n.messages.kind(), n.Keys.kind(), n.orgs.registrationKind()
	talks.StateEvery, keys.StateEvery, challenges.StateEvery = p.stateEvery, p.stateEvery, p.stateEvery
	host.Register(n.engine, talks)
	host.Register(n.engine, keys)
	host.Register(n.engine, challenges)
	groups := n.groups.kind()
	groups.StateEvery, groups.Weight = p.stateEvery, nil
	host.Register(n.engine, groups)
}

// between lets streams have what is new, and brings about what must not show:
// before what follows an answer has come about, or after.
func (p *player) between() {
	early := p.whims.IntN(2) == 0
	if early {
		p.interrupt()
	}
	p.settle()
	for _, l := range p.listeners {
		p.listen(l, p.newEntries(l))
	}
	if p.passivate {
		eventually(p.t, "all actors have left", func() bool { p.node.engine.Sweep(); return p.node.Live() == 0 })
	}
	if !early {
		p.interrupt()
	}
	if p.forget {
		p.node.queries.Forget()
	}
}

// interrupt closes everything and opens it anew, now and then. Where that is on
// an image taken before, what is written while closing is lost.
func (p *player) interrupt() {
	disk := p.memory
	switch {
	case p.way.restart != 0 && p.whims.IntN(p.way.restart) == 0:
	case p.way.crash != 0 && p.whims.IntN(p.way.crash) == 0:
		kept := []int{0, 30, 50, 90}[p.whims.IntN(4)]
		disk = p.memory.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: p.rot})
	default:
		return
	}
	p.interrupted++
	for _, l := range p.listeners {
		l.sub.Close()
	}
	p.close()
	p.memory = disk
	p.open()
	p.settle()
	for _, l := range p.listeners {
		p.reconnect(l)
	}
}

// settle waits until every lane is empty: a row sent through each has arrived,
// and whoever was told something has been hinted.
func (p *player) settle() {
	const table = journal.Table(200)
	p.settled++
	journals := p.testNode.journals
	released := make(chan error, journals)
	for source := range journals {
		e := &journal.Entry{Slot: parley.Slot(source), At: p.clock(), Release: func(err error) { released <- err }}
		for target := range journals {
			e.Effects = append(e.Effects, journal.PutRow{Row: journal.Row{
				Slot: parley.Slot(target), Table: table, Key: []byte{byte(source)}, Value: []byte{p.settled},
			}})
		}
		p.store.Append(e)
	}
	for range journals {
		if err := <-released; err != nil {
			p.t.Fatal(err)
		}
	}
	for n := range journals * journals {
		source, target := n/journals, parley.Slot(n%journals)
		eventually(p.t, "the lanes are empty", func() bool {
			value, _, err := p.store.Row(target, table, []byte{byte(source)})
			return err == nil && len(value) == 1 && value[0] == p.settled
		})
	}
	if p.restless {
		awaitIdleStore(p.t, p.store)
	}
}

func (p *player) note(format string, args ...any) { fmt.Fprintf(&p.out, format, args...) }

// say notes what a command came to.
func (p *player) say(err error, format string, args ...any) {
	if refusal := (*parley.Refusal)(nil); errors.As(err, &refusal) {
		p.note("refused: %s %v\n", refusal.Code, refusal.Extra)
	} else if err != nil {
		p.t.Fatalf("%s\n%v", p.out.String(), err)
	} else {
		p.note(format+"\n", args...)
	}
}

// wording is a message as it never changes.
func wording(r *record.Message) string {
	return fmt.Sprintf("%s in %s from %s of %s to %s of %s after %x: %s %s", r.MessageID(), r.Conversation(), r.Sender(), r.SenderOrg(),
		r.Recipient(), r.RecipientOrg(), r.InReplyTo, r.Type, r.Content)
}

func withMarks(m query.Message) string { return fmt.Sprintf("%s %v", wording(m.Record), m.Receipts) }

func one[T any](p *player, of []T) T { return of[p.random.IntN(len(of))] }

// likely is true in all but one of n cases.
func (p *player) likely(n int) bool { return p.random.IntN(n) > 0 }

func (p *player) command(n int) {
	ctx := context.Background()
	switch draw := p.random.IntN(54); {
	case draw < 10:
		p.speak(n)
	case draw < 18 && len(p.messages) > 0:
		p.answer(ctx, n)
	case draw < 22 && len(p.messages) > 0:
		p.move(ctx)
	case draw < 25:
		p.markSome(ctx)
	case draw < 29:
		p.leaf(ctx)
	case draw < 31:
		p.tuneIn(ctx)
	case draw < 34:
		p.register(ctx)
	case draw < 36:
		p.lookUp(ctx)
	case draw < 41:
		p.manage(ctx, n)
	default:
		p.gather(ctx, n)
	}
}

// limit is the day's quota of a sender.
func (p *player) limit(from parley.AgentID) *int {
	if p.owners[from] != p.metered {
		return nil
	}
	few := 6
	return &few
}

func (p *player) speak(n int) {
	if len(p.sends) > 0 && !p.likely(4) { // word by word, sealed anew
		s := one(p, p.sends)
		s.Rendered = fmt.Appendf(nil, "said again %d", n)
		p.facts(&s)
		p.posted(p.send(s))
		return
	}
	key := ""
	if p.random.IntN(2) == 0 {
		key = fmt.Sprint("k", p.random.IntN(8))
	}
	s := direct(parley.OrgID{}, one(p, p.ids), one(p, p.ids), fmt.Sprint("said ", n), key)
	s.FromOrg, s.ToOrg, s.DayLimit = p.owners[s.From], p.owners[s.To], p.limit(s.From)
	s.Type = one(p, []string{"svc.v1.dm", "acme.v1.note"})
	if len(p.messages) > 0 && !p.likely(4) {
		s.Parent = one(p, p.messages).Conversation()
		s.ParentFact = agent.ParentFact{Named: true, Known: true, Participant: p.likely(3)}
	}
	if key != "" {
		p.sends = append(p.sends, s)
	}
	p.facts(&s)
	p.posted(p.send(s))
}

// facts fills in what a door knows about a recipient.
func (p *player) facts(s *DirectSend) {
	to := must(p.node.Agents.Get(context.Background(), s.To))(p.t)
	s.ToRevoked, s.ToGroupsOnly, s.RecipientGroups = to.Revoked(), to.GetIncomingPolicy() == agent.GroupsOnly, to.GetGroups()
}

func (p *player) answer(ctx context.Context, n int) {
	key := ""
	if p.random.IntN(2) == 0 {
		key = fmt.Sprint("k", p.random.IntN(3))
	}
	a := answerTo(parley.OrgID{}, one(p, p.messages), fmt.Sprint("answered ", n), key)
	if !p.likely(3) {
		a.From, a.To = a.To, a.From
	} else {
		mine := must(p.node.Messages.GetFor(ctx, a.From.Slot(), a.Original))(p.t)
		a.Reads, a.Position = true, mine.Position
	}
	a.FromOrg, a.ToOrg, a.DayLimit = p.owners[a.From], p.owners[a.To], p.limit(a.From)
	a.ToRevoked = must(p.node.Agents.Get(ctx, a.To))(p.t).Revoked()
	p.posted(p.reply(a))
}

func (p *player) posted(posted Posted, err error) {
	if err != nil {
		p.say(err, "")
		return
	}
	if !posted.Repeated {
		p.messages = append(p.messages, posted.Message)
	}
	p.say(nil, "repeated %v %s", posted.Repeated, withMarks(query.Message{Record: posted.Message, Receipts: posted.Receipts}))
}

func (p *player) move(ctx context.Context) {
	m := one(p, p.messages)
	by := []parley.AgentID{m.Sender(), m.Recipient()}
	by = by[p.random.IntN(2):]
	if !p.likely(8) {
		by = []parley.AgentID{one(p, p.ids)}
	}
	words := []string{"open", "paused", "input_required", "completed", "failed", "canceled", "rejected", "submitted"}
	s, err := p.node.Messages.ChangeStatus(ctx, ChangeStatus{Conversation: m.Conversation(), By: by, Status: one(p, words), Reason: "so"})
	p.say(err, "moved to %s at %d after %d messages, the last %x", s.GetStatus(), s.GetUpdatedMs(), s.GetMessages(), s.GetLastMessageId())
}

// markSome delivers or reads the newest few messages of an inbox.
func (p *player) markSome(ctx context.Context) {
	id := one(p, p.ids)
	page, _, err := p.node.Messages.Inbox(ctx, id, 0, 3, "", nil)
	at, marks := p.clock().UnixMilli(), []journal.RecordReceipt(nil)
	for i, m := range page {
		mark := journal.RecordReceipt{Recipient: id, Message: m.Record.MessageID(), Position: m.Position, Receipts: journal.Receipts{TransferredAt: at}, Copy: m.Record.Copied()}
		if i%2 == 0 {
			mark.Receipts.ReadAt = at
		}
		marks = append(marks, mark)
	}
	if err == nil {
		err = p.node.Receipts.Record(ctx, id, marks)
	}
	p.say(err, "marked %d", len(marks))
}

func credentials(o *org.State) string {
	live := strings.Builder{}
	for _, c := range o.GetCredentials() {
		live.WriteString(map[bool]string{true: "+", false: "-"}[c.Live()])
	}
	return live.String()
}
