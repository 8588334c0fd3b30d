package server

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
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"parley/actors"
	"parley/actors/delivery"
	"parley/actors/projection"
	"parley/client/parley"
	"parley/cmd/parley/admin"
	"parley/cmd/parley/datadir"
	"parley/cmd/parley/machine"
	"parley/cmd/parley/membership"
	"parley/cmd/parley/program"
	"parley/cmd/parley/telemetry"
	parleyhttp "parley/http"
	"parley/http/access"
	"parley/http/auth"
	"parley/http/connlimit"
	"parley/http/content"
	"parley/http/httpserver"
	"parley/http/limit"
	"parley/http/overload"
	"parley/http/rest"
	"parley/http/svid"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/keyring"
	"parley/persistence/seal"
	"parley/persistence/sealed"
)

const (
	// keysEvery is how often the server checks whether a signing key is due.
	keysEvery = 10 * time.Minute
	// finishWait bounds the time that requests have to finish during a drain. The rest of
	// parley.DrainWait is for closing the store.
	finishWait = 6 * time.Second
)

// runServer opens the journal, the actors and the listeners, calls ready with the bound
// public address, and returns when ctx is done and everything is drained.
func runServer(ctx context.Context, cfg Config, ready func(addr string)) error {
	h, err := start(ctx, cfg)
	if h == nil || err != nil {
		return err
	}
	cfg.warn()
	h.logStarted(&cfg)
	served := make(chan error, 3)
	go func() { served <- h.http.Serve(h.listener) }()
	go func() { served <- serveOperators(h.admin.Admin, h.adminListener) }()
	if h.metricsListener != nil {
		go func() { served <- serveOperators(h.admin.Metrics, h.metricsListener) }()
	}
	ready(h.listener.Addr().String())
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

// logStarted logs the version, the addresses and the main settings.
func (h *running) logStarted(cfg *Config) {
	metrics := ""
	if h.metricsListener != nil {
		metrics = h.metricsListener.Addr().String()
	}
	slog.Info("the server has started", "version", program.ThisBuild().Version, "data", cfg.Data, "listen", h.listener.Addr().String(),
		"admin_listen", h.adminListener.Addr().String(), "metrics_listen", metrics, "base_url", h.service.BaseURL, "domain", cfg.Domain,
		"quota_profile", cfg.QuotaProfile, "tier1", cfg.Tier1, "dev", cfg.Dev, "memory_limit", ByteSize(cfg.limit()).String())
}

// running is an open server: its parts in the order in which they were opened.
type running struct {
	bundles         *svid.Bundles
	store           *persistence.Store
	keyring         *keyring.Keyring
	master          *auth.MasterKey
	sealer          *seal.Sealer
	webhooks        *webhookSender
	node            *actors.Node
	directory       *projection.Directory
	service         *parleyhttp.Service
	http            *httpserver.Server
	admin           *admin.Server
	meter           *telemetry.RequestMeter
	traces          *telemetry.Traces
	listener        net.Listener
	adminListener   net.Listener
	metricsListener net.Listener // nil if there is none
	stop            context.CancelFunc
	member          member
}

// start opens everything. If something fails, it closes what is open. It returns nil if ctx was
// done before: a node may wait for its cluster for long.
func start(ctx context.Context, cfg Config) (h *running, err error) {
	h = &running{}
	defer func() {
		switch {
		case err == nil:
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			slog.Info("the server was stopped before it had started", "data", cfg.Data)
			h, err = nil, h.close()
		default:
			err = datadir.Advise(errors.Join(err, h.close()), cfg.Data)
		}
	}()
	if h.bundles, err = cfg.openBundles(); err != nil {
		return h, err
	}
	if h.member, err = newMember(ctx, &cfg); err != nil {
		return h, err
	}
	if err = h.startActors(ctx, cfg); err != nil {
		return h, err
	}
	if h.listener, err = connlimit.Listen(cfg.Listen); err != nil {
		return h, err
	}
	if h.adminListener, err = listenAdmin(cfg); err != nil {
		return h, err
	}
	if cfg.MetricsListen != "" {
		if h.metricsListener, err = connlimit.Listen(cfg.MetricsListen); err != nil {
			return h, err
		}
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = "http://" + h.listener.Addr().String()
	}
	return h, h.startServers(ctx, cfg)
}

// listenAdmin opens the admin address. If the default address is in use by another server
// and no address was set, it takes any free port.
func listenAdmin(cfg Config) (net.Listener, error) {
	ln, err := connlimit.Listen(cfg.AdminListen)
	if errors.Is(err, syscall.EADDRINUSE) && cfg.origins["admin-listen"] == "default" {
		if ln, err = connlimit.Listen("127.0.0.1:0"); err == nil {
			slog.Warn("the default admin address is in use; another is taken", "default", cfg.AdminListen, "admin", ln.Addr().String())
		}
	}
	return ln, err
}

func (h *running) startActors(ctx context.Context, cfg Config) (err error) {
	journals := cfg.Journals
	if cfg.origins["journals"] == "default" {
		journals = h.member.journals // or keep the number the directory was created with
	}
	if err := datadir.CheckNoBackup(cfg.Data); err != nil {
		return err
	}
	found, err := datadir.FindMasterKey(cfg.Data)
	if err != nil {
		return err
	}
	h.store, h.keyring, err = datadir.OpenStore(cfg.Data, found, persistence.Options{
		Journals: journals, Clock: time.Now, Logger: slog.Default(), CacheBytes: int64(cfg.Cache) / 4 * 3, FilesMax: machine.StoreFilesMax(machine.FilesMax()),
		FreeBytesMin: cfg.reserve(), AcceptLoss: cfg.acceptLoss,
		Existing:  found.Filed && !h.member.blank, // the key file is created after the journal
		Sequencer: h.member.sequencer,
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
	if err := h.ensureKeyring(cfg.Data); err != nil {
		return err
	}
	if h.webhooks, err = newWebhookSender(&cfg, h.master); err != nil {
		return err
	}
	if h.traces, err = telemetry.OpenTraces(context.Background(), &cfg.Tracing, cfg.origins["otlp-endpoint"] != "default"); err != nil {
		return err
	}
	h.traces.WatchDeliveries(h.webhooks.courier)
	h.meter = telemetry.NewRequestMeter()
	h.sealer = datadir.Sealer(h.keyring)
	inner, router, err := h.member.open(h.store)
	if err != nil {
		return err
	}
	contents := h.traces.WrapJournal(sealed.New(inner, h.sealer))
	keys := &orgKeys{keyring: h.keyring, sealer: h.sealer, list: datadir.NewErasureList(cfg.ErasureList, cfg.Data)}
	h.node = actors.New(actors.Options{
		Journal: contents, Clock: time.Now, Entropy: parley.RandomEntropy, Logger: slog.Default(),
		PageBytes: int64(cfg.Cache) / 4, Render: content.Render, SeatLimit: quotas.Seats, Courier: h.webhooks.courier,
		NewKey: h.member.keysOr(keys).Create, DestroyKey: h.member.keysOr(keys).Destroy, Load: h.load(), Router: router,
		Elsewhere: h.member.elsewhere(),
	})
	if err = h.member.start(ctx, h, keys); err != nil {
		return err
	}
	return h.openDirectory(&cfg, contents)
}

// openDirectory opens the index of the directory.
func (h *running) openDirectory(cfg *Config, j journal.Journal) error {
	provider, err := cfg.Embeddings.open()
	if err != nil {
		return err
	}
	h.directory = projection.Open(projection.Options{
		Journal: j, Embedder: provider, Clock: time.Now, Entropy: parley.RandomEntropy, Logger: slog.Default(), Domain: cfg.Domain,
		Checkpoint: datadir.DirectoryCheckpoint(cfg.Data, h.sealer),
	})
	return nil
}

// ensureKeyring makes the keyring of a new data directory, and logs what was repaired in
// that of an existing one.
func (h *running) ensureKeyring(data string) (err error) {
	if h.keyring == nil {
		h.keyring, err = datadir.MakeKeyring(h.store, data, h.master, h.member.serverKey)
		return err
	}
	for _, f := range h.keyring.Repaired() {
		slog.Warn("a file of the keyring was repaired from its other copy", "file", f.File, "reason", f.Reason)
	}
	return nil
}

func (h *running) startServers(ctx context.Context, cfg Config) error {
	var tokenKeys, cardKeys, receiptKeys auth.KeySet
	for _, k := range []struct {
		sign string
		of   *actors.Keys
		keys *auth.KeySet
	}{{"tokens", h.node.Keys, &tokenKeys}, {"cards", h.node.CardKeys, &cardKeys}, {"receipts", h.node.ReceiptKeys, &receiptKeys}} {
		var err error
		if *k.keys, err = parleyhttp.SigningKeys(ctx, k.of, h.master, cfg.keyLifetime(), time.Now, parley.RandomEntropy); err != nil {
			return fmt.Errorf("keys that sign %s: %w", k.sign, err)
		}
	}
	secret, err := h.master.Derive("cursors")
	if err != nil {
		return err
	}
	cursors, err := rest.NewCursors(secret)
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
	origins, err := httpserver.ParseOrigins(cfg.CORSOrigins)
	if err != nil {
		return err
	}
	keeping, stop := context.WithCancel(context.Background())
	h.stop = stop
	budget := limit.NewBudget(cfg.requestMemory())
	trouble, cutOff := h.member.contact()
	h.service = parleyhttp.NewService(parleyhttp.ServiceOptions{
		Node: h.node, Issuer: auth.NewIssuer(base, base, tokenKeys, time.Now, parley.RandomEntropy), Cursors: cursors,
		Clock: time.Now, Entropy: parley.RandomEntropy, BaseURL: base, Domain: cfg.Domain, Brand: cfg.Brand, Dev: cfg.Dev,
		Version: program.ThisBuild().Version, Difficulty: auth.NewDifficulty(cfg.PowBits, !cfg.Dev, time.Now),
		TierAtSolve: tier, Registration: cfg.Registration, KeyLifetime: cfg.keyLifetime(), CardKeys: cardKeys, ReceiptKeys: receiptKeys, Poll: limit.Poll(cfg.PollLimit), Quotas: quotas,
		Rates: rates, Budget: budget, Proxies: cfg.proxies(), Mail: cfg.startMailer(keeping, base),
		Courier: h.webhooks.courier, Guard: h.webhooks.guard, Vault: h.master, Directory: h.directory, Bundles: h.bundles, Logger: slog.Default(),
		Notice: cfg.notice(), ClusterTrouble: trouble, Elsewhere: h.member.elsewhere(), CutOff: cutOff, ScopesKnown: h.member.scopesKnown,
	})
	h.http, err = httpserver.New(httpserver.Options{
		Routes: h.service.Routes(), Authenticator: h.service, Logger: slog.Default(), Clock: time.Now,
		Admit: h.service.Admit, NewRequestID: newRequestID, Brand: cfg.Brand, Version: program.ThisBuild().Version,
		Connections: connlimit.Bounds{
			Total: machine.ConnectionsMax(machine.FilesMax()), Served: cfg.connectionsServed(), PerAddress: cfg.ConnectionsPerAddress, Exempt: h.service.Proxy,
		},
		Overload: overload.New(overload.Runnable),
		Observe:  h.observer(cfg), Budget: budget, Source: h.service.Source, Resolve: h.service.Resolve, ErrorPage: h.service.ErrorPage, Damaged: h.service.Damaged, Leaving: h.member.leaving(), Origins: origins,
	})
	if err != nil {
		return err
	}
	h.http.OnDrain(h.service.Close)
	if err := h.startAdmin(cfg, quotas); err != nil {
		return err
	}
	h.startWork(keeping, &cfg)
	return nil
}

// startWork starts what goes on until the context is done.
func (h *running) startWork(ctx context.Context, cfg *Config) {
	go h.keepKeys(ctx)
	go cfg.tuneGC(ctx)
	go h.webhooks.followNames(ctx)
	if h.member.part != nil {
		go h.member.part.ShareSpending(ctx, h.service)
	}
}

// startAdmin starts the operator's interface.
func (h *running) startAdmin(cfg Config, quotas access.QuotaProfile) error {
	token, err := datadir.MakeAdminToken(cfg.Data)
	if err != nil {
		return err
	}
	backups := &admin.BackupEndpoint{Backup: &datadir.Backup{
		Store: h.store, Keyring: h.keyring, Data: cfg.Data, Master: h.master,
		Target: func(to string) (string, error) { return datadir.BackupTarget(to, cfg.BackupDir) },
	}}
	calls := []admin.Endpoint{
		backups, &admin.OrgEndpoint{Node: h.node, Service: h.service, Quotas: quotas}, &admin.ReportEndpoint{Node: h.node},
		&admin.SigningKeyEndpoint{Service: h.service, Master: h.master}, &admin.TokenEndpoint{Node: h.node, Clock: time.Now, Entropy: parley.RandomEntropy},
	}
	if h.member.part != nil {
		calls = append(calls, &membership.Endpoint{Part: h.member.part})
	}
	metrics := promhttp.HandlerFor(telemetry.Metrics(telemetry.Sources{
		Store: h.store, Node: h.node, HTTP: h.http, Service: h.service, Webhooks: h.webhooks.sender, Requests: h.meter,
		Cluster: membership.Stats(h.member.part),
	}), promhttp.HandlerOpts{})
	h.admin = admin.NewServer(h.service, telemetry.Kept(metrics, time.Now), admin.Guard{Token: token, Tokens: h.node.Operators.Tokens, Hosts: cfg.AdminHosts}, calls...)
	return nil
}

// observer returns the function that is called for every answer.
func (h *running) observer(cfg Config) func(httpserver.Answer) {
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

// keepKeys replaces signing keys when they are due, and takes over those that another node
// has rotated.
func (h *running) keepKeys(ctx context.Context) {
	tick := time.NewTicker(keysEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-h.service.KeysChanged():
		}
		if err := h.service.RenewKeys(ctx, h.master); err != nil {
			slog.Error("the signing keys could not be renewed", "error", err)
		}
	}
}

// close drains the server: no new connections, requests finish, streams end, appended
// entries are written.
func (h *running) close() error {
	var errs []error
	if h.stop != nil {
		h.stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishWait)
	defer cancel()
	if h.member.part != nil {
		h.member.part.Drain(ctx)
	}
	if h.http != nil {
		if err := h.http.Shutdown(ctx); err != nil {
			slog.Warn("some requests did not finish in time", "error", err)
		}
	}
	if h.admin != nil {
		errs = append(errs, h.admin.Close())
	}
	for _, l := range []net.Listener{h.listener, h.adminListener, h.metricsListener} {
		if l != nil {
			_ = l.Close() // already closed if it was served
		}
	}
	if h.webhooks != nil {
		h.webhooks.close()
	}
	if h.directory != nil {
		h.directory.Close()
	}
	if h.member.end != nil {
		errs = append(errs, h.member.end())
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

// newRequestID returns a random id for a request, for logs and answers. It is not a
// secret and needs no system call.
func newRequestID() string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16), rand.Uint64())
	b = binary.BigEndian.AppendUint64(b, rand.Uint64())
	return hex.EncodeToString(b[:10])
}

// load returns, for the webhook throttle, how many requests were answered and whether
// processor time is short.
func (h *running) load() delivery.Load {
	p := machine.NewProcessor()
	return func() (answered uint64, short bool) { return h.meter.Answers(), p.Busy() }
}
