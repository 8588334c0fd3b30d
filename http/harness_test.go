package http

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	stdhttp "net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/projection"
	"parley/actors/record"
	"parley/actors/registration"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/auth"
	"parley/http/content"
	"parley/http/egress"
	"parley/http/httpserver"
	"parley/http/limit"
	"parley/http/rest"
	"parley/http/webhooks"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/seal/sealtest"
	"parley/persistence/sealed"
)

// harness is the whole service over a journal in memory, behind a listener in memory.
// All of it can run in a synctest bubble.
type harness struct {
	t       testing.TB
	store   *persistence.Store
	journal *harnessJournal
	node    *actors.Node
	service *Service
	server  *httpserver.Server
	guard   *egress.Guard
	vault   *auth.MasterKey
	sender  *egress.Sender
	courier *webhooks.Courier
	// directory follows the journal; embedder makes its vectors.
	directory *projection.Directory
	embedder  *harnessEmbedder
	dial      func() (net.Conn, error)
	shut      func()

	owner  parley.OrgID
	client parley.ClientID
}

// harnessJournal is a Store as the actors use it.
type harnessJournal struct {
	journal.Journal
	views atomic.Int64 // how many were opened
	// full: the disk has no room.
	full atomic.Bool
	// wrapView, if set, replaces views. The key log opens some at any time.
	wrapView atomic.Pointer[func(journal.View) journal.View]
	// wrapSubscription, if set, replaces subscriptions.
	wrapSubscription func(journal.Subscription) journal.Subscription
}

func (j *harnessJournal) View() journal.View {
	j.views.Add(1)
	if wrap := j.wrapView.Load(); wrap != nil {
		return (*wrap)(j.Journal.View())
	}
	return j.Journal.View()
}

func (j *harnessJournal) Latest() journal.View {
	j.views.Add(1)
	return j.Journal.Latest()
}

func (j *harnessJournal) Admit(slot parley.Slot, size int) (func(), error) {
	if j.full.Load() {
		return nil, parley.ErrOverloaded
	}
	return j.Journal.Admit(slot, size)
}

func (j *harnessJournal) Follow(agent parley.AgentID, after uint64, notify func()) journal.Subscription {
	if sub := j.Journal.Follow(agent, after, notify); j.wrapSubscription == nil {
		return sub
	} else {
		return j.wrapSubscription(sub)
	}
}

// theEngineClock is started outside of every bubble, because the engine's goroutine
// that keeps the time for headers never ends.
var theEngineClock = sync.OnceFunc(func() { _ = new(fasthttp.ResponseHeader).Header() })

// harnessOptions are what a test changes of a harness.
type harnessOptions struct {
	// Dir is the directory of the store, on Store.FS.
	Dir    string
	Store  persistence.Options
	Server httpserver.Options
	// Clock is the actors' clock.
	Clock parley.Clock
}

func newHarness(t testing.TB, journals int, ln net.Listener, dial func() (net.Conn, error), change ...func(*harnessOptions)) *harness {
	t.Helper()
	entropy, logger := parley.CountingEntropy(), slog.New(slog.DiscardHandler)
	options := persistence.Options{
		FS: vfs.NewMem(), Journals: journals, Clock: time.Now, Logger: logger, CacheBytes: 8 << 20, MemTableBytes: 8 << 20, StallPatience: time.Minute,
	}
	var ids atomic.Int64
	o := &harnessOptions{Dir: "data", Store: options, Clock: time.Now, Server: httpserver.Options{Clock: time.Now, NewRequestID: func() string { return fmt.Sprint("r", ids.Add(1)) }}}
	for _, c := range change {
		c(o)
	}
	store, err := persistence.Open(o.Dir, o.Store)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, store: store, journal: &harnessJournal{Journal: sealed.New(store.Journal, sealtest.Sealer())}, dial: dial}
	h.openWayOut(entropy, logger)
	h.node = actors.New(actors.Options{Journal: journal.Of(h.journal), Clock: o.Clock, Entropy: entropy, Logger: logger, Courier: h.courier})
	if err := h.node.Start(); err != nil {
		t.Fatal(err)
	}
	cursors, err := rest.NewCursors(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	const base = "https://home.example"
	keys := auth.KeySet{Current: auth.NewSigningKey(make([]byte, 32), time.Now())}
	h.openDirectory(entropy, logger)
	h.service = NewService(ServiceOptions{
		Node: h.node, Issuer: auth.NewIssuer(base, base, keys, time.Now, entropy), Cursors: cursors,
		Clock: time.Now, Entropy: entropy, BaseURL: base, Domain: "home.example", Brand: "svc",
		Difficulty: auth.NewDifficulty(0, false, time.Now), TierAtSolve: 1, Poll: limit.PollDefault, Quotas: access.Quotas("open"),
		Courier: h.courier, Guard: h.guard, Vault: h.vault, Directory: h.directory, Logger: logger, CardKeys: auth.KeySet{Current: cardKeyOf('c')}, ReceiptKeys: auth.KeySet{Current: cardKeyOf('r')},
	})
	o.Server.Routes, o.Server.Authenticator, o.Server.ErrorPage, o.Server.Resolve = h.service.Routes(), h.service, h.service.ErrorPage, h.service.Resolve
	h.server, err = httpserver.New(o.Server)
	if err != nil {
		t.Fatal(err)
	}
	h.server.OnDrain(h.service.Close)
	served := make(chan error, 1)
	go func() { served <- h.server.Serve(ln) }()
	h.shut = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := h.server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	h.register()
	return h
}

// harnessInMemory returns a harness without sockets.
func harnessInMemory(t testing.TB, journals int, change ...func(*harnessOptions)) *harness {
	ln := fasthttputil.NewInmemoryListener()
	return newHarness(t, journals, ln, ln.Dial, change...)
}

// openWayOut allows webhooks to this machine, also without TLS.
func (h *harness) openWayOut(entropy parley.Entropy, logger *slog.Logger) {
	h.t.Helper()
	h.guard = egress.NewGuard(egress.Allow{PlainHTTP: true, Loopback: true}, nil)
	var err error
	if h.vault, err = auth.NewMasterKey(make([]byte, 32)); err != nil {
		h.t.Fatal(err)
	}
	if h.sender, err = egress.NewSender(egress.Options{Clock: time.Now, Guard: h.guard}); err != nil {
		h.t.Fatal(err)
	}
	h.courier = webhooks.NewCourier(webhooks.CourierOptions{Guard: h.guard, Sender: h.sender, Vault: h.vault, Entropy: entropy, Logger: logger})
}

// close stops everything that runs.
func (h *harness) close() {
	h.shut()
	h.sender.Shutdown(context.Background())
	h.directory.Close()
	h.node.Close()
	if err := h.store.Close(); err != nil {
		h.t.Error(err)
	}
}

func (h *harness) register() {
	h.t.Helper()
	ctx := context.Background()
	challenge := &registration.Challenge{
		Text: "home", Email: "home@example.org", Slug: "home", OrgName: "home", ExpiresMs: time.Now().Add(time.Hour).UnixMilli(),
	}
	made, err := h.node.Orgs.Register(ctx, actors.Solution{Challenge: challenge, Nonce: "n", Tier: 1, SecretHash: make([]byte, 32)})
	if err != nil {
		h.t.Fatal(err)
	}
	h.owner, h.client = made.Org.OrgID(), made.ClientID
}

func (h *harness) agent(name string) parley.AgentID {
	h.t.Helper()
	raw := append([]byte(name), make([]byte, 32)...)[:32]
	a, err := h.node.Agents.Create(context.Background(), actors.NewAgent{Create: agent.Create{
		OrgID: h.owner, Name: name, SigningKey: raw, EncryptionKey: raw, PollTokenHash: raw,
	}})
	if err != nil {
		h.t.Fatal(err)
	}
	return a.AgentID()
}

// token returns a token for one of the organization's credentials.
func (h *harness) token(client parley.ClientID) string {
	h.t.Helper()
	token, _, err := h.service.Issuer.Mint(auth.Grant{Org: h.owner, Slug: "home", Client: client})
	if err != nil {
		h.t.Fatal(err)
	}
	return token
}

// send sends a message with a number.
func (h *harness) send(from, to parley.AgentID, n int) *record.Message {
	h.t.Helper()
	p, err := h.node.Messages.Send(context.Background(), actors.DirectSend{
		Content: actors.Content{Type: "svc.v1.dm", Body: storedWith(fmt.Appendf(nil, `{"n":%d}`, n)), FromOrg: h.owner, ToOrg: h.owner},
		From:    from, To: to, ToKnown: true,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return p.Message
}

// streamReader is the client's side of a stream.
type streamReader struct {
	t      testing.TB
	conn   net.Conn
	lines  *bufio.Reader
	status int
	// start is the id at the beginning of the stream, last the newest one.
	start, last string
	gap         bool
	ahead       chan event
}

// listen opens a stream. With lastEventID "" the header is omitted.
func (h *harness) listen(id parley.AgentID, token, lastEventID string) *streamReader {
	h.t.Helper()
	return h.listenAt("/agents/"+id.String()+"/stream", token, lastEventID)
}

// listenAt is listen with a path and a query.
func (h *harness) listenAt(target, token, lastEventID string) *streamReader {
	h.t.Helper()
	conn, err := h.dial()
	if err != nil {
		h.t.Fatal(err)
	}
	request := "GET " + target + " HTTP/1.1\r\nHost: home\r\nAuthorization: Bearer " + token + "\r\n"
	if lastEventID != "" {
		request += "Last-Event-ID: " + lastEventID + "\r\n"
	}
	if _, err := conn.Write([]byte(request + "\r\n")); err != nil {
		h.t.Fatal(err)
	}
	l := &streamReader{t: h.t, conn: conn, lines: bufio.NewReader(conn)}
	answer, err := stdhttp.ReadResponse(l.lines, &stdhttp.Request{Method: "GET"})
	if err != nil {
		h.t.Fatal(err)
	}
	if l.status = answer.StatusCode; l.status == 200 {
		opening, ok := l.next()
		if !ok || opening.name != "" || opening.id == "" {
			h.t.Fatalf("the stream begins with %+v", opening)
		}
		l.start = opening.id
	}
	return l
}

// eager makes the client read everything at once.
func (l *streamReader) eager() *streamReader {
	ahead := make(chan event, 1<<10)
	go func() {
		defer close(ahead)
		for {
			e, ok := l.read()
			if !ok {
				return
			}
			ahead <- e
		}
	}()
	l.ahead = ahead
	return l
}

// event is one event of a stream.
type event struct {
	name, id, data string
	at             time.Time
}

// number returns the number in a message.
func (e event) number(t testing.TB) int {
	t.Helper()
	var m struct{ Metadata struct{ N *int } }
	if err := json.Unmarshal([]byte(e.data), &m); err != nil || m.Metadata.N == nil {
		t.Fatalf("%.500s: %v", e.data, err)
	}
	return *m.Metadata.N
}

// next returns the next event, or false when the stream has ended.
func (l *streamReader) next() (e event, ok bool) {
	if l.ahead != nil {
		e, ok = <-l.ahead
		return e, ok
	}
	return l.read()
}

func (l *streamReader) read() (e event, ok bool) {
	for {
		line, err := l.lines.ReadString('\n')
		if err != nil {
			return e, false
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" && e.name == "gap":
			l.gap, e = true, event{}
		case line == "":
			if e.at = time.Now(); e.id != "" {
				l.last = e.id
			}
			return e, true
		case name == "id":
			e.id = value
		case name == "event":
			e.name = value
		case name == "data":
			e.data = value
		}
	}
}

// conversationOfEvent returns the conversation of a message or a status.
func conversationOfEvent(t testing.TB, e event) string {
	t.Helper()
	var m struct {
		ConversationID string `json:"conversation_id"`
	}
	if err := json.Unmarshal([]byte(e.data), &m); err != nil {
		t.Fatalf("%s: %v", e.data, err)
	}
	return m.ConversationID
}

// inside returns a field of a value, found through its fields and their pointers.
// Controls use it to change what other packages do not export.
func inside[T any](of any, path ...string) *T {
	v := reflect.ValueOf(of).Elem()
	for _, name := range path {
		if v = v.FieldByName(name); v.Kind() == reflect.Pointer && v.Type() != reflect.TypeFor[T]() {
			v = v.Elem()
		}
	}
	return (*T)(unsafe.Pointer(v.UnsafeAddr()))
}

func (h *harness) budget() *limit.Budget { return *inside[*limit.Budget](h.server, "host", "Budget") }

func (h *harness) setBudget(b *limit.Budget) { *inside[*limit.Budget](h.server, "host", "Budget") = b }

// observe sets a function that is called with each answer.
func (h *harness) observe(f func(httpserver.Answer)) {
	*inside[func(httpserver.Answer)](h.server, "observe") = f
	*inside[bool](h.server, "host", "Observed") = true
}

// storedWith returns the stored form of a content with some metadata.
func storedWith(metadata []byte) []byte {
	return content.Encode(nil, &content.Envelope{Metadata: metadata})
}
