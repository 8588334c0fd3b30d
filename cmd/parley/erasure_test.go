package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/actors/directory"
	"parley/client/parley"
	"parley/cmd/parley/datadir"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/keyring"
	"parley/persistence/seal"
	"parley/persistence/sealed"
)

// TestErasure puts canaries into every field of every request of an organization, destroys
// its key, and searches every byte of the data directory, of a backup made before and
// refreshed after, and of a restore: nothing is found, nothing opens, and the messages of
// everyone else still open.
func TestErasure(t *testing.T) {
	datadir.KeepFilesPrivate() // as main does: a restored master key must be private
	for _, journals := range []string{"4", "1"} {
		t.Run("journals="+journals, func(t *testing.T) { testErasure(t, journals) })
	}
}

func testErasure(t *testing.T, journals string) {
	dir := t.TempDir()
	data, backup := filepath.Join(dir, "data"), filepath.Join(dir, "backup")
	x := &story{liveServer: serveData(t, data, journals), fates: map[string]fate{}, filled: map[string]bool{}}
	gone, stays, other := x.register(erased), x.register(kept), x.register(kept)
	for _, p := range []*party{gone, other} {
		p.talks(stays)
		p.bridges(stays)
		p.groups(stays)
		p.webhooks(stays)
		p.fails(stays)
	}
	x.requireAllFilled()
	x.conceals("the log", data)
	x.stop()
	x.liveServer = serveData(t, data, journals) // which moves what was in the log into tables
	gone.sends(stays, 20)
	other.sends(stays, 20)
	x.showsTo(stays, gone.sent, 200)
	x.conceals("the data directory", data)
	x.backsUp(data, backup)
	x.stop()
	x.opens("all keys, data directory", data, true)
	before := filepath.Join(dir, "restored before")
	x.restores(backup, before)
	x.opens("all keys, restored directory", before, true)

	keyrings := keyringsOf(t, data, backup, before)
	destroyKey(t, data, gone.id)
	if keyrings[data].changed(t) != 2 { // both copies of a shard
		t.Error("the keyring has what it had before")
	}
	x.conceals("the data directory without the key", data)
	x.opens("remaining keys, data directory", data, false)

	x.liveServer = serveData(t, data, journals)
	x.goesOn(gone, stays, other)
	if keyrings[backup].changed(t) != 0 {
		t.Error("the keyring of the backup has changed before the next backup")
	}
	x.backsUp(data, backup)
	x.stop()
	x.verifies(data)
	after := filepath.Join(dir, "restored after")
	x.restores(backup, after)
	for _, directory := range []string{data, backup, after} {
		if keyrings[data].in(t, directory) || keyrings[backup].in(t, directory) {
			t.Errorf("%s has what a keyring had before", directory)
		}
	}
	if !keyrings[before].in(t, before) {
		t.Error("the keyring that was not replaced is not found: the search does not work")
	}
	x.conceals("the backup", backup)
	x.conceals("the restored directory", after)
	x.opens("remaining keys, restored directory", after, false)
	x.verifies(after)
}

// conceals searches a directory, in which no canary may be.
func (x *story) conceals(what, dir string) {
	x.t.Helper()
	s := x.search(x.t, dir)
	if names := s.names(); len(names) > 0 {
		x.t.Errorf("%s contains %d canaries: %q", what, len(names), names)
	}
	ids := len(s.found) - len(s.names())
	if ids < 10 || s.records == 0 || what != "the log" && (s.pairs == 0 || s.blocks == 0) {
		x.t.Errorf("%s: %d ids were found, in %d files with %d pairs, %d blocks and %d records: the search does not work", what, ids, s.files, s.pairs, s.blocks, s.records)
	}
}

// opens opens everything in a data directory with the keys that it has.
func (x *story) opens(what, data string, all bool) {
	x.t.Helper()
	archive, err := persistence.OpenArchive(filepath.Join(data, "journal"), persistence.Options{Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		x.t.Fatal(err)
	}
	master, err := datadir.FindMasterKey(data)
	if err != nil {
		x.t.Fatal(err)
	}
	keys, err := datadir.VerifyKeyring(data, master, archive.WitnessedKeyring())
	if err != nil || keys.Report == nil {
		x.t.Fatal(err)
	}
	sealer, found, unreadable := datadir.Sealer(keys.Report), map[string]bool{}, 0
	err = archive.Pairs(func(key, value []byte) error {
		opened, err := sealed.OpenPair(sealer, key, value)
		if errors.Is(err, journal.ErrErased) {
			unreadable++
			return nil
		}
		x.find(key, found)
		x.find(opened, found)
		return err
	})
	if err := errors.Join(err, archive.Close()); err != nil {
		x.t.Errorf("%s: %v", what, err)
	}
	want := x.named(kept)
	if all {
		want = slices.Sorted(slices.Values(append(want, x.named(erased)...)))
	}
	for name := range found {
		if !strings.HasPrefix(name, idPrefix) && !slices.Contains(want, name) {
			x.t.Errorf("%s: %s can be read", what, name)
		}
	}
	for _, name := range want {
		if !found[name] {
			x.t.Errorf("%s: %s cannot be read", what, name)
		}
	}
	if all != (unreadable == 0) {
		x.t.Errorf("%s: %d rows were erased", what, unreadable)
	}
	x.opensCheckpoint(what, data, sealer, all)
}

// opensCheckpoint opens the checkpoint of the directory with the keys that there are. What
// it finds there would be found in the file if that were not sealed.
func (x *story) opensCheckpoint(what, data string, sealer *seal.Sealer, all bool) {
	x.t.Helper()
	blocks := datadir.DirectoryCheckpoint(data, sealer)
	file, err := blocks.Open()
	if restored := strings.Contains(what, "restored"); restored || err != nil {
		if !restored || !errors.Is(err, fs.ErrNotExist) {
			x.t.Errorf("%s: the checkpoint of the directory: %v", what, err)
		}
		return
	}
	var mu sync.Mutex
	found, unreadable := map[string]bool{}, 0
	_, _, err = directory.ReadCheckpoint(file, directory.Options{}, func(org parley.OrgID, block int, content []byte) ([]byte, error) {
		plain, err := blocks.Unseal(org, block, content)
		mu.Lock()
		defer mu.Unlock()
		x.find(plain, found)
		if plain == nil {
			unreadable++
		}
		return plain, err
	})
	if err := errors.Join(err, file.Close()); err != nil {
		x.t.Errorf("%s: the checkpoint of the directory: %v", what, err)
	}
	if all != (unreadable == 0) {
		x.t.Errorf("%s: %d blocks of the checkpoint were erased", what, unreadable)
	}
	texts := map[fate]int{}
	for name := range found {
		if f, canary := x.fates[name]; canary {
			texts[f]++
		}
	}
	if texts[kept] < 3 || all != (texts[erased] >= 3) || !all && texts[erased] > 0 {
		x.t.Errorf("%s: in the checkpoint %d texts of those who stay and %d of the one that goes can be read", what, texts[kept], texts[erased])
	}
}

// destroyKey destroys the key of an organization. No server may have the directory open.
func destroyKey(t *testing.T, data, org string) {
	t.Helper()
	master, err := datadir.FindMasterKey(data)
	if err != nil {
		t.Fatal(err)
	}
	id, err := parley.ParseID[parley.OrgID](org)
	if err != nil {
		t.Fatal(err)
	}
	store, keys, err := datadir.OpenStore(data, master, persistence.Options{Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, state := keys.Key(id); state != keyring.Live {
		t.Errorf("the organization's key is %v", state)
	}
	if err := errors.Join(keys.Destroy(id, time.Now()), store.Close()); err != nil {
		t.Fatal(err)
	}
}

// formerKeyring is the files of a keyring as they were, by path.
type formerKeyring map[string][]byte

// keyringsOf reads the keyrings of directories.
func keyringsOf(t *testing.T, dirs ...string) map[string]formerKeyring {
	t.Helper()
	all := map[string]formerKeyring{}
	for _, dir := range dirs {
		all[dir] = formerKeyring{}
		for path, content := range filesOf(t, dir) {
			if extension := filepath.Ext(path); extension == ".a" || extension == ".b" {
				all[dir][path] = content
			}
		}
		if len(all[dir]) != 2*keyring.Shards {
			t.Fatalf("%s has %d files of a keyring", dir, len(all[dir]))
		}
	}
	return all
}

// changed returns how many files have another content now.
func (k formerKeyring) changed(t *testing.T) (files int) {
	t.Helper()
	for path, content := range k {
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bytes.TrimRight(now, "\x00"), content) {
			files++
		}
	}
	return files
}

// in reports whether a file below a directory has the end of one of the files, which is
// ciphertext that no other file has. Those that have not changed since do not count,
// unless none has.
func (k formerKeyring) in(t *testing.T, dir string) bool {
	t.Helper()
	all, files := k.changed(t) == 0, filesOf(t, dir)
	for path, old := range k {
		if now, err := os.ReadFile(path); err != nil || !all && bytes.Equal(bytes.TrimRight(now, "\x00"), old) {
			continue
		}
		for _, content := range files {
			if bytes.Contains(content, old[len(old)-48:]) {
				return true
			}
		}
	}
	return false
}

func (x *story) backsUp(data, backup string) {
	x.t.Helper()
	if code, out, said := ran(x.t, "backup", "--to", backup, "--admin", x.admin, "--data", data); code != 0 {
		x.t.Fatalf("backup: exit %d\n%s%s", code, out, said)
	}
}

// restores restores the oldest snapshot of a backup.
func (x *story) restores(backup, to string) {
	x.t.Helper()
	snapshots, err := os.ReadDir(filepath.Join(backup, "snapshots"))
	if err != nil || len(snapshots) == 0 {
		x.t.Fatal(snapshots, err)
	}
	if code, out, said := ran(x.t, "restore", "--from", backup+"@"+snapshots[0].Name(), "--data", to); code != 0 {
		x.t.Fatalf("restore: exit %d\n%s%s", code, out, said)
	}
}

// verifies verifies a data directory in which an organization was erased.
func (x *story) verifies(data string) {
	x.t.Helper()
	if code, out, said := ran(x.t, "verify", "--data", data); code != 0 || !strings.Contains(out, "contents of erased organizations remain") || !strings.Contains(out, "is in order") {
		x.t.Errorf("verify: exit %d\n%s%s", code, out, said)
	}
}

// showsTo reads messages as their recipient.
func (x *story) showsTo(reader *party, ids []string, want int) (raw []byte) {
	x.t.Helper()
	for _, id := range ids {
		status, _, answer := x.call(reader.token, "GET", "/messages/"+id, nil, reader.agents[0].as()...)
		if status != want {
			x.t.Errorf("message %s: status %d, want %d: %s", id, status, want, answer)
		}
		raw = append(raw, answer...)
	}
	return raw
}

// goesOn checks what a server shows after an organization was erased.
func (x *story) goesOn(gone, stays, other *party) {
	x.t.Helper()
	x.showsTo(stays, gone.sent, 410)
	x.showsTo(other, gone.sent, 404)
	x.forgets(gone, stays)
	shown := x.showsTo(stays, other.sent, 200)
	last := other.do(201, "POST /messages", nil, object{"to_agent_id": stays.agents[0].id, "type": "a.b.c", "encrypted_payload": "aGVsbG8"}, other.agents[0].as()...)
	shown = append(shown, x.streamUntil(stays.token, stays.agents[0].id, last["id"].(string))...)
	for cursor := ""; ; {
		status, page, raw := x.call(stays.token, "GET", "/agents/"+stays.agents[0].id+"/messages?limit=100"+cursor, nil)
		if status != 200 {
			x.t.Fatalf("inbox: %d %s", status, raw)
		}
		shown = append(shown, raw...)
		if page["has_more"] != true {
			break
		}
		cursor = fmt.Sprintf("&cursor=%v", page["next_cursor"])
	}
	paths := []string{"/groups?scope=all", "/groups/invites", "/directory/groups", "/org", "/org/quotas", "/agents", "/webhooks", "/agents/" + stays.agents[0].id + "/conversations"}
	for _, group := range stays.owned {
		paths = append(paths, "/groups/"+group, "/groups/"+group+"/members", "/groups/"+group+"/requests?status=all")
	}
	for _, path := range paths {
		status, _, raw := x.call(stays.token, "GET", path, nil)
		if status != 200 {
			x.t.Errorf("%s: %d %s", path, status, raw)
		}
		shown = append(shown, raw...)
	}
	to := object{"to_agent_id": gone.agents[0].id, "type": "a.b.c", "encrypted_payload": "aGVsbG8"}
	if status, _, raw := x.call(stays.token, "POST", "/messages", to, stays.agents[0].as()...); status < 400 || status >= 500 {
		x.t.Errorf("a message to an erased organization: %d %s", status, raw)
	}
	if status, _, raw := x.call(gone.token, "GET", "/org", nil); status < 400 || status >= 500 {
		x.t.Errorf("a request of an erased organization: %d %s", status, raw)
	}
	found := map[string]bool{}
	x.find(shown, found)
	for name := range maps.Keys(found) {
		if f, canary := x.fates[name]; canary && f != kept {
			x.t.Errorf("%s is shown", name)
		}
	}
	for _, id := range gone.sent {
		if strings.Contains(string(shown), id) {
			x.t.Errorf("message %s of the erased organization is listed", id)
		}
	}
	if len(found) < len(x.named(kept))/4 {
		x.t.Errorf("only %d canaries are shown", len(found))
	}
}

// forgets checks what the public interface answers about the agents of an erased
// organization.
func (x *story) forgets(gone, stays *party) {
	x.t.Helper()
	g, s := gone.agents[0], stays.agents[0]
	for path, want := range map[string]int{
		"/agents/" + g.id + "/keys": 410, "/agents/" + g.id + "/card": 410, "/.well-known/agent-cards/" + g.id + ".json": 410, "/agents/" + g.id + "/did.json": 410,
		"/.well-known/webfinger?resource=acct:" + g.handle: 404,
		"/.well-known/webfinger?resource=acct:" + s.handle: 200,
	} {
		if status, _, raw := x.call("", "GET", path, nil); status != want {
			x.t.Errorf("%s: status %d, want %d: %s", path, status, want, raw)
		}
	}
	_, batch, raw := x.call("", "GET", "/agents/keys?ids="+g.id+"&ids="+s.id, nil)
	if keys, _ := batch["keys"].(map[string]any); len(keys) != 1 || keys[s.id] == nil {
		x.t.Errorf("the keys of an erased agent and another one: %s", raw)
	}
}
