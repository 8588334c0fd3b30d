package profile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
	"parley/client/parley"
	"parley/cmd/parley/program"
)

// OwnAgent is one of the organization's agents, with a client of its server.
type OwnAgent struct {
	*client.Session
	*api.Agent
}

// AgentArg names one of the organization's agents.
type AgentArg struct {
	Flags
	Agent string `arg:"" help:"Name, handle or id."`
}

// ProvideAgent returns the agent. Kong calls it for a Run that has it as a parameter.
func (a *AgentArg) ProvideAgent(ctx context.Context) (*OwnAgent, error) {
	from, err := a.ProvideSession()
	if err != nil {
		return nil, err
	}
	agent, err := FindAgent(ctx, from, a.Agent)
	return &OwnAgent{from, agent}, err
}

// FindAgent returns the organization's agent with this name, handle or id.
func FindAgent(ctx context.Context, from *client.Session, name string) (*api.Agent, error) {
	agents, err := from.Agents.List(ctx, api.ListAgents{IncludeRevoked: true})
	if err != nil {
		return nil, err
	}
	for _, a := range agents {
		if a.Name == name || strings.EqualFold(program.Text(a.Handle), name) || a.ID.String() == name {
			return &a, nil
		}
	}
	return nil, program.ExitError{Code: program.ExitNotFound, Err: fmt.Errorf("the organization has no agent %q; %s", name, agentsThereAre(agents))}
}

// agentsThereAre lists the organization's active agents, only a few if there are many.
func agentsThereAre(agents []api.Agent) string {
	const few = 10
	var names []string
	for _, a := range agents {
		if a.RevokedAt == nil {
			names = append(names, a.Name)
		}
	}
	switch n := len(names); {
	case n == 0:
		return "it has none: create one with \"" + program.Typed("agent create NAME") + "\""
	case n > few:
		return fmt.Sprintf("it has %s and %d more", strings.Join(names[:few], ", "), n-few)
	}
	return "it has " + strings.Join(names, ", ")
}

// PublicName returns the id of the organization's agent with a bare name, and any other
// name as it is.
func PublicName(ctx context.Context, from *client.Session, name string) (string, error) {
	if _, notID := parley.ParseID[parley.AgentID](name); notID == nil || !parley.ValidAgentName(name) {
		return name, nil
	}
	own, err := FindAgent(ctx, from, name)
	if err != nil {
		return "", err
	}
	return own.ID.String(), nil
}

// MoveKeys moves the key rings of agents, and what they know of groups, from one profile to another,
// so that never two profiles seal with the same keys of a sender.
func MoveKeys(from, to string, ids []parley.AgentID) error {
	rings, err := OpenRings(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(to, KeysDirectory), 0o700); err != nil {
		return err
	}
	for _, id := range ids {
		at := slices.IndexFunc(rings, func(r *e2ee.KeyRing) bool { return r.AgentID() == id })
		if at < 0 {
			return fmt.Errorf("%s has no keys of the agent %s", from, id)
		}
		ring := rings[at].Path()
		for _, path := range []string{strings.TrimSuffix(ring, ".json") + ".groups", ring} {
			err := os.Rename(path, filepath.Join(to, KeysDirectory, filepath.Base(path)))
			if err != nil && !(path != ring && errors.Is(err, fs.ErrNotExist)) {
				return err
			}
		}
	}
	return nil
}
