// Package verify checks everything that actors stored: it replays every stream, and
// compares the rows, feeds and records that follow from the events with the events, in
// both directions. `parley verify` runs it.
package verify

import (
	"encoding/binary"
	"fmt"
	"time"

	"parley/client/parley"
	"parley/journal"
	"parley/journal/report"
)

// Archive reads everything that is stored, at one instant. Package persistence has
// implementations for an open store and for the directory of a stopped server. Byte
// strings that it passes to functions are valid only during the call.
type Archive struct {
	Entries
	Lists
	Places
}

// Entries reads single entries.
type Entries interface {
	State(journal.Stream) (seq uint64, state []byte, err error)
	Events(s journal.Stream, from uint64, reverse bool, fn func(seq uint64, at int64, f journal.StoredEvent) bool) error
	Message(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (position uint64, err error)
	Receipts(journal.RecordReceipt) (journal.Receipts, error)
	Feed(agent parley.AgentID, from, upTo uint64, fn func(journal.FeedEntry) bool) error
	Row(slot parley.Slot, table journal.Table, key []byte) ([]byte, bool, error)
	Broadcast(reader parley.Slot, id parley.MessageID, read func(record []byte) error) (found bool, err error)
	Copy(reader parley.Slot, id parley.MessageID) (to parley.AgentID, position uint64, found bool, err error)
}

// Lists lists everything of a kind.
type Lists interface {
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
	// CopiesOf lists the recipients of a broadcast's copies, as stored in its home.
	CopiesOf(broadcast parley.MessageID, fn func(to parley.Seat, position uint64)) error
}

// Places tells where entries are, and how names in their keys are stored.
type Places interface {
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

// ArchiveOf returns an archive whose parts are all one.
func ArchiveOf(all interface {
	Entries
	Lists
	Places
},
) Archive {
	return Archive{all, all, all}
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
	if !x.differ() {
		return nil
	}
	again := newVerifier(a, &report.Verification{})
	again.multisets = x.multisets
	if err := again.read(); err != nil {
		return err
	}
	x.settle()
	return nil
}

// verifier is one pass over an archive.
type verifier struct {
	reader
	underway
	report *report.Verification
	// checks and multisets are by the number of their statement; a single check has no
	// multiset.
	checks    []*report.Check
	multisets []*report.Multiset
	// timers are those of groups and organizations that are not checked yet.
	timers map[journal.Stream][]int64
	// moved are the groups' conversations whose status has changed.
	moved map[parley.ConversationID]*changedConversation
	rows  uint64
}

func newVerifier(a Archive, result *report.Verification) *verifier {
	x := &verifier{
		reader: newReader(a), underway: newUnderway(), report: result,
		timers: map[journal.Stream][]int64{}, moved: map[parley.ConversationID]*changedConversation{},
	}
	for _, s := range statements {
		c, set := result.Check(s.name, s.says), (*report.Multiset)(nil)
		if s.member != "" {
			set = c.Multiset()
		}
		x.checks, x.multisets = append(x.checks, c), append(x.multisets, set)
	}
	return x
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

// holds checks a statement, and reports a fault at a place if it is false.
func (x *verifier) holds(c check, isTrue bool, where, wrong string, args ...any) {
	if x.fails(c, !isTrue) {
		x.fault(c, where, wrong, args...)
	}
}

// fails counts that a statement was checked, and returns whether it is false. With fault it
// does what holds does, and allocates nothing for a true statement.
func (x *verifier) fails(c check, isFalse bool) bool {
	x.checks[c].Checked++
	return isFalse
}

// fault reports that a statement is false at a place. What was found after an error of the
// archive does not count.
func (x *verifier) fault(c check, where, means string, args ...any) {
	if x.err == nil {
		x.checks[c].Fault(where, means, args...)
	}
}

// expect adds a member to those that must be stored, find one to those that are.
func (x *verifier) expect(c check, parts ...[]byte) {
	x.multisets[c].Expect(spread(parts), 1, parts...)
}

func (x *verifier) find(c check, parts ...[]byte) { x.multisets[c].Find(spread(parts), 1, parts...) }

// spread divides the members of a multiset among slots. What begins with an id lies in the
// id's slot.
func spread(parts [][]byte) parley.Slot {
	if len(parts[0]) < 8 {
		return 0 // a damaged row
	}
	return parley.Slot(binary.BigEndian.Uint16(parts[0][6:])) % parley.Slots
}

// differ reports whether any multisets differ, and prepares all for a second reading.
func (x *verifier) differ() (differs bool) {
	for _, m := range x.multisets {
		if m != nil && m.Reread() {
			differs = true
		}
	}
	return differs
}

// settle reports the members by which multisets differ.
func (x *verifier) settle() {
	for c, s := range statements {
		if s.member == "" {
			continue
		}
		x.multisets[c].Settle(func(member []byte, n int64) (where, means string) {
			defer func() {
				if recover() != nil { // a damaged row may be too short for a name
					where = fmt.Sprintf("%x", member)
				}
			}()
			means = s.missing
			if n < 0 {
				n, means = -n, s.unfounded
			}
			if n > 1 {
				means += fmt.Sprintf(" (%d times)", n)
			}
			return describe(s.member, member), means
		})
	}
}

func (x *verifier) readTimers() error {
	return x.Timers(func(s journal.Stream, due time.Time) error {
		x.progress("timers")
		switch {
		case s.Kind == journal.GroupStream, s.Kind == journal.OrgStream:
			x.timers[s] = append(x.timers[s], due.UnixMilli())
		case s.Kind != journal.WebhookStream: // a webhook may have any number: each is canceled when it fires
			x.find(timersDue, timerKey(s, due.UnixMilli()))
		}
		return nil
	})
}

// checkTimers checks the timers of the stream: those that it needs, and others only if it needed them
// once.
func (r *replay) checkTimers(needed, once map[int64]bool) {
	for due := range needed {
		r.expect(timersDue, timerKey(r.stream, due))
	}
	for _, due := range r.timers[r.stream] {
		if needed[due] || !once[due] {
			r.find(timersDue, timerKey(r.stream, due))
		}
	}
	delete(r.timers, r.stream)
}

func timerKey(s journal.Stream, dueMs int64) []byte {
	k := append(make([]byte, 0, 25), byte(s.Kind))
	return binary.BigEndian.AppendUint64(append(k, s.ID[:]...), uint64(dueMs))
}

func (x *verifier) readQuotas() error {
	return x.Quotas(func(journal int, org parley.OrgID, day uint32, used uint64) error {
		k := usedKey(journal, org, day)
		x.multisets[quota].Find(spread([][]byte{k}), used, k)
		return nil
	})
}

func usedKey(journal int, org parley.OrgID, day uint32) []byte {
	k := binary.BigEndian.AppendUint16(make([]byte, 0, 22), uint16(journal))
	return binary.BigEndian.AppendUint32(append(k, org[:]...), day)
}

// readFarReceipts checks receipts that are stored by message.
func (x *verifier) readFarReceipts() error {
	return x.FarReceipts(func(id parley.MessageID, _ journal.Receipts) error {
		x.progress("receipts")
		r, _ := x.record(id.Slot(), id)
		far := r != nil && !r.Copied() && x.Home(r.Recipient().Slot()) != x.Home(id.Slot())
		x.holds(receiptsPlace, far, "message "+id.String(), "there is no such message, or its recipient lives with it: nobody reads these receipts")
		return x.err
	})
}

func big(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
