package actors

import (
	"fmt"
	"slices"

	"parley/actors/conversation"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// claim is something that an answer showed and that no crash may undo.
type claim func(*knownFacts)

// knownFacts is what clients know, built from claims. A claim only adds to it.
type knownFacts struct {
	// slugs and names map to their holders; the zero id stands for an unknown holder.
	slugs map[string]parley.OrgID
	names map[fullName]parley.AgentID
	orgs  map[parley.OrgID]*knownOrg
	// used maps used challenges to the organizations they created; the zero id is
	// unknown.
	used map[string]parley.OrgID
	// agents maps to the lowest possible index of the agent's version, see crashAgent.
	agents        map[parley.AgentID]int
	revoked       map[parley.AgentID]bool
	messages      map[parley.MessageID]*knownMessage
	conversations map[parley.ConversationID]*knownConversation
	// feeds are the entries shown, from the first on, without a gap.
	feeds map[parley.AgentID][]journal.FeedEntry
	// counted is the number of messages that a poll has counted.
	counted map[parley.AgentID]int
	keys    map[attemptKey]parley.MessageID
	faults  []string
	knownGroups
	knownMLS
}

type fullName struct {
	owner parley.OrgID
	name  string
}

type knownOrg struct {
	version int // of its name
	used    int64
	// clients are the credentials that were created; true if also revoked.
	clients map[parley.ClientID]bool
}

type knownMessage struct {
	record   *record.Message
	position uint64
	// receipts are those that the recipient sees, sent those that the conversation has.
	receipts, sent journal.Receipts
}

type knownConversation struct {
	// rows are those shown, from the first on.
	rows     []parley.MessageID
	messages int64
	// words are statuses that it had, reasons those given with acknowledged changes.
	words, reasons map[string]bool
	// end is its known terminal status.
	end string
}

func newKnownFacts() *knownFacts {
	return &knownFacts{
		slugs: map[string]parley.OrgID{}, names: map[fullName]parley.AgentID{}, orgs: map[parley.OrgID]*knownOrg{},
		used: map[string]parley.OrgID{}, agents: map[parley.AgentID]int{},
		revoked:  map[parley.AgentID]bool{},
		messages: map[parley.MessageID]*knownMessage{}, conversations: map[parley.ConversationID]*knownConversation{},
		feeds: map[parley.AgentID][]journal.FeedEntry{}, counted: map[parley.AgentID]int{}, keys: map[attemptKey]parley.MessageID{},
		knownGroups: newKnownGroups(), knownMLS: newKnownMLS(),
	}
}

func (k *knownFacts) fault(format string, args ...any) {
	k.faults = append(k.faults, fmt.Sprintf(format, args...))
}

func (k *knownFacts) org(id parley.OrgID) *knownOrg {
	o := k.orgs[id]
	if o == nil {
		o = &knownOrg{clients: map[parley.ClientID]bool{}}
		k.orgs[id] = o
	}
	return o
}

func (k *knownFacts) conversation(id parley.ConversationID) *knownConversation {
	x := k.conversations[id]
	if x == nil {
		x = &knownConversation{words: map[string]bool{}, reasons: map[string]bool{}}
		k.conversations[id] = x
	}
	return x
}

// slug records that a slug is taken, by id unless that is zero.
func (k *knownFacts) slug(slug string, id parley.OrgID) {
	had := k.slugs[slug]
	if !had.Zero() && !id.Zero() && had != id {
		k.fault("the slug %s was given to two", slug)
	}
	if had.Zero() {
		k.slugs[slug] = id
	}
}

// name records that a name is taken, by id unless that is zero.
func (k *knownFacts) name(n fullName, id parley.AgentID) {
	had := k.names[n]
	if !had.Zero() && !id.Zero() && had != id {
		k.fault("the name %s was given to two", n.name)
	}
	if had.Zero() {
		k.names[n] = id
	}
}

func (k *knownFacts) agent(id parley.AgentID, version int) { k.agents[id] = max(k.agents[id], version) }

// message records that a client was shown m. Its position in the recipient's feed is 0
// if it was not shown.
func (k *knownFacts) message(m query.Message) {
	id := m.Record.MessageID()
	had := k.messages[id]
	if had == nil {
		had = &knownMessage{record: m.Record}
		k.messages[id] = had
		k.conversation(m.Record.Conversation())
	}
	if string(had.record.GetContent()) != string(m.Record.GetContent()) {
		k.fault("message %s was shown as %.20q and as %.20q", id, had.record.GetContent(), m.Record.GetContent())
	}
	if m.Position != 0 {
		if had.position != 0 && had.position != m.Position {
			k.fault("message %s was shown at %d and at %d", id, had.position, m.Position)
		}
		had.position = m.Position
	}
	had.receipts = earliest(had.receipts, m.Receipts)
}

// sent records that a client was shown the receipts that a message has in its
// conversation.
func (k *knownFacts) sent(m query.Message) {
	had := k.messages[m.Record.MessageID()]
	had.sent = earliest(had.sent, m.Receipts)
}

func earliest(a, b journal.Receipts) journal.Receipts {
	return journal.Receipts{TransferredAt: earlier(a.TransferredAt, b.TransferredAt), ReadAt: earlier(a.ReadAt, b.ReadAt)}
}

// earlier returns the earlier of two instants; zero means none.
func earlier(a, b int64) int64 {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// key records that a request under this key created a message; a zero id is unknown.
func (k *knownFacts) key(a attemptKey, id parley.MessageID) {
	had := k.keys[a]
	if !had.Zero() && !id.Zero() && had != id {
		k.fault("the key %v has made two messages", a)
	}
	if had.Zero() {
		k.keys[a] = id
	}
}

// state records that the state of a conversation was shown.
func (k *knownFacts) state(s *conversation.State) {
	x := k.conversation(s.ConversationID())
	x.messages = max(x.messages, s.GetMessages())
	k.status(s.ConversationID(), s.GetStatus().String())
}

// status records that a client was shown the status of a conversation, in an answer or
// a refusal.
func (k *knownFacts) status(id parley.ConversationID, word string) {
	x := k.conversation(id)
	x.words[word] = true
	if status, _ := conversation.ParseStatus(word); status.Terminal() {
		if x.end != "" && x.end != word {
			k.fault("conversation %s has ended as %s and as %s", id, x.end, word)
		}
		x.end = word
	}
}

// transcript records that a client was shown a transcript from its first row on.
func (k *knownFacts) transcript(id parley.ConversationID, rows []parley.MessageID) {
	x := k.conversation(id)
	shorter := min(len(x.rows), len(rows))
	if !slices.Equal(x.rows[:shorter], rows[:shorter]) {
		k.fault("the transcript of %s was shown as %v and as %v", id, x.rows, rows)
	}
	if len(rows) > len(x.rows) {
		x.rows = rows
	}
}

// entry records that a client was shown a feed entry, after all earlier ones.
func (k *knownFacts) entry(agent parley.AgentID, e journal.FeedEntry) {
	feed := k.feeds[agent]
	if len(feed) == 0 || feed[len(feed)-1].Position < e.Position {
		k.feeds[agent] = append(feed, e)
		return
	}
	at, found := slices.BinarySearchFunc(feed, e.Position, func(x journal.FeedEntry, p uint64) int { return int(x.Position) - int(p) })
	if !found || feed[at].Ref != e.Ref || feed[at].Kind != e.Kind || string(feed[at].Note) != string(e.Note) {
		k.fault("the feed of %s was shown with and without entry %d", agent, e.Position)
	}
}
