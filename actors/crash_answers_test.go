package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/record"
	"parley/actors/registration"
	actorsverify "parley/actors/verify"
	"parley/client/parley"
	"parley/journal"
	"parley/journal/report"
	rowverify "parley/persistence/verify"
)

// checkAnswered requires everything that was acknowledged, once it has had time to
// arrive.
func (x *imageCheck) checkAnswered() {
	ctx := context.Background()
	for slug, owner := range x.known.slugs {
		id, err := x.node.node.Orgs.BySlug(ctx, slug)
		if err != nil || (!owner.Zero() && id != owner) {
			x.fault("lost: the slug %s was of %s and is of %s (%v)", slug, owner, id, err)
		}
	}
	for id, known := range x.known.orgs {
		x.checkOrg(id, known)
	}
	for id, version := range x.known.agents {
		x.checkAgent(id, version)
	}
	for id := range x.known.revoked {
		if a, err := x.node.node.Agents.Get(ctx, id); err != nil || !a.Revoked() {
			x.fault("lost: agent %s was revoked (%v)", id, err)
		}
	}
	for name, owner := range x.known.names {
		id, err := x.node.node.Agents.ByName(ctx, name.owner, name.name)
		if err != nil || (!owner.Zero() && id != owner) {
			x.fault("lost: the name %s was of %s and is of %s (%v)", name.name, owner, id, err)
		}
	}
	x.w.mu.Lock()
	challenges := slices.Clone(x.w.challenges) // clients request more meanwhile
	x.w.mu.Unlock()
	for _, c := range challenges {
		known, used := x.known.used[c.GetText()]
		if made := x.madeBy(c); used && made.Zero() || !known.Zero() && made != known {
			x.fault("lost: challenge %v was used by %s and is by %s", c, known, made)
		}
	}
	for id, m := range x.known.messages {
		x.checkMessage(id, m)
		marks := x.inbox[id].Receipts
		if later(m.receipts, marks) || later(m.sent, marks) {
			x.fault("lost: message %s had the marks %v and %v and has %v", id, m.receipts, m.sent, marks)
		}
	}
	for id, counted := range x.known.counted {
		if n, err := x.node.node.Messages.CountSince(ctx, id, 0); err != nil || n < counted {
			x.fault("lost: a poll counted %d messages to %s, there are %d (%v)", counted, id, n, err)
		}
	}
}

// later reports whether a receipt is missing or has a later time than before.
func later(was, is journal.Receipts) bool {
	return earliest(was, is) != is
}

// madeBy returns the organization that a used challenge has created.
func (x *imageCheck) madeBy(c *registration.Challenge) parley.OrgID {
	v := x.node.contents.View()
	defer v.Close()
	made, _, err := v.Row(parley.SlotOf(c.GetSlug()), journal.SpentTable, spentKey(c))
	x.noError(err, "challenge %v", c)
	return parley.IDFromBytes[parley.OrgID](made)
}

func (x *imageCheck) checkOrg(id parley.OrgID, known *knownOrg) {
	ctx, version := context.Background(), 0
	o, err := x.node.node.Orgs.Get(ctx, id)
	if err != nil {
		x.fault("lost: organization %s (%v)", id, err)
		return
	}
	if _, err := fmt.Sscanf(o.GetName(), "v%d", &version); err != nil || version < known.version {
		x.fault("lost: organization %s was version %d and is %s", id, known.version, o.GetName())
	}
	for client, revoked := range known.clients {
		c := o.Credential(client)
		owner, err := x.node.node.Orgs.ByClient(ctx, client)
		if c == nil || (revoked && c.RevokedMs == 0) || owner != id {
			x.fault("lost: credential %s of %s (revoked %v): %v, found as of %s (%v)", client, id, revoked, c, owner, err)
		}
	}
	if used, err := x.node.node.Orgs.Used(ctx, id); err != nil || used.Messages < known.used {
		x.fault("lost: %d slots were said to be used, it is %d (%v)", known.used, used.Messages, err)
	}
}

// checkAgent: an agent is in one of its versions, and not in one older than a version
// that was shown.
func (x *imageCheck) checkAgent(id parley.AgentID, version int) {
	s := x.agents[id]
	a := x.w.agentOf(id)
	if s == nil || a == nil {
		x.fault("lost: agent %s", id)
		return
	}
	x.w.mu.Lock()
	have := a.version(s)
	x.w.mu.Unlock()
	if have < version {
		x.fault("lost: agent %s was shown in version %d and is in version %d: %s", a.name, version, have, fingerprint(s))
	}
}

// checkSagas: an operation across several homes is complete everywhere or nowhere.
func (x *imageCheck) checkSagas() {
	ctx := context.Background()
	x.w.mu.Lock()
	challenges, names := slices.Clone(x.w.challenges), slices.Clone(x.w.names)
	x.w.mu.Unlock()
	for _, c := range challenges {
		made := x.madeBy(c)
		id, err := x.node.node.Orgs.BySlug(ctx, c.GetSlug())
		if made.Zero() {
			continue
		}
		o, unknown := x.node.node.Orgs.Get(ctx, made)
		if err != nil || unknown != nil || id != made || o.GetSlug() != c.GetSlug() {
			x.fault("half: challenge for %s is solved by %s, the slug is of %s (%v, %v)", c.GetSlug(), made, id, err, unknown)
			continue
		}
		client := o.GetCredentials()[0].Client()
		if owner, err := x.node.node.Orgs.ByClient(ctx, client); owner != made {
			x.fault("half: the credential of %s is of %s (%v)", made, owner, err)
		}
	}
	for id := range x.orgs {
		if o, err := x.node.node.Orgs.Get(ctx, id); err != nil || o.OrgID() != id {
			x.fault("half: organization %s has a slug and no record (%v)", id, err)
		}
	}
	slices.SortFunc(names, func(a, b fullName) int { return strings.Compare(a.name+string(a.owner[:]), b.name+string(b.owner[:])) })
	for _, n := range slices.Compact(names) {
		x.checkCreation(n)
	}
	for id := range x.orgs {
		active := int64(0)
		for _, a := range x.agents {
			if a.Owner() == id && !a.Revoked() {
				active++
			}
		}
		counted := int64(0)
		x.eventually("the organization counts its agents", func() bool {
			o, err := x.node.node.Orgs.Current(ctx, id)
			counted = o.GetActiveAgents()
			return err == nil && counted == active
		})
		if counted != active {
			x.fault("half: organization %s counts %d agents, %d are active", id, counted, active)
		}
	}
}

// checkCreation: an agent that has its name is also in its home, on the roster, and
// found by its keys and token. Without the name nothing of it exists.
func (x *imageCheck) checkCreation(n fullName) {
	ctx := context.Background()
	id, err := x.node.node.Agents.ByName(ctx, n.owner, n.name)
	if err != nil && !errors.Is(err, parley.ErrNotFound) {
		x.fault("name %s: %v", n.name, err)
	}
	byKey, _ := x.node.node.Agents.ByKid(ctx, parley.Thumbprint(parley.Ed25519, n.key(1)))
	byOther, _ := x.node.node.Agents.ByKid(ctx, parley.Thumbprint(parley.X25519, n.key(2)))
	if byKey != id || byOther != id {
		x.fault("half: the name %s is of %s, its keys of %s and %s", n.name, id, byKey, byOther)
	}
	if id.Zero() {
		return
	}
	a := x.agents[id]
	if a == nil || a.GetName() != n.name || a.Owner() != n.owner {
		x.fault("half: the name %s is of %s, which is %v", n.name, id, a)
		return
	}
	if kid := parley.Thumbprint(parley.Ed25519, a.GetSigningKey()); kid != "" {
		if byKey, err := x.node.node.Agents.ByKid(ctx, kid); byKey != id {
			x.fault("half: the present key of %s is of %s (%v)", n.name, byKey, err)
		}
	}
	if !a.Revoked() {
		if byToken, err := x.node.node.Agents.ByPollToken(ctx, a.GetPollTokenHash()); byToken != id {
			x.fault("half: the poll token of %s is of %s (%v)", n.name, byToken, err)
		}
	}
}

// checkConsistency compares data that is stored in several places.
func (x *imageCheck) checkConsistency() {
	sent, used := 0, map[parley.OrgID]int64{}
	for id, talk := range x.conversations {
		for _, row := range talk.rows {
			sent += max(1, int(row.Record.GetRecipients()))
			if row.Record.GetType() != noticeType {
				used[row.Record.SenderOrg()]++
			}
			in, ok := x.inbox[row.Record.MessageID()]
			if !ok || string(in.Record.GetContent()) != string(row.Record.GetContent()) {
				x.fault("half: message %s is in its transcript, in its inbox: %v", row.Record.MessageID(), ok)
			} else if in.Receipts != row.Receipts {
				x.fault("half: message %s has marks %v in its transcript and %v in its inbox", row.Record.MessageID(), row.Receipts, in.Receipts)
			}
		}
		if !talk.state.GroupID().Zero() {
			continue // verification checks which members they concerned at which time
		}
		for _, p := range talk.state.GetParticipants() {
			x.checkParticipant(id, talk, p.Agent())
		}
	}
	if sent != len(x.inbox) {
		x.fault("half: %d messages are in transcripts, %d in inboxes", sent, len(x.inbox))
	}
	for owner := range x.orgs {
		if n, err := x.node.node.Orgs.Used(context.Background(), owner); err != nil || n.Messages != used[owner] {
			x.fault("half: %d slots are used, there are %d messages (%v)", n.Messages, used[owner], err)
		}
	}
	for id := range x.agents {
		x.checkFeed(id)
	}
}

// checkParticipant: a conversation is in each participant's list once, and each of its
// status changes in each participant's feed, in order.
func (x *imageCheck) checkParticipant(id parley.ConversationID, talk *seenConversation, p parley.AgentID) {
	if x.agents[p] == nil {
		return // its organization's registration was not answered
	}
	listed := 0
	for _, c := range x.lists[p] {
		if c == id {
			listed++
		}
	}
	var told, moved []string
	for _, e := range x.feeds[p] {
		if e.Kind == journal.StatusEntry && e.Ref == parley.AnyID(id) {
			status, _ := record.StatusNews(e.Note)
			told = append(told, status)
		}
	}
	for _, m := range talk.moves {
		moved = append(moved, m.GetStatus().String())
	}
	if listed != 1 || !slices.Equal(told, moved) {
		x.fault("half: conversation %s is listed %d times for %s, moved %v and told %v", id, listed, p, moved, told)
	}
}

// checkFeed: a feed has the messages of the inbox in the same order, and a stream would
// begin at the first untransferred one.
func (x *imageCheck) checkFeed(id parley.AgentID) {
	inbox := x.inboxes[id]
	at := len(inbox)
	unseen := x.node.node.Feeds.DurablePosition(id)
	for _, e := range x.feeds[id] {
		if !e.Kind.BringsMessage() {
			continue
		}
		if at--; at < 0 || inbox[at].Record.MessageID() != parley.MessageID(e.Ref) || inbox[at].Position != e.Position {
			x.fault("half: entry %d of the feed of %s is not in its place in the inbox", e.Position, id)
			return
		}
		if inbox[at].Receipts.TransferredAt == 0 {
			unseen = min(unseen, e.Position-1)
		}
	}
	start, err := x.node.node.Feeds.Resume(context.Background(), id, parley.MessageID{}, false)
	if err != nil || start.After != unseen {
		x.fault("half: a stream of %s begins after %d, the first not carried is after %d (%v)", id, start.After, unseen, err)
	}
}

// verify runs the verifier on everything that is stored.
func (x *imageCheck) verify(when string) {
	archive := x.node.archive()
	audit := &report.Verification{}
	err := rowverify.Rows(archive, audit)
	if err == nil {
		err = actorsverify.Run(actorsverify.ArchiveOf(archive), audit)
	}
	x.noError(errors.Join(err, archive.Close()), "audit, %s", when)
	for _, f := range audit.First(3) {
		x.fault("audit, %s: %v", when, f)
	}
}

// retries repeats requests under idempotency keys, some of which were acknowledged:
// each key has one message.
func (x *imageCheck) retries(number int) {
	x.w.mu.Lock()
	attempts := slices.Clone(x.w.attempts)
	x.w.mu.Unlock()
	for n := range min(3, len(attempts)) {
		x.retry(attempts[(number*3+n)%len(attempts)])
	}
}

func (x *imageCheck) retry(a attempt) {
	ctx := context.Background()
	again := func(kind string) (Posted, error) {
		a.send.Type, a.reply.Type = kind, kind
		if a.in.Zero() {
			return x.node.node.Messages.Send(ctx, a.send)
		}
		return x.node.node.Messages.Reply(ctx, a.reply)
	}
	p, err := again("svc.v1.dm")
	if errors.Is(err, agent.ErrIdempotencyMismatch) {
		p, err = again("svc.v1.task_request")
	}
	id, known := x.known.keys[a.attemptKey]
	switch {
	case known && (err != nil || !p.Repeated || (!id.Zero() && p.Message.MessageID() != id)):
		x.fault("lost: the key %v stood for %s, a retry came to %v %v", a.attemptKey, id, p, err)
		return
	case err != nil:
		if !parley.IsRefusal(err) {
			x.fault("a retry under %v: %v", a.attemptKey, err)
		}
		return
	}
	x.awaitOutboxes()
	said, _, _ := strings.Cut(string(p.Message.GetContent()), ":")
	page, _, err := x.node.node.Messages.Inbox(ctx, p.Message.Recipient(), 0, 100, "", nil)
	x.noError(err, "inbox after a retry")
	found := 0
	for _, m := range page {
		if text, _, _ := strings.Cut(string(m.Record.GetContent()), ":"); text == said {
			found++
		}
	}
	if found != 1 && len(page) < 100 {
		x.fault("the key %v has made %d messages", a.attemptKey, found)
	}
}

// checkNewMessages: a new message comes after all earlier ones.
func (x *imageCheck) checkNewMessages() {
	ctx := context.Background()
	var from, to *agent.State
	for _, a := range x.agents {
		switch {
		case a.Revoked(), a.Confined():
		case from == nil:
			from = a
		case to == nil:
			to = a
		}
	}
	if to == nil {
		return
	}
	s := direct(from.Owner(), from.AgentID(), to.AgentID(), "after", "")
	s.ToOrg = to.Owner()
	p, err := x.node.node.Messages.Send(ctx, s)
	if !x.noError(err, "sending after the crash") {
		return
	}
	x.eventually("it arrives", func() bool {
		page, _, err := x.node.node.Messages.Inbox(ctx, to.AgentID(), 0, 1, "", nil)
		return err == nil && len(page) == 1 && page[0].Record.MessageID() == p.Message.MessageID()
	})
	_, err = x.node.node.Messages.ChangeStatus(ctx, ChangeStatus{
		Conversation: p.Message.Conversation(), By: []parley.AgentID{to.AgentID()}, Status: conversation.Canceled.String(),
	})
	x.noError(err, "moving after the crash")
	r := answerTo(to.Owner(), p.Message, "too late", "")
	if _, err := x.node.node.Messages.Reply(ctx, r); !errors.Is(err, conversation.ErrClosed) {
		x.fault("a reply into what has ended: %v", err)
	}
}
