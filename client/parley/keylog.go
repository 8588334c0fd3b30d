package parley

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// Kinds of events about an agent's keys, as they are named in the key log.
const (
	KeyLogCreated   = "created"
	KeyLogKeys      = "keys"
	KeyLogBinding   = "binding"
	KeyLogRetired   = "retired"
	KeyLogPQ        = "pq"
	KeyLogPQRemoved = "pq_removed"
	KeyLogRevoked   = "revoked"
)

const (
	// KeyLogSaltBytes is the length of the salt of a leaf.
	KeyLogSaltBytes = 32
	// KeyLogHashBytes is the length of a commitment and of each hash of the tree.
	KeyLogHashBytes = sha256.Size
)

// KeyLogEntry is one event about an agent's keys: what a leaf of the key log commits to.
// Kids are RFC 7638 thumbprints, "" for a key that the agent does not have. They are those
// in force after the event.
type KeyLogEntry struct {
	Agent AgentID
	// Address is the agent's handle without the domain: name@slug.
	Address string
	// Number counts the entries of the agent, from 0.
	Number uint32
	// Kind is one of the kinds above.
	Kind                             string
	SigningKid, EncryptionKid, PQKid string
	// Subject is what the event was about: the kid of a retired key, or the SHA-256 of the
	// signature of a binding, in base64url. It is "" for other kinds.
	Subject string
	// At is the instant of the event in the format of KeyLogInstant.
	At   string
	Salt [KeyLogSaltBytes]byte
}

// KeyLogInstant formats the instant of an entry: RFC 3339 in UTC with six decimals.
func KeyLogInstant(ms int64) string {
	return time.UnixMilli(ms).UTC().Format(wholeSecond + ".000000Z")
}

// Text returns what the commitment is the SHA-256 of: eleven lines, joined by line feeds.
// No line contains a line feed, so no two entries have the same text. // docs: key-log.md
func (e *KeyLogEntry) Text() []byte {
	return []byte(strings.Join([]string{
		"parley-key-log-v1", e.Agent.String(), e.Address, strconv.FormatUint(uint64(e.Number), 10), e.Kind,
		e.SigningKid, e.EncryptionKid, e.PQKid, e.Subject, e.At, base64.RawURLEncoding.EncodeToString(e.Salt[:]),
	}, "\n"))
}

// Commitment returns the leaf of the entry: without the salt, it says nothing about the
// entry.
func (e *KeyLogEntry) Commitment() [KeyLogHashBytes]byte { return sha256.Sum256(e.Text()) }
