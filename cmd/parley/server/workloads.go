package server

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"parley/cmd/parley/program"
	"parley/http/svid"
)

// Workloads are the settings for proofs of workload identities.
type Workloads struct {
	TrustBundle []trustBundle `name:"trust-bundle" env:"PARLEY_TRUST_BUNDLE" placeholder:"DOMAIN=FILE" help:"SPIFFE trust domain whose workload identities can be proven, and the file of its trust bundle (SPIFFE format or PEM), which is read again when it changes; repeated, or separated by commas. Default: none."`
}

// trustBundle is a trust domain and the file of its bundle.
type trustBundle struct{ domain, file string }

// UnmarshalText reads "example.org=/etc/parley/example.org.json".
func (b *trustBundle) UnmarshalText(text []byte) error {
	domain, file, both := strings.Cut(string(text), "=")
	if !both || domain == "" || file == "" {
		return fmt.Errorf("%q is not like example.org=/etc/parley/example.org.json", text)
	}
	*b = trustBundle{domain, file}
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (b trustBundle) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

func (b trustBundle) String() string { return b.domain + "=" + b.file }

// openBundles reads the trust bundles.
func (w *Workloads) openBundles() (*svid.Bundles, error) {
	files := map[string]string{}
	for _, b := range w.TrustBundle {
		if files[b.domain] != "" {
			return nil, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("--trust-bundle: trust domain %s has two bundles", b.domain)}
		}
		files[b.domain] = b.file
	}
	bundles, err := svid.Open(svid.Options{Files: files, Clock: time.Now, Logger: slog.Default()})
	if err != nil {
		return nil, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("--trust-bundle: %w", err)}
	}
	return bundles, nil
}
