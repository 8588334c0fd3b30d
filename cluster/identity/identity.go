package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// DirectoryName is the name of the directory in a data directory.
const DirectoryName = "cluster"

// The files of the directory.
const (
	nodeFile = "node.json"
	caFile   = "ca.pem"
	caKey    = "ca.key"
	certFile = "node.pem"
	keyFile  = "node.key"
)

// ErrNone means that a data directory belongs to no cluster.
var ErrNone = errors.New("the data directory belongs to no cluster")

// Node is what a node is called.
type Node struct {
	Cluster ClusterID `json:"cluster_id"`
	ID      NodeID    `json:"node_id"`
	Name    string    `json:"name"`
	// Address is where other nodes reach it, host:port.
	Address string `json:"address"`
	// Joined says that the node has had the content of the cluster: it never starts blank
	// again.
	Joined bool `json:"joined"`
}

// Identity is the identity of a node with its files.
type Identity struct {
	Node
	dir   string
	files *files
}

// Exists reports whether a data directory belongs to a cluster.
func Exists(data string) bool {
	_, err := os.Lstat(filepath.Join(data, DirectoryName, nodeFile))
	return err == nil
}

// Open reads the identity of a data directory. It is ErrNone if there is none.
func Open(data string) (*Identity, error) {
	dir := filepath.Join(data, DirectoryName)
	text, err := os.ReadFile(filepath.Join(dir, nodeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", data, ErrNone)
	}
	if err != nil {
		return nil, err
	}
	id := &Identity{dir: dir, files: &files{dir: dir}}
	if err := json.Unmarshal(text, &id.Node); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, nodeFile), err)
	}
	if id.Cluster == 0 || id.ID == 0 {
		return nil, fmt.Errorf("%s: an id is missing", filepath.Join(dir, nodeFile))
	}
	_, err = id.files.load()
	return id, err
}

// write makes the directory of an identity: all files, or none that counts, since the file
// with the ids is written last.
func write(data string, n Node, content map[string][]byte) (*Identity, error) {
	dir := filepath.Join(data, DirectoryName)
	if Exists(data) {
		return nil, fmt.Errorf("%s belongs to a cluster already", data)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for name, b := range content {
		if err := replace(dir, name, b); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(writeNode(dir, n), syncDirectory(data)); err != nil {
		return nil, err
	}
	return Open(data)
}

func writeNode(dir string, n Node) error {
	text, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	return replace(dir, nodeFile, append(text, '\n'))
}

// SetJoined stores that the node has had the content of the cluster.
func (id *Identity) SetJoined() error {
	if id.Joined {
		return nil
	}
	n := id.Node
	n.Joined = true
	if err := writeNode(id.dir, n); err != nil {
		return err
	}
	id.Joined = true
	return nil
}

// WriteFile replaces a file that only its owner can read, durably.
func WriteFile(path string, content []byte) error {
	return replace(filepath.Dir(path), filepath.Base(path), content)
}

// replace replaces a file, durably. Only the owner can read it.
func replace(dir, name string, content []byte) error {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	return syncDirectory(dir)
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
