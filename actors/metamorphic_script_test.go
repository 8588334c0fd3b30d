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

	"parley/actors/agent"
	"parley/actors/group"
	"parley/actors/host"
	"parley/actors/org"
	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/registration"
	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/layout"
)

// scriptRunner runs a script. Its random choices depend on the seed and on earlier
// answers, which are the same in every variant.
type scriptRunner struct {
	*testNode
	variant
	disk          *vfs.MemFS
	manual        *manualClock
	random        *rand.Rand
	interruptions *rand.Rand // decides when the variant interrupts
	losses        *rand.Rand // decides which unsynced data is lost
	out           bytes.Buffer
	interrupted   int
	settled       byte

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
	lists      []*pagedList
	scriptGroups
	scriptMLS
	listeners []*streamClient
}

func runScript(t testing.TB, seed uint64, commands int, w variant) (said string, interrupted int) {
	t.Helper()
	p := newScriptRunner(t, seed, w, func(*testNode) {})
	p.run(commands)
	return p.out.String(), p.interrupted
}

func newScriptRunner(t testing.TB, seed uint64, w variant, alter option) *scriptRunner {
	p := &scriptRunner{
		variant: w, disk: vfs.NewCrashableMem(), manual: newManualClock(noon),
		random: rand.New(rand.NewPCG(seed, 1)), interruptions: rand.New(rand.NewPCG(seed, 2)), losses: rand.New(rand.NewPCG(seed, 3)),
		owners: map[parley.AgentID]parley.OrgID{}, clients: map[parley.OrgID][]parley.ClientID{},
		scriptGroups: scriptGroups{founders: map[parley.GroupID]group.Caller{}, filed: map[parley.JoinRequestID]parley.GroupID{}},
		scriptMLS:    scriptMLS{draws: rand.New(rand.NewPCG(seed, 4))},
	}
	// The journal's own clock stays on the first day: it must not expire keys that are
	// still valid on the script's days.
	began := time.Now()
	wheel := func() time.Time { return noon.Add(time.Since(began)) }
	p.testNode = newTestNode(t, withJournals(w.journals), withClock(p.manual.now), withTuning(p.tune), func(r *testNode) {
		if w.follower > 0 {
			withReplicas(lateBy(w.follower))(r)
			r.replicas.transfer = w.transfer
		}
		r.journalClock, r.tuneStore = wheel, func(o *persistence.Options) { o.FS = clonableDisk{p.disk} }
	}, alter)
	return p
}

func (p *scriptRunner) run(commands int) {
	for _, slug := range []string{"acme", "metered"} {
		made := p.org(slug)
		p.orgs = append(p.orgs, made.Org.OrgID())
		p.clients[made.Org.OrgID()] = []parley.ClientID{made.ClientID}
	}
	p.metered = p.orgs[1]
	for n := range 5 {
		p.joined(p.orgs[n%2], p.agent(p.orgs[n%2], fmt.Sprintf("first%d", n)))
		p.manual.advance(time.Millisecond)
	}
	p.beginGroup(context.Background())
	p.beginMLS(context.Background())
	for n := range commands {
		p.manual.advance(time.Duration(1+p.random.IntN(int(20*time.Minute/time.Millisecond))) * time.Millisecond)
		p.note("%d: ", n)
		p.command(n)
		p.afterCommand()
		if n%4 == 3 {
			p.useMLS(context.Background(), n)
			p.afterCommand()
		}
	}
	for _, l := range p.listeners {
		l.sub.Close()
	}
	p.readAll()
	p.close()
}

func (p *scriptRunner) joined(owner parley.OrgID, id parley.AgentID) {
	p.ids, p.owners[id] = append(p.ids, id), owner
}

func (p *scriptRunner) tune(n *Node) {
	n.engine.IdleFor = time.Hour
	if p.passivate {
		n.engine.IdleFor = 0
	}
	if p.stateEvery == 0 {
		return
	}
	talks, keys := n.messages.kind(), n.Keys.kind()
	talks.StateEvery, keys.StateEvery = p.stateEvery, p.stateEvery
	host.Register(n.engine, talks)
	host.Register(n.engine, keys)
	groups := n.groups.kind()
	groups.StateEvery, groups.Weight = p.stateEvery, nil
	host.Register(n.engine, groups)
}

// afterCommand reads what is new on the streams, and interrupts the run as the variant
// requires, before or after the effects of the answer have been applied.
func (p *scriptRunner) afterCommand() {
	early := p.interruptions.IntN(2) == 0
	if early {
		p.interrupt()
	}
	p.settle()
	if p.follower > 0 {
		if err := p.replicas.turn(p.testNode); err != nil {
			p.t.Fatal(err)
		}
	}
	for _, l := range p.listeners {
		p.noteStreamed(l, p.newEntries(l))
	}
	if p.passivate {
		eventually(p.t, "all actors have left", func() bool { p.node.engine.Sweep(); return p.node.Live() == 0 })
	}
	if !early {
		p.interrupt()
	}
	if p.withoutCache {
		p.node.queries.Forget()
	}
}

// interrupt closes and reopens everything at random. If it continues on an image taken
// before the close, writes during the shutdown are lost.
func (p *scriptRunner) interrupt() {
	disk := p.disk
	switch {
	case p.variant.restart != 0 && p.interruptions.IntN(p.variant.restart) == 0:
	case p.variant.crash != 0 && p.interruptions.IntN(p.variant.crash) == 0:
		kept := []int{0, 30, 50, 90}[p.interruptions.IntN(4)]
		disk = p.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: p.losses})
	default:
		return
	}
	p.interrupted++
	for _, l := range p.listeners {
		l.sub.Close()
	}
	p.close()
	p.disk = disk
	p.open()
	p.settle()
	for _, l := range p.listeners {
		p.reconnect(l)
	}
}

// settle waits until every outbox is empty: a row sent through each has arrived, and
// every actor with a queued message has received its hint.
func (p *scriptRunner) settle() {
	const table = journal.Table(200)
	p.settled++
	journals := p.testNode.journals
	released := make(chan error, journals)
	for source := range journals {
		e := &journal.Entry{Slot: layout.Homes(journals).First(source), At: p.clock(), Release: func(err error) { released <- err }}
		for target := range journals {
			e.Effects = append(e.Effects, journal.PutRow{Row: journal.Row{
				Slot: layout.Homes(journals).First(target), Table: table, Key: []byte{byte(source)}, Value: []byte{p.settled},
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
		source, target := n/journals, layout.Homes(journals).First(n%journals)
		eventually(p.t, "the outboxes are empty", func() bool {
			value, _, err := p.store.Row(target, table, []byte{byte(source)})
			return err == nil && len(value) == 1 && value[0] == p.settled
		})
	}
	if p.restless {
		awaitIdleStore(p.t, p.store)
	}
}

func (p *scriptRunner) note(format string, args ...any) { fmt.Fprintf(&p.out, format, args...) }

// noteResult records the outcome of a command.
func (p *scriptRunner) noteResult(err error, format string, args ...any) {
	if refusal := (*parley.Refusal)(nil); errors.As(err, &refusal) {
		p.note("refused: %s %v\n", refusal.Code, refusal.Extra)
	} else if err != nil {
		p.t.Fatalf("%s\n%v", p.out.String(), err)
	} else {
		p.note(format+"\n", args...)
	}
}

// messageText renders the immutable parts of a message.
func messageText(r *record.Message) string {
	return fmt.Sprintf("%s in %s from %s of %s to %s of %s after %x: %s %s", r.MessageID(), r.Conversation(), r.Sender(), r.SenderOrg(),
		r.Recipient(), r.RecipientOrg(), r.InReplyTo, r.Type, r.Content)
}

func textAndReceipts(m query.Message) string {
	return fmt.Sprintf("%s %v", messageText(m.Record), m.Receipts)
}

func one[T any](p *scriptRunner, of []T) T { return of[p.random.IntN(len(of))] }

// likely returns true in all but one of n cases.
func (p *scriptRunner) likely(n int) bool { return p.random.IntN(n) > 0 }

func (p *scriptRunner) command(n int) {
	ctx := context.Background()
	switch draw := p.random.IntN(54); {
	case draw < 10:
		p.sendMessage(n)
	case draw < 18 && len(p.messages) > 0:
		p.answer(ctx, n)
	case draw < 22 && len(p.messages) > 0:
		p.move(ctx)
	case draw < 25:
		p.setSomeReceipts(ctx)
	case draw < 29:
		p.readPage(ctx)
	case draw < 31:
		p.toggleStream(ctx)
	case draw < 34:
		p.register(ctx)
	case draw < 36:
		p.lookUp(ctx)
	case draw < 41:
		p.manage(ctx, n)
	default:
		p.useGroups(ctx, n)
	}
}

// limit returns the daily quota of a sender.
func (p *scriptRunner) limit(from parley.AgentID) *int {
	if p.owners[from] != p.metered {
		return nil
	}
	few := 6
	return &few
}

func (p *scriptRunner) sendMessage(n int) {
	if len(p.sends) > 0 && !p.likely(4) { // the same content, encrypted again
		s := one(p, p.sends)
		s.Body = fmt.Appendf(nil, "said again %d", n)
		p.fillRecipient(&s)
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
	p.fillRecipient(&s)
	p.posted(p.send(s))
}

// fillRecipient sets what an HTTP handler knows about a recipient.
func (p *scriptRunner) fillRecipient(s *DirectSend) {
	to := must(p.node.Agents.Get(context.Background(), s.To))(p.t)
	s.ToRevoked, s.ToGroupsOnly, s.RecipientGroups = to.Revoked(), to.GetIncomingPolicy() == agent.GroupsOnly, to.GetGroups()
}

func (p *scriptRunner) answer(ctx context.Context, n int) {
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

func (p *scriptRunner) posted(posted Posted, err error) {
	if err != nil {
		p.noteResult(err, "")
		return
	}
	if !posted.Repeated {
		p.messages = append(p.messages, posted.Message)
	}
	p.noteResult(nil, "repeated %v %s", posted.Repeated, textAndReceipts(query.Message{Record: posted.Message, Receipts: posted.Receipts}))
}

func (p *scriptRunner) move(ctx context.Context) {
	m := one(p, p.messages)
	by := []parley.AgentID{m.Sender(), m.Recipient()}
	by = by[p.random.IntN(2):]
	if !p.likely(8) {
		by = []parley.AgentID{one(p, p.ids)}
	}
	words := []string{"open", "paused", "input_required", "completed", "failed", "canceled", "rejected", "submitted"}
	s, err := p.node.Messages.ChangeStatus(ctx, ChangeStatus{Conversation: m.Conversation(), By: by, Status: one(p, words), Reason: "so"})
	p.noteResult(err, "moved to %s at %d after %d messages, the last %x", s.GetStatus(), s.GetUpdatedMs(), s.GetMessages(), s.GetLastMessageId())
}

// setSomeReceipts records receipts of the newest few messages of an inbox.
func (p *scriptRunner) setSomeReceipts(ctx context.Context) {
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
	p.noteResult(err, "marked %d", len(marks))
}

func credentials(o *org.State) string {
	live := strings.Builder{}
	for _, c := range o.GetCredentials() {
		live.WriteString(map[bool]string{true: "+", false: "-"}[c.RevokedMs == 0])
	}
	return live.String()
}
