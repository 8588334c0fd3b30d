// Package keyring stores the encryption keys of organizations, one each, in files of
// its own outside the storage engine, so that a key can be destroyed: after Destroy
// returns, no file of the directory contains the key, and a tombstone tells erased from
// lost. The keys are spread over 256 shards by a random byte of the organization's id.
// A shard is one file in two copies, which is rewritten completely for every change, one
// copy after the other, so that at every instant one of them is sound and has every
// acknowledged key. A caller that keeps new keys in a log of its own can use them from memory,
// and write them later. The package also copies a keyring into a backup, restores it from there,
// and verifies it. What the keys encrypt is decided elsewhere.
//
// docs: decisions/0018-a-keyring-beside-the-store.md
package keyring
