package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rule is a promise that can be broken.
type Rule string

const (
	// Lost: acknowledged, and not there.
	Lost Rule = "lost"
	// Vanished: shown by some answer, and not there.
	Vanished Rule = "vanished"
	// Doubled: one key made two messages.
	Doubled Rule = "doubled"
	// Invented: nobody sent it, or its send was refused.
	Invented Rule = "invented"
	// Altered: a message is not what was sent, or not what it was.
	Altered Rule = "altered"
	// Copies: a message is not in its recipient's inbox exactly once.
	Copies Rule = "copies"
	// Order: two readings do not agree on an order, or one has a gap.
	Order Rule = "order"
	// RealTime: an order is not that in which sends followed one another.
	RealTime Rule = "real time"
	// Stale: an answer does not show what was there before it was asked for.
	Stale Rule = "stale"
	// Stream: a stream is not the inbox from its resume point on.
	Stream Rule = "stream"
	// Path: a history of statuses is not a path of the table.
	Path Rule = "path"
	// Winner: a conversation ended twice, or went on after its end.
	Winner Rule = "winner"
	// Unjudged: something was acknowledged, and nobody read it again.
	Unjudged Rule = "unjudged"
)

// Fault is a broken promise.
type Fault struct {
	Rule   Rule
	Detail string
}

func (f Fault) String() string { return string(f.Rule) + ": " + f.Detail }

// Report lists the first faults of each rule, and says how many there are.
func Report(faults []Fault) string {
	const each = 5
	count := map[Rule]int{}
	var lines []string
	for _, f := range faults {
		if count[f.Rule]++; count[f.Rule] <= each {
			lines = append(lines, f.String())
		}
	}
	for rule, n := range count {
		if n > each {
			lines = append(lines, fmt.Sprintf("%s: %d in all", rule, n))
		}
	}
	return strings.Join(lines, "\n")
}

// Check holds everything that was recorded together. It wants the clients to
// rest, and every inbox, every conversation with replies and every stream to
// have been read whole since the last write.
func (h *History) Check() []Fault {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := &judgement{
		History: h, keys: map[scope]*key{}, payloads: map[string]*key{}, messages: map[ID]*fact{},
		inboxes: map[ID]*order{}, conversations: map[ID]*order{}, refs: map[ID]*reference{}, bad: map[ID]bool{},
	}
	j.readKeys()
	j.readMessages()
	j.judgeInboxes()
	j.judgeConversations()
	j.judgeSends()
	j.judgeStreams()
	j.judgeStatuses()
	return j.faults
}

// scope is where a key is used once.
type scope struct {
	from ID
	key  string
}

// key is everything that is known of a key.
type key struct {
	scope
	to, replyTo ID
	attempts    []Send
	firsts      int // acknowledged as new
	acked       *Send
	unknown     bool
	message     ID
}

// began is when the message may have come to be.
func (k *key) began() time.Duration { return k.attempts[0].Asked }

// proves tells whether an attempt's answer means that its effect was visible.
// One that took longer than settle does not, and neither does the repeat of a
// send that was asked for longer ago: that may still be on its way. Zero stands
// for any time.
func (k *key) proves(s Send, settle time.Duration) bool {
	return s.Outcome == Acked && (settle == 0 || s.Answered-k.began() <= settle)
}

// fact is a message as it was first shown.
type fact struct {
	Message
	key *key // nil if nobody sent it
}

// order is a sequence that everybody must agree on, oldest first.
type order struct {
	id    ID
	read  Span
	rows  []Message
	place map[ID]int
	acked *floor
}

func newOrder(id ID, read Span, rows []Message) *order {
	o := &order{id: id, read: read, rows: rows, place: make(map[ID]int, len(rows))}
	for i, m := range rows {
		o.place[m.ID] = i
	}
	return o
}

type judgement struct {
	*History
	faults        []Fault
	keys          map[scope]*key
	ordered       []*key // by when they were first used
	payloads      map[string]*key
	messages      map[ID]*fact
	bad           map[ID]bool // messages that were complained of already
	inboxes       map[ID]*order
	conversations map[ID]*order
	refs          map[ID]*reference
}

func (j *judgement) complain(rule Rule, format string, args ...any) {
	j.faults = append(j.faults, Fault{rule, fmt.Sprintf(format, args...)})
}

// readKeys gathers the attempts of each key: one key, one message.
func (j *judgement) readKeys() {
	slices.SortStableFunc(j.sends, func(a, b Send) int { return cmp.Compare(a.Asked, b.Asked) })
	for i := range j.sends {
		s := &j.sends[i]
		at := scope{s.From, s.Key}
		k := j.keys[at]
		if k == nil {
			k = &key{scope: at, to: s.To, replyTo: s.ReplyTo}
			j.keys[at] = k
			j.ordered = append(j.ordered, k)
		}
		k.attempts = append(k.attempts, *s)
		j.payloads[s.Payload] = k
		switch {
		case s.Outcome == Unknown:
			k.unknown = true
		case s.Outcome == Acked:
			if k.acked == nil || s.Answered < k.acked.Answered {
				k.acked = s
			}
			if !s.Repeat {
				k.firsts++
			}
		}
	}
	for _, k := range j.ordered {
		if k.firsts > 1 {
			j.complain(Doubled, "key %s was acknowledged as new %d times", k.scope.key, k.firsts)
		}
	}
}

// readMessages holds every message that was ever shown against its send and
// against how it was shown before.
func (j *judgement) readMessages() {
	for _, k := range j.ordered {
		for _, s := range k.attempts {
			if s.Outcome == Acked {
				j.checkMessage(s.Result, "an answer")
				if j.payloads[s.Result.Payload] != k {
					j.complain(Altered, "the answer to key %s shows %s of another key", k.scope.key, s.Result.ID)
				}
			}
		}
	}
	for m := range j.seen {
		j.checkMessage(m, "a reading")
	}
	for _, p := range j.pages {
		for _, m := range p.Rows {
			j.checkMessage(m, "an inbox")
		}
	}
	for _, t := range j.transcripts {
		for _, m := range t.Rows {
			j.checkMessage(m, "a transcript")
		}
	}
}

func (j *judgement) checkMessage(m Message, where string) {
	if f := j.messages[m.ID]; f != nil {
		if f.Message != m && !j.bad[m.ID] {
			j.bad[m.ID] = true
			j.complain(Altered, "%s shows %s as %v, which was %v", where, m.ID, m, f.Message)
		}
		return
	}
	k := j.payloads[m.Payload]
	j.messages[m.ID] = &fact{Message: m, key: k}
	switch {
	case k == nil:
		j.complain(Invented, "%s shows %s, whose payload nobody sent", where, m.ID)
	case k.acked == nil && !k.unknown:
		j.complain(Invented, "%s shows %s, but its send with key %s was refused", where, m.ID, k.scope.key)
	case m.From != k.from || m.To != k.to:
		j.complain(Altered, "%s shows %s from %s to %s, sent from %s to %s", where, m.ID, m.From, m.To, k.from, k.to)
	case !k.message.Zero():
		j.complain(Doubled, "key %s made %s and %s", k.scope.key, k.message, m.ID)
	}
	if k != nil && k.message.Zero() {
		k.message = m.ID
	}
}

// judgeSends looks for what was acknowledged.
func (j *judgement) judgeSends() {
	for _, k := range j.ordered {
		if k.acked == nil {
			continue
		}
		m := k.acked.Result
		j.present(k, j.inboxes[k.to], "the inbox of", k.to)
		conversation := j.conversations[m.Conversation]
		if conversation == nil && k.replyTo.Zero() {
			continue
		}
		j.present(k, conversation, "the transcript of", m.Conversation)
		if reply, ok := j.messages[k.replyTo]; ok && reply.Conversation != m.Conversation {
			j.complain(Altered, "%s replies to %s and is in another conversation", m.ID, k.replyTo)
		}
	}
}

func (j *judgement) present(k *key, o *order, what string, id ID) {
	switch {
	case o == nil:
		j.complain(Unjudged, "%s was acknowledged, and nobody read %s %s", k.acked.Result.ID, what, id)
	case in(o, k.acked.Result.ID):
	case o.read.Asked < k.acked.Answered:
		j.complain(Unjudged, "%s was acknowledged after %s %s was last read", k.acked.Result.ID, what, id)
	default:
		j.complain(Lost, "%s was acknowledged with key %s and is not in %s %s", k.acked.Result.ID, k.scope.key, what, id)
	}
}

func in(o *order, id ID) bool { _, ok := o.place[id]; return ok }
