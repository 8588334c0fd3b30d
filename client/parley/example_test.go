package parley_test

import (
	"fmt"

	"parley/client/parley"
)

func ExampleParseHandle() {
	agent, err := parley.ParseHandle("bob@acme.localhost")
	fmt.Println(agent.Name, agent.Slug, agent.Domain, err)
	group, err := parley.ParseHandle("#friends@acme.localhost")
	fmt.Println(group, group.Group, err)
	// Output:
	// bob acme localhost <nil>
	// #friends@acme.localhost true <nil>
}

// An id knows its kind: that of an agent is no id of a group.
func ExampleParseID() {
	id, err := parley.ParseID[parley.AgentID]("01a1fe35-4f4e-7bb1-9bd4-c4f86a6539b1")
	fmt.Println(id, err)
	_, err = parley.ParseID[parley.AgentID]("bob")
	fmt.Println(err)
	// Output:
	// 01a1fe35-4f4e-7bb1-9bd4-c4f86a6539b1 <nil>
	// not a UUID
}
