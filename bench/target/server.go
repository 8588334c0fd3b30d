package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"parley/client"
)

// announcement is the text that a server prints once it accepts connections.
const announcement = "parley: listening on http://"

// Server runs Parley's own binary on a directory that the bench owns.
type Server struct {
	// Label is its name in reports.
	Label string
	// Binary is the program, Dir holds its data and its log, Args are further
	// flags of serve and Env is its environment.
	Binary, Dir string
	Args, Env   []string

	address, admin string
	// joins are flags of the next start alone.
	joins   []string
	running *process
}

// Name implements Target.
func (s *Server) Name() string { return s.Label }

// Start implements Target. A restart uses the address of the first start, so that tokens,
// whose issuer is the address, stay valid.
func (s *Server) Start(ctx context.Context) (Endpoint, error) {
	if s.running != nil {
		return Endpoint{}, fmt.Errorf("%s is running already", s.Label)
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return Endpoint{}, err
	}
	if s.address == "" {
		free, err := freeAddresses(2)
		if err != nil {
			return Endpoint{}, err
		}
		s.address, s.admin = free[0], free[1]
	}
	args := slices.Concat([]string{
		"serve", "--listen", s.address, "--admin-listen", s.admin, "--data", s.data(), "--pow-bits", "8",
	}, s.Args, s.joins)
	ready := func(line string) bool { return strings.HasPrefix(line, announcement) }
	running, err := launch(ctx, filepath.Join(s.Dir, "server.log"), s.Env, s.Binary, args, ready)
	if err != nil {
		return Endpoint{}, err
	}
	s.running = running
	version, err := healthy(ctx, "http://"+s.address)
	if err != nil {
		return Endpoint{}, errors.Join(err, s.Kill())
	}
	token, err := s.adminToken()
	if err != nil {
		return Endpoint{}, errors.Join(err, s.Kill())
	}
	return Endpoint{Address: s.address, Kind: Parley, Admin: s.admin, AdminToken: token, Version: version}, nil
}

// data is the server's data directory.
func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// adminToken reads the token for operator calls.
func (s *Server) adminToken() (string, error) {
	token, err := os.ReadFile(filepath.Join(s.data(), "admin.token"))
	return strings.TrimSpace(string(token)), err
}

// freeAddresses returns n addresses on which nothing listens.
func freeAddresses(n int) ([]string, error) {
	var found []string
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = ln.Close() }()
		found = append(found, ln.Addr().String())
	}
	return found, nil
}

// healthy waits for the first 200 of /health and returns the version in that answer.
func healthy(ctx context.Context, base string) (version string, err error) {
	c, err := client.New(base, client.WithRetries(1, 0), client.WithHTTPClient(&http.Client{Transport: &http.Transport{}}))
	if err != nil {
		return "", err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var refused error // the server's last answer, or why there was none
	for {
		if _, err = c.Health(ctx); err == nil {
			break
		}
		if refused == nil || ctx.Err() == nil {
			refused = err
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("%s is not healthy: %w", base, refused)
		case <-time.After(5 * time.Millisecond):
		}
	}
	about, err := c.Version(ctx)
	if err != nil {
		return "", fmt.Errorf("%s does not say what it is: %w", base, err)
	}
	return about.Name + " " + about.Version, nil
}

// Processes implements Target.
func (s *Server) Processes() []int { return s.running.pids() }

func (p *process) pids() []int {
	if p == nil {
		return nil
	}
	return []int{p.cmd.Process.Pid}
}

// Kill implements Target.
func (s *Server) Kill() error {
	if s.running != nil {
		s.running.kill()
		s.running = nil
	}
	return nil
}

// Stop implements Target.
func (s *Server) Stop() error {
	if s.running == nil {
		return nil
	}
	defer func() { s.running = nil }()
	return s.running.stop()
}
