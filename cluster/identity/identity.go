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
	n, err := ReadNode(data)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(data, DirectoryName)
	id := &Identity{Node: n, dir: dir, files: &files{dir: dir}}
	_, err = id.files.load()
	return id, err
}

// ReadNode reads what the node of a data directory is called. It is ErrNone if there is none.
func ReadNode(data string) (n Node, err error) {
	path := filepath.Join(data, DirectoryName, nodeFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return n, fmt.Errorf("%s: %w", data, ErrNone)
	}
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(text, &n); err != nil {
		return n, fmt.Errorf("%s: %w", path, err)
	}
	if n.Cluster == 0 || n.ID == 0 {
		return n, fmt.Errorf("%s: an id is missing", path)
	}
	return n, nil
}

// write makes the directory of an identity.
func write(data string, n Node, content map[string][]byte) (*Identity, error) {
	if Exists(data) {
		return nil, fmt.Errorf("%s belongs to a cluster already", data)
	}
	return put(data, n, content)
}

// put writes all files of an identity, or none that counts, since the file with the ids is
// written last.
func put(data string, n Node, content map[string][]byte) (*Identity, error) {
	dir := filepath.Join(data, DirectoryName)
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
