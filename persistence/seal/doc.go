// Package seal encrypts content at rest under the keys of the organizations that own
// it, so that destroying an organization's key makes its content unreadable in every
// copy: data directory, logs, backups. A Sealer turns plaintext into an envelope, which
// names its owners in the clear, and opens envelopes as long as every owner's key
// exists. It also computes the keyed hashes that stand for names and idempotency keys
// in row keys. Where keys are stored, and what is sealed, is decided elsewhere.
//
// docs: decisions/0017-keys.md
package seal
