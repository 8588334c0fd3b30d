package limits

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

var (
	attackFor   = flag.Duration("attack", 8*time.Second, "how long TestHonestClientsDuringAttack goes on")
	attackTimes = flag.Int("attack.times", 1, "how many times as many pages and bodies nobody reads or ends")
)

// attackSize is the number of connections of each kind in an attack. Each kind uses
// addresses of its own.
type attackSize struct {
	pages  int // S1: answers of 1 MiB that the client never reads
	bodies int // S8: bodies of 1 MiB, sent but for the last byte
	files  int // S5a: files of /docs that the client never reads
	silent int // S6: connections that send nothing
}

var (
	// asFound is about what once exhausted a server, with more silent connections than
	// the server accepts.
	asFound = attackSize{pages: 300, bodies: 300, files: 400, silent: 4100}
	// unbounded needs more memory than exists, unless the server bounds it.
	unbounded = attackSize{pages: 1200, bodies: 1200}
)

// underLimits starts a server with 3 GB of address space and 4,000 connections.
var underLimits = []string{"sh", "-c", `ulimit -n 6000 && ulimit -v 3145728 && exec "$0" "$@"`}

// attackFlags lift the rate limits, which would stop the attack before it reaches the
// memory limits.
func attackFlags(memory string) []string {
	flags := []string{"--quota-profile", "public", "--memory-limit", memory}
	for _, quota := range []string{"messages_per_day", "stored_bytes", "changes_per_day"} {
		flags = append(flags, "--quota", "tier1."+quota+"=none")
	}
	for _, rate := range []string{"register", "token", "writes", "reads", "public", "pair"} {
		flags = append(flags, "--rate", rate+"=none")
	}
	return flags
}

// attack opens many connections from several loopback addresses.
type attack struct {
	t       testing.TB
	s       *kit.Server
	stop    chan struct{}
	running sync.WaitGroup
	answers [600]atomic.Int64 // by status

	mu    sync.Mutex
	conns []net.Conn
}

// dial connects from 127.0.0.n with a small receive buffer.
func (a *attack) dial(n int) (net.Conn, error) {
	d := net.Dialer{
		Timeout: 2 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(n))},
		Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		},
	}
	conn, err := d.DialContext(context.Background(), "tcp", a.s.Addr)
	if err == nil {
		a.mu.Lock()
		a.conns = append(a.conns, conn)
		a.mu.Unlock()
	}
	return conn, err
}

// openMany opens count connections, a few at a time, and sends say on each unless it is
// empty. It reads none of them.
func (a *attack) openMany(from, count int, say string) {
	var next atomic.Int64
	for range 4 {
		a.running.Go(func() {
			for next.Add(1) <= int64(count) && a.isRunning() {
				conn, err := a.dial(from)
				if err == nil && say != "" {
					_ = conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
					_, _ = io.WriteString(conn, say)
				}
			}
		})
	}
}

// repeat sends a request over and over, each time on a new connection.
func (a *attack) repeat(from int, request func(i int) string) {
	for range 2 {
		a.running.Go(func() {
			for i := 0; a.isRunning(); i++ {
				conn, err := a.dial(from)
				if err != nil {
					continue
				}
				_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
				_, _ = io.WriteString(conn, request(i))
				if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
					a.answers[answer.StatusCode].Add(1)
				}
				_ = conn.Close()
			}
		})
	}
}

func (a *attack) isRunning() bool {
	select {
	case <-a.stop:
		return false
	case <-a.s.Exited:
		return false
	default:
		return true
	}
}

func (a *attack) end() {
	close(a.stop)
	a.running.Wait()
	for _, conn := range a.conns {
		_ = conn.Close()
	}
}

// attackRequests are the organizations and messages that an attack needs on the server.
type attackRequests struct {
	victim        *kit.Agent
	pages, bodies []string // requests, each of one organization
}

func newAttackRequests(t testing.TB, s *kit.Server) *attackRequests {
	w := &attackRequests{}
	w.victim, _ = kit.Pair(t, s)
	head := func(g *kit.Agent, request, more string) string {
		return request + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + g.Token + "\r\n" + more + "\r\n"
	}
	for range 8 { // organizations
		g, other := kit.Pair(t, s)
		first := g.Send(other, kit.Largest())
		for range 3 {
			g.Reply(first, kit.Largest())
		}
		w.pages = append(w.pages, head(g, "GET /conversations/"+kit.Text(first, "conversation_id")+"/messages?limit=200", ""))
		w.bodies = append(w.bodies, head(g, "POST /messages", "Content-Length: 1048576\r\n")+strings.Repeat("x", 1<<20-1))
	}
	return w
}

// launch starts all parts of the attack at once.
func (w *attackRequests) launch(t testing.TB, s *kit.Server, of attackSize) *attack {
	a := &attack{t: t, s: s, stop: make(chan struct{})}
	for i := range w.pages {
		a.openMany(2, of.pages/len(w.pages), w.pages[i])
		a.openMany(3, of.bodies/len(w.bodies), w.bodies[i])
	}
	a.openMany(4, of.files, "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: h\r\n\r\n")
	for n := range 3 {
		a.openMany(5+n, of.silent/3, "")
	}
	a.repeat(8, func(i int) string {
		body := fmt.Sprintf(`{"email":"a@b.c","org_slug":"flood-%d-%s"}`, i, kit.RandomHex(4))
		return "POST /auth/register HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	})
	a.repeat(9, func(i int) string {
		id := "none-" + strconv.Itoa(i)
		if i%2 == 0 {
			id = w.victim.Client
		}
		return "POST /oauth/token HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: " + kit.Basic(id, "wrong") + "\r\nContent-Length: 0\r\n\r\n"
	})
	a.repeat(10, func(int) string {
		return "GET /directory/groups?q=" + strings.Repeat("word+", 16) + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
	})
	return a
}

// honestClients runs well-behaved clients and records how long each call took.
type honestClients struct {
	mu      sync.Mutex
	took    []time.Duration
	refused []string
	// reference is the same workload on a server that is not attacked; the two take turns.
	reference *honestClients
	// pace is the pause between calls.
	pace time.Duration
}

// referenceServer is a server that is not attacked, and its clients.
type referenceServer struct {
	*kit.Server
	pair [2]*kit.Agent
}

func newReferenceServer(t testing.TB) referenceServer {
	s := kit.Start(t)
	one, other := kit.Pair(t, s)
	return referenceServer{s, [2]*kit.Agent{one, other}}
}

func (h *honestClients) note(a *kit.Answer, status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.took = append(h.took, a.Took)
	if a.Err != nil || a.Status != status {
		h.refused = append(h.refused, a.Dump("refused"))
	}
}

// round runs one round of calls of a pair of agents.
func (h *honestClients) round(t testing.TB, s *kit.Server, p [2]*kit.Agent) {
	h.note(p[0].TrySend(p[1], nil), 201)
	h.note(p[1].Get(p[1].Path("/messages?limit=10")), 200)
	h.note(s.Call(t, "", "GET", "/health", nil), 200)
}

// work runs the workload with some pairs of agents for the given time.
func (h *honestClients) work(t testing.TB, s *kit.Server, pairs [][2]*kit.Agent, other referenceServer, lasts time.Duration) {
	var working sync.WaitGroup
	until := time.Now().Add(lasts)
	for _, p := range pairs {
		working.Go(func() {
			for i := 0; time.Now().Before(until); i++ {
				h.round(t, s, p)
				h.reference.round(t, other.Server, other.pair)
				if i%5 == 0 { // a new organization
					kit.Client.CloseIdleConnections()
				}
				time.Sleep(h.pace)
			}
		})
	}
	working.Wait()
}

func (h *honestClients) p99() time.Duration {
	slices.Sort(h.took)
	return h.took[len(h.took)*99/100]
}

// resident returns the peak memory of the server in MiB.
func resident(s *kit.Server) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	if err != nil {
		return -1
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	n, _ := strconv.Atoi(strings.Fields(peak + " 0")[0])
	return n >> 10
}

func requireOpenFiles(t *testing.T) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur < 12_000 {
		t.Skipf("the test needs 12,000 open files; the limit is %d", files.Cur)
	}
}

// TestHonestClientsDuringAttack runs all known exhaustion attacks at once. The server
// stays up within its memory limit and answers honest clients in time, both with the rate
// limits of the public profile and without them; those limits would stop much of the
// attack.
func TestHonestClientsDuringAttack(t *testing.T) {
	requireOpenFiles(t)
	of := asFound
	of.pages, of.bodies = of.pages*(*attackTimes), of.bodies*(*attackTimes)
	t.Run("without rates", func(t *testing.T) {
		runAttack(t, of, *attackFor, 20*time.Millisecond, nil)
	})
	t.Run("profile public", func(t *testing.T) {
		lasts := *attackFor / 2
		pace := max(100*time.Millisecond, lasts/80) // 100 messages a day
		runAttack(t, of, lasts, pace, []string{"--quota-profile", "public", "--memory-limit", "1500MiB"})
	})
}

// runAttack runs honest clients before and during an attack. If flags are given, it
// restarts the server with them for the attack.
func runAttack(t *testing.T, of attackSize, lasts, pace time.Duration, flags []string) {
	s, other := kit.StartThrough(t, underLimits, attackFlags("1500MiB")...), newReferenceServer(t)
	var pairs [][2]*kit.Agent
	for range 4 {
		one, other := kit.Pair(t, s)
		pairs = append(pairs, [2]*kit.Agent{one, other})
	}
	w := newAttackRequests(t, s)
	if flags != nil {
		if err := s.Drain(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		s.Flags = flags
		s.Restart(t)
	}
	before, during := honestClients{pace: pace, reference: &honestClients{}}, honestClients{pace: pace, reference: &honestClients{}}
	before.work(t, s, pairs, other, time.Second)
	a := w.launch(t, s, of)
	during.work(t, s, pairs, other, lasts)
	peak := resident(s)
	a.end()
	t.Logf("p99 %v before, %v during the attack, %v on a server that is not attacked, of %d calls; %d rejected; peak of %d MiB",
		before.p99(), during.p99(), during.reference.p99(), len(during.took), len(during.refused), peak)
	for status := range a.answers {
		if n := a.answers[status].Load(); n > 0 {
			t.Logf("%d answers of status %d to the attackers", n, status)
		}
	}
	if hasExited(s) {
		t.Fatal("the server has exited")
	}
	if len(during.refused)*100 > len(during.took) { // a shed call returns an overload error and is repeated
		t.Errorf("%d of %d honest calls failed, the first: %s", len(during.refused), len(during.took), during.refused[0])
	}
	if p99 := during.p99(); p99 > max(time.Second, 4*before.p99(), 4*during.reference.p99()) {
		t.Errorf("p99 of honest calls is %v", p99)
	}
	if peak > 2048 {
		t.Errorf("%d MiB were resident", peak)
	}
}

func hasExited(s *kit.Server) bool {
	select {
	case <-s.Exited:
		return true
	default:
		return false
	}
}

// TestHonestClientsDuringAttackControl sets budgets too large to bound anything: the
// same attack needs more memory than there is.
func TestHonestClientsDuringAttackControl(t *testing.T) {
	requireOpenFiles(t)
	s, err := (&kit.Server{Dir: t.TempDir(), Flags: attackFlags("100GiB"), Through: underLimits}).Launched("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Kill()
	a := newAttackRequests(t, s).launch(t, s, unbounded)
	defer a.end()
	for until := time.Now().Add(2 * time.Minute); !hasExited(s) && resident(s) <= 2048; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("without budgets the attack uses only %d MiB", resident(s))
		}
	}
}

// TestSilentConnectionsDoNotBlockClients opens more silent connections than the server
// accepts, from the address of the honest client.
func TestSilentConnectionsDoNotBlockClients(t *testing.T) {
	s := kit.StartThrough(t, []string{"sh", "-c", `ulimit -n 1408 && exec "$0" "$@"`}) // room for 512 connections
	for range 520 {
		conn, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	for range 20 {
		kit.Client.CloseIdleConnections()
		s.Call(t, "", "GET", "/health", nil).Want(200)
	}
	alice, bob := kit.Pair(t, s)
	alice.Send(bob)
}
