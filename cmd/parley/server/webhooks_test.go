package server

import (
	"errors"
	"testing"

	"parley/cmd/parley/program"
	"parley/http/egress"
)

func TestOutboundSettings(t *testing.T) {
	for n, ok := range map[int]bool{1: false, 2: true, 128: true, 8192: true, 8193: false} {
		if err := (&Outbound{WebhookConcurrency: n}).validate(); (err == nil) != ok {
			t.Errorf("%d: %v", n, err)
		}
	}
	if _, err := newWebhookSender(&Config{Outbound: Outbound{WebhookCA: "/dev/null", WebhookConcurrency: 2}}, nil); program.ExitCode(err) != program.ExitUsage {
		t.Errorf("a file without certificates: %v", err)
	}
}

// TestOwnAddressIsNoTarget: webhooks cannot target the server itself, in any spelling of
// its address. The control is a guard that does not have the address.
func TestOwnAddressIsNoTarget(t *testing.T) {
	for base, own := range map[string][]string{
		"https://parley.unknown.invalid": {"parley.unknown.invalid", "PARLEY.unknown.invalid.", "parley.unknown.invalid:8443", "p%61rley.unknown.invalid"},
		"https://93.184.216.34:8443":     {"93.184.216.34", "0x5d.184.0xd822", "1572395042:8443"},
	} {
		cfg, err := parseServe(t, "--base-url", base, "--listen", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range own {
			if _, err := newGuard(&cfg).Parse("https://" + host + "/hook"); !errors.Is(err, egress.ErrBlocked) {
				t.Errorf("%s at %s: %v", host, base, err)
			}
			if _, err := egress.NewGuard(egress.Allow{}, nil).Parse("https://" + host + "/hook"); err != nil {
				t.Errorf("control: %s at %s: %v", host, base, err)
			}
		}
	}
}
