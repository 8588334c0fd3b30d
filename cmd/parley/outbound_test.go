package main

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheMasterKeyMayComeFromTheEnvironment(t *testing.T) {
	data := t.TempDir()
	t.Setenv(masterKeyVariable, base64.StdEncoding.EncodeToString(make([]byte, 32)))
	fromEnvironment, err := openMasterKey(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, there := os.LookupEnv(masterKeyVariable); there {
		t.Error("what is started from here would inherit the key")
	}
	if _, err := os.Stat(filepath.Join(data, masterKeyFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
	fromFile, err := openMasterKey(data)
	if err != nil {
		t.Fatal(err)
	}
	sealed := fromEnvironment.SealSecret("p", nil, []byte("s"))
	if _, err := fromFile.OpenSecret("p", nil, sealed); err == nil {
		t.Error("the key of the file is that of the environment")
	}
	for _, text := range []string{"canary", base64.StdEncoding.EncodeToString([]byte("canary canary canary")), strings.Repeat("A", 45)} {
		t.Setenv(masterKeyVariable, text)
		if _, err := openMasterKey(data); err == nil || strings.Contains(err.Error(), text) || exitCode(err) != exitUsage {
			t.Errorf("%q: %v", text, err)
		}
	}
}

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
