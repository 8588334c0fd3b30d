package verify

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"parley/actors/conversation"
	"parley/actors/encoding"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// replay replays one stream and checks it.
type replay struct {
	*verifier
	stream journal.Stream
	// play decodes an event, checks it and folds it into state. fold folds the event that is
	// being checked, if that has not happened yet. end checks the whole stream.
	play  func(seq uint64, f journal.StoredEvent) error
	fold  func()
	end   func()
	state rules.State
	// blank is an empty state; nil if the stream has none.
	blank rules.State
	// lags: nobody reads the stored state without the later events.
	lags   bool
	events uint64
	// stored is the stored state after the first storedAt events.
	stored   []byte
	storedAt uint64
	// started: the event that begins the stream was replayed and is not stored as one.
	started bool
	// broken: the stream is not checked any further.
	broken bool
}

// replays has how the streams of each kind are replayed.
var replays = map[journal.StreamKind]func(*replay){
	journal.OrgStream:          replayOrg,
	journal.AgentStream:        replayAgent,
	journal.ConversationStream: replayConversation,
	journal.IssuerStream:       replayIssuer,
	journal.OperatorStream:     replayOperator,
	journal.GroupStream:        replayGroup,
	journal.WebhookStream:      replayWebhook,
	journal.KeyLogStream:       replayKeyLog,
	journal.SlugStream: func(r *replay) {
		r.claim(func(org []byte) { r.find(slugClaims, r.stream.ID[:], org) })
	},
	journal.WorkloadStream: func(r *replay) {
		r.claim(func(org []byte) { r.expect(workloadClaims, workloadKey(r.stream.Slot(), org)) })
	},
}

func replayOf(x *verifier, s journal.Stream) *replay {
	r := &replay{verifier: x, stream: s, end: func() {}}
	if begin, known := replays[s.Kind]; known {
		begin(r)
		return r
	}
	r.lags, r.play = true, func(uint64, journal.StoredEvent) error { return errors.New("no streams of this kind are known") }
	return r
}

// follow makes a replay play the events of an aggregate. judge checks an event: before it is
// folded, and after it has called fold.
func follow[S rules.State, C any, E rules.Event](r *replay, of rules.Aggregate[S, C, E], state, blank S, judge func(seq uint64, e E)) {
	var now E
	folded := true
	r.state, r.blank = state, blank
	r.fold = func() {
		if !folded {
			folded = true
			of.Evolve(state, now)
		}
	}
	r.play = func(seq uint64, f journal.StoredEvent) (err error) {
		if now, err = of.Decode(f); err != nil {
			return err
		}
		defer func() {
			if cause := recover(); cause != nil {
				err = fmt.Errorf("it cannot follow what came before: %v", cause)
			}
		}()
		folded = false
		judge(seq, now)
		r.fold()
		err, r.err = r.err, nil
		return err
	}
}

// claim makes a replay play the single event of a stream that claims a name for an
// organization.
func (r *replay) claim(by func(org []byte)) {
	r.lags, r.play = true, func(seq uint64, f journal.StoredEvent) error {
		if seq != 1 || f.Tag != 1 || len(f.Data) != 16 {
			return fmt.Errorf("event %d of kind %d is no claim", seq, f.Tag)
		}
		by(f.Data)
		return nil
	}
}

func workloadKey(slot parley.Slot, org []byte) []byte {
	return append(binary.BigEndian.AppendUint16(make([]byte, 0, 18), uint16(slot)), org...)
}

func (r *replay) name() string { return record.StreamName(r.stream) }

// must checks a statement about the stream, and reports a fault if it is false.
func (r *replay) must(c check, isTrue bool, wrong string, args ...any) {
	if r.fails(c, !isTrue) {
		r.fault(c, r.name(), wrong, args...)
	}
}

// begins checks an event that begins the stream.
func (r *replay) begins(seq uint64, self []byte) {
	r.must(streamBegin, seq <= 1, "event %d makes it once more", seq)
	r.must(streamBegin, bytes.Equal(self, r.stream.ID[:]), "it was made as %x: nobody finds it", self)
}

// readStreams replays every stream.
func (x *verifier) readStreams() error {
	r := &replay{verifier: x, broken: true}
	err := x.Streams(func(s journal.Stream, seq uint64, f journal.StoredEvent) error {
		x.progress("streams")
		if s != r.stream {
			r.finish()
			r = replayOf(x, s)
			var err error
			r.storedAt, r.stored, err = x.State(s)
			x.failed(err)
			r.start()
		}
		r.next(seq, f)
		return x.err
	})
	if err != nil {
		return err
	}
	r.finish()
	x.leftOver()
	return x.err
}

// start replays the start of a conversation for which its first message stands.
func (r *replay) start() {
	if r.stream.Kind != journal.ConversationStream {
		return
	}
	start, found, err := rules.Conversation.Start(rules.Stored{Streams: r, Messages: r}, r.stream)
	if err != nil {
		r.fault(eventDecode, r.name(), "its first message: %v: requests for it fail", err)
		r.broken = true
	}
	if err != nil || !found {
		return
	}
	r.started = true
	stored, err := rules.Conversation.Encode([]conversation.Event{start})
	if !r.failed(err) {
		r.failed(r.play(0, stored[0]))
	}
}

// readRecords checks that each record belongs to an event. A conversation of which only the
// first message is stored has no stream of its own.
func (x *verifier) readRecords() error {
	return x.Records(func(under parley.Slot, id parley.MessageID, _ uint64, stored []byte) error {
		x.progress("records")
		if under != id.Slot() {
			x.find(farRecords, copyKey(under, id))
			return nil
		}
		x.find(messageRecords, id[:])
		// The record of a first message has the id of the conversation that it starts.
		if of := conversation.StartedBy(id); bytes.Contains(stored, of[:]) {
			x.readStart(of)
		}
		return x.err
	})
}

func copyKey(under parley.Slot, id parley.MessageID) []byte {
	return append(binary.BigEndian.AppendUint16(make([]byte, 0, 18), uint16(under)), id[:]...)
}

// readStart checks a conversation of which only the first message is stored.
func (x *verifier) readStart(of parley.ConversationID) {
	replied := false
	x.failed(x.Events(rules.ConversationStream(of), 1, false, func(uint64, int64, journal.StoredEvent) bool {
		replied = true
		return false
	}))
	if replied || x.err != nil {
		return
	}
	r := replayOf(x, rules.ConversationStream(of))
	if r.start(); r.started {
		r.end()
	}
}

// next replays the next event.
func (r *replay) next(seq uint64, f journal.StoredEvent) {
	r.events = seq
	if r.broken || r.err != nil {
		return
	}
	if seq == 1 && !r.started {
		r.must(streamBegin, f.Tag == 1, "its first event is not the one that makes it")
	}
	if err := r.play(seq, f); r.fails(eventDecode, err != nil) {
		r.fault(eventDecode, r.name(), "event %d: %v: requests for it fail", seq, err)
		r.broken = true
		return
	}
	if r.stored == nil || seq != r.storedAt {
		return
	}
	folded, stored, err := r.states()
	r.must(storedState, err == nil, "its stored state cannot be read: %v", err)
	r.must(storedState, bytes.Equal(folded, stored), "its stored state is not what its first %d events give: what it shows did not happen", seq)
}

// states returns the encoded state so far and the stored one, encoded again.
func (r *replay) states() (folded, stored []byte, err error) {
	if r.blank == nil {
		return nil, nil, errors.New("a claim has no state")
	}
	if err := encoding.Unmarshal(r.stored, r.blank); err != nil {
		return nil, nil, err
	}
	folded, err = encoding.Marshal(r.state)
	r.failed(err)
	stored, err = encoding.Marshal(r.blank)
	return folded, stored, err
}

// finish checks the stream after its last event.
func (r *replay) finish() {
	if r.broken || r.err != nil {
		return
	}
	current := r.stored != nil && r.storedAt >= r.events
	r.must(storedState, r.lags || current, "its stored state is of %d events, and it has %d: others see it as it was", r.storedAt, r.events)
	r.end()
}
