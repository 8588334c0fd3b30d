package agents

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"parley/actors/agent"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/limit"
	"parley/http/rest"
	"parley/journal"
)

// pollWindow is the window of the poll limits. // spec: Limits
const pollWindow = time.Minute

var errUnknownToken = parley.ErrNotFound.Saying("There is no such poll token.")

// newPollToken draws a token of 160 random bits and returns it with its hash. Only the
// hash is stored.
func (s Agents) newPollToken() (token string, hash []byte) {
	a, b := s.Entropy(), s.Entropy()
	token = base64.RawURLEncoding.EncodeToString(append(a[:], b[:]...))
	sum := sha256.Sum256([]byte(token))
	return token, sum[:]
}

func (s Agents) pollURL(token string) string { return s.Show.BaseURL + "/poll/" + token }

// CreatePollToken replaces the agent's poll token. // spec: Messaging
func (s Agents) CreatePollToken(c *rest.Call, in *api.CreatePollToken) (api.PollToken, error) {
	token, hash := s.newPollToken()
	if _, err := s.changeAgent(c, in.ID, agent.IssuePollToken{Hash: hash}); err != nil {
		return api.PollToken{}, err
	}
	return api.PollToken{PollURL: s.pollURL(token)}, nil
}

func (s Agents) DeletePollToken(c *rest.Call, in *api.DeletePollToken) (rest.NoContent, error) {
	_, err := s.changeAgent(c, in.ID, agent.RevokePollToken{})
	return rest.NoContent{}, err
}

// Poll counts the messages that an agent received since an instant and reveals nothing
// else about them. Guesses at tokens also count against their address.
func (s Agents) Poll(c *rest.Call, in *api.Poll) (api.PollCount, error) {
	hash := sha256.Sum256([]byte(in.Token))
	// A request that the token's own limit refuses does not count against the address
	// either.
	standing := limit.TakeAll(
		limit.Draw{Window: s.pollAddress, Key: s.Source(c)}, limit.Draw{Window: s.pollToken, Key: string(hash[:])},
	)
	if err := c.SetRate(standing); err != nil {
		return api.PollCount{}, err
	}
	c.SetHeader("Cache-Control", "no-store")
	id, err := s.Node.Agents.ByPollToken(c.Context(), hash[:])
	if errors.Is(err, parley.ErrNotFound) || errors.Is(err, journal.ErrErased) { // strangers need not learn what was erased
		return api.PollCount{}, errUnknownToken
	}
	if err != nil {
		return api.PollCount{}, err
	}
	since := c.Now().Add(-parley.PollSinceDefault)
	if in.Since != nil {
		since = in.Since.Time
	}
	count, err := s.Node.Messages.CountSince(c.Context(), id, since.UnixMilli())
	if errors.Is(err, journal.ErrErased) {
		err = errUnknownToken
	}
	return api.PollCount{Count: count}, err
}
