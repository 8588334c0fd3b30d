package scenario

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"parley"
	"parley/bench/target"
	"parley/http/api"
	"parley/http/client"
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

func newWorld(ctx context.Context, door target.Door, params Params) (*world, error) {
	base := "http://" + door.Address
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
		if err := promote(ctx, door, o, params.Tier); err != nil {
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

// freshTokens gets new tokens, which have their full lifetime left.
func (w *world) freshTokens(ctx context.Context) error {
	for _, o := range []*org{w.globex, w.acme} {
		token, err := o.client.Authenticated(o.credentials).Token(ctx)
		if err != nil {
			return err
		}
		o.token = token
	}
	return nil
}

func (w *world) close() {
	w.globex.client.Close()
	w.acme.client.Close()
}

func (w *world) messageType(name string) string { return w.brand + ".v1." + name }

// together runs task for 0 to n-1 in that many worker goroutines and stops at the first
// error.
func together(ctx context.Context, workers, n int, task func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for w := range min(workers, n) {
		group.Go(func() {
			for i := w; i < n && ctx.Err() == nil; i += workers {
				if err := task(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return ctx.Err()
}
