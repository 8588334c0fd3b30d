package scenario

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"parley/bench/target"
	"parley/client"
	"parley/client/api"
	"parley/client/parley"
)

// setupCalls is the number of agents that are created concurrently.
const setupCalls = 32

// world is everything that the bench created on one server: the organizations globex,
// which sends, and acme, which receives, with names that no earlier bench has used.
type world struct {
	base     string
	brand    string
	key      *client.KeyRing
	globex   *org
	acme     *org
	planners []*agent // of globex
	workers  []*agent // of acme
	askers   []*agent // of globex, each with the answerer of the same place
	answers  []*agent // of acme
	boxes    []*agent // all agents, by their number in the acknowledged entries
}

// org is an organization of the bench.
type org struct {
	credentials client.Credentials
	client      *client.Client
	// token is for the raw connections of one run.
	token string
}

// agent is an agent of the bench.
type agent struct {
	org    *org
	id     parley.AgentID
	handle string
	box    uint32
}

func newWorld(ctx context.Context, endpoint target.Endpoint, params Params) (*world, error) {
	base := "http://" + endpoint.Address
	public, err := client.New(base)
	if err != nil {
		return nil, err
	}
	about, err := public.Version(ctx)
	if err != nil {
		return nil, err
	}
	w := &world{base: base, brand: about.Brand}
	if w.key, err = client.GenerateKeyRing(); err != nil {
		return nil, err
	}
	var suffix [3]byte
	_, _ = rand.Read(suffix[:]) // never fails
	if w.globex, err = w.register(ctx, fmt.Sprintf("globex-%x", suffix)); err != nil {
		return nil, err
	}
	if w.acme, err = w.register(ctx, fmt.Sprintf("acme-%x", suffix)); err != nil {
		return nil, err
	}
	for _, o := range []*org{w.globex, w.acme} {
		if params.Tier == 0 {
			break
		}
		if err := promote(ctx, endpoint, o, params.Tier); err != nil {
			return nil, err
		}
	}
	// The first sender is planner-3, as in the body with which all peers were measured.
	if w.planners, err = w.agents(ctx, w.globex, "planner-%d", 3, params.Senders); err != nil {
		return nil, err
	}
	w.workers, err = w.agents(ctx, w.acme, "worker-%d", 0, params.Agents)
	return w, err
}

func (w *world) register(ctx context.Context, slug string) (*org, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: setupCalls, MaxIdleConns: setupCalls}
	c, err := client.New(w.base, client.WithBrand(w.brand), client.WithHTTPClient(&http.Client{Transport: transport}))
	if err != nil {
		return nil, err
	}
	credentials, err := c.Register(ctx, api.Register{Email: "bench@" + slug + ".example", OrgSlug: slug})
	if err != nil {
		return nil, fmt.Errorf("organization %s cannot be registered: %w", slug, err)
	}
	return &org{credentials: *credentials, client: c.Authenticated(*credentials)}, nil
}

// agents creates agents whose inboxes are read back.
func (w *world) agents(ctx context.Context, o *org, pattern string, first, count int) ([]*agent, error) {
	made, err := w.create(ctx, o, pattern, first, count)
	for _, a := range made {
		a.box = uint32(len(w.boxes))
		w.boxes = append(w.boxes, a)
	}
	return made, err
}

// create creates count agents with names from pattern and the numbers from first on.
func (w *world) create(ctx context.Context, o *org, pattern string, first, count int) ([]*agent, error) {
	made := make([]*agent, count)
	err := together(ctx, setupCalls, count, func(ctx context.Context, i int) error {
		signing, encryption := w.key.SigningKey(), w.key.EncryptionKey()
		name := fmt.Sprintf(pattern, first+i)
		record, err := o.client.CreateAgent(ctx, api.CreateAgent{Name: name, SigningPublicKey: &signing, EncryptionPublicKey: &encryption})
		if err != nil {
			return fmt.Errorf("agent %s cannot be made: %w", name, err)
		}
		if record.Handle == nil {
			return fmt.Errorf("agent %s has no handle", name)
		}
		made[i] = &agent{org: o, id: record.ID, handle: *record.Handle}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// pairs makes sure that there are n pairs of agents that send to each other.
func (w *world) pairs(ctx context.Context, n int) error {
	have := len(w.askers)
	if n <= have {
		return nil
	}
	askers, err := w.agents(ctx, w.globex, "asker-%d", have, n-have)
	if err != nil {
		return err
	}
	answers, err := w.agents(ctx, w.acme, "answerer-%d", have, n-have)
	if err != nil {
		return err
	}
	w.askers, w.answers = append(w.askers, askers...), append(w.answers, answers...)
	return nil
}

// freshToken gets a new token, which has its full lifetime left.
func (o *org) freshToken(ctx context.Context) (err error) {
	o.token, err = o.client.Authenticated(o.credentials).Token(ctx)
	return err
}

func (w *world) close() {
	w.globex.client.Close()
	w.acme.client.Close()
}

func (w *world) messageType(name string) string { return w.brand + ".v1." + name }

// askedMax bounds the number of bytes read from an answer.
const askedMax = 1 << 20

// ask makes a request that is not measured, and closes its connection.
func ask(request *http.Request) (status int, header http.Header, text []byte, err error) {
	request.Close = true
	answer, err := (&http.Client{Transport: &http.Transport{}}).Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err = io.ReadAll(io.LimitReader(answer.Body, askedMax))
	return answer.StatusCode, answer.Header, text, err
}

// promote makes the operator set the trust tier of an organization.
func promote(ctx context.Context, endpoint target.Endpoint, o *org, tier int) error {
	slug := o.credentials.OrgSlug
	if endpoint.Admin == "" {
		return fmt.Errorf("organization %s stays in its trust tier: the operator's endpoint is not known", slug)
	}
	order, err := json.Marshal(map[string]int{"tier": tier})
	if err != nil {
		return err
	}
	path := "http://" + endpoint.Admin + "/orgs/" + url.PathEscape(slug) + "/tier"
	request, err := http.NewRequestWithContext(ctx, "POST", path, bytes.NewReader(order))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+endpoint.AdminToken)
	status, _, text, err := ask(request)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", status, text)
	}
	if err != nil {
		return fmt.Errorf("organization %s cannot be raised to trust tier %d: %w", slug, tier, err)
	}
	return nil
}

// readAgent reads the answer to the creation of an agent.
func readAgent(body []byte, of *org) (*agent, error) {
	var told struct {
		ID     parley.AgentID `json:"id"`
		Handle string         `json:"handle"`
	}
	if json.Unmarshal(body, &told) != nil || told.ID.Zero() || told.Handle == "" {
		return nil, wrong("an agent without id or handle")
	}
	return &agent{org: of, id: told.ID, handle: told.Handle}, nil
}
