package scenario

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/bench/scenario/host"
	"parley/bench/target"
)

// fault is one way in which the server of these tests is wrong.
type fault string

const (
	sound           fault = ""
	sameID          fault = "the same id for every message"
	otherRecipient  fault = "another recipient in the answer"
	otherPayload    fault = "another payload in the answer"
	noID            fault = "an answer without id"
	notCreated      fault = "an answer that is not 201"
	unknownOutcome  fault = "an answer that says the outcome is not known"
	losesOne        fault = "one acknowledged message is not kept"
	keepsTwice      fault = "one message is kept twice"
	keepsAltered    fault = "one message is kept with another payload"
	keepsElsewhere  fault = "one message is kept in another inbox"
	keepsRefused    fault = "a refused message is kept"
	oldestFirst     fault = "pages are oldest first"
	shortPages      fault = "pages lack a message"
	othersMessages  fault = "pages show messages to another agent"
	wrongEvent      fault = "streams bring another message"
	noReply         fault = "sync ends without reply"
	otherReply      fault = "sync gives another reply"
	shedsWell       fault = "no fault: sends are shed in good order"
	shedsForever    fault = "sends are shed without saying until when"
	shedsVaguely    fault = "sends are shed until a moment that is no whole second"
	shedsAndKeeps   fault = "a message that was shed is kept"
	countsWildly    fault = "a poll counts one message more each time"
	countsAll       fault = "a poll does not heed the instant"
	forgetsDelivery fault = "one webhook is never notified about one message"
	tellsTwice      fault = "webhooks are notified about each message twice"
	openQuota       fault = "one of the quotas has no limit"
	countsNothing   fault = "a message uses no quota"
	lacksRate       fault = "no rate is stated where one writes"
	lowTier         fault = "the operator's order changes nothing"
	tellsLate       fault = "no fault: a reply is acknowledged long after its asker has it"
	parts           fault = "the connection is closed instead of an answer"
	hidesCard       fault = "one card is never found"
	ignoresFilters  fault = "filters are ignored"
	countsFew       fault = "filters find the right cards and count others"
	spellsExactly   fault = "words are found only as they are written"
	guesses         fault = "searches by meaning find any cards"
	otherMode       fault = "searches by meaning are answered as searches by words"
	risingScores    fault = "the best card comes last"
	repeatsPages    fault = "each page is the first"
	otherDetail     fault = "the detail is that of another agent"
	endlessSearch   fault = "a search stream never says that it is over"
	keepsOldCard    fault = "a card that is published again stays as it was"
	doublesRows     fault = "a card comes twice on a page"
	refusesTasks    fault = "tasks are refused"
	otherTask       fault = "a subscription begins with another task"
	forgetsEnd      fault = "the stream of a task ends before the task"
	goesOn          fault = "the stream of a task goes on after its end"
)

// fake is a server in memory that does what scenarios request, with a fault.
type fake struct {
	fault      fault
	mu         sync.Mutex
	made       uint64
	slugs      map[string]string // organization of a token
	names      map[string]*owner // by handle
	byID       map[string]*owner
	sent       map[string]*row
	groupsByID map[string]*fakeGroup // by id and by handle
	posts      int
	asked      int
	// targets has the webhooks by agent; told counts the messages that were announced.
	targets map[string]string
	told    int
	// limited makes the server state limits; tier is the tier of all organizations.
	limited bool
	tier    int
	catalog catalog
}

type owner struct {
	id, handle string
	rows       []*row // oldest first
	listeners  []chan *row
}

type row struct {
	ID           string  `json:"id"`
	Conversation string  `json:"conversation_id"`
	From         string  `json:"from_agent_id"`
	To           string  `json:"to_agent_id"`
	Payload      string  `json:"encrypted_payload"`
	Handle       *string `json:"recipient_handle"`
	sender       *owner
	receiver     *owner
	replied      chan *row
}

func newFake(t *testing.T, f fault) (*fake, target.Endpoint) {
	t.Helper()
	s := &fake{fault: f, slugs: map[string]string{}, names: map[string]*owner{}, byID: map[string]*owner{}, sent: map[string]*row{}, groupsByID: map[string]*fakeGroup{}, targets: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		tell(w, 200, map[string]any{"name": "fake", "version": "1", "brand": "svc"})
	})
	mux.HandleFunc("POST /auth/register", s.register)
	mux.HandleFunc("POST /auth/register/solve", s.solve)
	mux.HandleFunc("POST /oauth/token", s.token)
	mux.HandleFunc("POST /agents", s.create)
	mux.HandleFunc("POST /messages", s.send)
	mux.HandleFunc("POST /messages/sync", s.sync)
	mux.HandleFunc("POST /messages/{id}/reply", s.reply)
	mux.HandleFunc("GET /messages/{id}", s.message)
	mux.HandleFunc("GET /agents/{id}/messages", s.inbox)
	mux.HandleFunc("GET /agents/{id}/stream", s.stream)
	s.groups(mux)
	s.polls(mux)
	s.webhooks(t, mux)
	s.terms(mux)
	s.directory(mux)
	mux.HandleFunc("POST /a2a/{handle}", s.a2a)
	server := httptest.NewServer(s.rated(mux))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	address := strings.TrimPrefix(server.URL, "http://")
	return s, target.Endpoint{Address: address, Admin: address, Kind: target.Parley}
}

func tell(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func hear(r *http.Request) map[string]any {
	var v map[string]any
	_ = json.NewDecoder(r.Body).Decode(&v)
	return v
}

// newID is called with the lock held, or before anything runs concurrently.
func (s *fake) newID() string {
	s.made++
	var id host.UUID
	binary.BigEndian.PutUint64(id[8:], s.made)
	id[6] = 0x70
	return id.String()
}

func (s *fake) register(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.newID()
	s.slugs[id], _ = hear(r)["org_slug"].(string)
	tell(w, 201, map[string]any{"challenge_id": id, "algorithm": "sha256-hashcash", "challenge": "c", "difficulty": 0})
}

func (s *fake) solve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, _ := hear(r)["challenge_id"].(string)
	tell(w, 201, map[string]any{"org_id": id, "org_slug": s.slugs[id], "client_id": id, "client_secret": "s"})
}

func (s *fake) token(w http.ResponseWriter, r *http.Request) {
	user, _, _ := r.BasicAuth()
	tell(w, 200, map[string]any{"access_token": user, "token_type": "Bearer", "expires_in": 900})
}

func (s *fake) create(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, _ := hear(r)["name"].(string)
	slug := s.slugs[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	o := &owner{id: s.newID(), handle: name + "@" + slug + ".localhost"}
	s.names[o.handle], s.byID[o.id] = o, o
	tell(w, 201, map[string]any{"id": o.id, "name": name, "handle": o.handle})
}

// third reports whether this is the message that a fault affects.
func (s *fake) third(f fault) bool { return s.fault == f && s.posts%3 == 0 }

// keep stores a message and notifies its recipient's listeners.
func (s *fake) keep(body map[string]any, from, to *owner, conversation string) *row {
	s.posts++
	payload, _ := body["encrypted_payload"].(string)
	m := &row{ID: s.newID(), Conversation: conversation, From: from.id, To: to.id, Payload: payload, Handle: &to.handle, sender: from, receiver: to, replied: make(chan *row, 1)}
	if conversation == "" {
		m.Conversation = s.newID()
	}
	s.sent[m.ID] = m
	if s.third(losesOne) {
		return m
	}
	kept := *m
	if s.third(keepsAltered) {
		kept.Payload = "A" + kept.Payload[1:]
	}
	box := to
	if s.third(keepsElsewhere) {
		for _, other := range s.names {
			if other != to {
				box = other
			}
		}
	}
	box.rows = append(box.rows, &kept)
	if s.third(keepsTwice) {
		again := kept
		again.ID = s.newID()
		box.rows = append(box.rows, &again)
	}
	if s.fault == wrongEvent {
		kept.ID = s.newID()
	}
	for _, listener := range to.listeners {
		listener <- &kept
	}
	s.announce(to, m)
	return m
}

// answer returns a stored message as the fault requires.
func (s *fake) answer(m *row) (int, any) {
	told := *m
	switch {
	case s.fault == sameID:
		told.ID = "00000000-0000-7000-8000-00000000aaaa"
	case s.fault == otherRecipient:
		told.Handle = &m.sender.handle
	case s.fault == otherPayload:
		told.Payload = told.Payload[:len(told.Payload)-1] + "!"
	case s.fault == noID:
		told.ID = "?"
	case s.fault == notCreated || s.third(keepsRefused):
		return 409, map[string]any{"code": "conflict"}
	case s.third(unknownOutcome):
		return 503, map[string]any{"code": "outcome_unknown"}
	}
	return 201, told
}

func (s *fake) send(w http.ResponseWriter, r *http.Request) {
	body := hear(r)
	s.mu.Lock()
	from, _ := body["from_handle"].(string)
	to, _ := body["to_handle"].(string)
	if g := s.groupsByID[to]; g != nil {
		status, told := s.broadcast(body, s.names[from], g)
		s.mu.Unlock()
		tell(w, status, told)
		return
	}
	if s.shed(w) {
		if s.fault == shedsAndKeeps {
			s.keep(body, s.names[from], s.names[to], "")
		}
		s.mu.Unlock()
		tell(w, 503, map[string]any{"code": "overloaded"})
		return
	}
	status, told := s.answer(s.keep(body, s.names[from], s.names[to], ""))
	s.mu.Unlock()
	tell(w, status, told)
}

// shed reports whether a send is refused. If the fault requires it, every second one
// is.
func (s *fake) shed(w http.ResponseWriter) bool {
	s.asked++
	again, sheds := map[fault]string{shedsWell: "1", shedsAndKeeps: "1", shedsForever: "", shedsVaguely: "0.5"}[s.fault]
	if s.fault == parts && s.asked%2 == 0 {
		s.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	if !sheds || s.asked%2 == 1 {
		return false
	}
	if again != "" {
		w.Header().Set("Retry-After", again)
	}
	return true
}

func (s *fake) reply(w http.ResponseWriter, r *http.Request) {
	body := hear(r)
	s.mu.Lock()
	original := s.sent[r.PathValue("id")]
	from, to := original.receiver, original.sender
	if s.slugs[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] != strings.TrimSuffix(strings.SplitN(from.handle, "@", 2)[1], ".localhost") {
		from, to = to, from
	}
	m := s.keep(body, from, to, original.Conversation)
	select {
	case original.replied <- m:
	default:
	}
	status, told := s.answer(m)
	s.mu.Unlock()
	if s.fault == tellsLate {
		time.Sleep(20 * time.Millisecond)
	}
	tell(w, status, told)
}

func (s *fake) sync(w http.ResponseWriter, r *http.Request) {
	body := hear(r)
	s.mu.Lock()
	from, _ := body["from_handle"].(string)
	to, _ := body["to_handle"].(string)
	m := s.keep(body, s.names[from], s.names[to], "")
	s.mu.Unlock()
	select {
	case answered := <-m.replied:
		result := map[string]any{"message": m, "reply": answered, "conversation_id": m.Conversation, "status": "replied"}
		switch s.fault {
		case noReply:
			result["reply"], result["status"] = nil, "timeout"
		case otherReply:
			result["reply"] = m
		}
		tell(w, 200, result)
	case <-r.Context().Done():
	}
}

func (s *fake) message(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.byID {
		for _, m := range o.rows {
			if m.ID == r.PathValue("id") {
				tell(w, 200, m)
				return
			}
		}
	}
	tell(w, 404, map[string]any{"code": "not_found"})
}

func (s *fake) inbox(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	rows := append([]*row{}, s.byID[r.PathValue("id")].rows...)
	s.mu.Unlock()
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	if s.fault != oldestFirst {
		slices.Reverse(rows)
	}
	rest := rows[min(from, len(rows)):]
	page := rest[:min(limit, len(rest))]
	if s.fault == shortPages && len(page) > 0 {
		page = page[1:]
	}
	if s.fault == othersMessages {
		page = slices.Clone(page)
		for i, m := range page {
			other := *m
			other.To = other.From
			page[i] = &other
		}
	}
	tell(w, 200, map[string]any{"items": page, "has_more": len(rest) > limit, "next_cursor": strconv.Itoa(from + limit)})
}

func (s *fake) stream(w http.ResponseWriter, r *http.Request) {
	listener := make(chan *row, 64)
	s.mu.Lock()
	o := s.byID[r.PathValue("id")]
	o.listeners = append(o.listeners, listener)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		o.listeners = slices.DeleteFunc(o.listeners, func(e chan *row) bool { return e == listener })
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprint(w, "retry: 3000\n: hello\nid: 00000000-0000-0000-0000-000000000000\n\n")
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case m := <-listener:
			text, _ := json.Marshal(m)
			_, _ = fmt.Fprintf(w, "event: status\ndata: {}\n\nid: %s\nevent: message\ndata: %s\n\n", m.ID, text)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		case <-time.After(10 * time.Second):
			return
		}
	}
}
