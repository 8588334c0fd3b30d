package client

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// SeenKeyLogs remembers the key log of each server as it was last seen, in one file beside
// the pins. A log that does not continue what is remembered was changed.
type SeenKeyLogs struct{ dir string }

// seenKeyLogFile is the content of the file: trees by server.
type seenKeyLogFile struct {
	Version int                    `json:"version"`
	Servers map[string]*KeyLogTree `json:"servers"`
}

const keyLogFile = "key-logs.json"

// OpenSeenKeyLogs returns what is remembered beside the key rings in a directory. It does
// not read or create anything yet.
func OpenSeenKeyLogs(rings string) *SeenKeyLogs {
	return &SeenKeyLogs{dir: filepath.Join(rings, pinsDirectory)}
}

// Find returns the tree that was last seen at a server, nil if there is none.
func (s *SeenKeyLogs) Find(server string) (*KeyLogTree, error) {
	f, err := s.read()
	if err != nil {
		return nil, err
	}
	return f.Servers[server], nil
}

// Remember stores the tree of a server. A tree that another process has stored in the
// meantime stays if it is larger, unless replace is set.
func (s *SeenKeyLogs) Remember(server string, tree KeyLogTree, replace bool) error {
	unlock, err := lockDirectory(s.dir)
	if err != nil {
		return err
	}
	defer unlock()
	f, err := s.read()
	if err != nil {
		return err
	}
	if was := f.Servers[server]; was != nil && !replace && was.Size >= tree.Size {
		return nil
	}
	f.Servers[server] = &tree
	b, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	return writePrivate(filepath.Join(s.dir, keyLogFile), append(b, '\n'), os.Rename)
}

func (s *SeenKeyLogs) read() (*seenKeyLogFile, error) {
	path := filepath.Join(s.dir, keyLogFile)
	f := &seenKeyLogFile{Version: 1, Servers: map[string]*KeyLogTree{}}
	b, err := ReadPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		err = json.Unmarshal(b, f)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if f.Version != 1 || f.Servers == nil {
		return nil, fmt.Errorf("%s: unknown version of remembered key logs", path)
	}
	for server, tree := range f.Servers {
		if tree == nil {
			return nil, fmt.Errorf("%s: nothing is remembered of %s", path, server)
		}
		if root, err := base64.StdEncoding.DecodeString(tree.Root); err != nil || len(root) != len(tree.rootHash()) {
			return nil, fmt.Errorf("%s: the key log of %s cannot be read", path, server)
		}
	}
	return f, nil
}
