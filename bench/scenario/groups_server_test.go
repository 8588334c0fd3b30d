package scenario

import (
	"encoding/binary"
	"net/http"
	"slices"
	"strings"

	"parley/bench/scenario/host"
	"parley/client/parley"
)

// Faults in what the server of these tests does with groups.
const (
	losesCopy      fault = "one copy of a broadcast is not kept"
	keepsCopyTwice fault = "one copy of a broadcast is kept twice"
	altersCopy     fault = "one copy of a broadcast is kept with another payload"
	copiesToSender fault = "a broadcast's sender gets a copy"
	swapsCopies    fault = "one member has two broadcasts in another order"
	halfWay        fault = "a broadcast without answer reaches some members only"
	otherCount     fault = "another recipient_count in the answer"
	otherGroup     fault = "another group in the answer"
	otherBroadcast fault = "a broadcast_id that is not the copy's"
	forgetsVote    fault = "one elector's votes on one request are not counted"
	otherVote      fault = "another vote in the answer"
	settlesEarly   fault = "votes that settle a request too early"
	keepsSeat      fault = "one departure is not kept"
	seatsNobody    fault = "a join of an open group is pending"
	listsFewer     fault = "the list of members lacks one"
)

// fakeGroup is a group of the fake.
type fakeGroup struct {
	id, handle, policy string
	members            []*owner
	requests           []*plea
	casts              uint32
	commands           int
	mute               *owner // the first who voted, and on what
	discardLog         int
}

// plea is a join request of the fake.
type plea struct {
	id    string
	votes map[*owner]string
}

func (s *fake) groups(mux *http.ServeMux) {
	for pattern, handle := range map[string]http.HandlerFunc{
		"POST /groups":                              s.found,
		"PATCH /groups/{id}":                        s.patch,
		"GET /groups/{id}/members":                  s.membersOf,
		"POST /groups/{id}/join":                    s.join,
		"DELETE /groups/{id}/members/{agent}":       s.depart,
		"GET /groups/{id}/requests":                 s.requests,
		"POST /groups/{id}/requests/{request}/vote": s.vote,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			slug := s.slugs[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
			who := s.acting(r)
			s.mu.Unlock()
			if slug == "" || who != nil && !strings.Contains(who.handle, "@"+slug+".") {
				tell(w, 401, map[string]any{"code": "not_authenticated"})
				return
			}
			handle(w, r)
		})
	}
}

func (s *fake) acting(r *http.Request) *owner { return s.byID[r.Header.Get("X-Svc-Agent")] }

func (s *fake) found(w http.ResponseWriter, r *http.Request) {
	body := hear(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	founder := s.acting(r)
	name, _ := body["name"].(string)
	policy, _ := body["enrollment_policy"].(string)
	g := &fakeGroup{id: s.newID(), handle: "#" + name + founder.handle[strings.Index(founder.handle, "@"):], policy: policy, members: []*owner{founder}}
	s.groupsByID[g.id], s.groupsByID[g.handle] = g, g
	tell(w, 201, map[string]any{"id": g.id, "handle": g.handle, "name": name})
}

func (s *fake) patch(w http.ResponseWriter, r *http.Request) {
	body := hear(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groupsByID[r.PathValue("id")]
	g.policy, _ = body["enrollment_policy"].(string)
	tell(w, 200, map[string]any{"id": g.id, "handle": g.handle})
}

func (s *fake) membersOf(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := []any{}
	for i, m := range s.groupsByID[r.PathValue("id")].members {
		if s.fault == listsFewer && i == 1 {
			continue
		}
		items = append(items, map[string]any{"agent_id": m.id, "role": "member"})
	}
	tell(w, 200, map[string]any{"items": items, "has_more": false})
}

func (s *fake) join(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, who := s.groupsByID[r.PathValue("id")], s.acting(r)
	if g.policy != "open" || s.fault == seatsNobody {
		p := &plea{id: s.newID(), votes: map[*owner]string{}}
		g.requests = append(g.requests, p)
		tell(w, 200, map[string]any{"status": "pending", "request": map[string]any{"id": p.id, "agent_id": who.id}})
		return
	}
	if slices.Contains(g.members, who) {
		tell(w, 409, map[string]any{"code": "already_member"})
		return
	}
	g.members = append(g.members, who)
	tell(w, 200, map[string]any{"status": "joined", "member": map[string]any{"agent_id": who.id}})
}

func (s *fake) depart(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groupsByID[r.PathValue("id")]
	if s.fault != keepsSeat {
		g.members = slices.DeleteFunc(g.members, func(m *owner) bool { return m.id == r.PathValue("agent") })
	}
	w.WriteHeader(204)
}

func (s *fake) vote(w http.ResponseWriter, r *http.Request) {
	body := hear(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	g, who := s.groupsByID[r.PathValue("id")], s.acting(r)
	at := slices.IndexFunc(g.requests, func(p *plea) bool { return p.id == r.PathValue("request") })
	choice, _ := body["vote"].(string)
	g.commands++
	status := "pending"
	switch s.fault {
	case unknownOutcome:
		if g.commands%3 == 0 {
			tell(w, 503, map[string]any{"code": "outcome_unknown"})
			return
		}
	case otherVote:
		choice = "deny"
	case settlesEarly:
		status = "approved"
	}
	if g.commands == 1 {
		g.mute, g.discardLog = who, at
	}
	if s.fault != forgetsVote || who != g.mute || at != g.discardLog {
		g.requests[at].votes[who] = choice
	}
	tell(w, 200, map[string]any{"request_id": r.PathValue("request"), "status": status, "your_vote": choice})
}

func (s *fake) requests(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, who := s.groupsByID[r.PathValue("id")], s.acting(r)
	items := []any{}
	for _, p := range g.requests {
		counts := map[string]int{}
		for _, choice := range p.votes {
			counts[choice]++
		}
		item := map[string]any{"id": p.id, "approvals": counts["approve"], "denials": counts["deny"]}
		if choice := p.votes[who]; choice != "" {
			item["your_vote"] = choice
		}
		items = append(items, item)
	}
	tell(w, 200, map[string]any{"items": items, "has_more": false})
}

// broadcast stores a copy for each member except the sender and answers as the fault
// requires.
func (s *fake) broadcast(body map[string]any, from *owner, g *fakeGroup) (int, any) {
	g.casts++
	var broadcast host.UUID
	binary.BigEndian.PutUint32(broadcast[8:], g.casts)
	broadcast[6] = 0x70
	third := g.casts%3 == 0
	victim := slices.IndexFunc(g.members, func(m *owner) bool { return strings.HasPrefix(m.handle, "member-") })
	payload, _ := body["encrypted_payload"].(string)
	recipients := len(g.members) - 1
	told := map[string]any{
		"id": host.UUID(parley.Copy(parley.MessageID(broadcast), 1)).String(), "broadcast_id": broadcast.String(), "recipient_count": recipients,
		"group_handle": g.handle, "encrypted_payload": payload,
	}
	for seat, m := range g.members {
		if m == from && s.fault != copiesToSender || seat == victim && third && s.fault == losesCopy || seat == victim && third && s.fault == halfWay {
			continue
		}
		kept := &row{ID: host.UUID(parley.Copy(parley.MessageID(broadcast), uint32(seat+1))).String(), Conversation: g.id, From: from.id, To: m.id, Payload: payload, Handle: &m.handle, sender: from, receiver: m}
		if seat == victim && third && s.fault == altersCopy {
			kept.Payload = "A" + payload[1:]
		}
		m.rows = append(m.rows, kept)
		if seat == victim && third && s.fault == keepsCopyTwice {
			m.rows = append(m.rows, kept)
		}
		if n := len(m.rows); seat == victim && third && s.fault == swapsCopies {
			m.rows[n-1], m.rows[n-2] = m.rows[n-2], m.rows[n-1]
		}
		for _, listener := range m.listeners {
			listener <- kept
		}
	}
	switch {
	case s.fault == otherPayload:
		told["encrypted_payload"] = payload[:len(payload)-1] + "!"
	case s.fault == otherCount:
		told["recipient_count"] = recipients + 1
	case s.fault == otherGroup:
		told["group_handle"] = "#another"
	case s.fault == otherBroadcast:
		told["broadcast_id"] = s.newID()
	case third && (s.fault == unknownOutcome || s.fault == halfWay):
		return 503, map[string]any{"code": "outcome_unknown"}
	}
	return 201, told
}
