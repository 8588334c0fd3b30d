package e2ee

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"parley/client/api"
	"parley/client/parley"
	"parley/client/secretfile"
)

const (
	// pinsMax bounds how many agents' keys are remembered per server.
	pinsMax = 10_000
	// formerKeysMax bounds how many former signing keys of one agent are remembered.
	formerKeysMax = 32
	// pinTouch is how old the recorded last use of a pin may become before it is updated.
	pinTouch = 24 * time.Hour
)

// ErrPinsFull means that no more keys can be remembered without forgetting those of an
// agent to which the client has sent something.
var ErrPinsFull = errors.New("too many agents' keys are remembered: remove those no longer needed")

// Pin is what a client remembers of another agent's keys. Keys that the service publishes
// later are compared with it.
type Pin struct {
	Handle  string         `json:"handle"` // in lower case
	AgentID parley.AgentID `json:"agent_id"`
	// SigningKey is the raw Ed25519 key in base64url, so that a signature can be
	// verified without asking the service.
	SigningKey    string `json:"signing_key"`
	SigningKid    string `json:"signing_kid"`
	EncryptionKid string `json:"encryption_kid"`
	// PQKid is the id of the X-Wing key that contains the encryption key; empty if the
	// agent publishes none that clients use. See HybridKey.
	PQKid string `json:"pq_kid,omitempty"`
	// SignedAt is the time of the key binding; empty if the keys were never bound.
	SignedAt string `json:"signed_at,omitempty"`
	// Former are signing keys that were replaced, newest last.
	Former []FormerKey `json:"former,omitempty"`
	// PinnedAt is when the client first met the agent.
	PinnedAt time.Time `json:"pinned_at"`
	UsedAt   time.Time `json:"used_at"`
	// WroteTo reports that this client has sent the agent something. Such a pin is never
	// removed to make room, so that messages from many strangers cannot displace it.
	WroteTo bool `json:"wrote_to,omitempty"`
}

// FormerKey is a signing key that its agent has replaced.
type FormerKey struct {
	SigningKey string `json:"signing_key"`
	SigningKid string `json:"signing_kid"`
}

// Bound reports whether a key binding covered the pinned keys.
func (p *Pin) Bound() bool { return p.SignedAt != "" }

// signer returns the key of a kid that is, or was, the pinned signing key.
func (p *Pin) signer(kid string) (key api.JWK, current, known bool) {
	if p.SigningKid == kid {
		return signingJWK(p.SigningKey, kid), true, true
	}
	for _, f := range p.Former {
		if f.SigningKid == kid {
			return signingJWK(f.SigningKey, kid), false, true
		}
	}
	return api.JWK{}, false, false
}

func signingJWK(x, kid string) api.JWK {
	return api.JWK{KeyType: "OKP", Curve: parley.Ed25519, X: x, Kid: kid}
}

// replaced adds the signing key to the former ones.
func (p *Pin) replaced() {
	p.addFormer(FormerKey{p.SigningKey, p.SigningKid})
}

func (p *Pin) addFormer(key FormerKey) {
	former := []FormerKey{}
	for _, f := range p.Former {
		if f.SigningKid != key.SigningKid {
			former = append(former, f)
		}
	}
	former = append(former, key)
	p.Former = former[max(0, len(former)-formerKeysMax):]
}

// same reports whether two pins hold the same keys under the same binding.
func (p *Pin) same(q *Pin) bool {
	if p == nil || q == nil {
		return p == q
	}
	return p.AgentID == q.AgentID && p.SigningKid == q.SigningKid && p.EncryptionKid == q.EncryptionKid && p.PQKid == q.PQKid && p.SignedAt == q.SignedAt && len(p.Former) == len(q.Former)
}

// Pins remembers the keys of other agents, in memory or in one file of a directory, for
// all agents whose rings are beside it. Each change reads the file and replaces it under
// a lock, so that processes do not undo each other's changes.
type Pins struct {
	dir    string
	mu     sync.Mutex
	memory []byte
	// cached is the content of the file as of seen.
	cached *pinFile
	seen   fs.FileInfo
}

// pinFile is the content of the file: pins by server and handle.
type pinFile struct {
	Version int                        `json:"version"`
	Servers map[string]map[string]*Pin `json:"servers"`
}

const (
	// pinsDirectory is the directory beside the key rings, pinsFile the file in it.
	pinsDirectory = "pins"
	pinsFile      = "pins.json"
)

// OpenPins returns the pins of the key rings in a directory, which the sessions of those
// rings share. It does not read or create anything yet.
func OpenPins(rings string) *Pins { return &Pins{dir: filepath.Join(rings, pinsDirectory)} }

// pinsBeside returns the pins that belong to a ring stored at path.
func pinsBeside(path string) *Pins {
	if path == "" {
		return &Pins{}
	}
	return OpenPins(filepath.Dir(path))
}

// Find returns the pin of an agent of a server by its handle, or nil.
func (p *Pins) Find(server, handle string) (*Pin, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, err := p.read()
	if err != nil {
		return nil, err
	}
	return f.Servers[server][strings.ToLower(handle)].clone(), nil
}

// FindAgent returns the pin of an agent of a server by its id, or nil.
func (p *Pins) FindAgent(server string, id parley.AgentID) (*Pin, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, err := p.read()
	if err != nil {
		return nil, err
	}
	for _, pin := range f.Servers[server] {
		if pin.AgentID == id {
			return pin.clone(), nil
		}
	}
	return nil, nil
}

func (p *Pin) clone() *Pin {
	if p == nil {
		return nil
	}
	q := *p
	q.Former = append([]FormerKey(nil), p.Former...)
	return &q
}

// pinChange replaces the pin of an agent if it has not changed since it was judged.
type pinChange struct {
	was, is *Pin
}

// place returns the handle under which the pin was stored.
func (c pinChange) place() string {
	if c.was != nil {
		return c.was.Handle
	}
	return c.is.Handle
}

// apply applies changes in one replacement of the file. It returns those whose pin
// another session has changed since they were judged.
func (p *Pins) apply(server string, changes []pinChange) (stale []pinChange, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir != "" {
		unlock, err := secretfile.LockDirectory(p.dir)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	f, err := p.read()
	if err != nil {
		return nil, err
	}
	p.cached = nil // f changes now, but the file may not
	changed := false
	for _, c := range changes {
		pins := f.Servers[server]
		if pins == nil {
			pins = map[string]*Pin{}
			f.Servers[server] = pins
		}
		if !pins[c.place()].same(c.was) {
			stale = append(stale, c)
			continue
		}
		delete(pins, c.place())
		if err := makeRoom(pins, c.is); err != nil {
			return nil, fmt.Errorf("%w (%s)", err, filepath.Join(p.dir, pinsFile))
		}
		pins[c.is.Handle], changed = c.is.clone(), true
	}
	if !changed {
		return stale, nil
	}
	return stale, p.write(f)
}

// makeRoom removes the pin that has been unused for longest, unless the new pin replaces
// one. It never removes the pin of an agent to which the client has sent something.
func makeRoom(pins map[string]*Pin, next *Pin) error {
	if _, has := pins[next.Handle]; has || len(pins) < pinsMax {
		return nil
	}
	var oldest *Pin
	for _, pin := range pins {
		if !pin.WroteTo && (oldest == nil || pin.UsedAt.Before(oldest.UsedAt)) {
			oldest = pin
		}
	}
	if oldest == nil {
		return ErrPinsFull
	}
	delete(pins, oldest.Handle)
	return nil
}

// read returns the content, from memory if the file has not been replaced. The caller
// holds the lock.
func (p *Pins) read() (*pinFile, error) {
	if p.dir == "" {
		return decodePins(p.memory)
	}
	path := filepath.Join(p.dir, pinsFile)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return decodePins(nil)
	}
	if err != nil {
		return nil, err
	}
	if p.cached != nil && os.SameFile(info, p.seen) && info.ModTime().Equal(p.seen.ModTime()) && info.Size() == p.seen.Size() {
		return p.cached, nil
	}
	b, err := secretfile.Read(path)
	if err != nil {
		return nil, err
	}
	f, err := decodePins(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p.cached, p.seen = f, info
	return f, nil
}

func decodePins(b []byte) (*pinFile, error) {
	f := &pinFile{Version: 1}
	if len(b) > 0 {
		if err := json.Unmarshal(b, f); err != nil {
			return nil, err
		}
	}
	if f.Version != 1 {
		return nil, errors.New("unknown version of pinned keys")
	}
	if f.Servers == nil {
		f.Servers = map[string]map[string]*Pin{}
	}
	for _, pins := range f.Servers {
		for handle, pin := range pins {
			if pin == nil || pin.Handle != handle {
				return nil, errors.New("a pin is not that of its handle")
			}
		}
	}
	return f, nil
}

func (p *Pins) write(f *pinFile) error {
	b, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	if p.dir == "" {
		p.memory = b
		return nil
	}
	return secretfile.Replace(filepath.Join(p.dir, pinsFile), append(b, '\n'))
}
