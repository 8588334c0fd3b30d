package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/knadh/koanf/parsers/toml/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"

	"parley/client/parley"
	"parley/cmd/parley/program"
	"parley/cmd/parley/telemetry"
	"parley/http/httpserver"
)

// Config holds the settings of a server, and is the only place where flags, environment,
// file and defaults meet. A flag takes precedence over its variable, the variable over
// the key of the TOML file (spelled as the flag), the key over the default. Other
// packages read no setting.
type Config struct {
	File                  string    `name:"config" env:"PARLEY_CONFIG" placeholder:"FILE" help:"TOML file with any of these settings, keys spelled as the flags."`
	Listen                string    `env:"PARLEY_LISTEN" default:"127.0.0.1:8080" help:"Address of the public API; port 0 selects a free port."`
	AdminListen           string    `env:"PARLEY_ADMIN_LISTEN" default:"127.0.0.1:8081" help:"Address for metrics, profiles, readiness and operator calls, which need the token of DATA/admin.token; never public."`
	AdminHosts            []string  `name:"admin-hosts" env:"PARLEY_ADMIN_HOSTS" placeholder:"HOST" help:"Host names other than loopback that requests to the admin address may use; separated by commas."`
	BackupDir             []string  `name:"backup-dir" env:"PARLEY_BACKUP_DIR" placeholder:"DIR" help:"Directory below which the running server may write backups; repeated, or separated by commas. Default: any that only the server's user and root can write to."`
	MetricsListen         string    `name:"metrics-listen" env:"PARLEY_METRICS_LISTEN" placeholder:"ADDRESS" help:"Address for metrics and readiness only, without a token; default: none."`
	Data                  string    `env:"PARLEY_DATA" default:"./parley-data" help:"Data directory; one process at a time."`
	ErasureList           string    `name:"erasure-list" env:"PARLEY_ERASURE_LIST" placeholder:"FILE" help:"File that lists the erased organizations. Kept apart from DATA, it survives the loss of DATA: a server started on an older backup erases them again. Default: DATA/erasures.jsonl."`
	BaseURL               string    `name:"base-url" env:"PARLEY_BASE_URL" placeholder:"URL" help:"Public address of the service; default: the bound address."`
	Domain                string    `env:"PARLEY_DOMAIN" default:"localhost" help:"Public domain that handles are built on."`
	Brand                 string    `env:"PARLEY_BRAND" default:"svc" help:"Brand in header names (X-Svc-Agent) and in reserved message types (svc.v1.dm)."`
	CORSOrigins           []string  `name:"cors-origins" env:"PARLEY_CORS_ORIGINS" placeholder:"ORIGIN" help:"Origins of web pages that may call the public API from a browser, such as https://app.example; repeated, or separated by commas; * is any. Default: none."`
	Dev                   bool      `env:"PARLEY_DEV" help:"For a developer's machine: proof of work of 8 bits, webhook targets may be http and loopback, readable log."`
	PowBits               int       `env:"PARLEY_POW_BITS" default:"20" help:"Leading zero bits of the proof of work at registration; 8 with --dev."`
	SigningKeyDays        int       `env:"PARLEY_SIGNING_KEY_DAYS" default:"90" help:"Days after which the key that signs access tokens is replaced."`
	QuotaProfile          string    `env:"PARLEY_QUOTA_PROFILE" default:"open" enum:"open,public" help:"Quotas and rate limits: ${enum}."`
	Tier1                 string    `name:"tier1" env:"PARLEY_TIER1" default:"pow" enum:"pow,email,approval" help:"How an organization reaches trust tier 1: ${enum}."`
	Registration          string    `env:"PARLEY_REGISTRATION" default:"open" enum:"open,token,closed" help:"Who may register an organization: ${enum}; token is for holders of one of parley registration token create."`
	PollLimit             PollLimit `env:"PARLEY_POLL_LIMIT" default:"60/20" help:"Polls per minute and address / per minute and token; 0 removes a limit."`
	Journals              int       `env:"PARLEY_JOURNALS" default:"1" help:"Number of journals (1 to 64); fixed when the data directory is created."`
	ConnectionsPerAddress int       `name:"connections-per-address" env:"PARLEY_CONNECTIONS_PER_ADDRESS" default:"0" help:"Maximum of open connections for one client address (IPv6: /64 network), streams included; 0 is two thirds of all connections. Trusted proxies are exempt."`
	ClusterListen         string    `name:"cluster-listen" env:"PARLEY_CLUSTER_LISTEN" placeholder:"HOST:PORT" help:"Address for the other nodes of the cluster; default: the one that the node was given when it began or joined."`
	ClusterAdvertise      string    `name:"cluster-advertise" env:"PARLEY_CLUSTER_ADVERTISE" placeholder:"HOST:PORT" help:"Address by which other nodes reach this one when it joins; default: that of --cluster-listen."`
	NodeName              string    `name:"node-name" env:"PARLEY_NODE_NAME" placeholder:"NAME" help:"What people call this node when it joins; default: the name of the machine."`
	DiskReserve           ByteSize  `name:"disk-reserve" env:"PARLEY_DISK_RESERVE" default:"256MiB" help:"Reject writes when the data directory's disk has less free space than this; at most an eighth of the disk; 0 disables the reserve."`
	LogFormat             string    `env:"PARLEY_LOG_FORMAT" default:"auto" enum:"auto,text,json" help:"Log on standard error: ${enum}; auto is text on a terminal and with --dev."`
	LogLevel              string    `env:"PARLEY_LOG_LEVEL" default:"info" enum:"debug,info,warn,error" help:"Lowest level to log: ${enum}."`
	AccessLog             bool      `name:"access-log" env:"PARLEY_ACCESS_LOG" help:"Log a line for each answer: request id, method, route, status, time; never a path, which may be a secret."`
	Memory
	Terms
	Outbound
	Embeddings
	Notice
	Workloads
	telemetry.Tracing

	// join is the address of a member of the cluster that a new node joins, joinToken the
	// token for that. They are not settings: each is used once.
	join, joinToken string
	// acceptLoss opens a damaged data directory and gives up the missing data.
	acceptLoss bool
	origins    map[string]string
	// tables are the terms from the tables of the file.
	tables Terms
}

const (
	// signingKeyDaysMax is ten years. A larger value is surely a mistake.
	signingKeyDaysMax = 3650
	// devPowBits is the difficulty of the proof of work with --dev.
	devPowBits = 8
	// powBitsMax takes hours of work. A larger value is surely a mistake.
	powBitsMax  = 40
	journalsMax = 64
)

var brandPattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

// BeforeResolve reads the TOML file, if one is named, and adds its values with lower
// precedence than the command line and the environment. An unknown key is an error, so
// that a misspelled key does not leave a default in force.
func (c *Config) BeforeResolve(ctx *kong.Context) error {
	path := ""
	known := map[string]bool{}
	for _, flag := range settings(ctx) {
		if flag.Name == "config" {
			path, _ = ctx.FlagValue(flag).(string)
		} else {
			known[flag.Name] = true
		}
	}
	if path == "" {
		return nil
	}
	values := koanf.New(".")
	if err := values.Load(file.Provider(path), toml.Parser()); err != nil {
		return fmt.Errorf("config file %s: %w", path, err)
	}
	for key := range values.Raw() {
		if !known[key] && key != quotasTable && key != ratesTable {
			return fmt.Errorf("config file %s: unknown key %q", path, key)
		}
	}
	var err error
	if c.tables, err = termsOf(values); err != nil {
		return fmt.Errorf("config file %s: %w", path, err)
	}
	ctx.AddResolver(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if !known[flag.Name] || environmentOf(flag) != "" || !values.Exists(flag.Name) {
			return nil, nil
		}
		switch value := values.Get(flag.Name).(type) {
		case string, bool, int64, float64:
			return fmt.Sprint(value), nil
		case []any:
			if flag.IsSlice() {
				words := make([]string, len(value))
				for i, word := range value {
					words[i] = fmt.Sprint(word)
				}
				return kong.JoinEscaped(words, ','), nil
			}
			return nil, fmt.Errorf("config file %s: must be a single value", path)
		default:
			return nil, fmt.Errorf("config file %s: must be a single value", path)
		}
	}))
	return nil
}

// AfterApply records where each value came from, and lowers the proof of work for --dev
// unless a value was set.
func (c *Config) AfterApply(ctx *kong.Context) error {
	c.origins = map[string]string{}
	for _, flag := range settings(ctx) {
		c.origins[flag.Name] = "default"
		if name := environmentOf(flag); name != "" {
			c.origins[flag.Name] = name
		}
	}
	for _, step := range ctx.Path {
		if step.Flag == nil || c.origins[step.Flag.Name] == "" {
			continue
		}
		c.origins[step.Flag.Name] = "--" + step.Flag.Name
		if step.Resolved {
			c.origins[step.Flag.Name] = c.File
		}
	}
	c.addTables()
	if err := c.Terms.validate(c); err != nil { // from the file; flags and variables were validated before
		return err
	}
	if c.Dev && c.origins["pow-bits"] == "default" {
		c.PowBits, c.origins["pow-bits"] = devPowBits, "--dev"
	}
	return nil
}

// addTables adds the values of the file's tables, with lower precedence than all others.
func (c *Config) addTables() {
	if len(c.tables.Quota) > 0 && c.origins["quota"] == "default" {
		c.origins["quota"] = c.File
	}
	if len(c.tables.Rate) > 0 && c.origins["rate"] == "default" {
		c.origins["rate"] = c.File
	}
	c.Quota, c.Rate = append(c.tables.Quota, c.Quota...), append(c.tables.Rate, c.Rate...)
	c.tables = Terms{}
}

// hasPort reports whether a host has a port.
func hasPort(host string) bool {
	_, _, err := net.SplitHostPort(host)
	return err == nil
}

// Validate checks what types and enumerations cannot check.
func (c *Config) Validate() error {
	switch {
	case !parley.IsHostPort(c.Listen):
		return fmt.Errorf("--listen: %q is not host:port", c.Listen)
	case !parley.IsHostPort(c.AdminListen):
		return fmt.Errorf("--admin-listen: %q is not host:port", c.AdminListen)
	case c.MetricsListen != "" && !parley.IsHostPort(c.MetricsListen):
		return fmt.Errorf("--metrics-listen: %q is not host:port", c.MetricsListen)
	case slices.ContainsFunc(c.AdminHosts, func(host string) bool { return strings.ContainsAny(host, "/* ") || host == "" || hasPort(host) }):
		return fmt.Errorf("--admin-hosts: %q is not a list of host names without ports", c.AdminHosts)
	case c.Data == "":
		return errors.New("--data: no directory is named")
	case c.BaseURL != "" && !parley.IsBaseURL(c.BaseURL):
		return fmt.Errorf("--base-url: %q is not an http or https address such as https://parley.example:8443, with only letters, digits and -._~:/[]%%", program.Redacted(c.BaseURL))
	case !parley.ValidDomain(c.Domain):
		return fmt.Errorf("--domain: %q is not a lowercase domain name", c.Domain)
	case !brandPattern.MatchString(c.Brand):
		return fmt.Errorf("--brand: %q is not a lowercase word of letters, digits and hyphens", c.Brand)
	case c.SigningKeyDays < 1 || c.SigningKeyDays > signingKeyDaysMax:
		return fmt.Errorf("--signing-key-days: %d is not between 1 and %d", c.SigningKeyDays, signingKeyDaysMax)
	case c.PowBits < 0 || c.PowBits > powBitsMax:
		return fmt.Errorf("--pow-bits: %d is not between 0 and %d", c.PowBits, powBitsMax)
	case c.ConnectionsPerAddress < 0:
		return fmt.Errorf("--connections-per-address: %d is negative", c.ConnectionsPerAddress)
	case c.Journals < 1 || c.Journals > journalsMax:
		return fmt.Errorf("--journals: %d is not between 1 and %d", c.Journals, journalsMax)
	}
	if _, err := httpserver.ParseOrigins(c.CORSOrigins); err != nil {
		return fmt.Errorf("--cors-origins: %w", err)
	}
	if err := c.Memory.validate(); err != nil {
		return err
	}
	if err := c.Outbound.validate(); err != nil {
		return err
	}
	if err := c.Embeddings.validate(); err != nil {
		return err
	}
	if err := c.Notice.validate(); err != nil {
		return err
	}
	if err := c.Tracing.Validate(); err != nil {
		return err
	}
	return c.Terms.validate(c)
}

// PollLimit bounds the unauthenticated poll endpoint, in requests a minute; 0 removes a
// bound. // spec: Limits
type PollLimit struct {
	PerAddress int
	PerToken   int
}

// UnmarshalText reads "60/20": per address, then per token. "0" removes both bounds.
func (p *PollLimit) UnmarshalText(text []byte) error {
	address, token, both := strings.Cut(string(text), "/")
	if !both && address == "0" {
		token = address
	}
	perAddress, err1 := strconv.Atoi(address)
	perToken, err2 := strconv.Atoi(token)
	if err1 != nil || err2 != nil || perAddress < 0 || perToken < 0 {
		return fmt.Errorf("%q is not two numbers such as 60/20", text)
	}
	*p = PollLimit{PerAddress: perAddress, PerToken: perToken}
	return nil
}

func (p PollLimit) String() string { return fmt.Sprintf("%d/%d", p.PerAddress, p.PerToken) }

// settings returns the flags of the chosen command that are settings: those that have a
// variable. The others, such as --help and --json, apply to one run only.
func settings(ctx *kong.Context) []*kong.Flag {
	var flags []*kong.Flag
	for _, flag := range ctx.Flags() {
		if len(flag.Envs) > 0 {
			flags = append(flags, flag)
		}
	}
	return flags
}

// environmentOf returns the variable that sets the flag, or "".
func environmentOf(flag *kong.Flag) string {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return name
		}
	}
	return ""
}

type ConfigCmd struct{ Config }

// setting is one line of `parley config`.
type setting struct {
	Value any    `json:"value"`
	From  string `json:"from"`
}

// Run prints the effective values and the source of each, as serve would see them with
// the same flags, environment and file.
func (c *ConfigCmd) Run(ctx *kong.Context, std *program.Streams) error {
	rows := [][]string{{"SETTING", "VALUE", "FROM"}}
	all := map[string]setting{}
	for _, flag := range settings(ctx) {
		value := flag.Target.Interface()
		if limit, ok := value.(PollLimit); ok {
			value = limit.String()
		}
		all[flag.Name] = setting{Value: value, From: c.origins[flag.Name]}
		rows = append(rows, []string{flag.Name, fmt.Sprint(value), c.origins[flag.Name]})
	}
	if std.JSON {
		return std.Value(all)
	}
	return std.Table(rows)
}

// keyLifetime returns the age at which a signing key is replaced.
func (c *Config) keyLifetime() time.Duration { return time.Duration(c.SigningKeyDays) * 24 * time.Hour }
