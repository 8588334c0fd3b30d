package actors

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/encoding"
	"parley/actors/group"
	"parley/actors/issuer"
	"parley/actors/keylog"
	"parley/actors/operator"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
	"parley/persistence/journaltest"
	"parley/persistence/layout"
	"parley/persistence/sealed"
)

// aggregate holds the functions of one kind of stream, for stored bytes.
type aggregate struct {
	name  string
	blank func(tag byte) (rules.Event, bool)
	zero  func() stateMessage
	fold  func(stateMessage, rules.Event)
}

type stateMessage interface {
	rules.State
	proto.Message
}

// aggregateOf wraps an aggregate's functions in a common form.
func aggregateOf[S stateMessage, E rules.Event](name string, zero func() S, blank func(byte) (E, bool), fold func(S, E)) aggregate {
	return aggregate{
		name:  name,
		blank: func(tag byte) (rules.Event, bool) { return blank(tag) },
		zero:  func() stateMessage { return zero() },
		fold:  func(s stateMessage, e rules.Event) { fold(s.(S), e.(E)) },
	}
}

var aggregates = map[journal.StreamKind]aggregate{
	journal.OrgStream:          aggregateOf("org", func() *org.State { return &org.State{} }, org.New, org.Evolve),
	journal.AgentStream:        aggregateOf("agent", func() *agent.State { return &agent.State{} }, agent.New, agent.Evolve),
	journal.ConversationStream: aggregateOf("conversation", func() *conversation.State { return &conversation.State{} }, conversation.New, conversation.Evolve),
	journal.GroupStream:        aggregateOf("group", func() *foldedGroup { return &foldedGroup{} }, group.New, func(s *foldedGroup, e group.Event) { s.fold(e) }),
	journal.WebhookStream:      aggregateOf("webhook", func() *webhook.State { return &webhook.State{} }, webhook.New, webhook.Evolve),
	journal.IssuerStream:       aggregateOf("issuer", func() *issuer.State { return &issuer.State{} }, issuer.New, issuer.Evolve),
	journal.OperatorStream:     aggregateOf("operator", func() *operator.State { return &operator.State{} }, operator.New, operator.Evolve),
	journal.KeyLogStream:       aggregateOf("keylog", func() *keylog.State { return &keylog.State{} }, keylog.New, keylog.Evolve),
}

// foldedGroup is a group in the form in which it is stored.
type foldedGroup struct {
	group.Snapshot
	state group.State
}

func (s *foldedGroup) Exists() bool { return s.state.Exists() }

func (s *foldedGroup) fold(e group.Event) { group.Evolve(&s.state, e) }

func (s *foldedGroup) MarshalVT() ([]byte, error) { return s.state.MarshalVT() }

func (s *foldedGroup) UnmarshalVT(b []byte) error {
	if err := proto.Unmarshal(b, &s.Snapshot); err != nil {
		return err
	}
	return s.state.UnmarshalVT(b)
}

// parseContent parses the pairs of content.txt, which are every other line.
func parseContent(t testing.TB, text string) []journaltest.Pair {
	t.Helper()
	var pairs []journaltest.Pair
	for line := range strings.Lines(text) {
		pair, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "    ")
		if !ok {
			continue
		}
		k, v, _ := strings.Cut(pair, " ")
		key, err := hex.DecodeString(k)
		if err != nil {
			t.Fatal(err)
		}
		value, err := hex.DecodeString(v)
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, journaltest.Pair{Key: key, Value: value})
	}
	if len(pairs) < 100 {
		t.Fatalf("only %d pairs are stored", len(pairs))
	}
	return pairs
}

// renderContent writes each pair with its meaning, as current code decodes it.
func renderContent(t testing.TB, pairs []journaltest.Pair) string {
	t.Helper()
	return renderOpened(t, pairs, openPairs(t, pairs))
}

// renderOpened is renderContent for pairs whose contents were opened.
func renderOpened(t testing.TB, pairs, opened []journaltest.Pair) string {
	t.Helper()
	var out strings.Builder
	for i, p := range opened {
		fmt.Fprintf(&out, "%s\n    %x %x\n", meaning(t, p), p.Key, pairs[i].Value)
	}
	return out.String()
}

// openPairs opens the contents of stored pairs.
func openPairs(t testing.TB, pairs []journaltest.Pair) []journaltest.Pair {
	t.Helper()
	opened := make([]journaltest.Pair, len(pairs))
	for i, p := range pairs {
		value, err := sealed.OpenPair(testSealer, p.Key, p.Value)
		if err != nil {
			t.Fatalf("key %x: %v", p.Key, err)
		}
		opened[i] = journaltest.Pair{Key: p.Key, Value: value}
	}
	return opened
}

// place parses the beginning of a key: its slot and the letter of its family.
func place(p journaltest.Pair) (slot parley.Slot, family byte, rest []byte) {
	slot, family = layout.FamilyOf(p.Key)
	return slot, family, p.Key[3:]
}

func streamIn(rest []byte) journal.Stream {
	return journal.Stream{Kind: journal.StreamKind(rest[0]), ID: parley.IDFromBytes[parley.AnyID](rest[1:17])}
}

func meaning(t testing.TB, p journaltest.Pair) string {
	t.Helper()
	slot, family, rest := place(p)
	id := func(b []byte) parley.AnyID { return parley.IDFromBytes[parley.AnyID](b[:16]) }
	switch {
	case slot == layout.StoreSlot:
		return fmt.Sprintf("directory %c", family)
	case family >= 'a':
		return ownMeaning(t, slot, p)
	case family == 'E':
		return eventMeaning(t, streamIn(rest), rest[17:], p.Value)
	case family == 'S':
		s := streamIn(rest)
		into := aggregates[s.Kind].zero()
		decodeAgain(t, into, p.Value[8:])
		return fmt.Sprintf("state of %s after %d: %s", s.ID, binary.BigEndian.Uint64(p.Value), oneLine(into))
	case family == 'B':
		r := &record.Message{}
		decodeAgain(t, r, p.Value[8:])
		return fmt.Sprintf("record at %d under %d: %s", binary.BigEndian.Uint64(p.Value), slot, oneLine(r))
	case family == 'F' || family == 'N':
		return fmt.Sprintf("feed of %s at %d: %d %s", id(rest), binary.BigEndian.Uint64(rest[16:]), p.Value[0], id(p.Value[9:]))
	case family == 'C':
		return fmt.Sprintf("copies from %s under %d, at %d, to %x", id(rest), slot, binary.BigEndian.Uint64(p.Value), p.Value[8:])
	case family == 'M':
		marks := [2]int64{int64(binary.BigEndian.Uint64(p.Value)), int64(binary.BigEndian.Uint64(p.Value[8:]))}
		return fmt.Sprintf("marks %d, {%d %d}", len(rest), marks[0], marks[1])
	case family == 'R':
		return fmt.Sprintf("row of table %d", rest[0])
	}
	return fmt.Sprintf("family %c", family)
}

// ownMeaning is the meaning of one of a journal's own rows.
func ownMeaning(t testing.TB, slot parley.Slot, p journaltest.Pair) string {
	t.Helper()
	what := fmt.Sprintf("of the journal at slot %d", slot)
	switch _, family := layout.FamilyOf(p.Key); family {
	case layout.AppliedFamily:
		applied, err := layout.DecodeApplied(p.Value)
		if err != nil || !bytes.Equal(applied.Encode(), p.Value) {
			t.Errorf("%x is read as %v (%v)", p.Value, applied, err)
		}
		return fmt.Sprintf("applied %s: %d entries, up to position %d at %d", what, applied.Entries, applied.Position, applied.Arrival)
	case layout.TimerFamily:
		if s, due, ok := layout.TimerOf(p.Key); ok {
			return fmt.Sprintf("timer %s: %s of kind %d at %s", what, s.ID, s.Kind, due.Format(time.RFC3339))
		}
	case layout.QuotaFamily:
		if q, ok := layout.QuotaOf(p.Key); ok {
			n, stored := layout.DecodeCount(q.Of, layout.Number(p.Value))
			used := fmt.Sprintf("%d", n)
			if q.Of != journal.CountedMessages || stored != 0 {
				used = fmt.Sprintf("%d of kind %d and stored %d", n, q.Of, stored)
			}
			return fmt.Sprintf("quota %s: %s used %s on day %d", what, q.Org, used, q.Day)
		}
	case layout.OutboxReceivedFamily:
		if source, ok := layout.SourceOf(p.Key); ok {
			return fmt.Sprintf("received %s: %d messages from journal %d", what, layout.Number(p.Value), source)
		}
	case layout.OutboxFamily: // applied, and not deleted yet
		of, number, ok := layout.Homes(releaseJournals).OutboxOf(p.Key)
		message, err := layout.DecodeOutboxMessage(p.Value)
		if ok && err == nil && bytes.Equal(layout.EncodeOutboxMessage(message), p.Value) {
			return fmt.Sprintf("%s, message %d: %d effects", of, number, len(message.Effects))
		}
	}
	t.Errorf("key %x of a journal's own row has no meaning", p.Key)
	return ""
}

func eventMeaning(t testing.TB, s journal.Stream, seq, value []byte) string {
	t.Helper()
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(value[1:]))).UTC().Format(time.RFC3339)
	about, known := aggregates[s.Kind]
	if !known {
		return fmt.Sprintf("claim of %s at %s", s.ID, at)
	}
	e, ok := about.blank(value[0])
	if !ok {
		t.Fatalf("%s event of unknown type %d", about.name, value[0])
	}
	decodeAgain(t, e, value[9:])
	return fmt.Sprintf("%s %s event %d at %s: %d %s", about.name, s.ID, binary.BigEndian.Uint64(seq), at, value[0], oneLine(e.(proto.Message)))
}

// decodeAgain decodes and encodes: the result must equal the stored bytes.
func decodeAgain(t testing.TB, m any, data []byte) {
	t.Helper()
	if err := encoding.Unmarshal(data, m); err != nil {
		t.Fatal(err)
	}
	if back, err := encoding.Marshal(m); err != nil || !bytes.Equal(back, data) {
		t.Errorf("%x is decoded and encoded as %x (%v)", data, back, err)
	}
}

// checkFolded replays each stream and compares the result with the stored state.
func checkFolded(t *testing.T, pairs []journaltest.Pair) {
	t.Helper()
	live := map[journal.Stream]stateMessage{}
	seen := map[journal.Stream]uint64{}
	for _, p := range pairs {
		_, family, rest := place(p)
		if family != 'E' {
			continue
		}
		s := streamIn(rest)
		about, known := aggregates[s.Kind]
		if !known {
			continue
		}
		if live[s] == nil {
			live[s] = about.zero()
		}
		e, _ := about.blank(p.Value[0])
		decodeAgain(t, e, p.Value[9:])
		about.fold(live[s], e)
		seen[s]++
	}
	compared := 0
	for _, p := range pairs {
		_, family, rest := place(p)
		if family != 'S' {
			continue
		}
		s := streamIn(rest)
		if binary.BigEndian.Uint64(p.Value) != seen[s] {
			continue // an earlier state, to which readers apply the later events
		}
		compared++
		if got, err := encoding.Marshal(live[s]); err != nil || !bytes.Equal(got, p.Value[8:]) {
			t.Errorf("%s: its events give %s (%v)", meaning(t, p), oneLine(live[s]), err)
		}
	}
	if compared < 8 {
		t.Errorf("only %d states were compared", compared)
	}
}

// covers names what a pair is an example of.
func covers(p journaltest.Pair) []string {
	slot, family, rest := place(p)
	switch {
	case slot == layout.StoreSlot:
		return []string{fmt.Sprintf("directory %c", family)}
	case family == 'E' && aggregates[streamIn(rest).Kind].name != "":
		return []string{"family E", fmt.Sprintf("%s event %d", aggregates[streamIn(rest).Kind].name, p.Value[0])}
	case family == 'E':
		return []string{"family E", fmt.Sprintf("stream of kind %d", rest[0])}
	case family == 'S':
		return []string{"family S", fmt.Sprintf("state of a stream of kind %d", rest[0])}
	case family == 'F' || family == 'N':
		return []string{fmt.Sprintf("family %c", family), fmt.Sprintf("feed entry of kind %d", p.Value[0])}
	case family == 'M':
		return []string{fmt.Sprintf("marks of %d bytes", len(rest))}
	case family == 'R':
		return []string{"family R", fmt.Sprintf("table %d", rest[0])}
	}
	return []string{fmt.Sprintf("family %c", family)}
}

// uncovered returns the kinds of events, tables and families that have no example.
func uncovered(t testing.TB, pairs []journaltest.Pair) []string {
	t.Helper()
	wanted := []string{
		"family E", "family S", "family B", "family F", "family R", "family C", "marks of 24 bytes", "marks of 16 bytes",
		"directory m", "directory h", "family a", "family i", "family t", "family q", fmt.Sprintf("stream of kind %d", journal.SlugStream), fmt.Sprintf("stream of kind %d", journal.WorkloadStream),
	}
	for _, about := range aggregates {
		for tag := range 256 {
			if _, known := about.blank(byte(tag)); known {
				wanted = append(wanted, fmt.Sprintf("%s event %d", about.name, tag))
			}
		}
	}
	for kind := journal.MessageEntry; kind <= journal.ReceiptEntry; kind++ {
		wanted = append(wanted, fmt.Sprintf("feed entry of kind %d", kind))
	}
	for kind := journal.OrgStream; kind <= journal.WebhookStream; kind++ {
		if kind != journal.SlugStream && kind != journal.ConversationStream {
			wanted = append(wanted, fmt.Sprintf("state of a stream of kind %d", kind))
		}
	}
	for _, table := range declaredTables(t) {
		wanted = append(wanted, fmt.Sprintf("table %d", table))
	}
	have := map[string]bool{}
	for _, p := range pairs {
		for _, what := range covers(p) {
			have[what] = true
		}
	}
	return slices.DeleteFunc(wanted, func(what string) bool { return have[what] })
}

// declaredTables returns the numbers of all tables that package journal declares. A
// table that is added later needs an example.
func declaredTables(t testing.TB) (tables []int) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), "../journal/stream.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		of, typed := spec.Type.(*ast.Ident)
		number, plain := spec.Values[0].(*ast.BasicLit)
		if !typed || of.Name != "Table" || !plain {
			return true
		}
		table, err := strconv.Atoi(number.Value)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
		return true
	})
	slices.Sort(tables)
	if len(tables) < int(journal.ErasureTable) || len(slices.Compact(slices.Clone(tables))) != len(tables) {
		t.Fatalf("declared tables, each by a number of its own: %v", tables)
	}
	return tables
}
