package main

import (
	"encoding/json"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
)

// resolver resolves cards that have security requirements. The SDK's own parser rejects
// them: it expects a bare list of scopes where the protocol has {"list": […]}.
// See https://github.com/a2aproject/a2a-go/issues/430.
var resolver = &agentcard.Resolver{CardParser: parseCard}

func parseCard(body []byte) (*a2a.AgentCard, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	var standard []struct {
		Schemes map[string]struct {
			List []string `json:"list"`
		} `json:"schemes"`
	}
	if err := json.Unmarshal(members["securityRequirements"], &standard); err != nil {
		return nil, err
	}
	type requirement struct {
		Schemes map[string][]string `json:"schemes"`
	}
	var expected []requirement
	for _, r := range standard {
		schemes := map[string][]string{}
		for name, scopes := range r.Schemes {
			schemes[name] = scopes.List
		}
		expected = append(expected, requirement{schemes})
	}
	var err error
	if members["securityRequirements"], err = json.Marshal(expected); err != nil {
		return nil, err
	}
	if body, err = json.Marshal(members); err != nil {
		return nil, err
	}
	return agentcard.DefaultCardParser(body)
}
