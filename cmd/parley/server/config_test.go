package server

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

// parseServe returns the configuration that serve would run with.
func parseServe(t *testing.T, args ...string) (Config, error) {
	t.Helper()
	var chosen struct {
		Serve ServeCmd `cmd:""`
	}
	parser, err := kong.New(&chosen, kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) { t.Error("the parser requested an exit") }))
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(append([]string{"serve"}, args...))
	return chosen.Serve.Config, err
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "parley.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLayers sets one setting in every subset of the layers: the highest layer takes
// precedence.
func TestLayers(t *testing.T) {
	for layers := range 8 {
		want, from := "svc", "default"
		var args []string
		path := ""
		if layers&1 != 0 {
			path = configFile(t, `brand = "file"`)
			args = append(args, "--config", path)
			want, from = "file", path
		}
		t.Run(want, func(t *testing.T) {
			if layers&2 != 0 {
				t.Setenv("PARLEY_BRAND", "environment")
				want, from = "environment", "PARLEY_BRAND"
			}
			if layers&4 != 0 {
				args = append(args, "--brand", "flag")
				want, from = "flag", "--brand"
			}
			cfg, err := parseServe(t, args...)
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Brand != want || cfg.origins["brand"] != from {
				t.Errorf("brand is %q from %q, want %q from %q", cfg.Brand, cfg.origins["brand"], want, from)
			}
		})
	}
}

func TestFileSetsEveryKind(t *testing.T) {
	path := configFile(t, `
listen = "0.0.0.0:0"
admin-listen = "127.0.0.1:9"
data = "/var/lib/parley"
base-url = "https://parley.example"
domain = "parley.example"
dev = true
pow-bits = 12
signing-key-days = 30
quota-profile = "public"
tier1 = "approval"
registration = "token"
poll-limit = "0/5"
journals = 4
disk-reserve = "1GiB"
log-format = "json"
log-level = "debug"
provider-name = "Acme GmbH"
subprocessors = ["Hosting AG", "Mail, Ltd."]
notice-updated = "2026-11-20"
cors-origins = ["https://app.example", "http://localhost:3000"]
`)
	t.Setenv("PARLEY_CONFIG", path)
	cfg, err := parseServe(t)
	if err != nil {
		t.Fatal(err)
	}
	cfg.origins = nil
	want := Config{
		File: path, Listen: "0.0.0.0:0", AdminListen: "127.0.0.1:9", Data: "/var/lib/parley", BaseURL: "https://parley.example",
		Domain: "parley.example", Brand: "svc", Dev: true, PowBits: 12, SigningKeyDays: 30, QuotaProfile: "public", Tier1: "approval", Registration: "token",
		PollLimit: PollLimit{PerToken: 5}, Journals: 4, DiskReserve: 1 << 30, LogFormat: "json", LogLevel: "debug",
		Memory: Memory{Cache: 256 << 20, GCHeadroom: 128 << 20, MemoryLimit: autoLimit}, Outbound: Outbound{WebhookConcurrency: 128},
		Embeddings:  Embeddings{Embeddings: "embedded", EmbeddingsThreshold: 0.3},
		Notice:      Notice{ProviderName: "Acme GmbH", Subprocessors: []string{"Hosting AG", "Mail, Ltd."}, NoticeUpdated: "2026-11-20"},
		CORSOrigins: []string{"https://app.example", "http://localhost:3000"},
	}
	if diff := cmp.Diff(want, cfg, cmp.AllowUnexported(Config{})); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

// TestDevLowersProofOfWork: --dev changes only the default; a number on the command line
// takes precedence.
func TestDevLowersProofOfWork(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
	}{
		{nil, 20},
		{[]string{"--dev"}, 8},
		{[]string{"--dev", "--pow-bits", "20"}, 20},
		{[]string{"--dev", "--config", configFile(t, "pow-bits = 3")}, 3},
	} {
		cfg, err := parseServe(t, c.args...)
		if err != nil || cfg.PowBits != c.want {
			t.Errorf("%q: %d bits, error %v, want %d", c.args, cfg.PowBits, err, c.want)
		}
	}
}

func TestConfigRefusals(t *testing.T) {
	for _, c := range []struct {
		args  []string
		words string
	}{
		{[]string{"--config", "/does/not/exist"}, "/does/not/exist"},
		{[]string{"--config", configFile(t, "listn = 1")}, `unknown key "listn"`},
		{[]string{"--config", configFile(t, "[brand]\nx = 1")}, "single value"},
		{[]string{"--config", configFile(t, "[cluster]\nlisten = 1")}, `unknown key "cluster"`},
		{[]string{"--config", configFile(t, `config = "other"`)}, `unknown key "config"`},
		{[]string{"--config", configFile(t, "json = true")}, `unknown key "json"`},
		{[]string{"--config", configFile(t, "journals = 65")}, "65"},
		{[]string{"--config", configFile(t, `journals = "many"`)}, "many"},
		{[]string{"--config", configFile(t, `tier1 = "luck"`)}, "luck"},
		{[]string{"--config", configFile(t, "listen =")}, "config file"},
		{[]string{"--listen", "8080"}, "host:port"},
		{[]string{"--listen", "127.0.0.1:65536"}, "host:port"},
		{[]string{"--admin-listen", "x"}, "--admin-listen"},
		{[]string{"--cors-origins", "https://app.example/"}, `--cors-origins: "https://app.example/"`},
		{[]string{"--cors-origins", "*,https://app.example"}, "--cors-origins: *"},
		{[]string{"--data", ""}, "--data"},
		{[]string{"--base-url", "parley.example"}, "--base-url"},
		{[]string{"--base-url", "https://u@parley.example"}, "--base-url"},
		{[]string{"--base-url", `https://parley.example/"><script>alert(1)</script>`}, "--base-url"},
		{[]string{"--base-url", "https://parley.example/';id;'"}, "--base-url"},
		{[]string{"--base-url", "https://parley.example/\r\nX: y"}, "--base-url"},
		{[]string{"--domain", "Parley.Example"}, "--domain"},
		{[]string{"--domain", "parley..example"}, "--domain"},
		{[]string{"--brand", "X"}, "--brand"},
		{[]string{"--brand", "x\n"}, "--brand"},
		{[]string{"--brand", "<b>"}, "--brand"},
		{[]string{"--brand", `x"`}, "--brand"},
		{[]string{"--provider-url", "acme.example"}, "--provider-url"},
		{[]string{"--provider-url", "https:///x"}, "--provider-url"},
		{[]string{"--provider-country", "Germany"}, "--provider-country"},
		{[]string{"--privacy-policy", "javascript:alert(1)"}, "--privacy-policy"},
		{[]string{"--notice-updated", "yesterday"}, "--notice-updated"},
		{[]string{"--pow-bits", "-1"}, "pow-bits"},
		{[]string{"--pow-bits", "41"}, "--pow-bits"},
		{[]string{"--journals", "0"}, "--journals"},
		{[]string{"--quota-profile", "none"}, "--quota-profile"},
		{[]string{"--log-level", "loud"}, "--log-level"},
	} {
		if _, err := parseServe(t, c.args...); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%q: error %v, want one with %q", c.args, err, c.words)
		}
	}
}

// TestTermsOfEveryLayer: numbers in the file apply unless a higher layer sets the same
// number.
func TestTermsOfEveryLayer(t *testing.T) {
	path := configFile(t, "quota-profile = \"public\"\ntrusted-proxies = [\"10.0.0.0/8\", \"192.0.2.1\", \"::ffff:172.16.0.0/108\", \"fe80::1%eth0\"]\n[quotas.tier1]\nagents = 5\ngroups = \"none\"\n[rates]\nwrites = 7\nreads = \"none\"")
	cfg, err := parseServe(t, "--config", path, "--quota", "tier1.agents=6", "--rate", "public=9", "--smtp-url", "smtp://u:hush@mail.example")
	if err != nil {
		t.Fatal(err)
	}
	quotas, err := cfg.quotas()
	if err != nil || quotas[1]["agents"] != 6 || quotas[1]["messages_per_day"] != 100 {
		t.Errorf("quotas %v, %v", quotas, err)
	}
	if n, limited := quotas[1]["groups"]; limited {
		t.Errorf("%d groups", n)
	}
	if rates, err := cfg.rates(); err != nil || rates.Writes != 7 || rates.Reads != 0 || rates.Public != 9 || rates.Token != 60 {
		t.Errorf("rates %v, %v", rates, err)
	}
	if got := fmt.Sprint(cfg.proxies()); got != "[10.0.0.0/8 192.0.2.1/32 172.16.0.0/12 fe80::1/128]" {
		t.Errorf("proxies %v", got)
	}
	if strings.Contains(cfg.SMTPURL.String(), "hush") {
		t.Error("the password is visible")
	}
	for _, args := range [][]string{
		{"--quota", "tier4.agents=1"},
		{"--quota", "tier1.cakes=1"},
		{"--quota", "agents=1"},
		{"--quota", "tier1.agents=-1"},
		{"--rate", "cakes=1"},
		{"--rate", "writes=x"},
		{"--trusted-proxies", "proxy"},
		{"--trusted-proxies", "0.0.0.0/0"},
		{"--trusted-proxies", "::/0"},
		{"--trusted-proxies", "::ffff:0.0.0.0/96"},
		{"--smtp-url", "http://x"},
		{"--config", configFile(t, "[quotas.tier1]\ncakes = 1")},
		{"--config", configFile(t, "[rates]\nwrites = true")},
	} {
		if _, err := parseServe(t, args...); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

func TestPollLimit(t *testing.T) {
	for _, c := range []struct {
		text string
		want PollLimit
		bad  bool
	}{
		{text: "60/20", want: PollLimit{60, 20}},
		{text: "0/20", want: PollLimit{0, 20}},
		{text: "60/0", want: PollLimit{60, 0}},
		{text: "0"},
		{text: "0/0"},
		{text: "60", bad: true},
		{text: "-1/5", bad: true},
		{text: "1/2/3", bad: true},
		{text: "/", bad: true},
		{text: "", bad: true},
	} {
		var got PollLimit
		if err := got.UnmarshalText([]byte(c.text)); (err != nil) != c.bad || got != c.want {
			t.Errorf("%q: %v, error %v", c.text, got, err)
		}
	}
}

func TestByteSize(t *testing.T) {
	for text, want := range map[string]ByteSize{"0": 0, "4096": 4096, "1KiB": 1 << 10, "64MiB": 64 << 20, "2GiB": 2 << 30, "1536MiB": 1536 << 20} {
		var got ByteSize
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %d, %v", text, got, err)
		}
		var again ByteSize
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again != got {
			t.Errorf("%q is written as %q, which parses as %d, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1MB", "1.5GiB", "9999999999GiB", "1 MiB"} {
		if err := new(ByteSize).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was accepted as a size", text)
		}
	}
}

// With a small live heap the headroom determines the value; with a large one, the
// runtime's own rule does.
func TestGCPercent(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live, headroom int64
		want           int
	}{{10 * mib, 128 * mib, 1250}, {0, 128 * mib, 2000}, {128 * mib, 128 * mib, 100}, {1 << 30, 128 * mib, 100}, {100 * mib, 0, 100}} {
		if got := gcPercent(c.live, c.headroom); got != c.want {
			t.Errorf("%d alive, headroom %d: %d %%, want %d", c.live, c.headroom, got, c.want)
		}
	}
}

// TestServerKeepsTheKeyLifetimeThatIsSet: the service replaces keys after the number of
// days that the operator set.
func TestServerKeepsTheKeyLifetimeThatIsSet(t *testing.T) {
	if got := testServer(t, "--signing-key-days", "30").service.KeyLifetime; got != 30*24*time.Hour {
		t.Errorf("30 days are %v", got)
	}
}

func TestTracingSettings(t *testing.T) {
	for _, c := range []struct{ flag, value, words string }{
		{"--otlp-endpoint", "collector:4318", "--otlp-endpoint"},
		{"--otlp-endpoint", "https://me:secret@collector", "--otlp-endpoint"},
		{"--trace-share", "1.5", "--trace-share"},
		{"--trace-share", "-0.1", "--trace-share"},
		{"--trace-share", "NaN", "--trace-share"},
		{"--trace-share", "some", "--trace-share"},
	} {
		if _, err := parseServe(t, c.flag+"="+c.value); err == nil || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s %s: %v", c.flag, c.value, err)
		}
	}
}

// TestNoCORSOrigins: an empty variable, as files of containers set it, is none.
func TestNoCORSOrigins(t *testing.T) {
	t.Setenv("PARLEY_CORS_ORIGINS", "")
	if cfg, err := parseServe(t); err != nil || len(cfg.CORSOrigins) != 0 {
		t.Errorf("%q, %v", cfg.CORSOrigins, err)
	}
}
