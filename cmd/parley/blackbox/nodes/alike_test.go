package nodes

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"encoding/base64"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

var nodesScripts = flag.Int("nodes.scripts", 1, "how many scripts TestNodesAnswerAlike runs")

// TestNodesAnswerAlike makes the same requests of a server, of one with four journals, and of
// three nodes, each request of the next one: status, headers and body of all answers are the
// same, byte by byte, but for what the server draws by lot and what time it is. What nodes send
// each other is late, so that one which answers without asking the leader is behind.
func TestNodesAnswerAlike(t *testing.T) {
	kit.OneServerOnly(t, "it starts nodes itself")
	t.Parallel()
	const requests, first = 400, 9 // a script in which all of wordsOfAnswers occur
	all := strings.Builder{}
	for seed := uint64(first); seed < first+uint64(*nodesScripts); seed++ {
		want := runAlike(t, kit.Start(t), seed, requests)
		all.WriteString(want)
		n, links := startOnSlowLinks(t)
		for _, l := range links {
			l.delay.Store(int64(3 * time.Millisecond))
		}
		compareAnswers(t, fmt.Sprintf("seed %d, 4 journals", seed), want, runAlike(t, kit.Start(t, "--journals", "4"), seed, requests))
		term := clusterStatusOf(t, n.Node(0)).Groups[0].Term
		got := runAlike(t, n.Server(), seed, requests)
		if now := clusterStatusOf(t, n.Node(0)).Groups[0].Term; now != term {
			t.Skipf("NOT CHECKED: the machine is so busy that term %d ended, and some answers may be 503", term)
		}
		compareAnswers(t, fmt.Sprintf("seed %d, 3 nodes", seed), want, got)
		t.Logf("seed %d: %d bytes", seed, len(want))
	}
	for _, word := range wordsOfAnswers {
		if !strings.Contains(all.String(), word) {
			t.Errorf("no answer has %q", word)
		}
	}
}

// wordsOfAnswers must occur, so that each outcome is compared.
var wordsOfAnswers = []string{
	"Idempotency-Replayed: true", "idempotency_mismatch", "self_message", "invalid_transition", "role_not_allowed", "conversation_closed",
	"name_taken", "not_found", "not_owner", "incoming_policy", `"gone"`, `"status":"joined"`, "already_member",
	"not_admin", `"status":"pending"`, `"broadcast_id"`, "group_handle", `"has_more":true`, `"unlisted":true`, "event message", "event status", "event group", `"status":"read"`,
}

// compareAnswers reports the first line that differs, from the request on and around the place.
func compareAnswers(t *testing.T, what, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	line := strings.LastIndex(want[:at], "\n") + 1
	around := func(text string) string { return text[max(line, at-200):min(len(text), at+200)] }
	t.Errorf("%s: %.60s… differs:\n…%s…\n…%s…", what, want[line:], around(want), around(got))
}

// alike makes requests that depend on a seed and on the order of former answers only, and writes
// down the answers.
type alike struct {
	t      *testing.T
	s      *kit.Server
	random *rand.Rand
	lots   *rand.ChaCha8 // of keys
	out    strings.Builder
	// names are what the server drew, in the order in which it showed it.
	names map[string]string

	orgs     []*kit.Org
	agents   []*kit.Agent
	messages []obj
	keyed    []func() *kit.Answer
	groups   []*grouptest.Group
	asked    []string // join requests
	streams  map[*kit.Agent]*kit.Stream
}

func runAlike(t *testing.T, s *kit.Server, seed uint64, requests int) string {
	t.Helper()
	p := &alike{t: t, s: s, random: rand.New(rand.NewPCG(seed, 1)), lots: rand.NewChaCha8([32]byte{byte(seed)}), names: map[string]string{}, streams: map[*kit.Agent]*kit.Stream{}}
	for _, slug := range []string{"acme", "globex", "initech"} {
		p.register(slug)
	}
	for i := range 6 {
		p.newAgent(p.orgs[i%3], fmt.Sprintf("first%d", i))
	}
	for _, g := range p.agents[:3] {
		p.streams[g] = g.Stream("")
	}
	for n := range requests {
		fmt.Fprintf(&p.out, "%d: ", n)
		p.request(n)
	}
	p.readStreams()
	p.readWhole()
	return p.out.String()
}

func (p *alike) register(slug string) {
	p.t.Helper()
	a := p.s.Call(p.t, "", "POST", "/auth/register", obj{"email": "ops@" + slug + ".example", "org_slug": slug})
	a = p.note(p.s.Call(p.t, "", "POST", "/auth/register/solve", a.Want(201).Solution())).Want(201)
	o := &kit.Org{T: p.t, S: p.s, Slug: slug, ID: a.Str("org_id"), Client: a.Str("client_id"), Secret: a.Str("client_secret")}
	o.Token = p.note(p.s.Grant(p.t, o.Client, o.Secret)).Want(200).Str("access_token")
	p.orgs = append(p.orgs, o)
}

// keys are new keys of an agent, the same in each run.
func (p *alike) keys() (sign ed25519.PrivateKey, seal *ecdh.PrivateKey) {
	p.t.Helper()
	var seeds [2][32]byte
	_, _ = p.lots.Read(seeds[0][:])
	_, _ = p.lots.Read(seeds[1][:])
	seal, err := ecdh.X25519().NewPrivateKey(seeds[1][:])
	kit.Must(p.t, err)
	return ed25519.NewKeyFromSeed(seeds[0][:]), seal
}

func (p *alike) newAgent(o *kit.Org, name string) {
	p.t.Helper()
	sign, seal := p.keys()
	a := p.note(o.Post("/agents", obj{"name": name, "signing_public_key": kit.SignJWK(sign), "encryption_public_key": kit.SealJWK(seal)}))
	if a.Status == 201 {
		p.agents = append(p.agents, &kit.Agent{Org: o, ID: a.Str("id"), Name: name, Handle: a.Str("handle"), PollURL: a.Str("poll_url"), Sign: sign, Seal: seal})
	}
}

// readStreams notes what the streams brought: everything that is in the inbox, and what follows
// at once. Events of groups come in no order with others.
func (p *alike) readStreams() {
	p.t.Helper()
	for _, g := range p.agents[:3] {
		newest := ""
		for _, m := range g.Inbox("?limit=1").Items() {
			newest = kit.Text(m, "id")
		}
		fmt.Fprintf(&p.out, "the stream of %s:\n", g.Name)
		st, came, patience := p.streams[g], newest == "", 20*time.Second
		var ofGroups []string
		for patience > 0 {
			select {
			case e := <-st.Events:
				if came = came || e.ID == newest; came {
					patience = 2 * time.Second
				}
				switch said := fmt.Sprintf("event %s %s %s\n", e.Name, p.plain(e.ID), receipts.ReplaceAllString(p.plain(e.Raw), "<receipt>")); e.Name {
				case "group":
					ofGroups = append(ofGroups, said)
				case "message", "status":
					p.out.WriteString(said)
				}
			case <-time.After(patience):
				patience = 0
			}
		}
		if !came {
			p.t.Fatalf("the stream of %s does not come to its end", g.Name)
		}
		slices.Sort(ofGroups)
		p.out.WriteString(strings.Join(ofGroups, ""))
	}
}

// readWhole notes everything that can be read when the receipts that reads leave are there.
func (p *alike) readWhole() {
	p.t.Helper()
	read := func() string {
		var out strings.Builder
		see := func(a *kit.Answer) {
			fmt.Fprintf(&out, "%s %d %s\n", p.plain(a.Asked), a.Status, p.plain(string(a.Raw)))
		}
		for _, g := range p.agents {
			see(g.Get(g.Path("/messages?limit=100")))
			see(g.Get(g.Path("/conversations?limit=100")))
			see(g.Get(g.Path("")))
		}
		seen := map[string]bool{}
		for _, m := range p.messages {
			if k := kit.Text(m, "conversation_id"); !seen[k] {
				seen[k] = true
				see(p.withID(kit.Text(m, "from_agent_id")).Get("/conversations/" + k + "/messages?limit=200"))
			}
		}
		for _, r := range p.groups {
			see(r.By.Request("GET", r.Path(""), nil))
			see(r.By.Request("GET", r.Path("/members?limit=50"), nil))
		}
		see(p.s.Call(p.t, "", "GET", "/directory/agents?limit=100&sort=created_at", nil))
		for _, o := range p.orgs {
			see(o.Get("/org"))
			see(o.Get("/agents?include_revoked=true&limit=100"))
		}
		return out.String()
	}
	former := read()
	for range 20 {
		time.Sleep(300 * time.Millisecond)
		now := read()
		if now == former {
			p.out.WriteString(now)
			return
		}
		former = now
	}
	p.t.Fatal("what is read goes on changing")
}

var (
	// lots are what the server draws: each is replaced by its number, in the order of their
	// appearance, so that what is the same stays the same.
	lots = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	// instants and secrets are not compared.
	instants = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z`)
	secrets  = regexp.MustCompile(`"(client_id|client_secret|access_token|next_cursor|request_id|poll_url|verification_words)":"[^"]*"`)
	cursors  = regexp.MustCompile(`cursor=[\w-]+`)
	// notices are payloads that the server writes.
	notices = regexp.MustCompile(`"encrypted_payload":"(eyJ[\w-]+)"`)
	// receipts follow reads, but not at once.
	receipts = regexp.MustCompile(`"(delivered_at|read_at)":(null|"<time>")|"status":"(new|delivered|read)"`)
)

// headers are those that are compared.
var headers = []string{"Content-Type", "Cache-Control", "Idempotency-Replayed", "Location", "Retry-After", "Www-Authenticate", "Vary", "Link", "Allow"}

// plain is a text without what differs between runs.
func (p *alike) plain(text string) string {
	text = notices.ReplaceAllStringFunc(text, func(payload string) string {
		raw, err := base64.RawURLEncoding.DecodeString(notices.FindStringSubmatch(payload)[1])
		kit.Must(p.t, err)
		return string(raw)
	})
	text = strings.ReplaceAll(text, p.s.Base, "<base>")
	text = instants.ReplaceAllString(text, "<time>")
	text = cursors.ReplaceAllString(text, "cursor=<any>")
	text = secrets.ReplaceAllString(text, `"$1":"<any>"`)
	return lots.ReplaceAllStringFunc(text, func(id string) string {
		if p.names[id] == "" {
			p.names[id] = fmt.Sprintf("<%d>", len(p.names)+1)
		}
		return p.names[id]
	})
}

// note writes down an answer.
func (p *alike) note(a *kit.Answer) *kit.Answer {
	p.t.Helper()
	if a.Err != nil {
		a.Fatalf("no answer")
	}
	fmt.Fprintf(&p.out, "%s %d", p.plain(a.Asked), a.Status)
	for _, name := range headers {
		if value := a.Header.Get(name); value != "" {
			fmt.Fprintf(&p.out, " %s: %s,", name, p.plain(value))
		}
	}
	fmt.Fprintf(&p.out, " %s\n", receipts.ReplaceAllString(p.plain(string(a.Raw)), "<receipt>"))
	return a
}
