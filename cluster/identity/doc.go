// Package identity says who the nodes of a cluster are: their ids, the certificates with
// which they prove them, and the tokens that admit new ones.
//
// The files are in one directory of the node's data directory:
//
//	node.json  ids of the cluster and of the node, its name and address
//	ca.pem     the certificates of the authorities that the node trusts
//	ca.key     the key of the cluster's own authority; every member has it, so each can
//	           admit a node. It may be missing: then nobody is admitted by this node
//	node.pem   the node's certificate, which names spiffe://CLUSTER/node/NODE
//	node.key   the key of that certificate
//
// ca.pem, node.pem and node.key may be replaced while the node runs, also by files of the
// operator's own authority. They are read again for a new connection after they changed.
package identity

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
)

// ClusterID identifies a cluster.
type ClusterID uint64

// NodeID identifies a node. It is never used again, also in another cluster.
type NodeID uint64

// String is 16 hexadecimal digits.
func (id ClusterID) String() string { return hex16(uint64(id)) }

// String is 16 hexadecimal digits.
func (id NodeID) String() string { return hex16(uint64(id)) }

// MarshalText implements encoding.TextMarshaler.
func (id ClusterID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// MarshalText implements encoding.TextMarshaler.
func (id NodeID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ClusterID) UnmarshalText(b []byte) (err error) {
	*id, err = parse[ClusterID](string(b))
	return err
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *NodeID) UnmarshalText(b []byte) (err error) {
	*id, err = parse[NodeID](string(b))
	return err
}

// ParseNodeID reads what String returns.
func ParseNodeID(s string) (NodeID, error) { return parse[NodeID](s) }

func hex16(id uint64) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, id))
}

func parse[ID ~uint64](s string) (ID, error) {
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 || n == 0 {
		return 0, fmt.Errorf("%q is not an id of 16 hexadecimal digits", s)
	}
	return ID(n), nil
}

// newID returns a random id, which is not 0: that stands for none.
func newID[ID ~uint64]() ID {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails
		if id := binary.BigEndian.Uint64(b[:]); id != 0 {
			return ID(id)
		}
	}
}

// NewNodeID returns a new id.
func NewNodeID() NodeID { return newID[NodeID]() }
