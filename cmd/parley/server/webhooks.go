package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"time"

	"parley/client/parley"
	"parley/cmd/parley/program"
	"parley/http/auth"
	"parley/http/egress"
	"parley/http/webhooks"
)

// Outbound holds the settings for the delivery of webhooks.
type Outbound struct {
	WebhookCA          string `name:"webhook-ca" env:"PARLEY_WEBHOOK_CA" placeholder:"FILE" help:"PEM file of additional certificate authorities for webhook targets."`
	WebhookConcurrency int    `name:"webhook-concurrency" env:"PARLEY_WEBHOOK_CONCURRENCY" default:"128" help:"Maximum of concurrent webhook deliveries to targets that answer in time; half as many each for new and for slow targets."`
}

// deliveriesMax is more connections than a process should hold to webhook targets.
const deliveriesMax = 8192

func (o *Outbound) validate() error {
	if o.WebhookConcurrency < 2 || o.WebhookConcurrency > deliveriesMax {
		return fmt.Errorf("--webhook-concurrency: %d is not between 2 and %d", o.WebhookConcurrency, deliveriesMax)
	}
	return nil
}

// webhookSender holds the parts of the server that call webhook targets.
type webhookSender struct {
	guard   *egress.Guard
	sender  *egress.Sender
	courier *webhooks.Courier
}

// landWait is how long a drain waits for deliveries in progress. Deliveries that are cut
// off then are sent again after the next start.
const landWait = 2 * time.Second

// newWebhookSender creates the sender. With --dev, targets may use plain http and be on
// this machine.
func newWebhookSender(cfg *Config, master *auth.MasterKey) (*webhookSender, error) {
	var roots []byte
	if cfg.WebhookCA != "" {
		var err error
		if roots, err = os.ReadFile(cfg.WebhookCA); err != nil {
			return nil, fmt.Errorf("--webhook-ca: %w", err)
		}
		roots = append(roots, '\n') // an empty file has no certificates
	}
	o := &webhookSender{guard: newGuard(cfg)}
	var err error
	o.sender, err = egress.NewSender(egress.Options{
		Clock: time.Now, Guard: o.guard, Brand: cfg.Brand, FurtherRoots: roots,
		Quick: cfg.WebhookConcurrency, Fresh: cfg.WebhookConcurrency / 2, Slow: cfg.WebhookConcurrency / 2,
	})
	if errors.Is(err, egress.ErrRoots) {
		return nil, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("--webhook-ca: %s holds no PEM certificate", cfg.WebhookCA)}
	}
	if err != nil {
		return nil, err
	}
	o.courier = webhooks.NewCourier(webhooks.CourierOptions{
		Guard: o.guard, Sender: o.sender, Vault: master, Entropy: parley.RandomEntropy, Logger: slog.Default(),
	})
	return o, nil
}

// newGuard returns a guard that keeps webhooks from calling this service itself, except
// with --dev.
func newGuard(cfg *Config) *egress.Guard {
	if cfg.Dev {
		return egress.NewGuard(egress.Allow{PlainHTTP: true, Loopback: true}, nil)
	}
	names, networks := ownPlaces(cfg.BaseURL, cfg.Listen)
	guard := egress.NewGuard(egress.Allow{}, nil, networks...)
	guard.DenyNames(names...)
	return guard
}

// ownPlaces returns the names and addresses of the service: the host of its base URL, and
// the address that it listens on or, if that is unspecified, those of all interfaces.
func ownPlaces(baseURL, listen string) (names []string, networks []netip.Prefix) {
	add := func(host string) {
		address, err := netip.ParseAddr(host)
		switch {
		case err == nil && !address.IsUnspecified():
			networks = append(networks, netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()))
		case err != nil && host != "":
			names = append(names, host)
		}
	}
	if base, err := url.Parse(baseURL); err == nil {
		add(base.Hostname())
	}
	host, _, err := net.SplitHostPort(listen)
	if add(host); err != nil {
		return names, networks
	}
	if address, err := netip.ParseAddr(host); host == "" || err == nil && address.IsUnspecified() {
		all, _ := net.InterfaceAddrs() // if this fails, the base URL remains
		for _, one := range all {
			if network, ok := one.(*net.IPNet); ok {
				add(network.IP.String())
			}
		}
	}
	return names, networks
}

// followNames updates the addresses of the service's own names in the guard until ctx
// ends.
func (o *webhookSender) followNames(ctx context.Context) {
	tick := time.NewTicker(egress.LearnEvery)
	defer tick.Stop()
	o.guard.FollowNames(ctx, tick.C)
}

// close waits a limited time for deliveries in progress. The actors must still run to
// record the outcomes.
func (o *webhookSender) close() {
	ctx, cancel := context.WithTimeout(context.Background(), landWait)
	defer cancel()
	o.sender.Shutdown(ctx)
}
