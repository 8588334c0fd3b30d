package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"parley"
	"parley/actors"
	"parley/cmd/parley/admin"
	"parley/cmd/parley/datadir"
	"parley/cmd/parley/program"
	"parley/cmd/parley/telemetry"
	parleyhttp "parley/http"
	"parley/http/auth"
	"parley/http/connlimit"
	"parley/http/httpserver"
	"parley/http/limit"
	"parley/http/overload"
	"parley/persistence"
)

const (
	// keysEvery is how often the signing keys are looked after.
	keysEvery = 10 * time.Minute
	// finishWait is what requests get to finish at a drain; the rest of
	// parley.DrainWait is for writing out.
	finishWait = 6 * time.Second
)

// runServer opens the journal, the actors and the doors, calls ready with the
// bound public address, and returns when ctx is done and all is drained.
func runServer(ctx context.Context, cfg Config, ready func(addr string)) error {
	h, err := openHouse(ctx, cfg)
	if err != nil {
		return err
	}
	cfg.warn()
	h.tellStarted(&cfg)
	served := make(chan error, 3)
	go func() { served <- h.doors.Serve(h.public) }()
	go func() { served <- admin.Serve(h.admin.Admin, h.private) }()
	if h.metrics != nil {
		go func() { served <- admin.Serve(h.admin.Metrics, h.metrics) }()
	}
	ready(h.public.Addr().String())
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	began := time.Now()
	slog.Info("the server is stopping", "data", cfg.Data)
	err = errors.Join(err, h.close())
	slog.Info("the server has stopped", "data", cfg.Data, "took", time.Since(began).Round(time.Millisecond).String())
	return err
}

// tellStarted logs what runs, and where.
func (h *house) tellStarted(cfg *Config) {
	metrics := ""
	if h.metrics != nil {
		metrics = h.metrics.Addr().String()
	}
	slog.Info("the server has started", "version", program.ThisBuild().Version, "data", cfg.Data, "listen", h.public.Addr().String(),
		"admin_listen", h.private.Addr().String(), "metrics_listen", metrics, "base_url", h.service.BaseURL, "domain", cfg.Domain,
		"quota_profile", cfg.QuotaProfile, "tier1", cfg.Tier1, "dev", cfg.Dev, "memory_limit", byteSize(cfg.limit()).String())
}

// house is everything that runs, in the order in which it was opened.
type house struct {
	store   *persistence.Store
	master  *auth.MasterKey
	out     *outbound
	node    *actors.Node
	service *parleyhttp.Service
	doors   *httpserver.Server
	admin   *admin.Server
	meter   *telemetry.RequestMeter
	traces  *telemetry.Traces
	public  net.Listener
	private net.Listener
	metrics net.Listener // nil where there is none
	stop    context.CancelFunc
}

// openHouse opens everything; what is open when something fails is closed again.
func openHouse(ctx context.Context, cfg Config) (h *house, err error) {
	h = &house{}
	defer func() {
		if err != nil {
			err = datadir.Advise(errors.Join(err, h.close()), cfg.Data)
		}
	}()
	if err = h.openActors(cfg); err != nil {
		return h, err
	}
	if h.public, err = net.Listen("tcp", cfg.Listen); err != nil {
		return h, err
	}
	if h.private, err = listenAdmin(cfg); err != nil {
		return h, err
	}
	if cfg.MetricsListen != "" {
		if h.metrics, err = net.Listen("tcp", cfg.MetricsListen); err != nil {
			return h, err
		}
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = "http://" + h.public.Addr().String()
	}
	return h, h.openDoors(ctx, cfg)
}

// listenAdmin opens the operator's address. Where nobody chose one and another
// server on this machine has the default, any free one will do.
func listenAdmin(cfg Config) (net.Listener, error) {
	ln, err := net.Listen("tcp", cfg.AdminListen)
	if errors.Is(err, syscall.EADDRINUSE) && cfg.origins["admin-listen"] == "default" {
		if ln, err = net.Listen("tcp", "127.0.0.1:0"); err == nil {
			slog.Warn("the default admin address is in use; another is taken", "default", cfg.AdminListen, "admin", ln.Addr().String())
		}
	}
	return ln, err
}

func (h *house) openActors(cfg Config) (err error) {
	journals := cfg.Journals
	if cfg.origins["journals"] == "default" {
		journals = 0 // as the directory was made
	}
	if err := datadir.CheckNoBackup(cfg.Data); err != nil {
		return err
	}
	found, err := datadir.FindMasterKey(cfg.Data)
	if err != nil {
		return err
	}
	h.store, err = persistence.Open(filepath.Join(cfg.Data, "journal"), persistence.Options{
		Journals: journals, Clock: time.Now, Logger: slog.Default(), CacheBytes: int64(cfg.Cache) / 4 * 3,
		FreeBytesMin: cfg.reserve(), AcceptLoss: cfg.acceptLoss,
		Existing: found.Filed, // the key's file is made after the journal
		Fatal: func(err error) {
			slog.Error("the journal cannot go on; what was answered is on disk", "error", err)
			os.Exit(program.ExitUnexpected)
		},
	})
	if err != nil {
		return err
	}
	quotas, err := cfg.quotas()
	if err != nil {
		return err
	}
	if h.master, err = found.KeyFor(h.store); err != nil {
		return err
	}
	if h.out, err = openOutbound(&cfg, h.master); err != nil {
		return err
	}
	if h.traces, err = telemetry.OpenTraces(context.Background(), &cfg.Tracing, cfg.origins["otlp-endpoint"] != "default"); err != nil {
		return err
	}
	h.traces.WatchDeliveries(h.out.courier)
	h.meter = telemetry.NewRequestMeter()
	h.node = actors.New(actors.Options{
		Journal: h.traces.WrapJournal(h.store), Clock: time.Now, Entropy: parley.RandomEntropy, Logger: slog.Default(),
		PageBytes: int64(cfg.Cache) / 4, SeatLimit: quotas.Seats, Courier: h.out.courier,
		Demand: h.demand(),
	})
	return h.node.Start()
}

func (h *house) openDoors(ctx context.Context, cfg Config) error {
	keys, err := parleyhttp.SigningKeys(ctx, h.node, h.master, cfg.keyLifetime(), time.Now, parley.RandomEntropy)
	if err != nil {
		return fmt.Errorf("signing keys: %w", err)
	}
	secret, err := h.master.Derive("cursors")
	if err != nil {
		return err
	}
	cursors, err := parley.NewCursors(secret)
	if err != nil {
		return err
	}
	base := strings.TrimSuffix(cfg.BaseURL, "/")
	tier := 0
	if cfg.Tier1 == "pow" {
		tier = 1
	}
	quotas, err := cfg.quotas()
	if err != nil {
		return err
	}
	rates, err := cfg.rates()
	if err != nil {
		return err
	}
	keeping, stop := context.WithCancel(context.Background())
	h.stop = stop
	budget := limit.NewBudget(cfg.held())
	h.service = parleyhttp.NewService(parleyhttp.ServiceOptions{
		Node: h.node, Issuer: auth.NewIssuer(base, base, keys, time.Now, parley.RandomEntropy), Cursors: cursors,
		Clock: time.Now, Entropy: parley.RandomEntropy, BaseURL: base, Domain: cfg.Domain, Brand: cfg.Brand,
		Version: program.ThisBuild().Version, Difficulty: auth.NewDifficulty(cfg.PowBits, !cfg.Dev, time.Now),
		TierAtSolve: tier, KeyLifetime: cfg.keyLifetime(), Poll: limit.Poll(cfg.PollLimit), Quotas: quotas,
		Rates: rates, Budget: budget, Proxies: cfg.proxies(), Mail: cfg.mailer(keeping, base),
		Guard: h.out.guard, Vault: h.master, Logger: slog.Default(),
	})
	h.doors, err = httpserver.New(httpserver.Options{
		Routes: h.service.Routes(), WireSource: parleyhttp.WireSource(), Authenticator: h.service, Logger: slog.Default(), Clock: time.Now,
		Admit: h.service.Admit, NewRequestID: newRequestID, Brand: cfg.Brand, Version: program.ThisBuild().Version,
		Connections: connlimit.Bounds{
			Total: connectionsMax(filesMax()), Served: cfg.served(), PerAddress: cfg.ConnectionsPerAddress, Exempt: h.service.Proxy,
		},
		Overload: overload.New(overload.Runnable),
		Observe:  h.observer(cfg), Budget: budget, Source: h.service.Source,
	})
	if err != nil {
		return err
	}
	h.doors.OnDrain(h.service.Close)
	token, err := datadir.MakeAdminToken(cfg.Data)
	if err != nil {
		return err
	}
	owner, err := datadir.BackupOwner(h.master)
	if err != nil {
		return err
	}
	backups := &admin.BackupEndpoint{Backup: &datadir.Backup{
		Store: h.store, Data: cfg.Data, Owner: owner,
		Target: func(to string) (string, error) { return datadir.BackupTarget(to, cfg.BackupDir) },
	}}
	h.admin = admin.NewServer(h.service, promhttp.HandlerFor(telemetry.Metrics(telemetry.Sources{
		Store: h.store, Node: h.node, HTTP: h.doors, Service: h.service, Webhooks: h.out.sender, Requests: h.meter,
	}), promhttp.HandlerOpts{}), admin.Guard{Token: token, Hosts: cfg.AdminHosts}, backups,
		&admin.OrgEndpoint{Node: h.node, Service: h.service, Quotas: quotas}, &admin.SigningKeyEndpoint{Service: h.service, Master: h.master})
	go h.keepKeys(keeping)
	go cfg.govern(keeping)
	go h.out.followNames(keeping)
	return nil
}

// observer is told of every answer.
func (h *house) observer(cfg Config) func(httpserver.Answer) {
	told := []func(httpserver.Answer){h.meter.Observe}
	if cfg.AccessLog {
		told = append(told, telemetry.AccessLog(slog.Default()))
	}
	if h.traces != nil {
		h.traces.SetBaseURL(cfg.BaseURL)
		told = append(told, h.traces.Answered)
	}
	return telemetry.ObserveAll(told...)
}

// keepKeys rotates the signing keys when they are due.
func (h *house) keepKeys(ctx context.Context) {
	tick := time.NewTicker(keysEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := h.service.RenewKeys(ctx, h.master); err != nil {
				slog.Error("the signing keys could not be looked after", "error", err)
			}
		}
	}
}

// close drains: no new connections, requests finish, streams end, what was
// appended is written out.
func (h *house) close() error {
	var errs []error
	if h.stop != nil {
		h.stop()
	}
	if h.doors != nil {
		ctx, cancel := context.WithTimeout(context.Background(), finishWait)
		defer cancel()
		if err := h.doors.Shutdown(ctx); err != nil {
			slog.Warn("some requests did not finish in time", "error", err)
		}
	}
	if h.admin != nil {
		errs = append(errs, h.admin.Close())
	}
	for _, l := range []net.Listener{h.public, h.private, h.metrics} {
		if l != nil {
			_ = l.Close() // closed already where it was served
		}
	}
	if h.out != nil {
		h.out.close()
	}
	if h.node != nil {
		h.node.Close()
	}
	if h.store != nil {
		errs = append(errs, h.store.Close())
	}
	h.traces.Close()
	return errors.Join(errs...)
}

// newRequestID names a request in logs and answers. It is no secret and needs
// no system call.
func newRequestID() string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16), rand.Uint64())
	b = binary.BigEndian.AppendUint64(b, rand.Uint64())
	return hex.EncodeToString(b[:10])
}
