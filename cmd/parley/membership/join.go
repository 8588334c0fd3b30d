package membership

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"

	"parley/client/parley"
	"parley/cluster"
	"parley/cluster/identity"
	"parley/cluster/raftlog"
	"parley/cmd/parley/datadir"
	"parley/cmd/parley/program"
	"parley/persistence"
)

// beginning is what a node that joins keeps of its welcome until it has the content of the
// cluster.
type beginning struct {
	cluster.Secrets
	Members map[identity.NodeID]string `json:"members"`
}

func beginningFile(data string) string {
	return filepath.Join(data, identity.DirectoryName, "joining.json")
}

func readBeginning(data string) (*beginning, error) {
	text, err := os.ReadFile(beginningFile(data))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	b := &beginning{}
	if err == nil {
		err = json.Unmarshal(text, b)
	}
	return b, err
}

// advertised is the address by which others reach the node.
func (o *Options) advertised() (string, error) {
	address := cmp.Or(o.Advertise, o.Listen)
	if !parley.IsHostPort(address) {
		return "", fmt.Errorf("%q is not an address host:port", address)
	}
	host, port, _ := net.SplitHostPort(address)
	if ip := net.ParseIP(host); host == "" || port == "0" || ip != nil && ip.IsUnspecified() {
		return "", fmt.Errorf("--cluster-advertise: other nodes cannot reach %q; name this machine and a port", address)
	}
	return address, nil
}

// name is what people call the node.
func (o *Options) name() string {
	if o.Name != "" {
		return o.Name
	}
	name, err := os.Hostname()
	if err != nil {
		return "node"
	}
	return name
}

// described is how other nodes know this one.
func (o *Options) described() (d cluster.Description, err error) {
	d.Name = o.name()
	if d.Address, err = o.advertised(); err != nil {
		return d, usage(err)
	}
	return d, usage(d.Check())
}

// join has a member take this node in, and stores what it needs to begin.
func join(ctx context.Context, o Options) error {
	if o.Listen == "" || o.Token == "" {
		return usage(errors.New("--join needs --cluster-listen and --join-token"))
	}
	if left, err := os.ReadDir(o.Data); err == nil && len(left) > 0 {
		for _, f := range left {
			ours := f.Name() == identity.DirectoryName || f.Name() == datadir.MasterKeyFile && identity.Applying(o.Data)
			if f.Name() != "lost+found" && !ours {
				return program.ExitError{Code: program.ExitConflict, Err: fmt.Errorf("%s is not empty (it has %s): a node joins with a new data directory", o.Data, f.Name())}
			}
		}
	}
	d, err := o.described()
	if err != nil {
		return err
	}
	// What fails later leaves a member that has not come yet, whose directory alone can use the
	// token.
	if err := os.MkdirAll(filepath.Join(o.Data, identity.DirectoryName), 0o700); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return err
	}
	if err := ln.Close(); err != nil {
		return err
	}
	key, err := datadir.FindMasterKey(o.Data)
	if err != nil {
		return err
	}
	w, applicant, err := cluster.Join(ctx, o.Data, o.Join, o.Token, d, key.Given(), o.Clock)
	if err != nil {
		return notJoined(err)
	}
	text, err := json.Marshal(beginning{w.Secrets, w.Members})
	if err != nil {
		return err
	}
	if err := identity.WriteFile(beginningFile(o.Data), text); err != nil {
		return err
	}
	if err := datadir.PutMasterKey(o.Data, w.Master); err != nil {
		return err
	}
	id, err := applicant.Write(o.Data, d.Name, d.Address, w.Admission)
	if err != nil {
		return err
	}
	o.Logger.Info("the node was admitted to the cluster", "cluster", id.Cluster.String(), "node", id.ID.String())
	return nil
}

// notJoined gives an error of a join its exit code.
func notJoined(err error) error {
	if errors.Is(err, cluster.ErrTokenUsed) {
		err = fmt.Errorf("%w: make another one with %s", err, program.Typed("cluster token"))
	}
	for is, code := range map[error]int{
		identity.ErrToken: program.ExitForbidden, cluster.ErrTokenUsed: program.ExitForbidden, cluster.ErrOtherService: program.ExitNetwork,
		cluster.ErrNotAdmitted: program.ExitRefused, cluster.ErrNotYet: program.ExitUnavailable,
	} {
		if errors.Is(err, is) {
			return program.ExitError{Code: code, Err: err}
		}
	}
	return err
}

// usage is an error in how a command was called.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return program.ExitError{Code: program.ExitUsage, Err: err}
}

var errKeyNotFiled = parley.Refuse(parley.Conflict, "master_key", "The member keeps the master key in no file: start the new node with the same "+datadir.MasterKeyVariable+".")

// secrets returns what a new node gets from this one. It would store the key, if that was not
// given to it too.
func (p *Part) secrets(s *persistence.Store) func(keyGiven bool) (cluster.Secrets, error) {
	return func(keyGiven bool) (cluster.Secrets, error) {
		found, err := datadir.FindMasterKey(p.Data)
		if err != nil {
			return cluster.Secrets{}, err
		}
		if found.Given() && !keyGiven {
			return cluster.Secrets{}, errKeyNotFiled
		}
		server := p.keys.keyring.ServerKey()
		return cluster.Secrets{Master: found.Key.Bytes(), Server: server[:], Journals: s.Journals()}, nil
	}
}

// Init makes the data directory of a stopped server, or a new one, that of the first node of
// a new cluster.
func Init(o Options, store func() (*persistence.Store, error)) (*identity.Identity, error) {
	d, err := o.described()
	if err != nil {
		return nil, err
	}
	if identity.Exists(o.Data) {
		return nil, program.ExitError{Code: program.ExitConflict, Err: fmt.Errorf("%s belongs to a cluster already", o.Data)}
	}
	s, err := store() // nobody else has it open, and what is in its log is read
	if err != nil {
		return nil, err
	}
	archive := s.Archive()
	at, err := archive.Position()
	if err := errors.Join(err, archive.Close(), s.Close()); err != nil {
		return nil, err
	}
	log := filepath.Join(o.Data, logDirectory)
	if _, err := os.Lstat(log); err == nil && at.Number > 0 {
		return nil, program.ExitError{Code: program.ExitConflict, Err: fmt.Errorf("%s is the directory of a node without its %s: put that back. Or, to begin another cluster with what is in the tables, remove %s", o.Data, datadir.NodeFile, log)}
	}
	if err := os.RemoveAll(log); err != nil { // of an attempt that was cut short
		return nil, err
	}
	if err := os.RemoveAll(filepath.Join(o.Data, identity.DirectoryName)); err != nil {
		return nil, err
	}
	return identity.Create(o.Data, d.Name, d.Address, o.Clock(), func(id identity.NodeID) error {
		log, err := raftlog.Open(raftlog.Options{Dir: filepath.Join(o.Data, logDirectory), ID: uint64(id), New: true})
		if err != nil {
			return err
		}
		return log.Close()
	})
}

// nonce is a random number of this start.
func nonce() uint64 { return rand.Uint64() }
