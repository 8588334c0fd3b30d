package keylog

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"parley/client"
	"parley/client/api"
	"parley/client/clienttest"
	"parley/client/parley"
)

type logHash = [sha256.Size]byte

// mth and the two functions below are the definitions of RFC 6962, section 2.1.
func mth(leaves []logHash) logHash {
	switch n := len(leaves); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return leafHash(leaves[0][:])
	default:
		k := half(n)
		return nodeHash(mth(leaves[:k]), mth(leaves[k:]))
	}
}

func half(n int) int {
	k := 1
	for k*2 < n {
		k *= 2
	}
	return k
}

func auditPath(m int, leaves []logHash) []logHash {
	n := len(leaves)
	if n == 1 {
		return nil
	}
	if k := half(n); m < k {
		return append(auditPath(m, leaves[:k]), mth(leaves[k:]))
	} else {
		return append(auditPath(m-k, leaves[k:]), mth(leaves[:k]))
	}
}

func subProof(m int, leaves []logHash, whole bool) []logHash {
	n := len(leaves)
	if m == n {
		if whole {
			return nil
		}
		return []logHash{mth(leaves)}
	}
	if k := half(n); m <= k {
		return append(subProof(m, leaves[:k], whole), mth(leaves[k:]))
	} else {
		return append(subProof(m-k, leaves[k:], false), mth(leaves[:k]))
	}
}

func someLeaves(n int, salt byte) (leaves []logHash) {
	for i := range n {
		leaves = append(leaves, sha256.Sum256([]byte{salt, byte(i), byte(i >> 8)}))
	}
	return leaves
}

// TestKeyLogProofs compares the verification with the definitions, for all trees of up to 40
// leaves. A changed proof never verifies.
func TestKeyLogProofs(t *testing.T) {
	all := someLeaves(40, 0)
	for size := 1; size <= len(all); size++ {
		tree := all[:size]
		for i := range tree {
			path := auditPath(i, tree)
			if root, ok := rootBy(path, leafHash(tree[i][:]), uint64(i), uint64(size)); !ok || root != mth(tree) {
				t.Fatalf("leaf %d of %d", i, size)
			}
			if _, ok := rootBy(append(path, logHash{}), leafHash(tree[i][:]), uint64(i), uint64(size)); ok {
				t.Fatalf("leaf %d of %d: a longer path", i, size)
			}
			if root, ok := rootBy(path, leafHash(all[(i+1)%len(all)][:]), uint64(i), uint64(size)); ok && root == mth(tree) {
				t.Fatalf("leaf %d of %d: another leaf", i, size)
			}
		}
		for from := 1; from <= size; from++ {
			proof, before, after := subProof(from, tree, true), mth(all[:from]), mth(tree)
			if !consistent(proof, uint64(from), uint64(size), before, after) {
				t.Fatalf("%d in %d", from, size)
			}
			before[0] ^= 1
			if consistent(proof, uint64(from), uint64(size), before, after) || from < size && consistent(nil, uint64(from), uint64(size), mth(all[:from]), after) {
				t.Fatalf("%d in %d: a wrong proof", from, size)
			}
		}
	}
}

// logServer serves a key log as it is told to, and the entries of one agent.
type logServer struct {
	*httptest.Server
	key     ed25519.PrivateKey
	leaves  []logHash
	entries []api.KeyLogEntry
}

const logOrigin = "localhost/key-log"

func (s *logServer) verifier() string {
	raw := append([]byte{1}, s.key.Public().(ed25519.PublicKey)...)
	sum := sha256.Sum256(append([]byte(logOrigin+"\n"), raw...))
	return fmt.Sprintf("%s+%x+%s", logOrigin, sum[:4], base64.StdEncoding.EncodeToString(raw))
}

func (s *logServer) checkpoint() string {
	root := mth(s.leaves)
	body := fmt.Sprintf("%s\n%d\n%s\n", logOrigin, len(s.leaves), base64.StdEncoding.EncodeToString(root[:]))
	raw := append([]byte{1}, s.key.Public().(ed25519.PublicKey)...)
	sum := sha256.Sum256(append([]byte(logOrigin+"\n"), raw...))
	signature := binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(sum[:]))
	signature = append(signature, ed25519.Sign(s.key, []byte(body))...)
	return body + "\n— witness.example/w abcd\n— " + logOrigin + " " + base64.StdEncoding.EncodeToString(signature) + "\n"
}

func newLogServer(t *testing.T, seed byte) *logServer {
	s := &logServer{key: ed25519.NewKeyFromSeed(append(make([]byte, 31), seed))}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /key-log", func(w http.ResponseWriter, _ *http.Request) {
		clienttest.Answer(w, 200, api.KeyLog{Origin: logOrigin, VerifierKey: s.verifier()})
	})
	mux.HandleFunc("GET /key-log/checkpoint", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(s.checkpoint())) })
	mux.HandleFunc("GET /agents/{id}/key-log", func(w http.ResponseWriter, _ *http.Request) {
		clienttest.Answer(w, 200, api.Page[api.KeyLogEntry]{Items: s.entries})
	})
	proof := func(w http.ResponseWriter, hashes []logHash) {
		out := api.KeyLogProof{Hashes: []string{}}
		for _, h := range hashes {
			out.Hashes = append(out.Hashes, base64.StdEncoding.EncodeToString(h[:]))
		}
		clienttest.Answer(w, 200, out)
	}
	number := func(r *http.Request, name string) int {
		n, _ := strconv.Atoi(r.URL.Query().Get(name))
		return min(n, len(s.leaves))
	}
	mux.HandleFunc("GET /key-log/proofs/inclusion", func(w http.ResponseWriter, r *http.Request) {
		proof(w, auditPath(number(r, "index"), s.leaves[:number(r, "size")]))
	})
	mux.HandleFunc("GET /key-log/proofs/consistency", func(w http.ResponseWriter, r *http.Request) {
		proof(w, subProof(number(r, "from"), s.leaves[:number(r, "to")], true))
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// log appends an entry of the agent.
func (s *logServer) log(t *testing.T, kind string, keys *api.AgentKeys) {
	t.Helper()
	signing, err := thumbprintOf(keys.SigningPublicKey, parley.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	encryption, err := thumbprintOf(keys.EncryptionPublicKey, parley.X25519)
	if err != nil {
		t.Fatal(err)
	}
	e := api.KeyLogEntry{
		Index: new(len(s.leaves)), AgentID: keys.AgentID, Address: "bob@acme", Number: len(s.entries), Kind: kind, SigningKid: signing, EncryptionKid: encryption,
		At: "2026-11-23T09:00:00.000000Z", Salt: base64.RawURLEncoding.EncodeToString(make([]byte, 32)),
	}
	leaf, err := commitment(e)
	if err != nil {
		t.Fatal(err)
	}
	s.entries, s.leaves = append(s.entries, e), append(s.leaves, leaf)
}

func logKeys(n byte) *api.AgentKeys {
	signing := ed25519.NewKeyFromSeed(append(make([]byte, 31), n)).Public().(ed25519.PublicKey)
	return &api.AgentKeys{
		AgentID:          parley.AgentID{1, 2, 3, 6: 0x70, 8: 0x80},
		SigningPublicKey: new(api.NewJWK(parley.Ed25519, signing)), EncryptionPublicKey: new(api.NewJWK(parley.X25519, append(make([]byte, 31), n+1))),
	}
}

// TestCheckKeyLog: keys that are in a log that continues the one seen before are accepted.
// A server that forks its log, goes back or leaves entries out is found out.
func TestCheckKeyLog(t *testing.T) {
	handle := parley.Handle{Name: "bob", Slug: "acme", Domain: "localhost"}
	setUp := func(t *testing.T) (*logServer, check) {
		s := newLogServer(t, 7)
		s.leaves = someLeaves(3, 1)
		s.log(t, parley.KeyLogCreated, logKeys(1))
		s.leaves = append(s.leaves, someLeaves(2, 2)...)
		c, err := client.New(s.URL, client.WithRetries(1, 0))
		if err != nil {
			t.Fatal(err)
		}
		return s, check{log: c.KeyLog}
	}
	for _, x := range []struct {
		name string
		// change is made after the log was seen; keys are those that the server returns then.
		change func(t *testing.T, s *logServer)
		keys   byte
		want   error
	}{
		{"nothing changed", func(*testing.T, *logServer) {}, 1, nil},
		{"the log has grown", func(_ *testing.T, s *logServer) { s.leaves = append(s.leaves, someLeaves(5, 3)...) }, 1, nil},
		{"new keys", func(t *testing.T, s *logServer) { s.log(t, parley.KeyLogKeys, logKeys(3)) }, 3, nil},
		{"another log of the same size", func(_ *testing.T, s *logServer) { s.leaves[0][0] ^= 1 }, 1, ErrFork},
		{"a larger log that does not continue it", func(_ *testing.T, s *logServer) {
			s.leaves[0][0] ^= 1
			s.leaves = append(s.leaves, someLeaves(5, 3)...)
		}, 1, ErrFork},
		{"a shorter log", func(_ *testing.T, s *logServer) { s.leaves = s.leaves[:5] }, 1, ErrFork},
		{"another key", func(_ *testing.T, s *logServer) { s.key = ed25519.NewKeyFromSeed(append(make([]byte, 31), 9)) }, 1, ErrFork},
		{"keys that were never logged", func(*testing.T, *logServer) {}, 3, ErrNotLogged},
		{"an entry that is not the leaf", func(t *testing.T, s *logServer) {
			s.log(t, parley.KeyLogKeys, logKeys(3))
			s.leaves[len(s.leaves)-1][0] ^= 1
		}, 3, ErrNotLogged},
		{"an entry that is promised", func(t *testing.T, s *logServer) {
			s.log(t, parley.KeyLogKeys, logKeys(3))
			s.entries[1].Index, s.leaves = nil, s.leaves[:6]
		}, 3, ErrNotLogged},
		{"an entry beyond the checkpoint", func(t *testing.T, s *logServer) {
			s.log(t, parley.KeyLogKeys, logKeys(3))
			s.leaves = s.leaves[:6]
		}, 3, ErrNotLogged},
		{"an entry is left out", func(t *testing.T, s *logServer) {
			s.log(t, parley.KeyLogKeys, logKeys(3))
			s.log(t, parley.KeyLogKeys, logKeys(5))
			s.entries = []api.KeyLogEntry{s.entries[0], s.entries[2]}
		}, 5, ErrNotLogged},
		{"the agent was revoked", func(t *testing.T, s *logServer) { s.log(t, parley.KeyLogRevoked, logKeys(1)) }, 1, ErrNotLogged},
		{"no entry", func(_ *testing.T, s *logServer) { s.entries = nil }, 1, ErrNotLogged},
	} {
		t.Run(x.name, func(t *testing.T) {
			s, c := setUp(t)
			first, err := c.run(t.Context(), handle, logKeys(1), nil)
			if err != nil || first.Tree.Size != 6 || len(first.Entries) != 1 {
				t.Fatalf("at first: %+v, %v", first, err)
			}
			x.change(t, s)
			logged, err := c.run(t.Context(), handle, logKeys(x.keys), &first.Tree)
			if !errors.Is(err, x.want) || (x.want == nil) != (err == nil) {
				t.Fatalf("%v, want %v", err, x.want)
			}
			if forked := errors.Is(err, ErrFork); forked != (logged == nil) {
				t.Errorf("%+v is returned with %v", logged, err)
			}
		})
	}
}

// TestSeenKeyLogs: the largest tree of a server is remembered, unless it is to be replaced.
func TestSeenKeyLogs(t *testing.T) {
	dir := t.TempDir()
	logs := OpenSeen(dir)
	if was, err := logs.Find("s"); was != nil || err != nil {
		t.Fatal(was, err)
	}
	tree := Tree{Origin: "o", VerifierKey: "v", Size: 5, Root: base64.StdEncoding.EncodeToString(make([]byte, 32))}
	remember := func(size uint64, replace bool) {
		t.Helper()
		next := tree
		next.Size = size
		if err := logs.Remember("s", next, replace); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want uint64) {
		t.Helper()
		if was, err := OpenSeen(dir).Find("s"); err != nil || was == nil || was.Size != want {
			t.Fatalf("%+v, %v, want %d entries", was, err, want)
		}
	}
	remember(5, false)
	remember(4, false)
	check(5)
	remember(6, false)
	check(6)
	remember(2, true)
	check(2)
	path := filepath.Join(dir, "pins", "key-logs.json")
	if err := os.WriteFile(path, []byte(`{"version":1,"servers":{"s":{"root":"short"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := logs.Find("s"); err == nil {
		t.Error("a damaged file was read")
	}
}
