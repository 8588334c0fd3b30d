package server

import (
	"slices"
	"testing"
)

// TestWarnings: the log names each setting that lets unauthenticated peers register or connect. A
// server that listens only on this machine logs no warning.
func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, nil},
		{[]string{"--dev", "--listen", "[::1]:0", "--base-url", "http://localhost:8080", "--metrics-listen", "127.0.0.1:0"}, nil},
		{[]string{"--admin-listen", "0.0.0.0:8081"}, []string{"--admin-listen"}},
		{[]string{"--admin-listen", ":8081"}, []string{"--admin-listen"}},
		{[]string{"--admin-listen", "10.0.0.1:8081", "--metrics-listen", "[::]:9090"}, []string{"--admin-listen", "--metrics-listen"}},
		{[]string{"--listen", ":8080"}, []string{"--quota-profile"}},
		{[]string{"--listen", ":8080", "--quota-profile", "public"}, nil},
		{[]string{"--base-url", "https://parley.example"}, []string{"--quota-profile"}},
		{[]string{"--base-url", "https://parley.example", "--quota-profile", "public"}, nil},
		{[]string{"--base-url", "http://parley.example", "--quota-profile", "public"}, []string{"--base-url"}},
		{[]string{"--dev", "--listen", "192.0.2.1:80"}, []string{"--quota-profile", "--dev"}},
	} {
		cfg, err := parseServe(t, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range cfg.warnings() {
			got = append(got, w.flag)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: warned of %q, want %q", c.args, got, c.want)
		}
	}
}
