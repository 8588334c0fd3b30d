package e2ee

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/clienttest"
	"parley/client/parley"
)

// network is a service with keys and messages, as far as sessions need it. One test
// uses it at a time, with one request at a time.
type network struct {
	*clienttest.Server
	keys map[string]*api.AgentKeys // by id and by handle
	// former has the earlier signing keys of agents, by agent and kid.
	former map[string]api.KeyRecord
	// bindings has all key bindings, by agent id.
	bindings map[string][]api.KeyBinding
	// last is the message that was accepted last.
	last   api.Message
	lookup atomic.Int64
	ticks  atomic.Int64
	refuse string
	// refusePQ, if set, is the status of the answer to a post-quantum key.
	refusePQ int
	// after, if set, answers a rotation that was carried out.
	after func(http.ResponseWriter)
}

func newNetwork(t *testing.T) *network {
	n := newKeyNetwork(t)
	n.Mux.HandleFunc("POST /agents", n.create)
	n.Mux.HandleFunc("GET /agents", func(w http.ResponseWriter, r *http.Request) {
		clienttest.Answer(w, 200, []api.Agent{n.agent("ann@acme.localhost"), {Name: "ann"}})
	})
	n.Mux.HandleFunc("GET /agents/{id}", func(w http.ResponseWriter, r *http.Request) { clienttest.Answer(w, 200, n.agent(r.PathValue("id"))) })
	for pattern, handler := range n.keyRoutes() {
		n.Mux.HandleFunc(pattern, handler)
	}
	n.Mux.HandleFunc("POST /messages", n.accept)
	n.Mux.HandleFunc("POST /messages/{id}/reply", n.accept)
	return n
}

func (n *network) client(t *testing.T, opts ...client.Option) *client.Session {
	t.Helper()
	credentials := client.Credentials{ClientID: clienttest.ClientID, ClientSecret: clienttest.ClientSecret}
	c, err := client.New(n.URL, append([]client.Option{client.WithCredentials(credentials), client.WithRetries(4, time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newKeyNetwork(t *testing.T) *network {
	return &network{Server: clienttest.New(t), keys: map[string]*api.AgentKeys{}, former: map[string]api.KeyRecord{}, bindings: map[string][]api.KeyBinding{}}
}

func (n *network) keyRoutes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"POST /agents/{id}/keys":        n.rotate,
		"GET /agents/{id}/keys":         n.serveKeys,
		"POST /agents/{id}/keys/pq":     n.setPQ,
		"DELETE /agents/{id}/keys/pq":   n.removePQ,
		"PUT /agents/{id}/key-binding":  n.bind,
		"GET /agents/{id}/key-bindings": n.serveBindings,
	}
}

func (n *network) agent(id string) api.Agent {
	k := n.keys[id]
	return api.Agent{ID: k.AgentID, AgentID: k.AgentID, Name: "ann", Handle: k.Handle, SigningPublicKey: k.SigningPublicKey, EncryptionPublicKey: k.EncryptionPublicKey, PQPublicKey: k.PQPublicKey}
}

func (n *network) setPQ(w http.ResponseWriter, r *http.Request) {
	if n.refusePQ != 0 {
		clienttest.Refuse(w, n.refusePQ, "not_found", nil)
		return
	}
	var in api.SetPQKey
	_ = json.NewDecoder(r.Body).Decode(&in)
	n.keys[r.PathValue("id")].PQPublicKey = in.PQPublicKey
	clienttest.Answer(w, 200, n.agent(r.PathValue("id")))
}

func (n *network) removePQ(w http.ResponseWriter, r *http.Request) {
	n.keys[r.PathValue("id")].PQPublicKey = nil
	w.WriteHeader(http.StatusNoContent)
}

func (n *network) create(w http.ResponseWriter, r *http.Request) {
	var in api.CreateAgent
	_ = json.NewDecoder(r.Body).Decode(&in)
	handle := in.Name + "@acme.localhost"
	if _, taken := n.keys[handle]; taken {
		clienttest.Refuse(w, 409, "name_taken", nil)
		return
	}
	k := &api.AgentKeys{
		AgentID: parley.NextID(parley.AgentID{}, time.UnixMilli(int64(len(n.keys)+1)), [10]byte{}),
		Handle:  &handle, SigningPublicKey: in.SigningPublicKey, EncryptionPublicKey: in.EncryptionPublicKey,
	}
	n.keys[handle], n.keys[k.AgentID.String()] = k, k
	clienttest.Answer(w, 201, n.agent(handle))
}

func (n *network) rotate(w http.ResponseWriter, r *http.Request) {
	if n.refuse != "" {
		clienttest.Refuse(w, 500, n.refuse, nil)
		return
	}
	var in api.UploadKeys
	_ = json.NewDecoder(r.Body).Decode(&in)
	k := n.keys[r.PathValue("id")]
	former := k.SigningPublicKey
	if in.SigningPublicKey != nil {
		until := api.Time{Time: n.now()}
		n.former[k.AgentID.String()+former.Kid] = api.KeyRecord{AgentKeys: api.AgentKeys{SigningPublicKey: former}, ValidUntil: &until}
		k.SigningPublicKey = in.SigningPublicKey
	}
	if in.EncryptionPublicKey != nil {
		if in.EncryptionPublicKey.X != k.EncryptionPublicKey.X {
			k.PQPublicKey = nil
		}
		k.EncryptionPublicKey = in.EncryptionPublicKey
	}
	if in.KeyBinding != nil {
		n.bound(k, *in.KeyBinding, former)
	} else {
		k.KeyBinding, k.UnboundSince = nil, &api.Time{Time: n.now()}
	}
	if n.after != nil {
		n.after(w)
		return
	}
	clienttest.Answer(w, 200, n.agent(r.PathValue("id")))
}

// now returns a later time at each call.
func (n *network) now() time.Time { return time.Unix(1_800_000_000+n.ticks.Add(1), 0).UTC() }

// bound stores a binding without checking it.
func (n *network) bound(k *api.AgentKeys, proof api.KeyProof, former *api.JWK) {
	id := k.AgentID.String()
	b := api.KeyBinding{
		Signature: proof.Signature, SignedAt: proof.SignedAt, SigningKid: k.SigningPublicKey.Kid, EncryptionKid: k.EncryptionPublicKey.Kid,
		PreviousSignature: proof.PreviousSignature, Continuity: api.ContinuitySigned,
	}
	switch {
	case len(n.bindings[id]) == 0 && former.Kid == b.SigningKid:
		b.Continuity = api.ContinuityFirst
	case former.Kid != b.SigningKid && proof.PreviousSignature == nil:
		b.Continuity = api.ContinuityBroken
	}
	n.bindings[id] = append(n.bindings[id], b)
	k.KeyBinding, k.UnboundSince = &b, nil
}

func (n *network) bind(w http.ResponseWriter, r *http.Request) {
	var in api.BindKeys
	_ = json.NewDecoder(r.Body).Decode(&in)
	k := n.keys[r.PathValue("id")]
	n.bound(k, in.KeyProof, k.SigningPublicKey)
	clienttest.Answer(w, 200, api.BoundKeys{KeyBinding: *k.KeyBinding})
}

func (n *network) serveBindings(w http.ResponseWriter, r *http.Request) {
	k := n.keys[r.PathValue("id")]
	if k == nil {
		clienttest.Refuse(w, 404, "not_found", nil)
		return
	}
	clienttest.Answer(w, 200, api.Page[api.KeyBinding]{Items: append([]api.KeyBinding{}, n.bindings[k.AgentID.String()]...)})
}

func (n *network) serveKeys(w http.ResponseWriter, r *http.Request) {
	n.lookup.Add(1)
	k, known := n.keys[r.PathValue("id")]
	if !known {
		clienttest.Refuse(w, 404, "not_found", nil)
		return
	}
	out := api.KeyRecord{AgentKeys: *k}
	if kid := r.FormValue("kid"); kid != "" && kid != k.SigningPublicKey.Kid {
		former, known := n.former[k.AgentID.String()+kid]
		if !known {
			clienttest.Refuse(w, 404, "not_found", nil)
			return
		}
		out.SigningPublicKey, out.ValidUntil, out.RetiredAt = former.SigningPublicKey, former.ValidUntil, former.RetiredAt
	}
	clienttest.Answer(w, 200, out)
}

// accept handles a send or a reply whose body the acting agent signed.
func (n *network) accept(w http.ResponseWriter, r *http.Request) {
	from, in := n.signed(r)
	if from == nil {
		clienttest.Refuse(w, 403, "signature_invalid", nil)
		return
	}
	to := n.last.FromAgentID // for a reply
	if in.ToAgentID != nil {
		to = *in.ToAgentID
	}
	n.last = api.Message{
		ID: parley.NextID(n.last.ID, time.UnixMilli(1), [10]byte{}), FromAgentID: from.AgentID, ToAgentID: to, Type: in.Type, EncryptedPayload: in.EncryptedPayload,
		EncryptionVersion: in.EncryptionVersion, SenderSigningKid: in.SenderSigningKid, SelfEncryptedPayload: in.SelfEncryptedPayload,
		ContentType: in.ContentType, Metadata: api.Object("{}"), Direction: api.Sent, Status: api.MessageNew, CreatedAt: api.Time{Time: n.now()},
	}
	clienttest.Answer(w, 201, n.last)
}

// signed returns a send and the acting agent, or nil if that agent did not sign the
// body.
func (n *network) signed(r *http.Request) (from *api.AgentKeys, in api.Send) {
	body, _ := io.ReadAll(r.Body)
	sum := sha256.Sum256(body)
	signature, _ := base64.RawURLEncoding.DecodeString(r.Header.Get("X-Svc-Message-Signature"))
	from = n.keys[r.Header.Get("X-Svc-Agent")]
	raw, _ := from.SigningPublicKey.Raw(parley.Ed25519)
	if !ed25519.Verify(raw, []byte("svc-msg-v1\n"+hex.EncodeToString(sum[:])), signature) {
		return nil, in
	}
	_ = json.Unmarshal(body, &in)
	return from, in
}

// enroll makes an agent with a key ring on disk.
func (n *network) enroll(t *testing.T, name string) *Agent {
	t.Helper()
	return n.enrollWith(t, name, CreateKeyRing)
}

func (n *network) enrollWith(t *testing.T, name string, create func(path string) (*KeyRing, error)) *Agent {
	t.Helper()
	ring, err := create(filepath.Join(t.TempDir(), name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewAgent(t.Context(), n.client(t), api.CreateAgent{Name: name}, ring)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// unmet returns another session of an agent, which has no pins.
func unmet(a *Agent) *Agent {
	other := newAgent(a.Client, a.Keys, &a.Record)
	other.Contacts.pins = &Pins{}
	return other
}

func mustOpen(t *testing.T, a *Agent, m api.Message, want string) {
	t.Helper()
	o, err := a.OpenMessage(t.Context(), m)
	if err != nil || string(o.Payload) != want || o.SenderKid != *m.SenderSigningKid {
		t.Fatalf("%+v %v, want %q", o, err, want)
	}
}

func TestSessionSendAndReply(t *testing.T) {
	n := newNetwork(t)
	ann, bob := n.enroll(t, "ann"), n.enroll(t, "bob")
	sent, err := ann.SendSealed(t.Context(), "bob@acme.localhost", []byte("hello"), "svc.v1.dm", func(in *api.Send) { in.ContentType = "text/plain" })
	if err != nil || sent.ContentType != "text/plain" || sent.ToAgentID != bob.ID() {
		t.Fatalf("%+v %v", sent, err)
	}
	mustOpen(t, bob, sent.Message, "hello")
	mustOpen(t, ann, sent.Message, "hello") // her own copy
	answered, err := bob.ReplySealed(t.Context(), sent.Message, []byte("hi"), "svc.v1.dm")
	if err != nil || answered.ToAgentID != ann.ID() {
		t.Fatalf("%+v %v", answered, err)
	}
	mustOpen(t, ann, answered.Message, "hi")
	before := n.lookup.Load()
	mustOpen(t, ann, answered.Message, "hi")
	if n.lookup.Load() != before {
		t.Error("the session asked twice for a key that cannot change")
	}
	if _, err := ann.SendSealed(t.Context(), "eve@acme.localhost", nil, "svc.v1.dm"); !errors.Is(err, client.NotFound) {
		t.Errorf("to an unknown agent: %v", err)
	}
}

func TestForgedMessagesAreRefused(t *testing.T) {
	n := newNetwork(t)
	ann, bob, eve := n.enroll(t, "ann"), n.enroll(t, "bob"), n.enroll(t, "eve")
	sent, err := ann.SendSealed(t.Context(), bob.ID().String(), []byte("hello"), "svc.v1.dm")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		who    *Agent
		change func(*api.Message)
		want   error
	}{
		"another sender named": {bob, func(m *api.Message) { m.FromAgentID = eve.ID() }, ErrForged},
		"sent to another":      {eve, func(m *api.Message) { m.ToAgentID = eve.ID() }, ErrCannotOpen},
		"not sealed":           {bob, func(m *api.Message) { m.EncryptedPayload = "e30" }, ErrSealedForm},
		"another version":      {bob, func(m *api.Message) { m.EncryptionVersion = api.SenderKeyV1 }, ErrNotHPKE},
		"no copy":              {ann, func(m *api.Message) { m.SelfEncryptedPayload = nil }, ErrCannotOpen},
		"the wrong copy":       {ann, func(m *api.Message) { m.SelfEncryptedPayload = &m.EncryptedPayload }, ErrCannotOpen},
	} {
		m := sent.Message
		c.change(&m)
		if o, err := c.who.OpenMessage(t.Context(), m); !errors.Is(err, c.want) || o != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	m := sent.Message
	m.EncryptedPayload = seal(t, impostor(eve.Keys, ann.ID()), bob.Keys, "as if I were Ann")
	if _, err := bob.OpenMessage(t.Context(), m); !errors.Is(err, ErrForged) {
		t.Errorf("signed by Eve for Ann: %v", err)
	}
	// Eve publishes Ann's signing key as her own and forwards the ciphertext.
	n.keys[eve.ID().String()].SigningPublicKey = n.keys[ann.ID().String()].SigningPublicKey
	m = sent.Message
	m.FromAgentID = eve.ID()
	var changed *KeyChangedError
	if _, err := bob.OpenMessage(t.Context(), m); !errors.As(err, &changed) || changed.AgentID != eve.ID() {
		t.Errorf("a borrowed key of a known agent: %v", err)
	}
	n.keys[eve.ID().String()].KeyBinding = nil
	stranger := unmet(bob)
	if _, err := stranger.OpenMessage(t.Context(), m); !errors.Is(err, ErrForged) {
		t.Errorf("a borrowed key of an unknown agent: %v", err)
	}
	delete(n.keys, ann.ID().String()) // revoked
	stranger.Contacts.pins = &Pins{}
	if _, err := stranger.OpenMessage(t.Context(), sent.Message); !errors.Is(err, ErrNoSender) || errors.Is(err, ErrForged) {
		t.Errorf("a sender without keys: %v", err)
	}
	mustOpen(t, bob, sent.Message, "hello") // with the pinned key
}

func TestRotation(t *testing.T) {
	n := newNetwork(t)
	ann, bob := n.enroll(t, "ann"), n.enroll(t, "bob")
	early, err := bob.SendSealed(t.Context(), ann.Handle(), []byte("early"), "svc.v1.dm")
	if err != nil {
		t.Fatal(err)
	}
	before := bob.Keys.SigningKey()
	n.refuse = "internal"
	if err := bob.RotateKeys(t.Context()); !errors.Is(err, client.Internal) || bob.Keys.SigningKey() != before {
		t.Fatalf("a rotation that failed: %v", err)
	}
	n.refuse = ""
	for _, a := range []*Agent{ann, bob} {
		if err := a.RotateKeys(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if bob.Keys.SigningKey() == before {
		t.Fatal("the keys were not rotated")
	}
	mustOpen(t, ann, early.Message, "early") // sealed to a former key, signed with a former key
	mustOpen(t, bob, early.Message, "early")
	late, err := bob.SendSealed(t.Context(), ann.Handle(), []byte("late"), "svc.v1.dm")
	if err != nil {
		t.Fatal(err)
	}
	ring, err := OpenKeyRing(ann.Keys.Path())
	if err != nil {
		t.Fatal(err)
	}
	again, err := OpenAgent(t.Context(), ann.Client, ring)
	if err != nil || again.Handle() != "ann@acme.localhost" {
		t.Fatal(err)
	}
	mustOpen(t, again, late.Message, "late")
	mustOpen(t, again, early.Message, "early")
}

func TestNewAgentResumesItsOwnCreation(t *testing.T) {
	n := newNetwork(t)
	ann := n.enroll(t, "ann")
	// As if the process had died before it stored the id.
	lost := &KeyRing{current: ann.Keys.current}
	again, err := NewAgent(t.Context(), ann.Client, api.CreateAgent{Name: "ann"}, lost)
	if err != nil || again.ID() != ann.ID() || lost.AgentID() != ann.ID() {
		t.Fatalf("%v", err)
	}
	other, err := GenerateKeyRing()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewAgent(t.Context(), ann.Client, api.CreateAgent{Name: "ann"}, other); !errors.Is(err, client.NameTaken) || !other.AgentID().Zero() {
		t.Fatalf("another agent's name: %v", err)
	}
	if _, err := NewAgent(t.Context(), ann.Client, api.CreateAgent{Name: "amy"}, ann.Keys); !errors.Is(err, ErrOtherAgent) {
		t.Fatalf("another agent's key ring: %v", err)
	}
}

func TestListenDecryptsMessages(t *testing.T) {
	n := newNetwork(t)
	ann, bob := n.enroll(t, "ann"), n.enroll(t, "bob")
	sent, err := ann.SendSealed(t.Context(), bob.Handle(), []byte("hello"), "svc.v1.dm")
	if err != nil {
		t.Fatal(err)
	}
	forged := sent.Message
	forged.FromAgentID = bob.ID()
	forged.ToAgentID = bob.ID()
	n.Mux.HandleFunc("GET /agents/"+bob.ID().String()+"/stream", func(w http.ResponseWriter, r *http.Request) {
		first, _ := json.Marshal(forged)
		second, _ := json.Marshal(sent.Message)
		clienttest.OpenStream(w, "id: 1\ndata: "+string(first)+"\n\n"+"event: status\ndata: {\"status\":\"open\"}\n\n"+"id: 2\ndata: "+string(second)+"\n\n")
		<-r.Context().Done()
	})
	var got []Incoming
	for in, err := range bob.Listen(t.Context(), client.StreamOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, in); len(got) == 3 {
			break
		}
	}
	if got[0].OpenError == nil || got[0].Opened != nil || got[1].Status == nil || got[1].Opened != nil {
		t.Fatalf("%+v", got)
	}
	if got[2].OpenError != nil || string(got[2].Opened.Payload) != "hello" || got[2].LastEventID != "2" {
		t.Fatalf("%+v", got[2])
	}
}
