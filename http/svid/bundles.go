// Package svid verifies SPIFFE verifiable identity documents, JWT-SVIDs and X.509-SVIDs,
// with the trust bundles of the operator's trust domains.
package svid

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/jwtbundle"
	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"parley/client/parley"
)

// Bundles are the trust bundles of the trust domains that the operator trusts, each in a
// file. A bundle that has changed on disk is read again when a document is verified. A
// file that cannot be read or used leaves the former bundle in force. A nil *Bundles
// trusts no domain. It is safe for concurrent use.
type Bundles struct {
	domains map[spiffeid.TrustDomain]*bundle
}

// Options of Open. All are required.
type Options struct {
	// Files are the bundle files by trust domain, such as example.org.
	Files  map[string]string
	Clock  parley.Clock
	Logger *slog.Logger
}

// Open reads all bundles. It fails if a trust domain is not valid or a bundle cannot be
// used.
func Open(o Options) (*Bundles, error) {
	b := &Bundles{domains: map[spiffeid.TrustDomain]*bundle{}}
	for name, path := range o.Files {
		domain, err := spiffeid.TrustDomainFromString(name)
		if err != nil {
			return nil, fmt.Errorf("%q is not a trust domain", name)
		}
		if b.domains[domain] != nil {
			return nil, fmt.Errorf("trust domain %s has two bundles", domain)
		}
		one := &bundle{domain: domain, path: path, clock: o.Clock, logger: o.Logger}
		info, err := os.Stat(path)
		if err == nil {
			err = one.read(info)
		}
		if err != nil {
			return nil, fmt.Errorf("trust bundle of %s: %w", domain, err)
		}
		b.domains[domain] = one
	}
	return b, nil
}

// Empty reports whether no trust domain is trusted.
func (b *Bundles) Empty() bool { return b == nil || len(b.domains) == 0 }

var errUnknownDomain = errors.New("the trust domain is not one that this server trusts")

func (b *Bundles) get(domain spiffeid.TrustDomain) (*spiffebundle.Bundle, error) {
	if b == nil || b.domains[domain] == nil {
		return nil, errUnknownDomain
	}
	return b.domains[domain].present(), nil
}

// GetJWTBundleForTrustDomain implements jwtbundle.Source.
func (b *Bundles) GetJWTBundleForTrustDomain(domain spiffeid.TrustDomain) (*jwtbundle.Bundle, error) {
	found, err := b.get(domain)
	if err != nil {
		return nil, err
	}
	return found.JWTBundle(), nil
}

// GetX509BundleForTrustDomain implements x509bundle.Source.
func (b *Bundles) GetX509BundleForTrustDomain(domain spiffeid.TrustDomain) (*x509bundle.Bundle, error) {
	found, err := b.get(domain)
	if err != nil {
		return nil, err
	}
	return found.X509Bundle(), nil
}

// bundle is the trust bundle of one domain and its file.
type bundle struct {
	domain spiffeid.TrustDomain
	path   string
	clock  parley.Clock
	logger *slog.Logger

	mu sync.Mutex
	// inForce was read last.
	inForce *spiffebundle.Bundle
	// seen describes the file as it was read last, with or without success; nil if it may
	// have changed since without a sign of it.
	seen fs.FileInfo
	// told is the last failure that was logged.
	told string
}

// settled is how old a file's modification time must be before an equal one means an equal
// file: file systems round it.
const settled = 2 * time.Second

// present returns the bundle in force, after reading a file that has changed.
func (b *bundle) present() *spiffebundle.Bundle {
	b.mu.Lock()
	defer b.mu.Unlock()
	info, err := os.Stat(b.path)
	if err == nil {
		if b.seen != nil && os.SameFile(info, b.seen) && info.ModTime().Equal(b.seen.ModTime()) && info.Size() == b.seen.Size() {
			return b.inForce
		}
		err = b.read(info)
	}
	switch {
	case err == nil:
		b.told = ""
	case err.Error() != b.told:
		b.told = err.Error()
		b.logger.Error("a trust bundle cannot be read; the former one stays in force", "trust_domain", b.domain.Name(), "error", err)
	}
	return b.inForce
}

// read reads the file, which info describes.
func (b *bundle) read(info fs.FileInfo) error {
	b.seen = info
	if b.clock().Sub(info.ModTime()) < settled {
		b.seen = nil
	}
	content, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	found, err := parse(b.domain, content)
	if err != nil {
		return fmt.Errorf("%s: %w", b.path, err)
	}
	if b.inForce != nil && !found.Equal(b.inForce) {
		b.logger.Info("a trust bundle was read again", "trust_domain", b.domain.Name(), "x509_authorities", len(found.X509Authorities()), "jwt_authorities", len(found.JWTAuthorities()))
	}
	b.inForce = found
	return nil
}

// errNoAuthority rejects a file without a usable key. It would reject all documents.
var errNoAuthority = errors.New("it has no authority: a SPIFFE bundle has keys whose use is x509-svid or jwt-svid, a PEM file has certificates")

// parse reads a bundle in the SPIFFE format, which is a JSON Web Key Set, or certificates in
// PEM, which verify X.509-SVIDs only.
func parse(domain spiffeid.TrustDomain, content []byte) (*spiffebundle.Bundle, error) {
	var found *spiffebundle.Bundle
	if bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")) {
		var err error
		if found, err = spiffebundle.Parse(domain, content); err != nil {
			return nil, err
		}
	} else {
		certificates, err := x509bundle.Parse(domain, content)
		if err != nil {
			return nil, err
		}
		found = spiffebundle.FromX509Bundle(certificates)
	}
	if len(found.X509Authorities())+len(found.JWTAuthorities()) == 0 {
		return nil, errNoAuthority
	}
	return found, nil
}
