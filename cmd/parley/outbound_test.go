package main

import "testing"

func TestOutboundSettings(t *testing.T) {
	for n, ok := range map[int]bool{1: false, 2: true, 128: true, 8192: true, 8193: false} {
		if err := (&Outbound{WebhookConcurrency: n}).validate(); (err == nil) != ok {
			t.Errorf("%d: %v", n, err)
		}
	}
	if _, err := openOutbound(&Config{Outbound: Outbound{WebhookCA: "/dev/null", WebhookConcurrency: 2}}, nil); exitCode(err) != exitUsage {
		t.Errorf("a file without certificates: %v", err)
	}
}
