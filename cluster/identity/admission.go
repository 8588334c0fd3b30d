package identity

import (
	"crypto/ecdsa"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A token admits one node. It is base64url of
//
//	version (1) | expiry in s (8) | number (8) | the node to replace, or 0 (8) |
//	SHA-256 of the authority's public key (32) | HMAC-SHA-256 of all before (32)
//
// The key of the HMAC is derived from the authority's key, so every member can check it. The
// hash lets the new node recognize the cluster.
const (
	tokenVersion    = 1
	tokenExpiryAt   = 1
	tokenNumberAt   = 9
	tokenReplacesAt = 17
	tokenHashAt     = 25
	tokenMACAt      = 57
	tokenBytes      = 89

	// TokenLifetime is how long a token is valid.
	TokenLifetime = time.Hour
)

// ErrToken means that a token is none of this cluster, or is not valid any more.
var ErrToken = errors.New("the join token is not valid, or not any more: make another one with parley cluster token")

// Create makes the identity of the first node of a new cluster, with the authority of the
// cluster. Before the identity counts, prepare is called.
func Create(data, name, address string, now time.Time, prepare func(NodeID) error) (*Identity, error) {
	n := Node{Cluster: newID[ClusterID](), ID: NewNodeID(), Name: name, Address: address, Joined: true}
	content, err := authorize(n, now)
	if err != nil {
		return nil, err
	}
	if err := prepare(n.ID); err != nil {
		return nil, err
	}
	return write(data, n, content)
}

// CreateAgain makes a node the first one of a new cluster with a new authority, so that it has
// no contact with the former one. It can be repeated after a crash.
func CreateAgain(data string, now time.Time) (*Identity, error) {
	n, err := ReadNode(data)
	if err != nil {
		return nil, err
	}
	n.Cluster = newID[ClusterID]()
	content, err := authorize(n, now)
	if err != nil {
		return nil, err
	}
	return put(data, n, content)
}

// authorize returns the files of a node whose cluster begins with it.
func authorize(n Node, now time.Time) (map[string][]byte, error) {
	ca, caPrivate, err := newAuthority(n.Cluster, now)
	if err != nil {
		return nil, err
	}
	a, err := readAuthority(n.Cluster, ca, caPrivate)
	if err != nil {
		return nil, err
	}
	key, request, err := newRequest()
	if err != nil {
		return nil, err
	}
	public, err := decodeRequest(request)
	if err != nil {
		return nil, err
	}
	cert, err := a.certify(n.ID, public, now)
	return map[string][]byte{caFile: ca, caKey: caPrivate, certFile: cert, keyFile: key}, err
}

// NewToken returns a token that admits one node, which takes the place of another one unless
// replaces is 0.
func (id *Identity) NewToken(now time.Time, replaces NodeID) (string, error) {
	a, err := id.authority()
	if err != nil {
		return "", err
	}
	b := binary.BigEndian.AppendUint64([]byte{tokenVersion}, uint64(now.Add(TokenLifetime).Unix()))
	b = append(b, make([]byte, 8)...)
	_, _ = rand.Read(b[tokenNumberAt:]) // never fails
	b = binary.BigEndian.AppendUint64(b, uint64(replaces))
	hash := authorityHash(a.cert)
	b = append(b, hash[:]...)
	mac, err := a.sign(b)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(b, mac...)), nil
}

// sign returns the HMAC of a token.
func (a *authority) sign(b []byte) ([]byte, error) {
	private, err := a.key.Bytes()
	if err != nil {
		return nil, err
	}
	key, err := hkdf.Key(sha256.New, private, nil, "parley cluster: join tokens", sha256.Size)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(b)
	return mac.Sum(nil), nil
}

// CheckToken returns the number of a valid token, which begins with its expiry so that later
// ones are greater, and whom its node replaces. Whether it was used is for the caller to know.
func (id *Identity) CheckToken(token string, now time.Time) (number string, replaces NodeID, err error) {
	a, err := id.authority()
	if err != nil {
		return "", 0, fmt.Errorf("this node cannot admit others: %w", err)
	}
	b, err := decodeToken(token)
	if err != nil {
		return "", 0, err
	}
	mac, err := a.sign(b[:tokenMACAt])
	if err != nil {
		return "", 0, err
	}
	if !hmac.Equal(mac, b[tokenMACAt:]) || now.Unix() >= int64(binary.BigEndian.Uint64(b[tokenExpiryAt:])) {
		return "", 0, ErrToken
	}
	return hex.EncodeToString(b[tokenExpiryAt:tokenReplacesAt]), NodeID(binary.BigEndian.Uint64(b[tokenReplacesAt:])), nil
}

// MayBeValid reports whether a token could still be valid when one that expires later was
// used, by their numbers: on a node whose clock is behind that of the node which made the other.
func MayBeValid(number, later string) bool {
	expiry, err := expiryOf(number)
	if err != nil {
		return false
	}
	after, err := expiryOf(later)
	return err == nil && expiry.After(after.Add(-TokenLifetime-skew))
}

// expiryOf is when the token with a number expires.
func expiryOf(number string) (time.Time, error) {
	b, err := hex.DecodeString(number)
	if err != nil || len(b) != tokenReplacesAt-tokenExpiryAt {
		return time.Time{}, ErrToken
	}
	return time.Unix(int64(binary.BigEndian.Uint64(b)), 0), nil
}

func decodeToken(token string) ([]byte, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) != tokenBytes || b[0] != tokenVersion {
		return nil, ErrToken
	}
	return b, nil
}

func authorityHash(c *x509.Certificate) [32]byte { return sha256.Sum256(c.RawSubjectPublicKeyInfo) }

// Admission is what a new node gets from a member, in JSON.
type Admission struct {
	Cluster     ClusterID `json:"cluster_id"`
	ID          NodeID    `json:"node_id"`
	Certificate []byte    `json:"certificate"`
	Authority   []byte    `json:"authority"`
	// AuthorityKey is empty if the member does not have it.
	AuthorityKey []byte `json:"authority_key,omitempty"`
}

// Admit returns the admission of a new node that requests a certificate with a token. A repeat,
// with the same key and token, gets the same id.
func (id *Identity) Admit(request []byte, tokenNumber string, now time.Time) (*Admission, error) {
	a, err := id.authority()
	if err != nil {
		return nil, err
	}
	public, err := decodeRequest(request)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append([]byte(tokenNumber), der...))
	n := &Admission{Cluster: id.Cluster, ID: NodeID(max(1, binary.BigEndian.Uint64(sum[:])))}
	if n.Certificate, err = a.certify(n.ID, public, now); err != nil {
		return nil, err
	}
	if n.Authority, err = os.ReadFile(filepath.Join(id.dir, caFile)); err != nil {
		return nil, err
	}
	n.AuthorityKey, err = os.ReadFile(filepath.Join(id.dir, caKey))
	return n, err
}

// Applicant is a node that asks to join a cluster.
type Applicant struct {
	token, key []byte
	// Request is the request for its certificate.
	Request []byte
}

// NewApplicant returns an applicant with a token. Its key is stored in the data directory, so
// that a node which ended while it joined applies again as the same one.
func NewApplicant(data, token string) (a *Applicant, err error) {
	a = &Applicant{}
	if a.token, err = decodeToken(token); err != nil {
		return nil, err
	}
	dir := filepath.Join(data, DirectoryName)
	text, err := os.ReadFile(filepath.Join(dir, keyFile))
	if err == nil {
		var key *ecdsa.PrivateKey
		if key, err = decodeKey(text); err == nil {
			a.key = text
			a.Request, err = requestOf(key)
		}
		return a, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if a.key, a.Request, err = newRequest(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return a, replace(dir, keyFile, a.key)
}

// Applying reports whether an applicant has begun in a data directory, and is no member yet.
func Applying(data string) bool {
	_, err := os.Lstat(filepath.Join(data, DirectoryName, keyFile))
	return err == nil && !Exists(data)
}

// Client is the configuration for the connection to a member: it must have a certificate of
// the authority that the token names.
func (a *Applicant) Client() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies the chain against the token
		VerifyConnection: func(s tls.ConnectionState) error {
			for _, c := range s.PeerCertificates {
				if authorityHash(c) == [32]byte(a.token[tokenHashAt:tokenMACAt]) {
					cas := x509.NewCertPool()
					cas.AddCert(c)
					_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: cas})
					return err
				}
			}
			return errors.New("the server is no member of the cluster that made the join token")
		},
	}
}

// Write makes the identity of the admitted node.
func (a *Applicant) Write(data, name, address string, n *Admission) (*Identity, error) {
	files := map[string][]byte{caFile: n.Authority, certFile: n.Certificate, keyFile: a.key}
	if len(n.AuthorityKey) > 0 {
		files[caKey] = n.AuthorityKey
	}
	return write(data, Node{Cluster: n.Cluster, ID: n.ID, Name: name, Address: address}, files)
}
