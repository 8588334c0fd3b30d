package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// files are the certificates of a node as they are on disk now.
type files struct {
	dir string

	mu   sync.Mutex
	read map[string]time.Time // when the files that were read had been changed
	now  *loaded
}

type loaded struct {
	cert tls.Certificate
	leaf *x509.Certificate
	cas  *x509.CertPool
}

// load returns the certificates. If a file has changed since the last call, it reads all;
// while they do not fit together, as in the middle of a replacement, the former ones stay.
func (f *files) load() (*loaded, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	times := map[string]time.Time{}
	for _, name := range []string{caFile, certFile, keyFile} {
		info, err := os.Stat(filepath.Join(f.dir, name))
		if err != nil {
			return f.keep(err)
		}
		times[name] = info.ModTime()
	}
	if f.now != nil && times[caFile].Equal(f.read[caFile]) && times[certFile].Equal(f.read[certFile]) && times[keyFile].Equal(f.read[keyFile]) {
		return f.now, nil
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(f.dir, certFile), filepath.Join(f.dir, keyFile))
	if err != nil {
		return f.keep(fmt.Errorf("%s: %w", filepath.Join(f.dir, certFile), err))
	}
	text, err := os.ReadFile(filepath.Join(f.dir, caFile))
	if err != nil {
		return f.keep(err)
	}
	authorities, err := decodeCertificates(text)
	if err != nil {
		return f.keep(fmt.Errorf("%s: %w", filepath.Join(f.dir, caFile), err))
	}
	cas := x509.NewCertPool()
	for _, c := range authorities {
		cas.AddCert(c)
	}
	f.now, f.read = &loaded{cert: pair, leaf: pair.Leaf, cas: cas}, times
	return f.now, nil
}

func (f *files) keep(err error) (*loaded, error) {
	if f.now != nil {
		return f.now, nil
	}
	return nil, err
}

// Server implements link.Security. Nodes without a certificate are admitted by the
// connection: they may ask to join.
func (id *Identity) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			f, err := id.files.load()
			if err != nil {
				return nil, err
			}
			return &tls.Config{
				MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{f.cert},
				ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: f.cas, SessionTicketsDisabled: true,
			}, nil
		},
	}
}

// Client implements link.Security. Nodes are known by the ids in their certificates, not by
// the names of their machines.
func (id *Identity) Client(to uint64) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies the chain and the id
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			f, err := id.files.load()
			if err != nil {
				return nil, err
			}
			return &f.cert, nil
		},
		VerifyConnection: func(s tls.ConnectionState) error {
			f, err := id.files.load()
			if err != nil {
				return err
			}
			node, err := verify(id.Cluster, f.cas, s.PeerCertificates)
			if err == nil && node != NodeID(to) {
				err = fmt.Errorf("node %s answers at the address of node %s", node, NodeID(to))
			}
			return err
		},
	}
}

// NodeOf implements link.Security.
func (id *Identity) NodeOf(c *x509.Certificate) (uint64, error) {
	node, err := nodeOf(id.Cluster, c)
	return uint64(node), err
}

// verify verifies the certificate of a server of the cluster, and returns whose it is.
func verify(cluster ClusterID, cas *x509.CertPool, chain []*x509.Certificate) (NodeID, error) {
	if len(chain) == 0 {
		return 0, errors.New("the node shows no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: cas, Intermediates: between}); err != nil {
		return 0, err
	}
	return nodeOf(cluster, chain[0])
}

// Renew renews the node's certificate if it ends soon, or begins later because the clock was
// wrong when it was made, and the cluster's own authority has signed it. It reports whether it
// did.
func (id *Identity) Renew(now time.Time) (bool, error) {
	f, err := id.files.load()
	if err != nil || !now.Before(f.leaf.NotBefore) && f.leaf.NotAfter.Sub(now) > renewBefore {
		return false, err
	}
	a, err := id.authority()
	if err != nil || f.leaf.CheckSignatureFrom(a.cert) != nil {
		return false, nil //nolint:nilerr // the operator renews it
	}
	cert, err := a.certify(id.ID, f.leaf.PublicKey, now)
	if err != nil {
		return false, err
	}
	return true, replace(id.dir, certFile, cert)
}

// Keep renews the node's certificate in time, until ctx is done.
func (id *Identity) Keep(ctx context.Context, clock func() time.Time, failed func(error)) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		if _, err := id.Renew(clock()); err != nil {
			failed(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// authority reads the cluster's own authority.
func (id *Identity) authority() (*authority, error) {
	ca, err := os.ReadFile(filepath.Join(id.dir, caFile))
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(filepath.Join(id.dir, caKey))
	if err != nil {
		return nil, err
	}
	return readAuthority(id.Cluster, ca, key)
}
