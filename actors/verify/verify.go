// Package verify checks everything that actors stored: it replays every stream, and
// compares the rows, feeds and records that follow from the events with the events, in
// both directions. `parley verify` runs it.
package verify

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"parley"
	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/rules"
	"parley/journal"
	"parley/journal/report"
)

// Archive reads everything that is stored, at one instant. Package persistence has
// implementations for an open store and for the directory of a stopped server. Byte
// strings that it passes to functions are valid only during the call.
type Archive interface {
	State(journal.Stream) (seq uint64, state []byte, err error)
	Events(s journal.Stream, from uint64, reverse bool, fn func(seq uint64, at int64, f journal.StoredEvent) bool) error
	Message(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (position uint64, err error)
	Receipts(journal.RecordReceipt) (journal.Receipts, error)
	Feed(agent parley.AgentID, from, upTo uint64, fn func(journal.FeedEntry) bool) error
	Row(slot parley.Slot, table journal.Table, key []byte) ([]byte, bool, error)

	// CopiesOf lists the recipients of a broadcast's copies, as stored in its home.
	CopiesOf(broadcast parley.MessageID, fn func(to parley.Seat, position uint64)) error
	Broadcast(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (found bool, err error)
	Copy(reader parley.Slot, id parley.MessageID) (to parley.AgentID, position uint64, found bool, err error)
	// The following methods list everything of their kind.
	Streams(fn func(s journal.Stream, seq uint64, f journal.StoredEvent) error) error
	Records(fn func(under parley.Slot, id parley.MessageID, position uint64, record []byte) error) error
	Feeds(fn func(agent parley.AgentID, e journal.FeedEntry) error) error
	FarReceipts(fn func(id parley.MessageID, m journal.Receipts) error) error
	Tables(fn func(slot parley.Slot, table journal.Table, key, value []byte) error) error
	Queues(fn func(s journal.Stream, word []byte) error) error
	Timers(fn func(s journal.Stream, due time.Time) error) error
	Quotas(fn func(journal int, org parley.OrgID, day uint32, used uint64) error) error
	// Underway lists effects that are in an outbox and not applied yet.
	Underway(fn func(w journal.Effect) error) error
	// Home returns the number of the journal to which a slot belongs.
	Home(slot parley.Slot) int
	// HiddenKey returns the key of a row as Tables and Underway list it: names in it may
	// be hashed. HiddenStream returns a stream as Streams and Underway list it. HiddenRow
	// reads a row by its key as listed.
	HiddenKey(table journal.Table, key []byte) []byte
	HiddenStream(journal.Stream) journal.Stream
	HiddenRow(slot parley.Slot, table journal.Table, key []byte) ([]byte, bool, error)
	// BroadcastSlot returns the slot under which a journal stores a broadcast.
	BroadcastSlot(journal int, broadcast parley.MessageID) parley.Slot
}

// Run compares everything that is stored with the events: each row with the events from
// which it follows, and each event with the rows that it must have left. It adds
// violations to result; an error means that the archive could not be read to its end.
// Rows of persistence/verify checks the rows themselves.
//
// The checks hold at every instant of an open store and after every crash. One exception
// is matched exactly: an effect in an outbox, or a message in an actor's queue, explains
// the change that it is about to make, and nothing else.
//
// Memory is bounded by the effects under way, the timers of groups, the group
// conversations whose status ever changed, the small state of one stream and one feed,
// and caches of fixed size. It does not grow with the number of messages.
func Run(a Archive, result *report.Verification) error {
	x := newVerifier(a, result)
	if err := x.read(); err != nil {
		return err
	}
	reread := false
	for _, account := range x.comparisons {
		if account.multiset.Reread() {
			reread = true
		}
	}
	if !reread {
		return nil
	}
	again := newVerifier(a, &report.Verification{})
	again.multisets = x.multisets
	if err := again.read(); err != nil {
		return err
	}
	for _, account := range x.comparisons {
		account.multiset.Settle(account.tell)
	}
	return nil
}

// verifier is one pass over an archive.
type verifier struct {
	Archive
	report *report.Verification
	checks
	groupChecks
	multisets
	comparisons []comparison
	underway    underway
	// groupTimers are the timers of groups that are not checked yet.
	groupTimers map[parley.GroupID][]int64
	// seatHistories caches the histories of groups; chronicled is the number of their
	// seats.
	seatHistories map[parley.GroupID]*seatHistory
	chronicled    int
	// moved are the groups' conversations whose status has changed.
	moved map[parley.ConversationID]*changedConversation
	// owners caches the owners of agents.
	owners map[parley.AgentID]parley.OrgID
	// slugTexts caches the slugs of organizations.
	slugTexts map[parley.OrgID]string
	rows      uint64
}

// checks are the checks of single rows.
type checks struct {
	decode, state, begin, lawful, order           *report.Check
	record, place, copied, owner, receipts        *report.Check
	arrival, keys, poll, once, tables, queues     *report.Check
	orgSlot, registered, farReceipts, statusWords *report.Check
	collectedAll, quarantine, folded, cardContent *report.Check
	active, begun, proven, keyLeaves              *report.Check
	keyPackageContent                             *report.Check
}

// multisets are the checks that compare two multisets.
type multisets struct {
	records, copies, feeds, statuses, lists, quota *report.Multiset
	slugs, claims, clients                         *report.Multiset
	names, roster, agents, retired, timersDue      *report.Multiset
	cards, workloads, keyPackages                  *report.Multiset
	groupMultisets
	webhookMultisets
	keyLog keyLogMultisets
}

// comparison is a multiset with the texts for members that are on one side only.
type comparison struct {
	multiset *report.Multiset
	tell     func(member []byte, n int64) (where, means string)
}

// ownersMax bounds the cached owners.
const ownersMax = 1 << 17

func newVerifier(a Archive, result *report.Verification) *verifier {
	x := &verifier{
		Archive: a, report: result, owners: map[parley.AgentID]parley.OrgID{}, groupTimers: map[parley.GroupID][]int64{},
		seatHistories: map[parley.GroupID]*seatHistory{}, moved: map[parley.ConversationID]*changedConversation{},
		slugTexts: map[parley.OrgID]string{},
	}
	x.checks = checks{
		decode:            result.Check("event-decode", "every event is of a known kind and can be read"),
		state:             result.Check("state", "each stored state is what replaying its events gives, and is there where others read it"),
		begin:             result.Check("stream-begin", "each stream begins with the event that makes it, under its own id"),
		lawful:            result.Check("history", "each conversation's history is one that the rules allow: a path of the status table, one ending, nothing after it"),
		order:             result.Check("message-order", "messages of a conversation ascend by id and live with it"),
		record:            result.Check("message-record", "each message event has its record, which says the same"),
		place:             result.Check("feed-order", "a conversation's messages lie in each feed in the conversation's order"),
		copied:            result.Check("record-copy", "a recipient who lives elsewhere has the same record there"),
		owner:             result.Check("message-owner", "a record names the organizations that own its agents"),
		receipts:          result.Check("receipts", "receipts are the same at both homes that keep them"),
		farReceipts:       result.Check("receipts-place", "receipts kept by message are of messages whose recipient lives elsewhere"),
		arrival:           result.Check("feed-arrival", "no feed entry is older than its message"),
		statusWords:       result.Check("status-underway", "status changes underway are the newest of their conversation"),
		keys:              result.Check("kid-rows", "each key of an agent is found by its thumbprint"),
		poll:              result.Check("poll-rows", "each poll token is found by its hash"),
		once:              result.Check("once-rows", "each idempotency key stands for one message, which it made"),
		tables:            result.Check("tables", "every row is of a known table"),
		queues:            result.Check("queued-messages", "queued messages can be decoded by the actors that they are for"),
		quarantine:        result.Check("quarantine", "every queued message could be decoded by the actor that it was for"),
		orgSlot:           result.Check("organization-home", "an organization lives where its slug is looked for"),
		collectedAll:      result.Check("deliveries", "what a webhook wants of its agent's feed became a job, once, in the feed's order"),
		begun:             result.Check("task-rows", "each row of a conversation that an agent has begun with another says what its first message says, and is there where the agent's list counts as read"),
		folded:            result.Check("list-rows", "each row that a feed entry gave to an agent's list says what the entry says, and is there where the entries count as listed"),
		cardContent:       result.Check("card-content", "each card lies in the slot of its agent, can be read, and is stored as this release writes it"),
		keyPackageContent: result.Check("key-package-content", "each MLS KeyPackage lies in the slot of its agent and is the one that its key names"),
		active:            result.Check("activity-rows", "each hour of activity is of an agent, and lies in its slot"),
		registered:        result.Check("registrations", "a solved challenge has made its organization"),
		keyLeaves:         result.Check("key-log-entries", "entries of the key log are numbered without gaps, name the keys that the agent had, and lie where they are looked for"),
		proven:            result.Check("workload-identities", "each SPIFFE id finds the organization that has proven it"),
	}
	x.groupChecks = groupChecksOf(result)
	x.open()
	return x
}

// open creates the multisets, each with the texts of its faults.
func (x *verifier) open() {
	open := func(name, says, missing, unfounded string, key func([]byte) string) *report.Multiset {
		l := x.report.Check(name, says).Multiset()
		x.comparisons = append(x.comparisons, comparison{l, func(member []byte, n int64) (where, means string) {
			defer func() {
				if recover() != nil { // a damaged row may be too short for a name
					where = fmt.Sprintf("%x", member)
				}
			}()
			means = missing
			if n < 0 {
				n, means = -n, unfounded
			}
			if n > 1 {
				means += fmt.Sprintf(" (%d times)", n)
			}
			return key(member), means
		}})
		return l
	}
	x.multisets = multisets{
		records: open("message-records", "each message record belongs to a message event",
			"the conversation has the message and its record is not there: it cannot be read", "a record of a message that no conversation has", idAt("message")),
		copies: open("far-records", "each copy of a record belongs to a message for somebody who lives there",
			"the copy for the recipient's home is missing", "a copy of a record that nobody there receives", func(m []byte) string {
				return fmt.Sprintf("message %s, slot %d", idText(m[2:]), binary.BigEndian.Uint16(m))
			}),
		feeds: open("feed-entries", "each message is in its recipient's feed once, and nothing else is",
			"the message is not in the recipient's feed: it was never delivered", "the feed has a message that no conversation has, or has it twice", feedMember),
		statuses: open("status-entries", "each status change is in each participant's feed once, in order",
			"the change is not in the participant's feed", "the feed has a change that did not happen", statusMember),
		lists: open("conversation-lists", "each conversation is in the list of both its participants",
			"the conversation is not in the agent's list", "the list has a conversation that the agent takes no part in, or has it twice", idsAt("agent", "conversation")),
		quota: open("quota", "what an organization used on a day is what it sent that day",
			"messages were sent and not counted", "slots are counted and nothing was sent for them", quotaMember),
		slugs:   open("slug-rows", "each slug finds its organization", "the slug does not find the organization: it cannot sign in by it", "a slug that its organization does not have", hashAt(16, "slug")),
		claims:  open("slug-claims", "each slug is claimed by the organization that has it", "nobody claims the slug: it can be taken twice", "a claim of a slug by an organization that does not have it", idsAt("claim", "organization")),
		clients: open("client-rows", "each credential finds its organization", "the client id does not find its organization: it cannot sign in", "a client id of an organization that does not have the credential", idsAt("client", "organization")),
		names:   open("name-rows", "each agent is found by its name", "the name does not find the agent", "a name that its agent does not have", hashAt(32, "name")),
		roster:  open("roster-rows", "each agent is on its organization's roster, in order of creation", "the agent is missing from the roster", "a place on the roster that the organization did not give", rosterMember),
		agents:  open("agents", "an organization's agents are those that exist", "the organization counts an agent that does not exist", "an agent that its organization does not know", idsAt("organization", "agent")),
		retired: open("retirements", "each revoked agent is counted once", "a revoked agent is counted as active", "an agent is counted out that was not revoked, or twice", idsAt("organization", "agent")),
		timersDue: open("timers-due", "each live request has the timer that ends it",
			"nothing ends the request", "a timer that nobody set", timerMember),
		cards: open("card-rows", "each agent's card is stored as its events say: when, under which number, and who may see it",
			"the agent published a card that is not stored so", "a card that its agent did not publish so", cardMember),
		keyPackages: open("key-packages", "each agent has as many MLS KeyPackages, claimed and unclaimed, as its events say",
			"a KeyPackage is not there: it cannot be claimed, or could be uploaded again", "a KeyPackage that its agent does not keep, or did not hand out", keyPackageMember),
		workloads: open("workload-claims", "each claim of a SPIFFE id has its row, with the same organization",
			"a claim without a row: nobody else can prove the SPIFFE id, and its organization neither", "a row without a claim: two organizations can prove the SPIFFE id", func(m []byte) string {
				return fmt.Sprintf("slot %d, organization %s", binary.BigEndian.Uint16(m), idText(m[2:]))
			}),
		groupMultisets:   openGroups(open),
		webhookMultisets: openWebhooks(open),
		keyLog:           openKeyLog(open),
	}
}

// read makes one pass over everything.
func (x *verifier) read() error {
	for _, pass := range []struct {
		what string
		run  func() error
	}{
		{"timers", x.readTimers},
		{"effects underway", x.readUnderway},
		{"streams", x.readStreams},
		{"records", x.readRecords},
		{"feeds", x.readFeeds},
		{"receipts", x.readFarReceipts},
		{"tables", x.readTables},
		{"quotas", x.readQuotas},
	} {
		x.rows = 0
		x.report.Tell(pass.what, 0)
		if err := pass.run(); err != nil {
			return fmt.Errorf("reading %s: %w", pass.what, err)
		}
		x.report.Tell(pass.what, x.rows)
	}
	return nil
}

// progressEvery is the number of rows between two reports of progress.
const progressEvery = 1 << 16

func (x *verifier) progress(what string) {
	if x.rows++; x.rows%progressEvery == 0 {
		x.report.Tell(what, x.rows)
	}
}

func (x *verifier) readRecords() error {
	return x.Records(func(under parley.Slot, id parley.MessageID, _ uint64, stored []byte) error {
		x.progress("records")
		if under != id.Slot() {
			x.copies.Find(under, 1, copyKey(under, id))
			return nil
		}
		x.multisets.records.Find(under, 1, id[:])
		// The record of a first message has the id of the conversation that it starts.
		if of := conversation.StartedBy(id); bytes.Contains(stored, of[:]) {
			return x.readStart(id)
		}
		return nil
	})
}

func copyKey(under parley.Slot, id parley.MessageID) []byte {
	return append(binary.BigEndian.AppendUint16(make([]byte, 0, 18), uint16(under)), id[:]...)
}

func (x *verifier) readTimers() error {
	return x.Timers(func(s journal.Stream, due time.Time) error {
		x.progress("timers")
		if s.Kind == journal.GroupStream {
			id := parley.GroupID(s.ID)
			x.groupTimers[id] = append(x.groupTimers[id], due.UnixMilli())
			return nil
		}
		if s.Kind == journal.WebhookStream {
			return nil // there may be any number: each is canceled when it fires
		}
		x.timersDue.Find(s.Slot(), 1, timerKey(s, due))
		return nil
	})
}

func timerKey(s journal.Stream, due time.Time) []byte {
	k := append(make([]byte, 0, 25), byte(s.Kind))
	return binary.BigEndian.AppendUint64(append(k, s.ID[:]...), uint64(due.UnixMilli()))
}

func (x *verifier) readQuotas() error {
	return x.Quotas(func(journal int, org parley.OrgID, day uint32, used uint64) error {
		x.quota.Find(org.Slot(), used, usedKey(journal, org, day))
		return nil
	})
}

func usedKey(journal int, org parley.OrgID, day uint32) []byte {
	k := binary.BigEndian.AppendUint16(make([]byte, 0, 22), uint16(journal))
	return binary.BigEndian.AppendUint32(append(k, org[:]...), day)
}

// agentNow returns an agent as stored, or as an effect in an outbox will create it; nil
// if there is neither.
func (x *verifier) agentNow(id parley.AgentID) (*agent.State, error) {
	if born := x.underway.agents[id]; born != nil {
		return born.state, nil
	}
	_, stored, err := x.State(rules.AgentStream(id))
	if err != nil || stored == nil {
		return nil, err
	}
	s := &agent.State{}
	return s, s.UnmarshalVT(stored)
}

// hiddenName returns a name as it is listed in the keys of a table after its owner's id.
func (x *verifier) hiddenName(table journal.Table, owner parley.OrgID, name string) []byte {
	return x.HiddenKey(table, append(owner.Bytes(), name...))[len(owner):]
}

// ownerOf returns the organization that owns an agent, zero if there is no such agent.
func (x *verifier) ownerOf(id parley.AgentID) (parley.OrgID, error) {
	if owner, ok := x.owners[id]; ok {
		return owner, nil
	}
	s, err := x.agentNow(id)
	if err != nil || s == nil {
		return parley.OrgID{}, err
	}
	if len(x.owners) >= ownersMax {
		clear(x.owners)
	}
	x.owners[id] = s.Owner()
	return s.Owner(), nil
}

// Names of the members of multisets.

func idText(b []byte) string { return parley.IDFromBytes[parley.AnyID](b[:16]).String() }

func idAt(what string) func([]byte) string {
	return func(m []byte) string { return what + " " + idText(m) }
}

func idsAt(first, second string) func([]byte) string {
	return func(m []byte) string { return fmt.Sprintf("%s %s, %s %s", first, idText(m), second, idText(m[16:])) }
}

// hashAt names members that end with the hash of a name after the first at bytes, which
// are ids.
func hashAt(at int, what string) func([]byte) string {
	return func(m []byte) string {
		var where bytes.Buffer
		fmt.Fprintf(&where, "%s with the hash %x", what, m[at:])
		for _, owner := range []string{"organization", "agent"} {
			if at > 0 {
				fmt.Fprintf(&where, ", %s %s", owner, idText(m))
				m, at = m[16:], at-16
			}
		}
		return where.String()
	}
}

func feedMember(m []byte) string {
	return fmt.Sprintf("feed of agent %s, message %s, type hash %x", idText(m), idText(m[16:]), m[32:])
}

func statusMember(m []byte) string {
	return fmt.Sprintf("feed of agent %s, conversation %s, change %d, to %s", idText(m), idText(m[16:]), binary.BigEndian.Uint32(m[32:]), m[36:])
}

func quotaMember(m []byte) string {
	return fmt.Sprintf("organization %s, day %d, journal %d", idText(m[2:]), binary.BigEndian.Uint32(m[18:]), binary.BigEndian.Uint16(m))
}

func rosterMember(m []byte) string {
	return fmt.Sprintf("organization %s, place %d, agent %s", idText(m), binary.BigEndian.Uint64(m[16:]), idText(m[24:]))
}

func timerMember(m []byte) string {
	return fmt.Sprintf("stream %d/%s, due %s", m[0], idText(m[1:]), time.UnixMilli(int64(binary.BigEndian.Uint64(m[17:]))).UTC().Format(time.RFC3339))
}
