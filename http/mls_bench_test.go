package http

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/http/mls/mlstest"
)

// The sizes of what ts-mls makes in a group of 1,000 whose tree is still blank, in bytes:
// commits then name most members one by one.
const (
	benchMembers   = 1000
	benchTree      = 253_000
	benchUpdate    = 83_000 // 41,000 when half of the tree is filled
	benchAdmission = 357_000
	benchWelcome   = 371_000
)

// mlsBench is an MLS group of many members, with a store on the disk behind a TCP connection.
type mlsBench struct {
	b       *testing.B
	h       *harness
	founder *tenant
	handle  string
	group   string
	// reader is the last member, an agent of the organization reads.
	reads  *tenant
	reader string
	epoch  int
}

// newMLSBench founds a group, whose second commit adds everybody. It returns how long that
// commit took.
func newMLSBench(b *testing.B) (*mlsBench, time.Duration) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	dial := func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
	h := newHarness(b, 1, ln, dial, func(o *harnessOptions) {
		o.Dir, o.Store.FS, o.Store.CacheBytes, o.Store.MemTableBytes = b.TempDir(), vfs.Default, 128<<20, 64<<20
	})
	m := &mlsBench{b: b, h: h, founder: h.tenant("org0")}
	ann := m.founder.agent("ann")
	made := m.founder.ask("POST", "/groups", `{"name":"town","enrollment_policy":"open"}`, as(ann)).want(201)
	m.group, m.handle = made.text("id"), made.text("handle")
	tenants := make([]*tenant, 4)
	for i := range tenants {
		tenants[i] = h.tenant(fmt.Sprint("tenant", i))
	}
	m.reads = tenants[(benchMembers-2)%len(tenants)]
	others := make([]string, benchMembers-1)
	var joining sync.WaitGroup
	for first := range 16 {
		joining.Go(func() {
			for i := first; i < len(others); i += 16 {
				p := tenants[i%len(tenants)]
				others[i] = p.agent(fmt.Sprint("m", i))
				p.ask("POST", "/groups/"+m.group+"/join", "{}", as(others[i])).want(200)
			}
		})
	}
	joining.Wait()
	m.reader = others[len(others)-1]
	m.commit(m.body(0, nil))
	return m, m.commit(m.body(benchAdmission, others))
}

// body returns the body of a commit in the present epoch.
func (m *mlsBench) body(size int, added []string) string {
	text := base64.RawURLEncoding.EncodeToString
	body := map[string]any{
		"epoch":      m.epoch,
		"commit":     text(mlstest.Commit{Group: m.group, Epoch: uint64(m.epoch), Padding: size}.Message()),
		"group_info": text(mlstest.GroupInfo{Group: m.group, Epoch: uint64(m.epoch) + 1, Padding: benchTree}.Message()),
	}
	if added != nil {
		body["added"], body["welcome"] = added, text(mlstest.Welcome(1, benchWelcome))
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		m.b.Fatal(err)
	}
	return string(encoded)
}

// commit begins the next epoch and returns the time to the answer.
func (m *mlsBench) commit(body string) time.Duration {
	began := time.Now()
	m.founder.ask("POST", "/groups/"+m.group+"/mls/commits", body).want(201)
	m.epoch++
	return time.Since(began)
}

// send broadcasts in the present epoch.
func (m *mlsBench) send() {
	payload := base64.RawURLEncoding.EncodeToString(mlstest.Application(m.group, uint64(m.epoch)))
	m.founder.ask("POST", "/messages", `{"to_handle":"`+m.handle+`","type":"svc.v1.dm","encryption_version":"sender-key-v1","encrypted_payload":"`+payload+`"}`).want(201)
}

// catchUp asks as examples/mls-ts does: a page of commits, what came into the inbox, and
// again while there are more commits. It returns the number of commits and of requests.
func (m *mlsBench) catchUp(since, messages int) (commits, requests int) {
	pages := []string{"?limit=20", "?limit=100"} // until the last message that was read
	for more := true; more; {
		page := m.reads.ask("GET", fmt.Sprint("/groups/", m.group, "/mls/commits?limit=100&since_epoch=", since+commits), "", as(m.reader)).want(200)
		commits += len(page.at("items").([]any))
		more = page.at("has_more") == true
		requests += 1 + len(pages)
		cursor := ""
		for _, query := range pages {
			inbox := m.reads.ask("GET", "/agents/"+m.reader+"/messages"+query+cursor, "").want(200)
			messages -= len(inbox.at("items").([]any))
			if next, ok := inbox.at("next_cursor").(string); ok {
				cursor = "&cursor=" + next
			}
		}
		if len(pages) == 2 && messages > 0 {
			m.b.Fatalf("%d messages are missing", messages)
		}
		pages = pages[:1]
	}
	return commits, requests
}

// reportTimes reports percentiles in milliseconds.
func reportTimes(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	for _, p := range []struct {
		name string
		at   int
	}{{"ms-median", len(took) / 2}, {"ms-p99", len(took) * 99 / 100}, {"ms-max", len(took) - 1}} {
		b.ReportMetric(float64(took[p.at].Microseconds())/1000, p.name)
	}
}

// BenchmarkMLSCommit commits in a group of 1,000, one commit after the other. Goal: at most
// 20 ms to the 201. ms-admission is the commit that added 999.
func BenchmarkMLSCommit(b *testing.B) {
	m, admission := newMLSBench(b)
	defer m.h.close()
	var took []time.Duration
	for b.Loop() {
		took = append(took, m.commit(m.body(benchUpdate, nil)))
	}
	reportTimes(b, took)
	b.ReportMetric(float64(admission.Microseconds())/1000, "ms-admission")
}

// BenchmarkMLSCatchUp reads the commits of 100 epochs and the message that was sent in each.
// Goal: at most 200 ms.
func BenchmarkMLSCatchUp(b *testing.B) {
	const epochs = 100
	m, _ := newMLSBench(b)
	defer m.h.close()
	for _, size := range []int{4_700, 41_000, benchUpdate} {
		b.Run(fmt.Sprint("commit=", size), func(b *testing.B) {
			m.b = b
			since := m.epoch
			for range epochs {
				m.send()
				m.commit(m.body(size, nil))
			}
			var took []time.Duration
			requests := 0
			for b.Loop() {
				began := time.Now()
				commits := 0
				if commits, requests = m.catchUp(since, epochs); commits != epochs {
					b.Fatalf("%d commits, want %d", commits, epochs)
				}
				took = append(took, time.Since(began))
			}
			reportTimes(b, took)
			b.ReportMetric(float64(requests), "requests")
		})
	}
}
