package agent_test

import (
	"time"

	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/agent"
)

// maybeLogged has the key log take part in a command now and then.
func maybeLogged(t *rapid.T, c agent.Command) agent.Command {
	if rapid.IntRange(0, 4).Draw(t, "logged") > 0 {
		return c
	}
	return agent.Logged{Command: c, Salts: [2][32]byte{{1}, {2}}}
}

// logged counts the leaves that a command makes: one for each key event that the case of the
// command stands for.
func (o *oracle) logged(c agent.Logged, now time.Time) actorstest.Verdict {
	signing, encryption := o.signing, o.encryption
	v := o.Predict(c.Command, now)
	if v.Refusal != "" {
		return actorstest.Refused("refused", v.Refusal)
	}
	made := uint32(0)
	switch c.Command.(type) {
	case agent.RotateKeys:
		if v.Case != "nothing new" && v.Case != "unbound" { // bound
			made++
		}
		if signing != o.signing || encryption != o.encryption {
			made++
		}
	case agent.BindKeys, agent.Create, agent.Revoke:
		if v.Case != "again" {
			made = 1
		}
	case agent.SetPQKey, agent.RemovePQKey:
		if v.Case == "changed" {
			made = 1
		}
	case agent.RetireKey:
		if v.Case == "retired" {
			made = 1
		}
	}
	o.leaves += made
	return actorstest.Accepted([]string{"no leaf", "a leaf", "two leaves"}[made])
}
