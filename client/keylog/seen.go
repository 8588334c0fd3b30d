package keylog

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"parley/client/secretfile"
)

// Seen remembers the key log of each server as it was last seen, in one file beside
// the pins. A log that does not continue what is remembered was changed.
type Seen struct{ dir string }

// seenFile is the content of the file: trees by server.
type seenFile struct {
	Version int              `json:"version"`
	Servers map[string]*Tree `json:"servers"`
}

const fileName = "key-logs.json"

// OpenSeen returns what is remembered beside the key rings in a directory. It does
// not read or create anything yet.
func OpenSeen(rings string) *Seen {
	return &Seen{dir: filepath.Join(rings, "pins")}
}

// Find returns the tree that was last seen at a server, nil if there is none.
func (s *Seen) Find(server string) (*Tree, error) {
	f, err := s.read()
	if err != nil {
		return nil, err
	}
	return f.Servers[server], nil
}

// Remember stores the tree of a server. A tree that another process has stored in the
// meantime stays if it is larger, unless replace is set.
func (s *Seen) Remember(server string, tree Tree, replace bool) error {
	unlock, err := secretfile.LockDirectory(s.dir)
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
	return secretfile.Replace(filepath.Join(s.dir, fileName), append(b, '\n'))
}

func (s *Seen) read() (*seenFile, error) {
	path := filepath.Join(s.dir, fileName)
	f := &seenFile{Version: 1, Servers: map[string]*Tree{}}
	b, err := secretfile.Read(path)
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
