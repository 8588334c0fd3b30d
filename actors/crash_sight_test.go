package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley"
	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/query"
	"parley/actors/rules"
	"parley/journal"
	"parley/persistence/crashtest"
)

// crashSight is what actors on an image show, as clients read it.
type crashSight struct {
	w *crashWorld
	k *knowledge
	r *testNode

	orgs   map[parley.OrgID]bool
	agents map[parley.AgentID]*agent.State
	// inbox has every message that a recipient is shown, inboxes their order,
	// newest first.
	inbox   map[parley.MessageID]query.Message
	inboxes map[parley.AgentID][]query.Message
	feeds   map[parley.AgentID][]journal.FeedEntry
	lists   map[parley.AgentID][]parley.ConversationID
	talks   map[parley.ConversationID]*talkSight
	faults  []string
}

// talkSight is a conversation as it is shown, and how it came about.
type talkSight struct {
	state *conversation.State
	rows  []query.Message
	moves []*conversation.StatusChanged
}

func (x *crashSight) fault(format string, args ...any) {
	x.faults = append(x.faults, fmt.Sprintf(format, args...))
}

// check notes an error that no read of an image may give.
func (x *crashSight) check(err error, what string, args ...any) bool {
	if err != nil {
		x.fault("%s: %v", fmt.Sprintf(what, args...), err)
	}
	return err == nil
}

// inspect opens an image with real actors, and holds it against what clients
// had been told: at once, and when all that was under way has arrived.
func (w *crashWorld) inspect(i crashtest.Image) []string {
	k := w.knownAt(i.Known)
	if len(k.faults) > 0 {
		return k.faults // the answers contradict each other
	}
	r := w.unopenedNode()
	r.fs = i.FS
	if err := r.start(crashDir); err != nil {
		return []string{"lost: " + err.Error()}
	}
	x := &crashSight{w: w, k: k, r: r}
	if i.Number%12 == 0 { // while what was under way arrives
		x.audit("at once")
		x.look()
		x.keepsShown()
	}
	x.rest()
	x.calm()
	x.look()
	x.keepsShown()
	x.keepsPromises()
	x.sagasAreOver()
	x.agrees()
	x.groupsAgree()
	if i.Number%3 == 0 {
		x.audit("at rest")
	}
	x.retries(i.Number)
	x.goesOn()
	x.check(r.stop(), "closing")
	return x.faults
}

// rest waits until every lane is empty: a row sent through each has arrived.
func (x *crashSight) rest() {
	const table = journal.Table(200)
	journals := x.r.store.Journals()
	if journals == 1 {
		return
	}
	stamp := []byte(fmt.Sprint(x.w.next()))
	var sent, swept []*journal.Entry
	for source := range journals {
		e := &journal.Entry{Slot: parley.Slot(source), At: x.r.clock()}
		for target := range journals {
			row := journal.Row{Slot: parley.Slot(target), Table: table, Key: []byte{byte(source)}, Value: stamp}
			e.Effects = append(e.Effects, journal.PutRow{Row: row})
			row.Delete = true
			swept = append(swept, &journal.Entry{Slot: row.Slot, Rows: []journal.Row{row}, At: x.r.clock()})
		}
		sent = append(sent, e)
	}
	x.append(sent)
	for n := range journals * journals {
		source, target := n/journals, parley.Slot(n%journals)
		x.eventually("lanes come to rest", func() bool {
			value, _, err := x.r.store.Row(target, table, []byte{byte(source)})
			return err == nil && string(value) == string(stamp)
		})
	}
	x.append(swept)
}

// append gives entries to the journal and waits until they are released.
func (x *crashSight) append(entries []*journal.Entry) {
	released := make(chan error, len(entries))
	for _, e := range entries {
		e.Release = func(err error) { released <- err }
		x.r.store.Append(e)
	}
	for range entries {
		x.check(<-released, "settling")
	}
}

// eventually waits for what follows by itself.
func (x *crashSight) eventually(what string, holds func() bool) {
	for deadline := time.Now().Add(x.w.patience); !holds(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			x.fault("half: after %v still not: %s", x.w.patience, what)
			return
		}
	}
}

// look reads everything that can be found.
func (x *crashSight) look() {
	ctx := context.Background()
	x.orgs, x.agents = map[parley.OrgID]bool{}, map[parley.AgentID]*agent.State{}
	x.inbox, x.inboxes = map[parley.MessageID]query.Message{}, map[parley.AgentID][]query.Message{}
	x.feeds, x.lists = map[parley.AgentID][]journal.FeedEntry{}, map[parley.AgentID][]parley.ConversationID{}
	x.talks = map[parley.ConversationID]*talkSight{}
	x.w.mu.Lock()
	slugs := slices.Clone(x.w.slugs)
	x.w.mu.Unlock()
	for _, slug := range slugs {
		if id, err := x.r.node.Orgs.BySlug(ctx, slug); err == nil {
			x.orgs[id] = true
			x.check(x.r.node.Agents.Each(ctx, id, func(a *agent.State) bool { x.agents[a.AgentID()] = a; return true }), "agents of %s", slug)
		}
	}
	for id := range x.agents {
		x.lookAtAgent(id)
	}
	for id := range x.k.talks {
		x.lookAtTalk(id)
	}
}

// lookAtAgent reads an agent's inbox, feed and conversations.
func (x *crashSight) lookAtAgent(id parley.AgentID) {
	ctx := context.Background()
	for before := uint64(0); ; {
		page, next, err := x.r.node.Messages.Inbox(ctx, id, before, 100, "", nil)
		if !x.check(err, "inbox of %s", id) {
			break
		}
		for _, m := range page {
			if _, twice := x.inbox[m.Record.MessageID()]; twice {
				x.fault("message %s is in an inbox twice", m.Record.MessageID())
			}
			x.inbox[m.Record.MessageID()] = m
		}
		x.inboxes[id] = append(x.inboxes[id], page...)
		if before = next; next == 0 {
			break
		}
	}
	sub := x.r.node.Feeds.Follow(id, 0, func() {})
	defer sub.Close()
	for {
		entries, err := sub.Next(100)
		if !x.check(err, "feed of %s", id) || len(entries) == 0 {
			break
		}
		x.feeds[id] = append(x.feeds[id], entries...)
	}
	list, next, err := x.r.node.Messages.Conversations(ctx, id, 0, 1000)
	if x.check(err, "conversations of %s", id) && next != 0 {
		x.fault("conversations of %s do not end", id)
	}
	for _, s := range list {
		x.lists[id] = append(x.lists[id], s.ConversationID())
		if s.Exists() {
			x.lookAtTalk(s.ConversationID())
		}
	}
}

// lookAtTalk reads a conversation, its transcript and its history.
func (x *crashSight) lookAtTalk(id parley.ConversationID) {
	ctx := context.Background()
	if x.talks[id] != nil {
		return
	}
	s, err := x.r.node.Messages.Conversation(ctx, id)
	if err != nil {
		if !errors.Is(err, conversation.ErrUnknown) {
			x.fault("conversation %s: %v", id, err)
		}
		return
	}
	talk := &talkSight{state: s}
	x.talks[id] = talk
	for from := uint64(0); ; {
		page, next, err := x.r.node.Messages.Transcript(ctx, id, from, 200, false, nil)
		if !x.check(err, "transcript of %s", id) {
			break
		}
		talk.rows = append(talk.rows, page...)
		if from = next; next == 0 {
			break
		}
	}
	x.history(id, talk)
}

// history replays a conversation: it must be a path through the statuses that
// ends where the conversation stands.
func (x *crashSight) history(id parley.ConversationID, talk *talkSight) {
	v := x.r.store.View()
	defer v.Close()
	replayed := &conversation.State{}
	last := uint64(0)
	err := v.Events(rules.ConversationStream(id), 1, false, func(seq uint64, _ int64, f journal.StoredEvent) bool {
		e, err := rules.Conversation.Decode(f)
		if !x.check(err, "event %d of %s", seq, id) {
			return false
		}
		if move, ok := e.(*conversation.StatusChanged); ok {
			if !slices.Contains(replayed.Allowed(), move.GetStatus().String()) {
				x.fault("conversation %s moves from %s to %s", id, replayed.GetStatus(), move.GetStatus())
			}
			talk.moves = append(talk.moves, move)
		}
		if seq != last+1 {
			x.fault("event %d of %s follows event %d", seq, id, last)
		}
		last = seq
		rules.Conversation.Evolve(replayed, e)
		return true
	})
	x.check(err, "events of %s", id)
	if replayed.GetStatus() != talk.state.GetStatus() || replayed.GetMessages() != talk.state.GetMessages() {
		x.fault("conversation %s is %v, its events come to %v", id, talk.state, replayed)
	}
}

// keepsShown demands what reads had shown, wherever it lay.
func (x *crashSight) keepsShown() {
	for id, feed := range x.k.feeds {
		have := x.feeds[id]
		if len(have) < len(feed) {
			x.fault("lost: a stream of %s had shown %d entries, %d are there", id, len(feed), len(have))
			continue
		}
		for i, e := range feed {
			h := have[i]
			if h.Position != e.Position || h.Kind != e.Kind || h.Ref != e.Ref || string(h.Note) != string(e.Note) {
				x.fault("lost: a stream of %s had shown %v, %v is there", id, e, h)
				break
			}
		}
	}
	for id, m := range x.k.messages {
		if m.position != 0 {
			x.keepsMessage(id, m)
		}
	}
	for id, known := range x.k.talks {
		x.keepsTalk(id, known)
	}
}

func (x *crashSight) keepsMessage(id parley.MessageID, m *knownMessage) {
	have, ok := x.inbox[id]
	switch {
	case !ok:
		x.fault("lost: message %s is not in its inbox", id)
	case string(have.Record.GetContent()) != string(m.record.GetContent()):
		x.fault("lost: message %s says something else", id)
	case m.position != 0 && m.position != have.Position:
		x.fault("lost: message %s was shown at %d and is at %d", id, m.position, have.Position)
	}
}

func (x *crashSight) keepsTalk(id parley.ConversationID, known *knownTalk) {
	talk := x.talks[id]
	if talk == nil {
		x.fault("lost: conversation %s", id)
		return
	}
	for i, row := range known.rows {
		if i >= len(talk.rows) || talk.rows[i].Record.MessageID() != row {
			x.fault("lost: row %d of the transcript of %s", i, id)
			break
		}
	}
	if talk.state.GetMessages() < known.messages {
		x.fault("lost: conversation %s had %d messages and has %d", id, known.messages, talk.state.GetMessages())
	}
	words, reasons := map[string]bool{conversation.Submitted.String(): true}, map[string]bool{}
	for _, m := range talk.moves {
		words[m.GetStatus().String()] = true
		reasons[m.GetReason()] = true
	}
	for word := range known.words {
		if !words[word] {
			x.fault("lost: conversation %s was shown as %s", id, word)
		}
	}
	for reason := range known.reasons {
		if !reasons[reason] {
			x.fault("lost: conversation %s was moved for %s", id, reason)
		}
	}
	if known.end != "" && talk.state.GetStatus().String() != known.end {
		x.fault("lost: conversation %s had ended as %s and is %s", id, known.end, talk.state.GetStatus())
	}
}
