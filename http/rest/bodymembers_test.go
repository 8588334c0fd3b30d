package rest

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"parley/client/api"
)

// manyMembers returns that many members with different names, numbered from a start.
func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%x":1`, i)
	}
	return b.String()[1:]
}

// sendBody returns the body of a send of at least that many bytes, with more members.
func sendBody(more string, bytes int) []byte {
	b := `{"type":"a.b.c","encrypted_payload":"AA","to_handle":"a@b.c",` + more
	return []byte(b + strings.Repeat(" ", max(0, bytes-len(b)-1)) + "}")
}

func planOfSend(t testing.TB) *plan {
	p, err := newPlan(reflect.TypeFor[api.Send](), "Svc")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// faultsIn reads a body and returns its faults.
func faultsIn(p *plan, body []byte) (all []string) {
	faults := &SchemaError{}
	decodeBody(body, p.body, reflect.New(p.in).Elem(), faults)
	for _, f := range faults.Faults {
		all = append(all, fmt.Sprint(f.Loc, " ", f.Type, ": ", f.Msg))
	}
	return all
}

// floods are bodies of a send with 80,000 members each.
func floods() map[string][]byte {
	const n = 80_000
	return map[string][]byte{
		"beside":          sendBody(manyMembers(n), 0),
		"in metadata":     sendBody(`"metadata":{`+manyMembers(n)+`}`, 0),
		"in attestations": sendBody(`"sender_attestations":[{`+manyMembers(n)+`}]`, 0),
		"in unknown ones": sendBody(`"unknown":[{"deep":{`+manyMembers(n)+`}}]`, 0),
		"of one each":     sendBody(`"unknown":[`+strings.Repeat(`{"":1},`, n)+`1]`, 0),
		"after texts":     sendBody(`"x\\":"\"\\\":","y":"`+strings.Repeat(`\"`, 1000)+`",`+manyMembers(n), 0),
	}
}

// bodyAllocs bounds the allocations for reading a refused body.
const bodyAllocs = 100

func TestMembersAreBounded(t *testing.T) {
	p := planOfSend(t)
	want := fmt.Sprintf("[[body] value_error: Value error, the body has more than %d members]", p.body.most)
	for what, body := range floods() {
		if got := fmt.Sprint(faultsIn(p, body)); got != want {
			t.Errorf("80,000 members %s: %s", what, got)
		}
		if n := testing.AllocsPerRun(1, func() { faultsIn(p, body) }); n > bodyAllocs {
			t.Errorf("80,000 members %s: %v allocations", what, n)
		}
	}
	deep := sendBody(`"metadata":{"deep":`+strings.Repeat("[", 40)+strings.Repeat("]", 40)+`,`+manyMembers(80_000)+`}`, 1<<20)
	if got := fmt.Sprint(faultsIn(p, deep)); !strings.Contains(got, msgTooDeep) {
		t.Errorf("80,000 members after a value that is nested too deep: %s", got)
	}
	if n := testing.AllocsPerRun(1, func() { faultsIn(p, deep) }); n > bodyAllocs {
		t.Errorf("80,000 members after a value that is nested too deep: %v allocations", n)
	}
}

// TestMembersAreBoundedControl: without the bound each name is kept.
func TestMembersAreBoundedControl(t *testing.T) {
	p := planOfSend(t)
	p.body.most = 1 << 30
	for _, what := range []string{"beside", "in metadata", "in unknown ones"} {
		body := floods()[what]
		if n := testing.AllocsPerRun(1, func() { faultsIn(p, body) }); n < 80_000 {
			t.Errorf("80,000 members %s: without the bound %v allocations", what, n)
		}
	}
}

// TestLargestAllowedBodyIsRead: a body of 1 MiB with the largest values that the schema
// allows, made of as many members as possible, and some unknown members.
func TestLargestAllowedBodyIsRead(t *testing.T) {
	const each = len(`{"":{"":{"":{"":{"":0}}}}},`) // the smallest possible members
	nested := func(n int) string {
		return strings.TrimSuffix(strings.Repeat(`{"":{"":{"":{"":{"":0}}}}},`, n/each), ",")
	}
	payload := strings.Repeat("A", 131_072)
	body := sendBody(`"metadata":{"":[`+nested(4080)+`]},"conversation_metadata":{"":[`+nested(4080)+`]},"sender_attestations":[`+nested(8180)+
		`],"self_encrypted_payload":"`+payload+`",`+manyMembers(1000), 1<<20)
	if !bytes.Contains(body, []byte(`[{"":{`)) || len(body) != 1<<20 {
		t.Fatalf("the body has %d bytes", len(body))
	}
	p := planOfSend(t)
	if got := faultsIn(p, body); got != nil {
		t.Errorf("refused: %v", got)
	}
}

// BenchmarkMembers reads 80,000 members, with and without the bound. The results are in
// docs/measurements/faults.md.
func BenchmarkMembers(b *testing.B) {
	for _, bounded := range []bool{true, false} {
		for _, what := range []string{"beside", "in metadata"} {
			b.Run(fmt.Sprintf("%s, bounded %v", what, bounded), func(b *testing.B) {
				p, body := planOfSend(b), floods()[what]
				if !bounded {
					p.body.most = 1 << 30
				}
				b.ReportAllocs()
				for b.Loop() {
					faultsIn(p, body)
				}
			})
		}
	}
}
