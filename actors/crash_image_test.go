package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/query"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
	"parley/persistence/crashtest"
	"parley/persistence/layout"
)

// imageCheck reads a node on a crash image as a client would.
type imageCheck struct {
	w     *workload
	known *knownFacts
	node  *testNode

	orgs   map[parley.OrgID]bool
	agents map[parley.AgentID]*agent.State
	// inbox has every message that a recipient can read, inboxes their order, newest
	// first.
	inbox         map[parley.MessageID]query.Message
	inboxes       map[parley.AgentID][]query.Message
	feeds         map[parley.AgentID][]journal.FeedEntry
	lists         map[parley.AgentID][]parley.ConversationID
	conversations map[parley.ConversationID]*seenConversation
	faults        []string
}

// seenConversation is a conversation with its history, as read from the image.
type seenConversation struct {
	state *conversation.State
	rows  []query.Message
	moves []*conversation.StatusChanged
}

func (x *imageCheck) fault(format string, args ...any) {
	x.faults = append(x.faults, fmt.Sprintf(format, args...))
}

// noError records an error that no read of an image may return.
func (x *imageCheck) noError(err error, what string, args ...any) bool {
	if err != nil {
		x.fault("%s: %v", fmt.Sprintf(what, args...), err)
	}
	return err == nil
}

// inspect starts a node on an image and compares it with what clients knew: at once,
// and again after everything pending has arrived.
func (w *workload) inspect(i crashtest.Image) []string {
	k := w.knownAt(i.Known)
	if len(k.faults) > 0 {
		return k.faults // the acknowledged answers contradict each other
	}
	r := w.unopenedNode()
	r.fs = i.FS
	if err := r.start(crashDir); err != nil {
		return []string{"lost: " + err.Error()}
	}
	x := &imageCheck{w: w, known: k, node: r}
	if i.Number%12 == 0 { // while pending effects arrive
		x.verify("at once")
		x.readAll()
		x.checkShown()
	}
	x.awaitOutboxes()
	x.awaitQueues()
	x.readAll()
	x.checkShown()
	x.checkAnswered()
	x.checkSagas()
	x.checkConsistency()
	x.checkGroups()
	x.checkMLS()
	if i.Number%3 == 0 {
		x.verify("at rest")
	}
	x.retries(i.Number)
	x.checkNewMessages()
	x.noError(r.stop(), "closing")
	return x.faults
}

// awaitOutboxes waits until every outbox is empty: a row sent through each has
// arrived.
func (x *imageCheck) awaitOutboxes() {
	const table = journal.Table(200)
	journals := x.node.store.Journals()
	if journals == 1 {
		return
	}
	stamp := []byte(fmt.Sprint(x.w.next()))
	var sent, swept []*journal.Entry
	for source := range journals {
		e := &journal.Entry{Slot: layout.Homes(journals).First(source), At: x.node.clock()}
		for target := range journals {
			row := journal.Row{Slot: layout.Homes(journals).First(target), Table: table, Key: []byte{byte(source)}, Value: stamp}
			e.Effects = append(e.Effects, journal.PutRow{Row: row})
			row.Delete = true
			swept = append(swept, &journal.Entry{Slot: row.Slot, Rows: []journal.Row{row}, At: x.node.clock()})
		}
		sent = append(sent, e)
	}
	x.append(sent)
	for n := range journals * journals {
		source, target := n/journals, layout.Homes(journals).First(n%journals)
		x.eventually("outboxes come to rest", func() bool {
			value, _, err := x.node.store.Row(target, table, []byte{byte(source)})
			return err == nil && string(value) == string(stamp)
		})
	}
	x.append(swept)
}

// append appends entries to the journal and waits until they are released.
func (x *imageCheck) append(entries []*journal.Entry) {
	released := make(chan error, len(entries))
	for _, e := range entries {
		e.Release = func(err error) { released <- err }
		x.node.store.Append(e)
	}
	for range entries {
		x.noError(<-released, "settling")
	}
}

// eventually waits for a condition.
func (x *imageCheck) eventually(what string, holds func() bool) {
	for deadline := time.Now().Add(x.w.patience); !holds(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			x.fault("half: after %v still not: %s", x.w.patience, what)
			return
		}
	}
}

// readAll reads everything that can be found.
func (x *imageCheck) readAll() {
	ctx := context.Background()
	x.orgs, x.agents = map[parley.OrgID]bool{}, map[parley.AgentID]*agent.State{}
	x.inbox, x.inboxes = map[parley.MessageID]query.Message{}, map[parley.AgentID][]query.Message{}
	x.feeds, x.lists = map[parley.AgentID][]journal.FeedEntry{}, map[parley.AgentID][]parley.ConversationID{}
	x.conversations = map[parley.ConversationID]*seenConversation{}
	x.w.mu.Lock()
	slugs := slices.Clone(x.w.slugs)
	x.w.mu.Unlock()
	for _, slug := range slugs {
		if id, err := x.node.node.Orgs.BySlug(ctx, slug); err == nil {
			x.orgs[id] = true
			x.noError(x.node.node.Agents.Each(ctx, id, func(a *agent.State) bool { x.agents[a.AgentID()] = a; return true }), "agents of %s", slug)
		}
	}
	for id := range x.agents {
		x.readAgent(id)
	}
	for id := range x.known.conversations {
		x.readConversation(id)
	}
}

// readAgent reads an agent's inbox, feed and conversations.
func (x *imageCheck) readAgent(id parley.AgentID) {
	ctx := context.Background()
	for before := uint64(0); ; {
		page, next, err := x.node.node.Messages.Inbox(ctx, id, before, 100, "", nil)
		if !x.noError(err, "inbox of %s", id) {
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
	sub := x.node.node.Feeds.Follow(id, 0, func() {})
	defer sub.Close()
	for {
		entries, err := sub.Next(100)
		if !x.noError(err, "feed of %s", id) || len(entries) == 0 {
			break
		}
		x.feeds[id] = append(x.feeds[id], entries...)
	}
	list, next, err := x.node.node.Messages.Conversations(ctx, id, 0, 1000)
	if x.noError(err, "conversations of %s", id) && next != 0 {
		x.fault("conversations of %s do not end", id)
	}
	for _, s := range list {
		x.lists[id] = append(x.lists[id], s.ConversationID())
		if s.Exists() {
			x.readConversation(s.ConversationID())
		}
	}
}

// readConversation reads a conversation, its transcript and its history.
func (x *imageCheck) readConversation(id parley.ConversationID) {
	ctx := context.Background()
	if x.conversations[id] != nil {
		return
	}
	s, err := x.node.node.Messages.Conversation(ctx, id)
	if err != nil {
		if !errors.Is(err, conversation.ErrUnknown) {
			x.fault("conversation %s: %v", id, err)
		}
		return
	}
	talk := &seenConversation{state: s}
	x.conversations[id] = talk
	for from := uint64(0); ; {
		page, next, err := x.node.node.Messages.Transcript(ctx, id, from, 200, false, nil)
		if !x.noError(err, "transcript of %s", id) {
			break
		}
		talk.rows = append(talk.rows, page...)
		if from = next; next == 0 {
			break
		}
	}
	x.checkHistory(id, talk)
}

// checkHistory replays a conversation: its history must be a valid path through the
// statuses that ends at the current one.
func (x *imageCheck) checkHistory(id parley.ConversationID, talk *seenConversation) {
	v := x.node.contents.View()
	defer v.Close()
	replayed := &conversation.State{}
	last := uint64(0)
	start, found, err := rules.Conversation.Start(rules.StoredIn(v), rules.ConversationStream(id))
	if x.noError(err, "the start of %s", id); found {
		rules.Conversation.Evolve(replayed, start)
	}
	err = v.Events(rules.ConversationStream(id), 1, false, func(seq uint64, _ int64, f journal.StoredEvent) bool {
		e, err := rules.Conversation.Decode(f)
		if !x.noError(err, "event %d of %s", seq, id) {
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
	x.noError(err, "events of %s", id)
	if replayed.GetStatus() != talk.state.GetStatus() || replayed.GetMessages() != talk.state.GetMessages() {
		x.fault("conversation %s is %v, its events come to %v", id, talk.state, replayed)
	}
}

// checkShown requires everything that earlier reads returned.
func (x *imageCheck) checkShown() {
	for id, feed := range x.known.feeds {
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
	for id, m := range x.known.messages {
		if m.position != 0 {
			x.checkMessage(id, m)
		}
	}
	for id, known := range x.known.conversations {
		x.checkConversation(id, known)
	}
}

func (x *imageCheck) checkMessage(id parley.MessageID, m *knownMessage) {
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

func (x *imageCheck) checkConversation(id parley.ConversationID, known *knownConversation) {
	talk := x.conversations[id]
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
