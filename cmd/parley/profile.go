package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"parley"
	"parley/cmd/parley/program"
	"parley/http/client"
)

// profileFlags name the directory that holds one organization's credentials
// and its agents' keys, and the server they are for.
type profileFlags struct {
	Profile string `env:"PARLEY_PROFILE" placeholder:"DIR" help:"Directory with credentials and keys; default: parley in the user's configuration directory."`
	URL     string `name:"url" env:"PARLEY_URL" placeholder:"URL" help:"Server to register at, by default http://127.0.0.1:8080. A profile belongs to its server; another one is refused."`
	// AllowHTTP is kept in the profile when it was given at registration.
	AllowHTTP bool `name:"allow-http" env:"PARLEY_ALLOW_HTTP" help:"Allow http:// to another machine, unencrypted."`
}

const (
	defaultURL      = "http://127.0.0.1:8080"
	credentialsFile = "credentials.json"
	// tokenFile keeps the access token, which commands share while it lives.
	tokenFile     = "token.json"
	keysDirectory = "keys"

	// A person waits: better to say soon that nobody answers.
	clientTries = 3
	clientPause = 100 * time.Millisecond
)

// account is the content of credentials.json: the credentials, and what a
// client must know of the server that gave them.
type account struct {
	URL   string `json:"url"`
	Brand string `json:"brand"`
	// AllowHTTP tells that plain http to this server was allowed.
	AllowHTTP bool `json:"allow_http,omitzero"`
	client.Credentials
}

func (p *profileFlags) directory() (string, error) {
	if p.Profile != "" {
		return p.Profile, nil
	}
	base, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no configuration directory; name one with --profile: %w", err)
	}
	return filepath.Join(base, "parley"), nil
}

// load reads the account, from a file that others may not read. Without one the
// caller has to register first.
func (p *profileFlags) load() (*account, string, error) {
	directory, err := p.directory()
	if err != nil {
		return nil, "", err
	}
	path := filepath.Join(directory, credentialsFile)
	text, err := client.ReadPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", program.ExitError{Code: program.ExitForbidden, Err: fmt.Errorf("no credentials in %s: run \"%s\" first", directory, program.Typed("register"))}
	}
	if err != nil {
		return nil, "", err
	}
	var a account
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return &a, directory, nil
}

// open gives the organization's client of its server, and the profile's directory.
func (p *profileFlags) open() (*client.Client, string, error) {
	a, directory, err := p.load()
	if err != nil {
		return nil, "", err
	}
	url, err := p.server(a, directory)
	if err != nil {
		return nil, "", err
	}
	c, err := client.New(url, client.WithBrand(a.Brand), client.WithCredentials(a.Credentials),
		client.WithTokenFile(filepath.Join(directory, tokenFile)), client.WithRetries(clientTries, clientPause))
	return c, directory, err
}

// Explain says which server and which profile a command used, where that is
// what the user has to change.
func (p *profileFlags) Explain(err error) error {
	stale := errors.Is(err, client.InvalidClient)
	if !stale && !program.NetworkFailure(err) {
		return err
	}
	directory, unknown := p.directory()
	if unknown != nil {
		return err
	}
	url := p.URL
	if a, _, missing := p.load(); url == "" && missing == nil {
		url = a.URL
	}
	if url == "" {
		url = defaultURL
	}
	if stale {
		return fmt.Errorf("%w\nThe server at %s does not know the credentials in %s: they are another server's, revoked, or its data is new.\n"+
			"To register there: %s", err, url, directory, program.Typed("register SLUG --email ADDRESS --url "+url+" --profile OTHER-DIRECTORY"))
	}
	return fmt.Errorf("%w\nNo server answers at %s (profile %s). Start one there, or choose another server's profile with --profile", err, url, directory)
}

// save writes the account where only the user may read it. It never replaces
// another: credentials are shown once.
func (a *account) save(directory string) error {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(directory, credentialsFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// agentFlags are a profile's flags and which of its agents is to act.
type agentFlags struct {
	profileFlags
	Agent string `short:"a" env:"PARLEY_AGENT" placeholder:"NAME" help:"Acting agent by name, handle or id; required if the profile has more than one agent."`
}

// session begins a session of the acting agent: the one named, else the first
// of the profile's agents that may is true of, if that leaves no doubt. May nil
// means any, of which there must be one.
func (f *agentFlags) session(ctx context.Context, may func(parley.AgentID) bool) (*client.Agent, error) {
	c, directory, err := f.open()
	if err != nil {
		return nil, err
	}
	rings, err := openRings(directory)
	if err != nil {
		return nil, err
	}
	ring, err := f.choose(rings, may)
	if err != nil {
		return nil, err
	}
	agent, err := c.Session(ctx, ring)
	if errors.Is(err, client.ErrKeysNotPublished) {
		return nil, program.ExitError{Code: program.ExitKeys, Err: fmt.Errorf("%w.\nAnyone who has the organization's credentials could have replaced them. To publish the key ring's own keys again: %s",
			err, program.Typed("key restore "+ringName(ring)))}
	}
	return agent, err
}

// sealingFlags are those of a command that seals to other agents or verifies what
// they wrote.
type sealingFlags struct {
	agentFlags
	AcceptKey []string `name:"accept-key" placeholder:"KID" help:"Accept this key of another agent from now on although the client refuses it; repeat for several keys."`
}

func (f *sealingFlags) session(ctx context.Context, may func(parley.AgentID) bool) (*client.Agent, error) {
	agent, err := f.agentFlags.session(ctx, may)
	if err == nil {
		agent.AcceptKeys(f.AcceptKey...)
	}
	return agent, err
}

func (f *agentFlags) choose(rings []*client.KeyRing, may func(parley.AgentID) bool) (*client.KeyRing, error) {
	var names []string
	var fit []*client.KeyRing
	for _, ring := range rings {
		names = append(names, ringName(ring))
		if f.Agent != "" && (ringName(ring) == f.Agent || strings.EqualFold(ring.Handle(), f.Agent) || ring.AgentID().String() == f.Agent) {
			return ring, nil
		}
		if may == nil || may(ring.AgentID()) {
			fit = append(fit, ring)
		}
	}
	switch {
	case f.Agent != "":
		return nil, program.ExitError{Code: program.ExitNotFound, Err: fmt.Errorf("the profile holds no keys of an agent %q; %s", f.Agent, ringsThereAre(names))}
	case len(rings) == 0:
		return nil, program.ExitError{Code: program.ExitNotFound, Err: fmt.Errorf("the profile has no agent: run \"%s\" first", program.Typed("agent create NAME"))}
	case len(fit) == 0:
		return nil, program.ExitError{Code: program.ExitForbidden, Err: errors.New("none of the profile's agents takes part in that")}
	case len(fit) > 1 && may == nil:
		return nil, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("name the acting agent with --agent: %s", strings.Join(names, ", "))}
	}
	return fit[0], nil
}

func ringsThereAre(names []string) string {
	if len(names) == 0 {
		return "it holds none: create an agent with \"" + program.Typed("agent create NAME") + "\""
	}
	return "it holds those of " + strings.Join(names, ", ")
}

// openRings opens the key rings of all agents of a profile, by name. Rings that
// never got an agent are left out.
func openRings(directory string) ([]*client.KeyRing, error) {
	paths, err := filepath.Glob(filepath.Join(directory, keysDirectory, "*.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	var rings []*client.KeyRing
	for _, path := range paths {
		ring, err := client.OpenKeyRing(path)
		if err != nil {
			return nil, err
		}
		if !ring.AgentID().Zero() {
			rings = append(rings, ring)
		}
	}
	return rings, nil
}

func ringPath(directory, agent string) string {
	return filepath.Join(directory, keysDirectory, agent+".json")
}

func ringName(ring *client.KeyRing) string {
	return strings.TrimSuffix(filepath.Base(ring.Path()), ".json")
}
