// Package keylog verifies that the keys a server returns are in its key log, and that the log
// continues the one that was seen before.
package keylog

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
)

// Errors of the key log. What they are wrapped in says more.
var (
	// ErrFork means that the server's key log does not continue the one that the
	// client saw before: the server has changed or lost entries, perhaps by a restore.
	ErrFork = errors.New("the key log of the server is not the one seen before")
	// ErrNotLogged means that the keys of an agent are not in the key log as the server
	// returned them.
	ErrNotLogged = errors.New("the keys are not in the key log")
)

// Tree is the key log of a server at one time.
type Tree struct {
	// Origin names the log, VerifierKey is the key that signs its checkpoints, in the form
	// of signed notes.
	Origin      string `json:"origin"`
	VerifierKey string `json:"verifier_key"`
	Size        uint64 `json:"size"`
	// Root is the root hash in base64.
	Root string `json:"root"`
}

// Logged is what the key log says about the keys of an agent.
type Logged struct {
	Tree Tree
	// Entries are all entries of the agent, oldest first. Their inclusion in the tree was
	// verified.
	Entries []api.KeyLogEntry
}

// appendWait is how long Check waits for an entry that is not in the log yet: a change
// of keys is appended a moment after it was answered.
const (
	appendWait  = 5 * time.Second
	appendPause = 200 * time.Millisecond
)

// proofsMax is how many entries of one agent are verified, the newest ones.
const proofsMax = 256

// Check verifies that keys are the newest ones of their agent in the server's key log,
// and that the log continues the tree that was seen before, if seen is not nil. The tree is
// returned also if the keys are not in the log: the caller remembers it. The error is, or
// wraps, ErrFork or ErrNotLogged if the server is not to be trusted.
func Check(ctx context.Context, c *client.Session, h parley.Handle, keys *api.AgentKeys, seen *Tree) (*Logged, error) {
	return check{c.KeyLog, appendWait}.run(ctx, h, keys, seen)
}

// check makes the calls of one check, and waits for a promised entry.
type check struct {
	log  client.KeyLog
	wait time.Duration
}

func (l check) run(ctx context.Context, h parley.Handle, keys *api.AgentKeys, seen *Tree) (*Logged, error) {
	entries, err := l.logged(ctx, h, keys)
	if err != nil && !errors.Is(err, ErrNotLogged) {
		return nil, err
	}
	tree, forked := l.tree(ctx, seen)
	if forked != nil {
		return nil, forked
	}
	out := &Logged{Tree: *tree, Entries: entries}
	if err == nil {
		err = l.included(ctx, entries, tree)
	}
	return out, err
}

// logged returns the entries of an agent, and an error if the newest one does not
// name the keys.
func (l check) logged(ctx context.Context, h parley.Handle, keys *api.AgentKeys) ([]api.KeyLogEntry, error) {
	for waited := time.Duration(0); ; waited += appendPause {
		entries, err := l.entries(ctx, h.String())
		if err != nil {
			return nil, fmt.Errorf("key log: %w", err)
		}
		pending := len(entries) > 0 && entries[len(entries)-1].Index == nil
		if !pending || waited >= l.wait {
			return entries, judgeEntries(entries, h, keys)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(appendPause):
		}
	}
}

func (l check) entries(ctx context.Context, agent string) (all []api.KeyLogEntry, err error) {
	for entry, err := range client.All(ctx, l.log.Entries, api.GetKeyLogEntries{ID: agent, Limit: 200}) {
		if err != nil {
			return nil, err
		}
		all = append(all, entry)
	}
	return all, nil
}

// judgeEntries compares entries with the keys that the server returned. Inclusion is not
// verified here.
func judgeEntries(entries []api.KeyLogEntry, h parley.Handle, keys *api.AgentKeys) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrNotLogged, fmt.Sprintf(format, args...))
	}
	if len(entries) == 0 {
		return refuse("the agent has no entry; its keys have not changed since the server has a key log")
	}
	address, last := strings.ToLower(h.Name+"@"+h.Slug), -1
	for i, e := range entries {
		switch {
		case e.Number != i || e.AgentID != keys.AgentID || e.Address != address:
			return refuse("entry %d is of another agent, or entries are missing", i)
		case e.Index == nil:
			return refuse("entry %d was promised and has not been appended", i)
		case *e.Index <= last:
			return refuse("entry %d lies before an earlier one", i)
		}
		last = *e.Index
	}
	newest := entries[len(entries)-1]
	signing, err := thumbprintOf(keys.SigningPublicKey, parley.Ed25519)
	if err != nil {
		return err
	}
	encryption, err := thumbprintOf(keys.EncryptionPublicKey, parley.X25519)
	if err != nil {
		return err
	}
	pq, err := pqThumbprint(keys.PQPublicKey)
	switch {
	case err != nil:
		return err
	case newest.Kind == parley.KeyLogRevoked:
		return refuse("the agent was revoked at %s", newest.At)
	case newest.SigningKid != signing || newest.EncryptionKid != encryption || text(newest.PQKid) != pq:
		return refuse("its newest entry, of %s, names other keys than the server returns", newest.At)
	}
	return nil
}

func thumbprintOf(key *api.JWK, curve string) (string, error) {
	raw, err := key.Raw(curve)
	return parley.Thumbprint(curve, raw), err
}

func pqThumbprint(key *api.PQKey) (string, error) {
	if key == nil {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(key.Pub)
	return parley.AKPThumbprint(key.Algorithm, raw), err
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// tree fetches the newest checkpoint, and verifies that it is signed and continues the
// tree that was seen before.
func (l check) tree(ctx context.Context, seen *Tree) (*Tree, error) {
	var verifier string
	if seen != nil {
		verifier = seen.VerifierKey
	} else {
		log, err := l.log.Get(ctx)
		if err != nil {
			return nil, fmt.Errorf("key log: %w", err)
		}
		verifier = log.VerifierKey
	}
	checkpoint, err := l.log.Checkpoint(ctx)
	if err != nil {
		return nil, fmt.Errorf("checkpoint of the key log: %w", err)
	}
	tree, err := openCheckpoint(checkpoint, verifier)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: its checkpoint: %w", ErrFork, err)
	case seen == nil:
		return tree, nil
	case tree.Size < seen.Size:
		return nil, fmt.Errorf("%w: it has %d entries and had %d", ErrFork, tree.Size, seen.Size)
	case tree.Size == seen.Size && tree.Root != seen.Root:
		return nil, fmt.Errorf("%w: two different logs of %d entries are signed", ErrFork, seen.Size)
	case tree.Size == seen.Size || seen.Size == 0:
		return tree, nil
	}
	proof, err := hashes(l.log.Consistency(ctx, api.GetConsistencyProof{From: int(seen.Size), To: int(tree.Size)}))
	if err != nil {
		return nil, fmt.Errorf("consistency of the key log: %w", err)
	}
	if !consistent(proof, seen.Size, tree.Size, seen.rootHash(), tree.rootHash()) {
		return nil, fmt.Errorf("%w: its %d entries do not begin with the %d seen before", ErrFork, tree.Size, seen.Size)
	}
	return tree, nil
}

func (t *Tree) rootHash() (h [sha256.Size]byte) {
	b, _ := base64.StdEncoding.DecodeString(t.Root) // openCheckpoint and the file's reader have checked it
	copy(h[:], b)
	return h
}

// openCheckpoint verifies the signature of a checkpoint and reads it.
// // source: C2SP tlog-checkpoint, signed-note
func openCheckpoint(note, verifier string) (*Tree, error) {
	name, hash, key, err := parseVerifier(verifier)
	if err != nil {
		return nil, err
	}
	body, signatures, found := strings.Cut(note, "\n\n")
	if !found || !strings.HasSuffix(note, "\n") {
		return nil, errors.New("it is not a signed note")
	}
	body += "\n"
	if !signedBy(body, signatures, name, hash, key) {
		return nil, errors.New("it is not signed with the key of the log that was seen first")
	}
	lines := strings.Split(body, "\n")
	if len(lines) < 4 || lines[0] != name {
		return nil, errors.New("it is of another log")
	}
	size, err := strconv.ParseUint(lines[1], 10, 63)
	if err != nil || strconv.FormatUint(size, 10) != lines[1] {
		return nil, errors.New("its size cannot be read")
	}
	if root, err := base64.StdEncoding.Strict().DecodeString(lines[2]); err != nil || len(root) != sha256.Size {
		return nil, errors.New("its root hash cannot be read")
	}
	return &Tree{Origin: lines[0], VerifierKey: verifier, Size: size, Root: lines[2]}, nil
}

// parseVerifier reads a verifier key: name, key hash and Ed25519 key.
func parseVerifier(text string) (name string, hash uint32, key ed25519.PublicKey, err error) {
	bad := errors.New("the verifier key of the log cannot be read")
	name, rest, _ := strings.Cut(text, "+")
	hex, encoded, found := strings.Cut(rest, "+")
	number, notHex := strconv.ParseUint(hex, 16, 32)
	raw, notBase64 := base64.StdEncoding.Strict().DecodeString(encoded)
	if !found || name == "" || len(hex) != 8 || notHex != nil || notBase64 != nil || len(raw) != 1+ed25519.PublicKeySize || raw[0] != 1 {
		return "", 0, nil, bad
	}
	sum := sha256.Sum256(append([]byte(name+"\n"), raw...))
	if binary.BigEndian.Uint32(sum[:]) != uint32(number) {
		return "", 0, nil, bad
	}
	return name, uint32(number), raw[1:], nil
}

// signedBy reports whether one of the signature lines of a note is by the key.
func signedBy(body, signatures, name string, hash uint32, key ed25519.PublicKey) bool {
	for line := range strings.Lines(signatures) {
		by, encoded, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(line, "— "), "\n"), " ")
		b, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err == nil && by == name && len(b) == 4+ed25519.SignatureSize && binary.BigEndian.Uint32(b) == hash && ed25519.Verify(key, []byte(body), b[4:]) {
			return true
		}
	}
	return false
}

// included verifies that the newest entries are leaves of the tree.
func (l check) included(ctx context.Context, entries []api.KeyLogEntry, tree *Tree) error {
	for _, e := range entries[max(0, len(entries)-proofsMax):] {
		leaf, err := commitment(e)
		if err != nil {
			return err
		}
		index := uint64(*e.Index)
		if index >= tree.Size {
			return fmt.Errorf("%w: entry %d should be at %d, beyond the signed checkpoint", ErrNotLogged, e.Number, index)
		}
		proof, err := hashes(l.log.Inclusion(ctx, api.GetInclusionProof{Index: *e.Index, Size: int(tree.Size)}))
		if err != nil {
			return fmt.Errorf("inclusion in the key log: %w", err)
		}
		if root, ok := rootBy(proof, leafHash(leaf[:]), index, tree.Size); !ok || root != tree.rootHash() {
			return fmt.Errorf("%w: entry %d, of %s, is not the leaf at %d", ErrNotLogged, e.Number, e.At, index)
		}
	}
	return nil
}

// commitment returns the leaf of an entry as the server described it.
func commitment(e api.KeyLogEntry) (leaf [sha256.Size]byte, err error) {
	entry := parley.KeyLogEntry{
		Agent: e.AgentID, Address: e.Address, Number: uint32(e.Number), Kind: e.Kind, SigningKid: e.SigningKid, EncryptionKid: e.EncryptionKid,
		PQKid: text(e.PQKid), Subject: text(e.Subject), At: e.At,
	}
	salt, err := base64.RawURLEncoding.Strict().DecodeString(e.Salt)
	if err != nil || len(salt) != len(entry.Salt) || strings.Contains(e.Kind+e.SigningKid+e.EncryptionKid+entry.PQKid+entry.Subject+e.At, "\n") {
		return leaf, fmt.Errorf("%w: entry %d cannot be read", ErrNotLogged, e.Number)
	}
	copy(entry.Salt[:], salt)
	return entry.Commitment(), nil
}

// hashes returns the hashes of a proof.
func hashes(answer *api.KeyLogProof, err error) ([][sha256.Size]byte, error) {
	if err != nil {
		return nil, err
	}
	proof := make([][sha256.Size]byte, len(answer.Hashes))
	for i, text := range answer.Hashes {
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || len(b) != sha256.Size {
			return nil, errors.New("a hash of the proof cannot be read")
		}
		copy(proof[i][:], b)
	}
	return proof, nil
}

func leafHash(leaf []byte) [sha256.Size]byte { return sha256.Sum256(append([]byte{0}, leaf...)) }

func nodeHash(left, right [sha256.Size]byte) [sha256.Size]byte {
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

// rootBy returns the root hash of the tree of size leaves that a proof of inclusion leads
// to. // source: RFC 9162 section 2.1.3.2
func rootBy(proof [][sha256.Size]byte, leaf [sha256.Size]byte, index, size uint64) (root [sha256.Size]byte, ok bool) {
	at, last := index, size-1
	root = leaf
	for _, p := range proof {
		if last == 0 {
			return root, false
		}
		if at&1 == 1 || at == last {
			root = nodeHash(p, root)
			for at&1 == 0 && at != 0 {
				at, last = at>>1, last>>1
			}
		} else {
			root = nodeHash(root, p)
		}
		at, last = at>>1, last>>1
	}
	return root, last == 0
}

// consistent verifies a proof that the tree of to leaves begins with that of from leaves.
// // source: RFC 9162 section 2.1.4.2
func consistent(proof [][sha256.Size]byte, from, to uint64, before, after [sha256.Size]byte) bool {
	if from == to {
		return len(proof) == 0 && before == after
	}
	if from == 0 || from > to {
		return false
	}
	if from&(from-1) == 0 { // a complete subtree is its own proof
		proof = append([][sha256.Size]byte{before}, proof...)
	}
	if len(proof) == 0 {
		return false
	}
	at, last := from-1, to-1
	for at&1 == 1 {
		at, last = at>>1, last>>1
	}
	was, is := proof[0], proof[0]
	for _, p := range proof[1:] {
		if last == 0 {
			return false
		}
		if at&1 == 1 || at == last {
			was, is = nodeHash(p, was), nodeHash(p, is)
			for at&1 == 0 && at != 0 {
				at, last = at>>1, last>>1
			}
		} else {
			is = nodeHash(is, p)
		}
		at, last = at>>1, last>>1
	}
	return was == before && is == after && last == 0
}
