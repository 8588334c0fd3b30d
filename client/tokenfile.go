package client

import (
	"encoding/json"
	"os"
	"time"

	"parley/client/secretfile"
)

// WithTokenFile stores the access token in a file, mode 0600, so that short-lived
// programs share one token while it is valid. Several may use the file at once, because
// it is replaced atomically. It names the server and the client that the token is for,
// and is not used for others. A file that is missing, damaged or readable by others
// counts as no token, and a failure to write it fails no call.
func WithTokenFile(path string) Option { return func(c *Session) { c.tokenFile = path } }

// savedToken is the content of a token file.
type savedToken struct {
	Version int `json:"version"`
	// Server and ClientID are the server that issued the token and the client that it is
	// for.
	Server   string `json:"server"`
	ClientID string `json:"client_id"`
	Token    string `json:"access_token"`
	// RenewAt is before the token expires.
	RenewAt time.Time `json:"renew_at"`
}

// tokenLifeMax is longer than any token lives. A saved token with a longer life was saved
// while the clock was wrong.
const tokenLifeMax = 24 * time.Hour

// loadToken returns the saved token for this client's server and credentials if it is
// still valid.
func (c *Session) loadToken(credentials Credentials) (savedToken, bool) {
	saved, ok := c.readToken()
	now := c.clock()
	return saved, ok && saved.Server == c.base && saved.ClientID == credentials.ClientID.String() &&
		now.Before(saved.RenewAt) && saved.RenewAt.Before(now.Add(tokenLifeMax))
}

func (c *Session) readToken() (saved savedToken, ok bool) {
	if c.tokenFile == "" {
		return saved, false
	}
	text, err := secretfile.Read(c.tokenFile)
	if err != nil || json.Unmarshal(text, &saved) != nil {
		return savedToken{}, false
	}
	return saved, saved.Version == 1 && saved.Token != ""
}

// saveToken stores a token for the next program. A failure is ignored.
func (c *Session) saveToken(credentials Credentials, token string, renewAt time.Time) {
	if c.tokenFile == "" {
		return
	}
	text, err := json.Marshal(savedToken{Version: 1, Server: c.base, ClientID: credentials.ClientID.String(), Token: token, RenewAt: renewAt.UTC()})
	if err == nil {
		_ = secretfile.Replace(c.tokenFile, append(text, '\n'))
	}
}

// discardToken removes a token that the server refused, unless another program has
// saved a newer one.
func (c *Session) discardToken(token string) {
	if saved, ok := c.readToken(); ok && saved.Token == token {
		_ = os.Remove(c.tokenFile)
	}
}
