package agent_test

import (
	"crypto/sha256"
	"encoding/base64"
	"testing"
	"time"

	"parley/actors/actorstest"
	"parley/actors/agent"
	"parley/client/parley"
)

// TestLogEntries checks what the leaves of each kind of event commit to.
func TestLogEntries(t *testing.T) {
	l := rules.Begin()
	id := parley.AgentID(actorstest.Named("alice"))
	n := byte(0)
	do := func(c agent.Command) (entries []parley.KeyLogEntry) {
		t.Helper()
		n += 2
		turn, err := l.Do(t, agent.Logged{Command: c, Salts: [2][32]byte{{n}, {n + 1}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range turn {
			if entry, logged := agent.KeyLogEntry(id, "alice@acme", e); logged {
				entries = append(entries, entry)
			}
		}
		return entries
	}
	kid := func(name string) string { return parley.Thumbprint(parley.Ed25519, key(name)) }
	seal := func(name string) string { return parley.Thumbprint(parley.X25519, key(name)) }
	at := parley.KeyLogInstant(actorstest.Epoch.UnixMilli())
	check := func(got []parley.KeyLogEntry, want ...parley.KeyLogEntry) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%d entries, want %d: %+v", len(got), len(want), got)
		}
		for i := range want {
			want[i].Agent, want[i].Address, want[i].At, want[i].Salt[0] = id, "alice@acme", at, n+byte(i)
			if got[i] != want[i] {
				t.Errorf("entry %d is\n%+v, want\n%+v", i, got[i], want[i])
			}
		}
	}
	check(do(agent.Create{ID: id, Name: "alice", SigningKey: key("ed1"), EncryptionKey: key("e1")}),
		parley.KeyLogEntry{Number: 0, Kind: "created", SigningKid: kid("ed1"), EncryptionKid: seal("e1")})
	pq := parley.AKPThumbprint(parley.XWing, key("pq1"))
	check(do(agent.SetPQKey{Algorithm: parley.XWing, Raw: key("pq1")}),
		parley.KeyLogEntry{Number: 1, Kind: "pq", SigningKid: kid("ed1"), EncryptionKid: seal("e1"), PQKid: pq})
	check(do(agent.IssuePollToken{Hash: key("poll")}))
	p := proof(key("ed2"), key("e2"), "ed2", "", actorstest.Epoch.Add(time.Microsecond).Format(instant))
	sum := sha256.Sum256(p.Signature)
	check(do(agent.RotateKeys{Signing: key("ed2"), Encryption: key("e2"), Proof: &p}),
		parley.KeyLogEntry{Number: 2, Kind: "keys", SigningKid: kid("ed2"), EncryptionKid: seal("e2")},
		parley.KeyLogEntry{Number: 3, Kind: "binding", SigningKid: kid("ed2"), EncryptionKid: seal("e2"), Subject: base64.RawURLEncoding.EncodeToString(sum[:])})
	check(do(agent.RetireKey{Kid: seal("e1")}),
		parley.KeyLogEntry{Number: 4, Kind: "retired", SigningKid: kid("ed2"), EncryptionKid: seal("e2"), Subject: seal("e1")})
	check(do(agent.SetPQKey{Algorithm: parley.XWing, Raw: key("pq1")}),
		parley.KeyLogEntry{Number: 5, Kind: "pq", SigningKid: kid("ed2"), EncryptionKid: seal("e2"), PQKid: pq})
	check(do(agent.RemovePQKey{}), parley.KeyLogEntry{Number: 6, Kind: "pq_removed", SigningKid: kid("ed2"), EncryptionKid: seal("e2")})
	check(do(agent.Revoke{}), parley.KeyLogEntry{Number: 7, Kind: "revoked", SigningKid: kid("ed2"), EncryptionKid: seal("e2")})
	if _, logged := agent.KeyLogEntry(id, "alice@acme", &agent.KeysRotated{SigningKey: key("ed3")}); logged {
		t.Error("an event without a leaf has an entry")
	}
}
