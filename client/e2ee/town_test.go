package e2ee

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/client/api"
	"parley/client/clienttest"
	"parley/client/parley"
)

// town is a service with agents, one group of them, inboxes and streams, as far as
// group keys need it. It serves concurrent requests.
type town struct {
	*network
	mu      sync.Mutex
	came    *sync.Cond
	members []api.GroupMember
	inboxes map[parley.AgentID][]api.Message // oldest first
	once    map[string]api.Message           // by idempotency key
	// lose reports whether a message is accepted but never delivered.
	lose func(api.Message) bool
	// takesMLS: the group has an MLS group and refuses other broadcasts.
	takesMLS bool
	// sent lists all messages that were accepted, one for each recipient.
	sent []api.Message
}

func newTown(t *testing.T) *town {
	w := &town{
		network: newKeyNetwork(t),
		inboxes: map[parley.AgentID][]api.Message{}, once: map[string]api.Message{},
	}
	w.came = sync.NewCond(&w.mu)
	routes := map[string]http.HandlerFunc{
		"POST /agents":                        w.create,
		"GET /agents/{id}":                    func(rw http.ResponseWriter, r *http.Request) { clienttest.Answer(rw, 200, w.agent(r.PathValue("id"))) },
		"GET /agents/keys":                    w.serveBatch,
		"GET /agents/{id}/messages":           w.serveInbox,
		"GET /groups/{id}/members":            w.serveMembers,
		"DELETE /groups/{id}/members/{agent}": w.serveLeave,
		"POST /messages":                      w.post,
	}
	maps.Copy(routes, w.keyRoutes())
	for pattern, handler := range routes {
		w.Mux.HandleFunc(pattern, func(rw http.ResponseWriter, r *http.Request) {
			w.mu.Lock()
			defer w.mu.Unlock()
			handler(rw, r)
		})
	}
	w.Mux.HandleFunc("GET /agents/{id}/stream", w.serveStream)
	return w
}

var townGroup = &api.Group{ID: circle, Handle: "#circle@acme.localhost"}

// join makes an agent a member, with a new membership each time.
func (w *town) join(agents ...*Agent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range agents {
		id := parley.AnyID{byte(len(w.members)), byte(len(w.sent)), 1}
		w.members = append(w.members, api.GroupMember{AgentID: a.ID(), GroupID: circle, ID: &id, Role: api.RoleMember})
	}
}

func (w *town) remove(a *Agent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members = slices.DeleteFunc(w.members, func(m api.GroupMember) bool { return m.AgentID == a.ID() })
}

func (w *town) serveBatch(rw http.ResponseWriter, r *http.Request) {
	out := api.BatchKeys{Keys: map[parley.AgentID]api.AgentKeys{}}
	for _, id := range strings.Split(r.FormValue("ids"), ",") {
		if k := w.keys[id]; k != nil {
			out.Keys[k.AgentID] = *k
		}
	}
	clienttest.Answer(rw, 200, out)
}

func (w *town) serveMembers(rw http.ResponseWriter, r *http.Request) {
	clienttest.Answer(rw, 200, api.Page[api.GroupMember]{Items: w.members})
}

func (w *town) serveLeave(rw http.ResponseWriter, r *http.Request) {
	w.members = slices.DeleteFunc(w.members, func(m api.GroupMember) bool { return m.AgentID.String() == r.PathValue("agent") })
	rw.WriteHeader(http.StatusNoContent)
}

func (w *town) serveInbox(rw http.ResponseWriter, r *http.Request) {
	page := api.Page[api.Message]{Items: []api.Message{}}
	for _, m := range w.inboxes[w.keys[r.PathValue("id")].AgentID] {
		if kind := r.FormValue("type"); kind == "" || kind == m.Type {
			page.Items = slices.Insert(page.Items, 0, m)
		}
	}
	clienttest.Answer(rw, 200, page)
}

// post accepts a message to one agent, or to the group.
func (w *town) post(rw http.ResponseWriter, r *http.Request) {
	from, in := w.signed(r)
	if from == nil {
		clienttest.Refuse(rw, 403, "signature_invalid", nil)
		return
	}
	key := from.AgentID.String() + r.Header.Get("Idempotency-Key")
	if before, again := w.once[key]; again {
		clienttest.Answer(rw, 200, before)
		return
	}
	to := []parley.AgentID{}
	var group *parley.GroupID
	if in.ToAgentID != nil {
		to = append(to, *in.ToAgentID)
	} else {
		id := circle
		group = &id
		if w.takesMLS {
			clienttest.Refuse(rw, 422, "validation_error", nil)
			return
		}
		if !slices.ContainsFunc(w.members, func(m api.GroupMember) bool { return m.AgentID == from.AgentID }) {
			clienttest.Refuse(rw, 403, "not_member", nil)
			return
		}
		for _, m := range w.members {
			if m.AgentID != from.AgentID {
				to = append(to, m.AgentID)
			}
		}
	}
	for _, id := range to {
		w.last = api.Message{
			ID: parley.NextID(w.last.ID, time.UnixMilli(1), [10]byte{}), FromAgentID: from.AgentID, ToAgentID: id, GroupID: group,
			Type: in.Type, EncryptedPayload: in.EncryptedPayload, EncryptionVersion: in.EncryptionVersion, ContentType: in.ContentType,
			SenderSigningKid: in.SenderSigningKid, Metadata: api.Object("{}"), Direction: api.Received, Status: api.MessageNew,
		}
		w.deliver(w.last)
	}
	stored := w.last
	stored.Direction, stored.SelfEncryptedPayload = api.Sent, in.SelfEncryptedPayload
	w.once[key] = stored
	clienttest.Answer(rw, 201, stored)
}

func (w *town) deliver(m api.Message) {
	w.sent = append(w.sent, m)
	if w.lose == nil || !w.lose(m) {
		w.inboxes[m.ToAgentID] = append(w.inboxes[m.ToAgentID], m)
		w.came.Broadcast()
	}
}

func (w *town) serveStream(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Type", "text/event-stream")
	rw.WriteHeader(200)
	stop := false
	go func() {
		<-r.Context().Done()
		w.mu.Lock()
		defer w.mu.Unlock()
		stop = true
		w.came.Broadcast()
	}()
	w.mu.Lock()
	defer w.mu.Unlock()
	id := w.keys[r.PathValue("id")].AgentID
	for told := 0; !stop; w.came.Wait() {
		for ; told < len(w.inboxes[id]); told++ {
			m := w.inboxes[id][told]
			data, _ := json.Marshal(m)
			_, _ = fmt.Fprintf(rw, "id: %s\nevent: message\ndata: %s\n\n", m.ID, data)
		}
		_ = http.NewResponseController(rw).Flush()
	}
}

// of returns the messages of a type in an agent's inbox, oldest first.
func (w *town) of(a *Agent, kind string) []api.Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []api.Message
	for _, m := range w.inboxes[a.ID()] {
		if m.Type == "svc.v1."+kind {
			found = append(found, m)
		}
	}
	return found
}

// copyTo returns an agent's copy of the group message sent last.
func (w *town) copyTo(t *testing.T, a *Agent) api.Message {
	t.Helper()
	got := w.of(a, "dm")
	if len(got) == 0 {
		t.Fatalf("%s has no copy", a.Handle())
	}
	return got[len(got)-1]
}

// tell broadcasts and requires success.
func tell(t *testing.T, from *Agent, text string) *SentBroadcast {
	t.Helper()
	sent, err := from.Broadcast(t.Context(), townGroup, []byte(text), "svc.v1.dm")
	if err != nil || len(sent.Missed) != 0 {
		t.Fatalf("%v %v", err, sent)
	}
	return sent
}
