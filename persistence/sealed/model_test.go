package sealed

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"parley/client/parley"
	"parley/journal"
)

// model is what a layer shows, in the clear, with owners.
type model struct {
	*rapid.T
	w       *world
	orgs    []parley.OrgID
	erased  map[parley.OrgID]bool
	streams map[journal.Stream]*modelStream
	rows    map[string]owned // by slot, table and key
	records map[parley.MessageID]owned
}

type owned struct {
	text   string
	owners journal.Owners
}

type modelStream struct {
	events []owned // without owners: clear
	state  owned
	seq    uint64 // of the state
}

func (m *model) gone(o journal.Owners) bool { return m.erased[o.A] || m.erased[o.B] }

func (m *model) owners(label string) journal.Owners {
	pick := rapid.SampledFrom(m.orgs)
	o := journal.OwnedBy(pick.Draw(m.T, label))
	if rapid.Bool().Draw(m.T, "pair") {
		o.B = pick.Draw(m.T, "other")
	}
	return o
}

func (m *model) stream() (journal.Stream, *modelStream) {
	all := slices.SortedFunc(maps.Keys(m.streams), func(a, b journal.Stream) int { return int(a.Kind) - int(b.Kind) })
	s := rapid.SampledFrom(all).Draw(m.T, "stream")
	return s, m.streams[s]
}

// modelTables have contents and names, one or the other, or neither.
var modelTables = []journal.Table{journal.OnceTable, journal.NameTable, journal.SlugTable, journal.RequestTable, journal.RosterTable}

// key draws a key of a table with a prefix for deletions of many rows.
func (m *model) key(table journal.Table) (key, prefix []byte) {
	name := fmt.Sprint(rapid.IntRange(0, 2).Draw(m.T, "name"))
	if table != journal.RosterTable && table != journal.RequestTable { // their keys are of ids
		name = canary + name
	}
	scope := rapid.SampledFrom(m.orgs[:2]).Draw(m.T, "scope")
	switch table {
	case journal.OnceTable:
		day := rapid.Uint32Range(today, today+1).Draw(m.T, "day")
		return onceKey(day, scope[:], name), onceKey(day, scope[:], "")
	case journal.SlugTable:
		return []byte(name), nil
	}
	return append(scope.Bytes(), name...), scope.Bytes()
}

func rowName(table journal.Table, key []byte) string { return string(byte(table)) + string(key) }

// append appends one drawn entry. It is refused if an erased organization owns any of it.
func (m *model) append() {
	s, have := m.stream()
	e := &journal.Entry{Owners: m.owners("owners")}
	refused := false
	apply := []func(){}
	for range rapid.IntRange(0, 2).Draw(m.T, "events") {
		x := owned{text: fmt.Sprint("clear", len(apply))}
		if clear := rapid.Bool().Draw(m.T, "clear") || !s.Kind.HasContent(); !clear {
			x = owned{fmt.Sprint(canary, len(apply)), e.Owners}
		}
		refused = refused || m.gone(x.owners)
		e.Events = append(e.Events, journal.StoredEvent{Tag: 1, Data: []byte(x.text), Clear: x.owners.Zero()})
		apply = append(apply, func() { have.events = append(have.events, x) })
	}
	if len(e.Events) > 0 && rapid.Bool().Draw(m.T, "state") {
		x := owned{text: "clear state"}
		if s.Kind.HasContent() {
			x = owned{canary + "state", e.Owners}
		}
		e.State, refused = []byte(x.text), refused || m.gone(x.owners)
		apply = append(apply, func() { have.state, have.seq = x, uint64(len(have.events)) })
	}
	for range rapid.IntRange(0, 2).Draw(m.T, "rows") {
		table := rapid.SampledFrom(modelTables).Draw(m.T, "table")
		key, _ := m.key(table)
		x := owned{text: fmt.Sprint("clear row", len(apply))}
		if table.HasContent() {
			x = owned{fmt.Sprint(canary, "row", len(apply)), m.owners("owners of a row")}
		}
		refused = refused || m.gone(x.owners)
		e.Rows = append(e.Rows, journal.Row{Slot: near, Table: table, Key: key, Value: []byte(x.text), Owners: x.owners})
		apply = append(apply, func() { m.rows[rowName(table, key)] = x })
	}
	if rapid.Bool().Draw(m.T, "record") {
		id := newID[parley.MessageID](m.w.rig, near)
		x := owned{fmt.Sprint("head", canary, len(m.records)), m.owners("owners of a record")}
		refused = refused || m.gone(x.owners)
		e.Records = append(e.Records, journal.Record{ID: id, Data: []byte(x.text), Clear: 4, Owners: x.owners})
		apply = append(apply, func() { m.records[id] = x })
	}
	switch err := m.w.append(s, uint64(len(have.events)), e); {
	case refused != errors.Is(err, journal.ErrErased):
		m.Fatalf("appended with %v, want refused: %v", err, refused)
	case refused:
	case err != nil:
		m.Fatal(err)
	default:
		for _, f := range apply {
			f()
		}
	}
}

// remove deletes one row, or all rows beneath a prefix.
func (m *model) remove() {
	s, have := m.stream()
	table := rapid.SampledFrom(modelTables).Draw(m.T, "table")
	key, prefix := m.key(table)
	row := journal.Row{Slot: near, Table: table, Key: key, Delete: true}
	if row.Beneath = len(prefix) > 0 && rapid.Bool().Draw(m.T, "beneath"); row.Beneath {
		row.Key = slices.Clone(prefix)
		maps.DeleteFunc(m.rows, func(name string, _ owned) bool {
			return len(name) > len(prefix) && name[:1+len(prefix)] == rowName(table, prefix)
		})
	}
	delete(m.rows, rowName(table, key))
	if err := m.w.append(s, uint64(len(have.events)), &journal.Entry{Rows: []journal.Row{row}}); err != nil {
		m.Fatal(err)
	}
}

// want is what a read of a content returns.
func (m *model) want(x owned) string {
	if m.gone(x.owners) {
		return journal.ErrErased.Error()
	}
	return x.text
}

func (m *model) check() {
	v := m.w.layer.View()
	defer v.Close()
	for s, have := range m.streams {
		var events, want []string
		err := v.Events(s, 1, false, func(_ uint64, _ int64, f journal.StoredEvent) bool {
			events = append(events, string(f.Data))
			return true
		})
		if err != nil {
			events = append(events, err.Error())
		}
		for _, x := range have.events {
			if want = append(want, m.want(x)); m.gone(x.owners) {
				break
			}
		}
		expectAll(m, "events", events, want...)
		seq, state, err := v.State(s)
		got, expected := string(state), m.want(have.state)
		if err != nil {
			got = err.Error()
		}
		expect(m, "state", got, expected)
		expect(m, "events in the state", seq, have.seq)
	}
	counts := map[journal.Table]int{}
	for name, x := range m.rows {
		table, key := journal.Table(name[0]), []byte(name[1:])
		expect(m, "row", value(v, near, table, key), m.want(x))
		if !m.gone(x.owners) {
			counts[table]++
		}
	}
	for _, table := range modelTables {
		rows, all := 0, 0
		m.w.must(errors.Join(
			v.Rows(near, table, nil, nil, false, func(_, _ []byte) bool { rows++; return true }),
			v.Table(table, func(_, _ []byte) bool { all++; return true })))
		expect(m, "rows", rows, counts[table])
		expect(m, "rows of the table", all, counts[table])
	}
	for id, x := range m.records {
		text := ""
		_, err := v.Message(near, id, func(b []byte) error { text = string(b); return nil })
		if err != nil && text == "head" {
			text = err.Error()
		}
		expect(m, "record", text, m.want(x))
	}
}

// A layer shows what was appended to it, after random entries, deletions, erasures and
// restarts, and the store below it gets nothing of it.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorldOf(t, rt)
		m := &model{T: rt, w: w, erased: map[parley.OrgID]bool{}, streams: map[journal.Stream]*modelStream{}, rows: map[string]owned{}, records: map[parley.MessageID]owned{}}
		for range 3 {
			m.orgs = append(m.orgs, w.org())
		}
		for _, kind := range []journal.StreamKind{journal.GroupStream, journal.AgentStream, journal.IssuerStream} {
			m.streams[w.stream(kind, near)] = &modelStream{}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"append":  func(rt *rapid.T) { m.T = rt; m.append() },
			"append2": func(rt *rapid.T) { m.T = rt; m.append() },
			"remove":  func(rt *rapid.T) { m.T = rt; m.remove() },
			"erase": func(rt *rapid.T) {
				if len(m.erased) < 2 && rapid.IntRange(0, 5).Draw(rt, "erase") == 0 {
					org := m.orgs[len(m.erased)]
					w.erase(org)
					m.erased[org] = true
				}
			},
			"restart": func(rt *rapid.T) {
				if rapid.IntRange(0, 5).Draw(rt, "restart") == 0 {
					w.restart()
				}
			},
			"": func(rt *rapid.T) {
				m.T = rt
				m.check()
				if w.below.contains(canary) {
					rt.Fatal("the store below got a content")
				}
			},
		})
	})
}

// newWorldOf returns a world that is closed when a check of rapid ends.
func newWorldOf(t *testing.T, rt *rapid.T) *world {
	w := newWorld(t, 1)
	rt.Cleanup(func() { w.must(w.store.Close()) })
	return w
}
