package profile

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

	"parley/client"
	"parley/client/e2ee"
	"parley/client/parley"
	"parley/client/secretfile"
	"parley/cmd/parley/program"
)

// Flags name the directory that holds one organization's credentials
// and its agents' keys, and the server they are for.
type Flags struct {
	Profile string `env:"PARLEY_PROFILE" placeholder:"DIR" help:"Directory with credentials and keys; default: parley in the user's configuration directory."`
	URL     string `name:"url" env:"PARLEY_URL" placeholder:"URL" help:"Address of the server; default: the profile's, and http://127.0.0.1:8080 to register. A profile works only with its own server."`
	// AllowHTTP is stored in the profile if it is given at registration.
	AllowHTTP bool `name:"allow-http" env:"PARLEY_ALLOW_HTTP" help:"Allow http:// to another machine, unencrypted."`
}

const (
	defaultURL      = "http://127.0.0.1:8080"
	CredentialsFile = "credentials.json"
	// tokenFile keeps the access token, which commands share while it lives.
	tokenFile     = "token.json"
	KeysDirectory = "keys"

	// Few and short retries: a person waits for the command.
	clientTries = 3
	clientPause = 100 * time.Millisecond
)

// Account is the content of credentials.json: an organization's credentials, and
// what a client must know about the server that issued them.
type Account struct {
	URL   string `json:"url"`
	Brand string `json:"brand"`
	// AllowHTTP allows unencrypted http to this server.
	AllowHTTP bool `json:"allow_http,omitzero"`
	client.Credentials
}

// Directory returns the directory of the profile, which need not exist.
func (p *Flags) Directory() (string, error) {
	if p.Profile != "" {
		return p.Profile, nil
	}
	base, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no configuration directory; name one with --profile: %w", err)
	}
	return filepath.Join(base, "parley"), nil
}

// Load reads the account and returns it with the profile's directory. It refuses a
// file that other users can read. Without credentials the exit code is
// program.ExitForbidden.
func (p *Flags) Load() (*Account, string, error) {
	directory, err := p.Directory()
	if err != nil {
		return nil, "", err
	}
	path := filepath.Join(directory, CredentialsFile)
	text, err := secretfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", program.ExitError{Code: program.ExitForbidden, Err: fmt.Errorf("no credentials in %s: run \"%s\" first", directory, program.Typed("register"))}
	}
	if err != nil {
		return nil, "", err
	}
	var a Account
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return &a, directory, nil
}

// Open returns a client of the profile's server with the organization's
// credentials, and the profile's directory.
func (p *Flags) Open() (*client.Session, string, error) {
	a, directory, err := p.Load()
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

// ProvideSession returns the client that Open returns. Kong calls it for a Run that has it as
// a parameter.
func (p *Flags) ProvideSession() (*client.Session, error) {
	c, _, err := p.Open()
	return c, err
}

// AnySession returns the organization's client or, without a profile, an anonymous client
// of the named server.
func (p *Flags) AnySession() (from *client.Session, anonymous bool, err error) {
	from, _, err = p.Open()
	var known program.ExitError
	if p.URL != "" && errors.As(err, &known) && known.Code == program.ExitForbidden {
		if err := CheckTransport(p.URL, p.AllowHTTP); err != nil {
			return nil, false, err
		}
		from, err = client.New(p.URL)
		return from, true, err
	}
	return from, false, err
}

// Explain adds the server and the profile that a command used to an error that the
// user resolves by choosing another one.
func (p *Flags) Explain(err error) error {
	stale := errors.Is(err, client.InvalidClient)
	if !stale && !program.NetworkFailure(err) {
		return err
	}
	directory, unknown := p.Directory()
	if unknown != nil {
		return err
	}
	url := p.URL
	if a, _, missing := p.Load(); url == "" && missing == nil {
		url = a.URL
	}
	if url == "" {
		url = defaultURL
	}
	if stale {
		return fmt.Errorf("%w\nThe server at %s does not know the credentials in %s: they belong to another server or are revoked, or the server's data is new.\n"+
			"To register there: %s", err, url, directory, program.Typed("register SLUG --email ADDRESS --url "+url+" --profile OTHER-DIRECTORY"))
	}
	return fmt.Errorf("%w\nNo server answers at %s (profile %s). Start one there, or choose another server's profile with --profile", err, url, directory)
}

// Save writes the account to a file that only the user can read. It fails if the
// directory has credentials: they cannot be obtained again.
func (a *Account) Save(directory string) error {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(directory, CredentialsFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// AgentFlags name a profile and the agent of it that acts.
type AgentFlags struct {
	Flags
	Agent string `short:"a" env:"PARLEY_AGENT" placeholder:"NAME" help:"Acting agent by name, handle or id; required if the profile has more than one agent."`
}

// Session begins a session of the acting agent. If the flags name none, it is the first of
// those among which to choose whose keys the profile has. Without any to choose among, the
// profile must have exactly one agent.
func (f *AgentFlags) Session(ctx context.Context, among ...parley.AgentID) (*e2ee.Agent, error) {
	c, directory, err := f.Open()
	if err != nil {
		return nil, err
	}
	rings, err := OpenRings(directory)
	if err != nil {
		return nil, err
	}
	ring, err := f.Choose(rings, among...)
	if err != nil {
		return nil, err
	}
	agent, err := e2ee.OpenAgent(ctx, c, ring)
	if errors.Is(err, e2ee.ErrKeysNotPublished) {
		return nil, program.ExitError{Code: program.ExitKeys, Err: fmt.Errorf("%w.\nSomeone with the organization's credentials may have replaced them. To publish the key ring's keys again: %s",
			err, program.Typed("key restore "+ringName(ring)))}
	}
	return agent, err
}

// SealingFlags are the flags of a command that seals messages to other agents or
// verifies theirs.
type SealingFlags struct {
	AgentFlags
	AcceptKey []string `name:"accept-key" placeholder:"KID" help:"Accept this key of another agent although the client rejects it; repeat for several keys."`
}

// Session begins a session of the acting agent, which accepts the keys of
// --accept-key.
func (f *SealingFlags) Session(ctx context.Context, among ...parley.AgentID) (*e2ee.Agent, error) {
	agent, err := f.AgentFlags.Session(ctx, among...)
	if err == nil {
		agent.Contacts.Accept(f.AcceptKey...)
	}
	return agent, err
}

// Choose returns the key ring of the acting agent, by the rule of Session.
func (f *AgentFlags) Choose(rings []*e2ee.KeyRing, among ...parley.AgentID) (*e2ee.KeyRing, error) {
	var names []string
	byAgent := map[parley.AgentID]*e2ee.KeyRing{}
	for _, ring := range rings {
		names, byAgent[ring.AgentID()] = append(names, ringName(ring)), ring
		if f.Agent != "" && (ringName(ring) == f.Agent || strings.EqualFold(ring.Handle(), f.Agent) || ring.AgentID().String() == f.Agent) {
			return ring, nil
		}
	}
	switch {
	case f.Agent != "":
		return nil, program.ExitError{Code: program.ExitNotFound, Err: fmt.Errorf("the profile has no keys of an agent %q; %s", f.Agent, describeRings(names))}
	case len(rings) == 0:
		return nil, program.ExitError{Code: program.ExitNotFound, Err: fmt.Errorf("the profile has no agent: run \"%s\" first", program.Typed("agent create NAME"))}
	case len(among) == 0 && len(rings) == 1:
		return rings[0], nil
	case len(among) == 0:
		return nil, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("name the acting agent with --agent: %s", strings.Join(names, ", "))}
	}
	for _, id := range among {
		if ring := byAgent[id]; ring != nil {
			return ring, nil
		}
	}
	return nil, program.ExitError{Code: program.ExitForbidden, Err: errors.New("none of the profile's agents is a participant")}
}

func describeRings(names []string) string {
	if len(names) == 0 {
		return "it holds none: create an agent with \"" + program.Typed("agent create NAME") + "\""
	}
	return "it holds those of " + strings.Join(names, ", ")
}

// OpenRings opens the key rings of all agents of a profile, sorted by name. It
// leaves out rings whose agent was never created.
func OpenRings(directory string) ([]*e2ee.KeyRing, error) {
	paths, err := filepath.Glob(filepath.Join(directory, KeysDirectory, "*.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	var rings []*e2ee.KeyRing
	for _, path := range paths {
		ring, err := e2ee.OpenKeyRing(path)
		if err != nil {
			return nil, err
		}
		if !ring.AgentID().Zero() {
			rings = append(rings, ring)
		}
	}
	return rings, nil
}

// RingPath returns the path of the key ring of an agent of that name.
func RingPath(directory, agent string) string {
	return filepath.Join(directory, KeysDirectory, agent+".json")
}

func ringName(ring *e2ee.KeyRing) string {
	return strings.TrimSuffix(filepath.Base(ring.Path()), ".json")
}
