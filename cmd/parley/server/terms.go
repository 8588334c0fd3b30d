package server

import (
	"errors"
	"fmt"
	"maps"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/knadh/koanf/v2"

	"parley/client/parley"
	"parley/cmd/parley/program"
	parleyhttp "parley/http"
	"parley/http/access"
)

// Terms are the settings for what callers may do. Every number of the profile can be set.
type Terms struct {
	Quota          []quotaTerm    `env:"PARLEY_QUOTA" placeholder:"tierT.NAME=N" help:"Override a limit of the profile, such as tier1.agents=5 or tier2.groups=none; repeated, or in the file as the tables [quotas.tier0] to [quotas.tier3]."`
	Rate           []rateTerm     `env:"PARLEY_RATE" placeholder:"NAME=N" help:"Override a rate of the profile: register (an hour and address), token (a minute and client), token_failures (wrong secrets, a minute and address), writes, reads and a2a (a minute and organization), public (a minute and address), pair (messages between two agents, a minute); none removes a limit. Repeated, or in the file as the table [rates]."`
	TrustedProxies []proxyNetwork `name:"trusted-proxies" env:"PARLEY_TRUSTED_PROXIES" placeholder:"NETWORK" help:"Addresses or networks of trusted proxies, whose X-Forwarded-For is used; separated by commas. Default: none."`
	SMTPURL        secretURL      `name:"smtp-url" env:"PARLEY_SMTP_URL" placeholder:"URL" help:"Mail server for the emails of --tier1 email, as smtp://user:password@host:port or smtps://; default: none, tokens are logged."`
	SMTPFrom       string         `name:"smtp-from" env:"PARLEY_SMTP_FROM" placeholder:"ADDRESS" help:"Sender address of these emails; default: parley@ the domain."`
}

// unlimitedWord means no limit.
const unlimitedWord = "none"

// quotaTerm overrides one limit of the quota profile; nil means no limit.
type quotaTerm struct {
	tier  int
	name  string
	limit *int
}

// UnmarshalText reads "tier1.agents=5".
func (q *quotaTerm) UnmarshalText(text []byte) error {
	place, limit, valued := strings.Cut(string(text), "=")
	tier, name, named := strings.Cut(place, ".")
	digit, ok := strings.CutPrefix(tier, "tier")
	n, err := strconv.Atoi(digit)
	if !valued || !named || !ok || err != nil {
		return fmt.Errorf("%q is not like tier1.agents=5", text)
	}
	*q = quotaTerm{tier: n, name: name}
	if limit == unlimitedWord {
		return nil
	}
	if n, err = strconv.Atoi(limit); err != nil {
		return fmt.Errorf("%q: the limit is neither a number nor %s", text, unlimitedWord)
	}
	q.limit = &n
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (q quotaTerm) MarshalText() ([]byte, error) { return []byte(q.String()), nil }

func (q quotaTerm) String() string {
	limit := unlimitedWord
	if q.limit != nil {
		limit = strconv.Itoa(*q.limit)
	}
	return fmt.Sprintf("tier%d.%s=%s", q.tier, q.name, limit)
}

// rateTerm overrides one rate; 0 means no limit.
type rateTerm struct {
	name string
	rate int
}

// UnmarshalText reads "writes=600".
func (r *rateTerm) UnmarshalText(text []byte) error {
	name, rate, valued := strings.Cut(string(text), "=")
	n, err := strconv.Atoi(rate)
	if rate == unlimitedWord {
		n, err = 0, nil
	}
	if !valued || err != nil {
		return fmt.Errorf("%q is not like writes=600", text)
	}
	*r = rateTerm{name: name, rate: n}
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (r rateTerm) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

func (r rateTerm) String() string {
	if r.rate == 0 {
		return r.name + "=" + unlimitedWord
	}
	return r.name + "=" + strconv.Itoa(r.rate)
}

// proxyNetwork is a range of addresses or a single one.
type proxyNetwork struct{ netip.Prefix }

// UnmarshalText reads 10.0.0.0/8 or 10.0.0.1.
func (n *proxyNetwork) UnmarshalText(text []byte) (err error) {
	if addr, single := netip.ParseAddr(string(text)); single == nil {
		n.Prefix = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())
		return nil
	}
	if n.Prefix, err = netip.ParsePrefix(string(text)); err != nil {
		return fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", text)
	}
	if n.Addr().Is4In6() && n.Bits() >= mappedBits { // addresses are compared as IPv4
		n.Prefix = netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-mappedBits)
	}
	if n.Bits() == 0 {
		return fmt.Errorf("%q covers every address, so that any caller could claim any client address", text)
	}
	return nil
}

// mappedBits is how many bits come before an IPv4 address that is mapped into IPv6.
const mappedBits = 96

// MarshalText writes what UnmarshalText reads.
func (n proxyNetwork) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// secretURL is a URL with a password, which is never printed.
type secretURL string

// MarshalText hides the password.
func (u secretURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

func (u secretURL) String() string { return program.Redacted(string(u)) }

func (t *Terms) validate(c *Config) error {
	if _, err := c.quotas(); err != nil {
		return fmt.Errorf("--quota: %w", err)
	}
	if _, err := c.rates(); err != nil {
		return fmt.Errorf("--rate: %w", err)
	}
	if t.SMTPURL != "" {
		if u, err := url.Parse(string(t.SMTPURL)); err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || !parley.Dialable(u) || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
			// The value may hold a password, so the error does not quote it.
			return errors.New("--smtp-url: not an address such as smtp://user:password@mail.example:587, with a port from 1 to 65535 or none")
		}
	}
	if t.SMTPFrom != "" {
		if _, err := mail.ParseAddress(t.SMTPFrom); err != nil {
			return fmt.Errorf("--smtp-from: %q is not a mail address", t.SMTPFrom)
		}
	}
	return nil
}

// quotas returns the profile with all overrides. Later ones take precedence.
func (c *Config) quotas() (access.QuotaProfile, error) {
	profile := access.Quotas(c.QuotaProfile)
	for _, q := range c.Quota {
		changed, err := profile.With(q.tier, q.name, q.limit)
		if err != nil {
			return profile, fmt.Errorf("%s: %w", q, err)
		}
		profile = changed
	}
	return profile, nil
}

// rates returns the profile's rates with all overrides.
func (c *Config) rates() (parleyhttp.Rates, error) {
	rates := parleyhttp.RatesOf(c.QuotaProfile)
	for _, r := range c.Rate {
		changed, err := rates.With(r.name, r.rate)
		if err != nil {
			return rates, fmt.Errorf("%s: %w", r, err)
		}
		rates = changed
	}
	return rates, nil
}

func (t *Terms) proxies() (all []netip.Prefix) {
	for _, n := range t.TrustedProxies {
		all = append(all, n.Prefix)
	}
	return all
}

// Names of the file's tables, which hold numbers by name.
const (
	quotasTable = "quotas"
	ratesTable  = "rates"
)

// termsOf reads the file's tables. Values from the environment and the command line are
// added after them one by one, so that setting one number does not change the others.
func termsOf(values *koanf.Koanf) (t Terms, err error) {
	for _, key := range slices.Sorted(maps.Keys(values.Cut(quotasTable).All())) {
		var q quotaTerm
		if err := q.UnmarshalText(fmt.Appendf(nil, "%s=%v", key, values.Get(quotasTable+"."+key))); err != nil {
			return t, fmt.Errorf("[%s]: %w", quotasTable, err)
		}
		t.Quota = append(t.Quota, q)
	}
	for _, key := range slices.Sorted(maps.Keys(values.Cut(ratesTable).All())) {
		var r rateTerm
		if err := r.UnmarshalText(fmt.Appendf(nil, "%s=%v", key, values.Get(ratesTable+"."+key))); err != nil {
			return t, fmt.Errorf("[%s]: %w", ratesTable, err)
		}
		t.Rate = append(t.Rate, r)
	}
	return t, nil
}
