package host

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"parley/bench/target"
	"parley/bench/wire"
	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
	"parley/client/parley"
)

// SetupCalls is the number of agents that are created concurrently.
const SetupCalls = 32

// Deployment is everything that the bench created on one server: the organizations globex,
// which sends, and acme, which receives, with names that no earlier bench has used.
type Deployment struct {
	Base         string
	Brand        string
	key          *e2ee.KeyRing
	keys         string // the members of the creation of an agent that have the public keys
	SendingOrg   *Org
	ReceivingOrg *Org
	Senders      []*Agent // of globex
	Recipients   []*Agent // of acme
	Askers       []*Agent // of globex, each with the answerer of the same place
	Answerers    []*Agent // of acme
	Mailboxes    []*Agent // all agents, by their number in the acknowledged entries
}

// Org is an organization of the bench.
type Org struct {
	Credentials client.Credentials
	Client      *client.Session
	// Token is for the raw connections of one run.
	Token string
}

// Agent is an agent of the bench.
type Agent struct {
	Org     *Org
	ID      parley.AgentID
	Handle  string
	Mailbox uint32
}

func newDeployment(ctx context.Context, endpoint target.Endpoint, params Params) (*Deployment, error) {
	base := "http://" + endpoint.Address
	public, err := client.New(base)
	if err != nil {
		return nil, err
	}
	about, err := public.Version(ctx)
	if err != nil {
		return nil, err
	}
	w := &Deployment{Base: base, Brand: about.Brand}
	if w.key, err = e2ee.GenerateKeyRing(); err != nil {
		return nil, err
	}
	keys, err := json.Marshal(struct {
		Signing    any `json:"signing_public_key"`
		Encryption any `json:"encryption_public_key"`
	}{w.key.SigningKey(), w.key.EncryptionKey()})
	if err != nil {
		return nil, err
	}
	w.keys = string(keys[1:])
	var suffix [3]byte
	_, _ = rand.Read(suffix[:]) // never fails
	if w.SendingOrg, err = w.Register(ctx, fmt.Sprintf("globex-%x", suffix)); err != nil {
		return nil, err
	}
	if w.ReceivingOrg, err = w.Register(ctx, fmt.Sprintf("acme-%x", suffix)); err != nil {
		return nil, err
	}
	for _, o := range []*Org{w.SendingOrg, w.ReceivingOrg} {
		if params.Tier == 0 {
			break
		}
		if err := promote(ctx, endpoint, o, params.Tier); err != nil {
			return nil, err
		}
	}
	// The first sender is planner-3, as in the body with which all peers were measured.
	if w.Senders, err = w.Agents(ctx, w.SendingOrg, "planner-%d", 3, params.Senders); err != nil {
		return nil, err
	}
	w.Recipients, err = w.Agents(ctx, w.ReceivingOrg, "worker-%d", 0, params.Agents)
	return w, err
}

func (w *Deployment) Register(ctx context.Context, slug string) (*Org, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: SetupCalls, MaxIdleConns: SetupCalls}
	c, err := client.New(w.Base, client.WithBrand(w.Brand), client.WithHTTPClient(&http.Client{Transport: transport}))
	if err != nil {
		return nil, err
	}
	credentials, err := c.Register(ctx, api.Register{Email: "bench@" + slug + ".example", OrgSlug: slug})
	if err != nil {
		return nil, fmt.Errorf("organization %s cannot be registered: %w", slug, err)
	}
	return &Org{Credentials: *credentials, Client: c.Authenticated(*credentials)}, nil
}

// Agents creates agents whose inboxes are read back.
func (w *Deployment) Agents(ctx context.Context, o *Org, pattern string, first, count int) ([]*Agent, error) {
	made, err := w.Create(ctx, o, pattern, first, count)
	for _, a := range made {
		a.Mailbox = uint32(len(w.Mailboxes))
		w.Mailboxes = append(w.Mailboxes, a)
	}
	return made, err
}

// Create creates count agents with names from pattern and the numbers from first on.
func (w *Deployment) Create(ctx context.Context, o *Org, pattern string, first, count int) ([]*Agent, error) {
	made := make([]*Agent, count)
	err := Concurrently(ctx, SetupCalls, count, func(ctx context.Context, i int) error {
		signing, encryption := w.key.SigningKey(), w.key.EncryptionKey()
		name := fmt.Sprintf(pattern, first+i)
		record, err := o.Client.Agents.Create(ctx, api.CreateAgent{Name: name, SigningPublicKey: &signing, EncryptionPublicKey: &encryption})
		if err != nil {
			return fmt.Errorf("agent %s cannot be made: %w", name, err)
		}
		if record.Handle == nil {
			return fmt.Errorf("agent %s has no handle", name)
		}
		made[i] = &Agent{Org: o, ID: record.ID, Handle: *record.Handle}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// Pairs makes sure that there are n pairs of agents that send to each other.
func (w *Deployment) Pairs(ctx context.Context, n int) error {
	have := len(w.Askers)
	if n <= have {
		return nil
	}
	askers, err := w.Agents(ctx, w.SendingOrg, "asker-%d", have, n-have)
	if err != nil {
		return err
	}
	answers, err := w.Agents(ctx, w.ReceivingOrg, "answerer-%d", have, n-have)
	if err != nil {
		return err
	}
	w.Askers, w.Answerers = append(w.Askers, askers...), append(w.Answerers, answers...)
	return nil
}

// FreshToken gets a new token, which has its full lifetime left.
func (o *Org) FreshToken(ctx context.Context) (err error) {
	o.Token, err = o.Client.Authenticated(o.Credentials).Token(ctx)
	return err
}

func (w *Deployment) close() {
	w.SendingOrg.Client.Close()
	w.ReceivingOrg.Client.Close()
}

func (w *Deployment) MessageType(name string) string { return w.Brand + ".v1." + name }

// Operator makes a request as the operator and returns the body of the answer, which must have
// status 200.
func Operator(ctx context.Context, endpoint target.Endpoint, method, path string, body []byte) ([]byte, error) {
	if endpoint.Admin == "" {
		return nil, errors.New("the operator's address is not known")
	}
	conn, err := wire.DialHTTP(ctx, endpoint.Admin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return Call(conn, 200, method, path, endpoint.AdminToken, nil, body)
}

// promote makes the operator set the trust tier of an organization.
func promote(ctx context.Context, endpoint target.Endpoint, o *Org, tier int) error {
	slug := o.Credentials.OrgSlug
	order := fmt.Appendf(nil, `{"tier":%d}`, tier)
	if _, err := Operator(ctx, endpoint, "POST", "/orgs/"+url.PathEscape(slug)+"/tier", order); err != nil {
		return fmt.Errorf("organization %s cannot be raised to trust tier %d: %w", slug, tier, err)
	}
	return nil
}

// CreateAgent creates an agent, whose inbox is not read back, over a connection of a run.
func (w *Deployment) CreateAgent(conn *wire.HTTP, of *Org, name string) (*Agent, error) {
	body, err := Call(conn, 201, "POST", "/agents", of.Token, nil, []byte(`{"name":"`+name+`",`+w.keys))
	if err != nil {
		return nil, err
	}
	var parsed struct {
		ID     parley.AgentID `json:"id"`
		Handle string         `json:"handle"`
	}
	if json.Unmarshal(body, &parsed) != nil || parsed.ID.Zero() || parsed.Handle == "" {
		return nil, Wrong("an agent without id or handle")
	}
	return &Agent{Org: of, ID: parsed.ID, Handle: parsed.Handle}, nil
}
