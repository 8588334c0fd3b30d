package agents

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/mod/sumdb/note"

	"parley/actors"
	"parley/actors/keylog"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/auth"
	"parley/http/rest"
	"parley/http/view"
)

// keyLogPath is appended to the domain for the log's origin.
const keyLogPath = "/key-log"

// logSigner signs checkpoints. Its key is read, or made, at the first request.
type logSigner struct {
	mu  sync.Mutex
	key *logKey
}

// logKey is a key that signs checkpoints. // source: C2SP signed-note
type logKey struct {
	auth.SigningKey
	origin, verifier string
	hash             uint32
}

func (k *logKey) Name() string                     { return k.origin }
func (k *logKey) KeyHash() uint32                  { return k.hash }
func (k *logKey) Sign(text []byte) ([]byte, error) { return ed25519.Sign(k.Private, text), nil }

func (s KeyLog) signer(ctx context.Context) (*logKey, error) {
	s.logSigner.mu.Lock()
	defer s.logSigner.mu.Unlock()
	if s.logSigner.key != nil {
		return s.logSigner.key, nil
	}
	key, err := s.LogKey(ctx)
	if err != nil {
		return nil, err
	}
	k := &logKey{SigningKey: key, origin: s.Show.Domain + keyLogPath}
	if k.verifier, err = note.NewEd25519VerifierKey(k.origin, k.Public()); err != nil {
		return nil, err
	}
	verifier, err := note.NewVerifier(k.verifier)
	if err != nil {
		return nil, err
	}
	k.hash = verifier.KeyHash()
	s.logSigner.key = k
	return k, nil
}

// Describe returns what it takes to verify checkpoints.
func (s KeyLog) Describe(c *rest.Call, _ *api.Nothing) (rest.Rendered, error) {
	k, err := s.signer(c.Context())
	if err != nil {
		return rest.Rendered{}, err
	}
	keys := []api.SigningKey{view.SigningKey(k.Public(), k.Kid)}
	return c.Document(api.KeyLog{Origin: k.origin, VerifierKey: k.verifier, Keys: keys}, s.since(k.Created), rest.CacheHour)
}

// Checkpoint returns the newest tree of the log, signed. // source: C2SP tlog-checkpoint
func (s KeyLog) Checkpoint(c *rest.Call, _ *api.Nothing) error {
	k, err := s.signer(c.Context())
	if err != nil {
		return err
	}
	tree, err := s.Node.KeyLog.Head(c.Context())
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s\n%d\n%s\n", k.origin, tree.Size, base64.StdEncoding.EncodeToString(tree.Root[:]))
	signed, err := note.Sign(&note.Note{Text: text}, k)
	if err != nil {
		return err
	}
	return c.TextDocument("text/plain; charset=utf-8", signed, c.Now(), rest.CacheChecked)
}

func (s KeyLog) ProveInclusion(c *rest.Call, in *api.GetInclusionProof) (rest.Rendered, error) {
	if in.Index >= in.Size {
		return rest.Rendered{}, outOfTree("index", "index should be below size")
	}
	proof, err := s.Node.KeyLog.ProveInclusion(c.Context(), uint64(in.Size), uint64(in.Index))
	return s.proof(c, "size", proof, err)
}

func (s KeyLog) ProveConsistency(c *rest.Call, in *api.GetConsistencyProof) (rest.Rendered, error) {
	if in.From > in.To {
		return rest.Rendered{}, outOfTree("from", "from should not be above to")
	}
	proof, err := s.Node.KeyLog.ProveConsistency(c.Context(), uint64(in.From), uint64(in.To))
	return s.proof(c, "to", proof, err)
}

// proof answers with a proof. The parameter named size is that of the larger tree.
func (s KeyLog) proof(c *rest.Call, size string, proof []keylog.Hash, err error) (rest.Rendered, error) {
	if errors.Is(err, actors.ErrBeyondKeyLog) {
		return rest.Rendered{}, outOfTree(size, "the key log has fewer entries")
	}
	if err != nil {
		return rest.Rendered{}, err
	}
	out := api.KeyLogProof{Hashes: make([]string, 0, len(proof))}
	for _, h := range proof {
		out.Hashes = append(out.Hashes, base64.StdEncoding.EncodeToString(h[:]))
	}
	return c.Document(out, s.started(), rest.CacheHour)
}

func outOfTree(parameter, text string) error {
	return &rest.SchemaError{Faults: []rest.FieldError{{Loc: []any{"query", parameter}, Msg: "Value error, " + text, Type: rest.FaultValue}}}
}

// ListEntries returns the entries of an agent in the key log, active or revoked.
func (s KeyLog) ListEntries(c *rest.Call, in *api.GetKeyLogEntries) (rest.Rendered, error) {
	a, err := s.Agents.Named(c, in.ID)
	if err != nil {
		return rest.Rendered{}, err
	}
	o, err := s.Node.Orgs.Get(c.Context(), a.Owner())
	if err != nil {
		return rest.Rendered{}, err
	}
	list := "key log " + a.AgentID().String()
	after, err := s.Lists.Place(list, in.Cursor)
	if err != nil {
		return rest.Rendered{}, err
	}
	entries, last, more, err := s.Node.Agents.KeyLog(c.Context(), a.AgentID(), a.GetName()+"@"+o.GetSlug(), after, in.Limit)
	if err != nil {
		return rest.Rendered{}, err
	}
	page := api.Page[api.KeyLogEntry]{Items: []api.KeyLogEntry{}}
	for i := range entries {
		one := keyLogEntry(&entries[i])
		index, found, err := s.Node.KeyLog.Place(c.Context(), entries[i].Commitment())
		if err != nil {
			return rest.Rendered{}, err
		}
		if found {
			one.Index = new(int(index))
		}
		page.Items = append(page.Items, one)
	}
	if page.HasMore = more; more {
		page.NextCursor = new(s.Lists.Cursor(list, last))
	}
	return c.Document(page, a.KeysChangedAt(), rest.CacheChecked)
}

func keyLogEntry(e *parley.KeyLogEntry) api.KeyLogEntry {
	return api.KeyLogEntry{
		AgentID: e.Agent, Address: e.Address, Number: int(e.Number), Kind: e.Kind,
		SigningKid: e.SigningKid, EncryptionKid: e.EncryptionKid, PQKid: view.OrNull(e.PQKid), Subject: view.OrNull(e.Subject),
		At: e.At, Salt: base64.RawURLEncoding.EncodeToString(e.Salt[:]),
	}
}
