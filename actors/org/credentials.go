package org

import (
	"time"

	"parley/client/parley"
)

func decideAddCredential(s *State, c AddCredential, now time.Time) ([]Event, error) {
	if s.Credential(c.ClientID) != nil {
		return nil, nil
	}
	if live := s.liveCredentials(); live >= parley.CredentialsMax {
		return nil, ErrQuotaExceeded.OverQuota("credentials", parley.CredentialsMax, live, nil)
	}
	return []Event{&CredentialAdded{
		ClientId: c.ClientID.Bytes(), SecretHash: c.SecretHash, AtMs: now.UnixMilli(), Forgotten: s.forgettable(now),
	}}, nil
}

// forgettable returns the revoked credentials that leave the state when the next
// credential is added: those revoked long ago, and the oldest of too many. So the state
// is bounded, however fast credentials are added and revoked.
func (s *State) forgettable(now time.Time) (ids [][]byte) {
	revoked := len(s.GetCredentials()) - s.liveCredentials()
	for _, c := range s.GetCredentials() {
		if c.Live() {
			continue
		}
		if revoked >= parley.RevokedCredentialsMax || now.UnixMilli()-c.GetRevokedMs() >= parley.RevokedCredentialsKept.Milliseconds() {
			ids = append(ids, c.GetClientId())
			revoked--
		}
	}
	return ids
}

func decideRevokeCredential(s *State, c RevokeCredential, now time.Time) ([]Event, error) {
	credential := s.Credential(c.ClientID)
	switch {
	case credential == nil:
		return nil, ErrUnknownCredential
	case !credential.Live():
		return nil, nil
	case s.liveCredentials() == 1:
		return nil, ErrLastCredential
	}
	return []Event{&CredentialRevoked{ClientId: c.ClientID.Bytes(), AtMs: now.UnixMilli()}}, nil
}
