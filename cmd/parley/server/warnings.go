package server

import (
	"log/slog"
	"net"
	"net/url"

	"parley/client/parley"
)

// warning is a message about a setting that permits more than most operators want.
type warning struct{ flag, text string }

// warnings returns the warnings to log at startup.
func (c *Config) warnings() (all []warning) {
	exposed := beyondLoopback(c.Listen)
	base, err := url.Parse(c.BaseURL)
	published := err == nil && base.Host != "" && !parley.IsLoopback(base.Hostname())
	for _, w := range []struct {
		applies bool
		warning
	}{
		{beyondLoopback(c.AdminListen), warning{"--admin-listen", "other machines can reach the admin listener; bind it to loopback and give monitoring --metrics-listen"}},
		{c.MetricsListen != "" && beyondLoopback(c.MetricsListen), warning{"--metrics-listen", "other machines can read the metrics without a token; keep this address inside your network"}},
		{c.QuotaProfile == "open" && (exposed || published), warning{"--quota-profile", "the profile open sets no limits, and other machines can register; use --quota-profile public where you do not know them all"}},
		{c.Dev && (exposed || published), warning{"--dev", "--dev lets webhooks reach this machine itself and makes registration cheap; it is not for servers that others can reach"}},
		{published && base.Scheme == "http", warning{"--base-url", "secrets and tokens travel in the clear over http; put a proxy with TLS in front and use an https address"}},
	} {
		if w.applies {
			all = append(all, w.warning)
		}
	}
	return all
}

// warn logs unsafe settings.
func (c *Config) warn() {
	for _, w := range c.warnings() {
		slog.Warn(w.text, "flag", w.flag)
	}
}

// beyondLoopback reports whether other machines can reach a listen address. An address
// without a host listens on all interfaces.
func beyondLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && !parley.IsLoopback(host)
}
