package server

import (
	"fmt"
	"net/url"
	"regexp"
	"time"

	parleyhttp "parley/http"
)

// Notice are the settings of the transparency notice. // docs: compliance.md
type Notice struct {
	ProviderName    string   `name:"provider-name" env:"PARLEY_PROVIDER_NAME" placeholder:"NAME" help:"Who runs the service, for GET /compliance/info."`
	ProviderURL     string   `name:"provider-url" env:"PARLEY_PROVIDER_URL" placeholder:"URL" help:"The provider's website."`
	ProviderContact string   `name:"provider-contact" env:"PARLEY_PROVIDER_CONTACT" placeholder:"TEXT" help:"Where to ask about data, such as a mail address."`
	ProviderCountry string   `name:"provider-country" env:"PARLEY_PROVIDER_COUNTRY" placeholder:"CODE" help:"The provider's country, two upper-case letters."`
	DataLocation    string   `name:"data-location" env:"PARLEY_DATA_LOCATION" placeholder:"TEXT" help:"Where the data is stored, such as Frankfurt, Germany."`
	Subprocessors   []string `env:"PARLEY_SUBPROCESSORS" placeholder:"NAME" help:"Who else processes data for the provider; repeated, or separated by commas."`
	PrivacyPolicy   string   `name:"privacy-policy" env:"PARLEY_PRIVACY_POLICY" placeholder:"URL" help:"The provider's privacy policy."`
	NoticeUpdated   string   `name:"notice-updated" env:"PARLEY_NOTICE_UPDATED" placeholder:"DATE" help:"Day of the last change to these settings, as 2026-11-23; default: when the text that is part of the server last changed."`
}

var countryPattern = regexp.MustCompile(`^([A-Z]{2})?$`)

func (n *Notice) validate() error {
	for _, of := range []struct{ flag, address string }{{"--provider-url", n.ProviderURL}, {"--privacy-policy", n.PrivacyPolicy}} {
		if u, err := url.Parse(of.address); of.address != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
			return fmt.Errorf("%s: %q is not an http or https address", of.flag, of.address)
		}
	}
	if !countryPattern.MatchString(n.ProviderCountry) {
		return fmt.Errorf("--provider-country: %q is not two upper-case letters", n.ProviderCountry)
	}
	if _, err := n.updated(); err != nil {
		return fmt.Errorf("--notice-updated: %q is not a day such as 2026-11-23", n.NoticeUpdated)
	}
	return nil
}

// updated returns the zero time if no day is set.
func (n *Notice) updated() (time.Time, error) {
	if n.NoticeUpdated == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.DateOnly, n.NoticeUpdated)
}

// notice returns what the transparency notice says of the provider. The settings are
// valid.
func (c *Config) notice() parleyhttp.Notice {
	updated, _ := c.Notice.updated()
	n := parleyhttp.Notice{
		Name: c.ProviderName, URL: c.ProviderURL, Contact: c.ProviderContact, Country: c.ProviderCountry, Location: c.DataLocation,
		PrivacyPolicy: c.PrivacyPolicy, Subprocessors: c.Subprocessors, Updated: updated,
	}
	if c.remote() {
		n.Search = "Searches by meaning compare public cards with a query by word vectors. A service that the provider has chosen computes them: it gets the texts of public cards and the queries, but no messages."
	}
	return n
}
