package profile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
	"parley/client/parley"
	"parley/cmd/parley/program"
)

// Register registers an organization by proof of work, at the server that the
// flags name, and returns the account. progress is called during the proof of work.
func Register(ctx context.Context, p *Flags, in api.Register, progress func(client.ProofProgress)) (*Account, error) {
	url := p.URL
	if url == "" {
		url = defaultURL
	}
	if err := CheckTransport(url, p.AllowHTTP); err != nil {
		return nil, err
	}
	c, err := client.New(url, client.WithProofProgress(progress))
	if err != nil {
		return nil, err
	}
	about, err := c.Version(ctx)
	if err != nil {
		return nil, err
	}
	credentials, err := c.Register(ctx, in)
	if err != nil {
		return nil, err
	}
	return &Account{URL: c.BaseURL(), Brand: about.Brand, AllowHTTP: p.AllowHTTP, Credentials: *credentials}, nil
}

// CreateAgent creates an agent with its key ring at path. It writes the keys before
// it sends them to the server. Keys left by an interrupted attempt are used again,
// because their agent may exist; new keys are deleted if the server rejects the agent.
// With postQuantum the keys include a post-quantum key.
func CreateAgent(ctx context.Context, to *client.Session, path string, in api.CreateAgent, postQuantum bool) (*e2ee.Agent, error) {
	create := e2ee.CreateKeyRing
	if postQuantum {
		create = e2ee.CreateHybridKeyRing
	}
	ring, err := create(path)
	fresh := err == nil
	if errors.Is(err, fs.ErrExist) {
		ring, err = e2ee.OpenKeyRing(path)
	}
	if err != nil {
		return nil, err
	}
	if !ring.AgentID().Zero() {
		return nil, program.ExitError{Code: program.ExitConflict, Err: fmt.Errorf("%s already has the keys of %s", path, ring.Handle())}
	}
	agent, err := e2ee.NewAgent(ctx, to, in, ring)
	var refused *client.Error
	if fresh && errors.As(err, &refused) && refused.Status < 500 {
		return nil, errors.Join(err, os.Remove(path))
	}
	if err == nil && postQuantum && ring.PQKey() == nil { // the keys are those of an interrupted attempt
		err = agent.RotateKeysTo(ctx, true)
	}
	return agent, err
}

// SetAside renames the key ring of a revoked agent. Commands then no longer choose
// the agent, and the keys can still open its old messages.
func (p *Flags) SetAside(id parley.AgentID) error {
	directory, err := p.Directory()
	if err != nil {
		return err
	}
	rings, err := OpenRings(directory)
	if err != nil {
		return err
	}
	for _, ring := range rings {
		if ring.AgentID() == id {
			return os.Rename(ring.Path(), ring.Path()+".revoked")
		}
	}
	return nil
}
