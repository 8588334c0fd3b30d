package org_test

import (
	"fmt"
	"slices"
	"time"

	"parley/actors/actorstest"
	"parley/actors/org"
	"parley/client/parley"
)

type credential struct {
	client    parley.ClientID
	hash      string
	createdMs int64
	scope     parley.Scope
	agents    string
	// expires and revoked are 0 for never.
	expires, revoked int64
	// announced is the last instant for which its end was announced, 0 for none.
	announced int64
}

func (c credential) live(now time.Time) bool {
	return c.revoked == 0 && (c.expires == 0 || now.UnixMilli() < c.expires)
}

// forget drops credentials that ended thirty days ago.
func (o *oracle) forget(now time.Time) {
	o.credentials = slices.DeleteFunc(o.credentials, func(c credential) bool {
		ended := c.expires
		if c.revoked != 0 {
			ended = c.revoked
		}
		return !c.live(now) && now.UnixMilli()-ended >= 30*24*time.Hour.Milliseconds()
	})
}

func (o *oracle) credential(client parley.ClientID) *credential {
	for i := range o.credentials {
		if o.credentials[i].client == client {
			return &o.credentials[i]
		}
	}
	return nil
}

// add adds a credential. Few enough are drawn that no quota is reached.
func (o *oracle) add(c org.AddCredential, now time.Time) actorstest.Verdict {
	if o.credential(c.ClientID) != nil {
		return actorstest.Accepted("again")
	}
	one := credential{client: c.ClientID, hash: string(c.SecretHash), createdMs: now.UnixMilli(), scope: c.Scope, agents: fmt.Sprint(c.Agents)}
	if !c.Expires.IsZero() {
		if one.expires = c.Expires.UnixMilli(); !now.Before(c.Expires) {
			return actorstest.Refused("expires in the past", "422 validation_error (loc=expires_at)")
		}
	}
	o.forget(now)
	o.credentials = append(o.credentials, one)
	return actorstest.Accepted("added as " + string(one.scope))
}

// announce announces the credentials that end within seven days, and within one.
func (o *oracle) announce(now time.Time) actorstest.Verdict {
	because := "nothing is due"
	for i := range o.credentials {
		c := &o.credentials[i]
		for _, days := range []int64{7, 1} {
			due := c.expires - days*24*3600*1000
			if c.expires != 0 && c.revoked == 0 && due >= c.createdMs && due <= now.UnixMilli() && due > c.announced {
				c.announced, because = due, "announced"
			}
		}
	}
	return actorstest.Accepted(because)
}

// revoke ends a credential, but not the last that is for everything and for ever.
func (o *oracle) revoke(client parley.ClientID, now time.Time) actorstest.Verdict {
	c, lasting := o.credential(client), 0
	for _, other := range o.credentials {
		if other.revoked == 0 && other.expires == 0 && other.scope == parley.ScopeOrg {
			lasting++
		}
	}
	switch {
	case c == nil:
		return actorstest.Refused("no such credential", "404 not_found")
	case !c.live(now):
		return actorstest.Accepted("again")
	case lasting == 1 && c.expires == 0 && c.scope == parley.ScopeOrg:
		return actorstest.Refused("the last", "409 last_credential")
	}
	c.revoked = now.UnixMilli()
	o.ended++
	return actorstest.Accepted("revoked")
}
