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

	"parley/client/parley"
	"parley/client/secretfile"
)

// groupKeys stores an agent's keys of groups, in memory or in a directory: for each group
// one file with its own chains and one for each sender. Each change reads the file and
// rewrites it under a lock, so that several processes of one agent never use the same
// key.
type groupKeys struct {
	dir    string
	mu     sync.Mutex
	memory map[string][]byte
}

// ownFile is the file with the agent's own chains. Other files are named after the
// sender.
const ownFile = "own"

// groupKeysBeside returns the keys of groups that belong to a ring stored at path.
func groupKeysBeside(path string) *groupKeys {
	if path == "" {
		return &groupKeys{memory: map[string][]byte{}}
	}
	return &groupKeys{dir: strings.TrimSuffix(path, ".json") + ".groups"}
}

// own reads or changes the agent's own chains of a group. A change by f is stored if f
// reports one and returns no error.
func (k *groupKeys) own(group parley.GroupID, f func(*ownKeys) (changed bool, err error)) error {
	state := &ownKeys{Version: 1}
	return k.with(filepath.Join(group.String(), ownFile), state, func() (bool, error) {
		if state.Version != 1 {
			return false, errKeysVersion
		}
		return f(state)
	})
}

// peer reads or changes the chains of a sender in a group.
func (k *groupKeys) peer(group parley.GroupID, sender parley.AgentID, f func(*peerKeys) (changed bool, err error)) error {
	state := &peerKeys{Version: 1}
	return k.with(filepath.Join(group.String(), sender.String()), state, func() (bool, error) {
		if state.Version != 1 {
			return false, errKeysVersion
		}
		return f(state)
	})
}

var errKeysVersion = errors.New("unknown version of group keys")

func (k *groupKeys) with(name string, state any, f func() (bool, error)) (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dir != "" {
		unlock, err := secretfile.LockDirectory(k.dir)
		if err != nil {
			return err
		}
		defer unlock()
	}
	b, err := k.read(name)
	if err != nil {
		return err
	}
	if b != nil {
		if err := json.Unmarshal(b, state); err != nil {
			return fmt.Errorf("%s: %w", k.path(name), err)
		}
	}
	changed, err := f()
	if err != nil || !changed {
		return err
	}
	if b, err = json.Marshal(state); err != nil {
		return err
	}
	if k.dir == "" {
		k.memory[name] = b
		return nil
	}
	return secretfile.Replace(k.path(name), append(b, '\n'))
}

func (k *groupKeys) path(name string) string { return filepath.Join(k.dir, name+".json") }

// read returns nil if there is nothing.
func (k *groupKeys) read(name string) ([]byte, error) {
	if k.dir == "" {
		return k.memory[name], nil
	}
	b, err := secretfile.Read(k.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// forget removes all keys of a group.
func (k *groupKeys) forget(group parley.GroupID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dir == "" {
		for name := range k.memory {
			if strings.HasPrefix(name, group.String()) {
				delete(k.memory, name)
			}
		}
		return nil
	}
	unlock, err := secretfile.LockDirectory(k.dir)
	if err != nil {
		return err
	}
	defer unlock()
	return os.RemoveAll(filepath.Join(k.dir, group.String()))
}
