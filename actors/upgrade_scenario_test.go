package actors

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"parley/actors/agent"
	"parley/actors/encoding"
	"parley/actors/issuer"
	"parley/actors/operator"
	"parley/actors/org"
	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/registration"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
)

// releaseScenario uses every feature that stores something, once.
type releaseScenario struct {
	t     *testing.T
	store *persistence.Store
	node  *Node
	clock *manualClock
}

// awaitArrival waits until all pending effects have arrived, and advances the clock.
func (l *releaseScenario) awaitArrival() {
	awaitIdleStore(l.t, l.store)
	l.clock.advance(time.Second)
}

func (l *releaseScenario) challenge(slug string, difficulty int) *registration.Challenge {
	l.t.Helper()
	return must(challengeFor(l.node, slug, strings.Repeat("0f", 16), difficulty, time.Hour))(l.t)
}

func (l *releaseScenario) org(slug string) parley.OrgID {
	l.t.Helper()
	made := must(l.node.Orgs.Register(context.Background(), Solution{Challenge: l.challenge(slug, 0), ChallengeID: "challenge of " + slug, Nonce: "n", Tier: 1, SecretHash: key(9, slug)}))(l.t)
	l.awaitArrival()
	return made.Org.OrgID()
}

func (l *releaseScenario) agent(owner parley.OrgID, name string) parley.AgentID {
	l.t.Helper()
	made := must(l.node.Agents.Create(context.Background(), NewAgent{Create: agent.Create{
		OrgID: owner, Name: name, SigningKey: key(1, name), EncryptionKey: key(2, name), PollTokenHash: key(3, name),
	}}))(l.t)
	l.awaitArrival()
	return made.AgentID()
}

func (l *releaseScenario) change(id parley.AgentID, c agent.Command) {
	l.t.Helper()
	must(l.node.Agents.Change(context.Background(), id, c))(l.t)
	l.awaitArrival()
}

// bindNewKeys rotates both keys with a binding, then again with a binding that the
// previous signing key vouches for, and retires that previous key.
func (l *releaseScenario) bindNewKeys(id parley.AgentID) {
	l.t.Helper()
	var former ed25519.PrivateKey
	for _, name := range []string{"bound", "bound again"} {
		private := ed25519.NewKeyFromSeed(key(5, name))
		signing, encryption := private.Public().(ed25519.PublicKey), key(6, name)
		signedAt := l.clock.now().UTC().Format("2006-01-02T15:04:05.000000Z")
		text := parley.KeyBindingText("svc", id, "carol@acme.example", parley.Thumbprint(parley.Ed25519, signing), parley.Thumbprint(parley.X25519, encryption), signedAt)
		proof := agent.Proof{Brand: "svc", Handle: "carol@acme.example", Signature: ed25519.Sign(private, text), SignedAt: signedAt}
		if former != nil {
			proof.PreviousSignature = ed25519.Sign(former, text)
		}
		l.change(id, agent.RotateKeys{Signing: signing, Encryption: encryption, Proof: &proof})
		former = private
	}
	retired := ed25519.NewKeyFromSeed(key(5, "bound")).Public().(ed25519.PublicKey)
	l.change(id, agent.RetireKey{Kid: parley.Thumbprint(parley.Ed25519, retired)})
}

func (l *releaseScenario) send(s DirectSend) *record.Message {
	l.t.Helper()
	posted := must(l.node.Messages.Send(context.Background(), s))(l.t)
	l.awaitArrival()
	return posted.Message
}

func (l *releaseScenario) reply(from, to parley.OrgID, m *record.Message, text string) *record.Message {
	l.t.Helper()
	a := answerTo(from, m, text, "")
	a.ToOrg = to
	posted := must(l.node.Messages.Reply(context.Background(), a))(l.t)
	l.awaitArrival()
	return posted.Message
}

func (l *releaseScenario) status(m *record.Message, word string) {
	l.t.Helper()
	must(l.node.Messages.ChangeStatus(context.Background(), ChangeStatus{
		Conversation: m.Conversation(), By: []parley.AgentID{m.Sender(), m.Recipient()}, Status: word, Reason: "because",
	}))(l.t)
	l.awaitArrival()
}

// directBetween returns a send between organizations.
func directBetween(fromOrg, toOrg parley.OrgID, from, to parley.AgentID, text, idempotency string) DirectSend {
	s := direct(fromOrg, from, to, text, idempotency)
	s.ToOrg = toOrg
	return s
}

func (l *releaseScenario) run() {
	ctx := context.Background()
	l.operate(ctx)
	must(l.node.Keys.Mint(ctx, issuer.Mint{Kid: "k1", Public: key(4, "p"), SealedSeed: []byte("sealed")}))(l.t)
	acme, globex := l.org("acme"), l.org("globex")
	if _, err := l.node.Orgs.Register(ctx, Solution{Challenge: l.challenge("initech", 60), Nonce: "wrong", Tier: 1}); err == nil {
		l.t.Fatal("a wrong nonce was accepted")
	}
	must(l.node.Orgs.Change(ctx, acme, org.Change{
		Name: proto.String("Acme Ltd."), ContactEmail: org.Clearable{Set: true, Value: "new@acme.example"}, CountryCode: org.Clearable{Set: true, Value: "fr"},
	}))(l.t)
	client := must(l.node.Orgs.AddCredential(ctx, acme, org.AddCredential{SecretHash: key(8, "second")}))(l.t).Client()
	if err := l.node.Orgs.RevokeCredential(ctx, acme, client); err != nil {
		l.t.Fatal(err)
	}
	l.awaitArrival()
	alice, carol := l.agent(acme, "alice"), l.agent(acme, "carol")
	bob, dave, erin := l.agent(globex, "bob"), l.agent(globex, "dave"), l.agent(globex, "erin")
	scoped := must(l.node.Orgs.AddCredential(ctx, acme, org.AddCredential{
		SecretHash: key(8, "third"), Scope: parley.ScopeAgents, Agents: []parley.AgentID{alice}, Description: "alice's host", Expires: l.node.clock().Add(time.Hour),
	}))(l.t)
	l.node.Orgs.NoteToken(acme, scoped.Client())
	l.change(alice, agent.Change{HumanOversight: proto.Bool(false), Unlisted: proto.Bool(true)})
	l.change(bob, agent.RotateKeys{Signing: key(5, "new"), Encryption: key(6, "new")})
	l.bindNewKeys(carol)
	l.change(carol, agent.IssuePollToken{Hash: key(7, "carol")})
	l.change(erin, agent.RevokePollToken{})
	for _, id := range []parley.AgentID{alice, carol} {
		l.change(id, agent.SetPQKey{Algorithm: parley.XWing, Raw: bytes.Repeat(key(8, "pq"), parley.XWingSize/32)})
	}
	l.change(alice, agent.RemovePQKey{})

	first := l.send(directBetween(acme, globex, alice, bob, "once", "key-1"))
	answer := l.reply(globex, acme, first, "answer")
	l.reply(acme, globex, answer, "thanks")
	l.status(first, "paused")
	l.status(first, "open")
	second := l.send(directBetween(globex, acme, dave, carol, "second", ""))
	l.status(second, "rejected")
	for n := range 6 {
		l.send(directBetween(acme, globex, []parley.AgentID{alice, carol}[n%2], []parley.AgentID{bob, dave, erin}[n%3], fmt.Sprint("more ", n), ""))
	}
	l.send(directBetween(globex, globex, bob, erin, "within", ""))
	for _, id := range []parley.AgentID{bob, carol, erin} {
		l.setReceipts(id)
	}
	l.publishCards(carol, alice, dave)
	l.storeKeyPackages(alice)
	l.change(dave, agent.Revoke{})
	l.change(bob, agent.Change{IncomingPolicy: proto.String(agent.GroupsOnly), OutgoingPolicy: proto.String(agent.GroupsOnly)})
	l.change(bob, agent.Change{IncomingPolicy: proto.String(agent.AcceptAll), OutgoingPolicy: proto.String(agent.SendAll)})
	l.useGroups(acme, globex, alice, carol, bob, erin)
	l.useWebhooks(acme, alice, bob, globex)
	l.expiry(acme, alice)
	for _, c := range []agent.Command{
		agent.SetBlock{Agent: alice, Org: acme}, agent.SetBlock{Org: acme}, agent.EndBlock{Agent: alice, Org: acme},
	} {
		l.change(erin, c)
	}
	l.report(acme, globex, bob)
	l.beginErasure("leaving")
	enqueueMessages(l.t, l.store, rules.OrgStream(acme), garble)
	l.node.engine.Drain(rules.OrgStream(acme))
	eventually(l.t, "it is in quarantine", func() bool { return l.node.Stats().Quarantined == 1 })
	l.awaitArrival()
}

// report files two reports of an organization about an agent of another one, and closes the first.
// operate makes and ends the tokens of operators, and of registration.
func (l *releaseScenario) operate(ctx context.Context) {
	os := l.node.Operators
	must(os.AddToken(ctx, operator.AddToken{Name: "ada", Role: operator.RoleSupport, Hash: key(5, "ada")}))(l.t)
	must(os.AddToken(ctx, operator.AddToken{Name: "bob", Role: operator.RoleRead, Hash: key(5, "bob")}))(l.t)
	must("", os.RevokeToken(ctx, "bob"))(l.t)
	add := func(text string) parley.RegistrationID {
		s := must(os.AddRegistration(ctx, operator.AddRegistration{Hash: key(5, text), Uses: 2, Expires: l.node.clock().Add(time.Hour)}))(l.t)
		all := s.GetRegistrations()
		return parley.IDFromBytes[parley.RegistrationID](all[len(all)-1].GetId())
	}
	add("reg")
	must("", os.RevokeRegistration(ctx, add("reg2")))(l.t)
	must(os.use(ctx, key(5, "reg")))(l.t)
	os.giveBack(ctx, must(os.use(ctx, key(5, "reg")))(l.t))
}

func (l *releaseScenario) report(by, owner parley.OrgID, about parley.AgentID) {
	l.t.Helper()
	for range 2 {
		filed := must(l.node.Orgs.Report(context.Background(), &record.Report{
			By: by.Bytes(), Reported: owner.Bytes(), Kind: record.Report_agent, Subject: about.Bytes(), Category: "spam", Note: "Offers.",
		}))(l.t)
		l.awaitArrival()
		if len(must(l.node.Orgs.Reports(context.Background(), true))(l.t)) == 0 {
			must(l.node.Orgs.CloseReport(context.Background(), filed.ReportID()))(l.t)
			l.awaitArrival()
		}
	}
}

// beginErasure registers an organization and begins its erasure.
func (l *releaseScenario) beginErasure(slug string) {
	l.t.Helper()
	row := must((&record.Erasure{BegunMs: l.clock.now().UnixMilli(), Token: key(8, slug)}).MarshalVT())(l.t)
	owner := l.org(slug)
	l.agent(owner, "erin")
	if err := (erasureHost{l.node.core}).Begin(owner, row); err != nil {
		l.t.Fatal(err)
	}
	l.awaitArrival()
}

// publishCards gives three agents a card. The second withdraws it again.
func (l *releaseScenario) publishCards(of ...parley.AgentID) {
	l.t.Helper()
	for n, id := range of {
		must(l.node.Agents.PublishCard(context.Background(), id, agent.PublishCard{Public: n == 0, A2AEnabled: true}, fullCard("card")))(l.t)
		l.awaitArrival()
	}
	l.change(of[1], agent.WithdrawCard{})
}

// storeKeyPackages gives an agent MLS KeyPackages. One of them is claimed.
func (l *releaseScenario) storeKeyPackages(of parley.AgentID) {
	l.t.Helper()
	up := uploadOf(l.t, l.node, of, "first", "second", "third").lastResort("last")
	up.Once = append(up.Once, keyPackageOf("expired", 1, -1))
	must(l.node.Agents.StoreKeyPackages(context.Background(), of, up))(l.t)
	l.awaitArrival()
	must(l.node.Agents.ClaimKeyPackage(context.Background(), of, 1))(l.t)
	l.awaitArrival()
}

// setReceipts marks all but the newest message of an agent as transferred, and the
// oldest as read.
func (l *releaseScenario) setReceipts(id parley.AgentID) {
	page := must2(l.node.Messages.Inbox(context.Background(), id, 0, 10, "", nil))(l.t)
	at := l.clock.now().UnixMilli()
	var marks []journal.RecordReceipt
	for i, m := range page[1:] {
		mark := journal.RecordReceipt{Recipient: id, Message: m.Record.MessageID(), Position: m.Position, Receipts: journal.Receipts{TransferredAt: at}}
		if i == len(page)-2 {
			mark.Receipts.ReadAt = at + 1
		}
		marks = append(marks, mark)
	}
	if err := l.node.Receipts.Record(context.Background(), id, marks); err != nil {
		l.t.Fatal(err)
	}
	l.awaitArrival()
}

func must2[T, U any](v T, _ U, err error) func(testing.TB) T { return must(v, err) }

// answers renders everything that readers of a store see.
func answers(t testing.TB, store *persistence.Store, node *Node) string {
	t.Helper()
	var out strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	streams := streamsOf(t, store)
	say("operators: %s", oneLine(must(node.Operators.Tokens(context.Background()))(t)))
	say("signing keys: %s", oneLine(must(node.Keys.Current(context.Background()))(t)))
	for _, s := range streams[journal.OrgStream] {
		answersOf(t, node, parley.OrgID(s.ID), say)
	}
	for _, s := range streams[journal.AgentStream] {
		answersTo(t, node, parley.AgentID(s.ID), say)
	}
	for _, s := range streams[journal.ConversationStream] {
		id := parley.ConversationID(s.ID)
		say("conversation %s: %s", id, oneLine(must(node.Messages.Conversation(context.Background(), id))(t)))
		page := must2(node.Messages.Transcript(context.Background(), id, 0, 100, false, nil))(t)
		for _, m := range page {
			say("  %s", messageLine(m))
		}
	}
	for _, s := range streams[journal.GroupStream] {
		answersIn(t, node, parley.GroupID(s.ID), say)
	}
	rowAnswers(t, store, node, say)
	agents := []parley.AgentID{}
	for _, s := range streams[journal.AgentStream] {
		agents = append(agents, parley.AgentID(s.ID))
	}
	answersOfLog(t, node, agents, say)
	return out.String()
}

// rowAnswers renders rows that no other answer depends on: holders of seats by
// organization, used challenges, SPIFFE ids, and the quarantine.
func rowAnswers(t testing.TB, store *persistence.Store, node *Node, say func(string, ...any)) {
	t.Helper()
	ctx := context.Background()
	type row struct{ key, value []byte }
	rows := map[journal.Table][]row{}
	v := store.View()
	for _, table := range []journal.Table{journal.ErasureTable, journal.HolderTable, journal.SpentTable, journal.WorkloadTable} {
		err := v.Table(table, func(key, value []byte) bool {
			rows[table] = append(rows[table], row{bytes.Clone(key), bytes.Clone(value)})
			return true
		})
		if err != nil {
			t.Error(err)
		}
	}
	aside := quarantined(t, v)
	v.Close()
	for _, r := range rows[journal.HolderTable] {
		group, owner := parley.IDFromBytes[parley.GroupID](r.key[:16]), parley.IDFromBytes[parley.OrgID](r.key[16:])
		say("of organization %s sat in %s: %s", owner, group, must(node.Groups.SeatHolder(ctx, group, parley.Principal{Org: owner}))(t))
	}
	for _, r := range rows[journal.SpentTable] {
		o := must(node.Orgs.Current(ctx, parley.IDFromBytes[parley.OrgID](r.value)))(t)
		_, err := node.Orgs.Register(ctx, Solution{Nonce: "n", Challenge: &registration.Challenge{
			Text: string(r.key[4:]), Slug: o.GetSlug(), ExpiresMs: (int64(binary.BigEndian.Uint32(r.key))+1)*86_400_000 - 1,
		}})
		say("challenge %q of %s: %v", r.key[4:], o.GetSlug(), err)
	}
	for _, r := range rows[journal.ErasureTable] {
		e := &record.Erasure{}
		err := encoding.Unmarshal(r.value, e)
		say("being erased: %s since %d, at the request of %x (%v)", parley.IDFromBytes[parley.OrgID](r.key), e.GetBegunMs(), e.GetToken(), err)
	}
	for _, r := range rows[journal.WorkloadTable] {
		say("a SPIFFE id of organization %s", parley.IDFromBytes[parley.OrgID](r.value))
	}
	for _, closed := range []bool{false, true} {
		for _, r := range must(node.Orgs.Reports(ctx, closed))(t) {
			say("reported: %s", oneLine(r))
		}
	}
	for _, q := range aside {
		say("in quarantine: %s since %s: %x, %s", q.Name(), q.At.Format(time.RFC3339), q.Word, q.Why)
	}
}

func quarantined(t testing.TB, v journal.View) (all []record.Quarantined) {
	t.Helper()
	if err := record.Quarantine(v, func(q record.Quarantined) bool { all = append(all, q); return true }); err != nil {
		t.Error(err)
	}
	return all
}

func streamsOf(t testing.TB, store *persistence.Store) map[journal.StreamKind][]journal.Stream {
	t.Helper()
	streams := map[journal.StreamKind][]journal.Stream{}
	archive := store.Archive()
	err := archive.Streams(func(s journal.Stream, seq uint64, _ journal.StoredEvent) error {
		if seq == 1 {
			streams[s.Kind] = append(streams[s.Kind], s)
		}
		return nil
	})
	if err != nil || archive.Close() != nil {
		t.Fatal(err)
	}
	return streams
}

func answersOf(t testing.TB, node *Node, id parley.OrgID, say func(string, ...any)) {
	t.Helper()
	ctx := context.Background()
	o := must(node.Orgs.Current(ctx, id))(t)
	say("organization %s: %s", id, oneLine(o))
	say("  by slug %s, first active %s, used today %d", must(node.Orgs.BySlug(ctx, o.GetSlug()))(t), must(node.Agents.FirstActive(ctx, id))(t).AgentID(), must(node.Orgs.Used(ctx, id))(t).Messages)
	groups, _, err := node.Groups.Owned(ctx, id, 0, 100)
	for _, g := range must(groups, err)(t) {
		say("  group %s", g)
	}
	for _, c := range o.GetCredentials() {
		say("  by client %s", must(node.Orgs.ByClient(ctx, parley.IDFromBytes[parley.ClientID](c.GetClientId())))(t))
	}
	err = node.Agents.Each(ctx, id, func(a *agent.State) bool {
		say("  agent %s, by name %s", a.AgentID(), must(node.Agents.ByName(ctx, id, a.GetName()))(t))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
}

func answersTo(t testing.TB, node *Node, id parley.AgentID, say func(string, ...any)) {
	t.Helper()
	ctx := context.Background()
	a := must(node.Agents.Get(ctx, id))(t)
	say("agent %s: %s", id, oneLine(a))
	for _, k := range a.GetFormerKeys() {
		say("  by former key %s", must(node.Agents.ByKid(ctx, parley.Thumbprint(k.GetCurve(), k.GetRaw())))(t))
	}
	say("  by key %s %s", must(node.Agents.ByKid(ctx, parley.Thumbprint(parley.Ed25519, a.GetSigningKey())))(t), must(node.Agents.ByKid(ctx, parley.Thumbprint(parley.X25519, a.GetEncryptionKey())))(t))
	if hash := a.GetPollTokenHash(); len(hash) > 0 {
		say("  by poll token %s", must(node.Agents.ByPollToken(ctx, hash))(t))
	}
	if card, err := node.Agents.Card(ctx, id); err == nil {
		say("  card: %s", oneLine(card))
	} else if !errors.Is(err, query.ErrNoCard) {
		t.Error(err)
	}
	if available, lastResort, err := node.Agents.KeyPackages(ctx, id); err != nil || available > 0 || lastResort {
		say("  %d KeyPackages, of last resort %v, %v", available, lastResort, err)
	}
	for _, m := range must2(node.Messages.Inbox(ctx, id, 0, 100, "", nil))(t) {
		say("  inbox at %d: %s", m.Position, messageLine(m))
	}
	for _, c := range must2(node.Messages.Conversations(ctx, id, 0, 100))(t) {
		say("  takes part in %s, %s", c.ConversationID(), c.GetStatus())
	}
	for _, c := range must(node.Groups.Concerns(ctx, id))(t) {
		say("  is asked about by %s of %s", c.Request, c.Group)
	}
	start := must(node.Feeds.Resume(ctx, id, parley.MessageID{}, false))(t)
	say("  its stream begins after %v; %d since noon", start.Last, must(node.Messages.CountSince(ctx, id, noon.UnixMilli()))(t))
	if active := must(node.Agents.LastActive(ctx, id))(t); !active.IsZero() {
		say("  last sent in the hour of %s", active.Format("2006-01-02 15:04"))
	}
	answersFrom(t, node, id, a.Owner(), say)
	answersInLog(t, node, a, say)
	following := node.Feeds.Follow(id, 0, func() {})
	defer following.Close()
	for {
		entries := must(following.Next(10))(t)
		for _, e := range entries {
			say("  feed at %d: %d %s %x at %d", e.Position, e.Kind, e.Ref, e.Note, e.At)
		}
		if len(entries) == 0 {
			return
		}
	}
}

func messageLine(m query.Message) string {
	return fmt.Sprintf("%s, marks {%d %d}", oneLine(m.Record), m.Receipts.TransferredAt, m.Receipts.ReadAt)
}

// oneLine renders a message of any aggregate in one line, with its fields in order.
func oneLine(m proto.Message) string {
	var out []string
	r := m.ProtoReflect()
	fields := r.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !r.Has(f) {
			continue
		}
		if !f.IsList() {
			out = append(out, fmt.Sprintf("%s=%s", f.Name(), oneField(f, r.Get(f))))
			continue
		}
		for j := range r.Get(f).List().Len() {
			out = append(out, fmt.Sprintf("%s[%d]=%s", f.Name(), j, oneField(f, r.Get(f).List().Get(j))))
		}
	}
	return string(r.Descriptor().Name()) + "{" + strings.Join(out, " ") + "}"
}

func oneField(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch {
	case f.Kind() == protoreflect.MessageKind:
		return oneLine(v.Message().Interface())
	case f.Kind() == protoreflect.EnumKind:
		return string(f.Enum().Values().ByNumber(v.Enum()).Name())
	case f.Kind() == protoreflect.BytesKind && len(v.Bytes()) == 16:
		return parley.IDFromBytes[parley.AnyID](v.Bytes()).String()
	case f.Kind() == protoreflect.BytesKind:
		return fmt.Sprintf("%x", v.Bytes())
	case f.Kind() == protoreflect.StringKind:
		return strconv.Quote(v.String())
	}
	return v.String()
}
