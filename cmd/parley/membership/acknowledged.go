package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"parley/cluster"
	"parley/cluster/identity"
	"parley/persistence"
)

const acknowledgedName = "acknowledged.json"

// acknowledgedFile holds what this node has learned about the others while it led.
func (p *Part) acknowledgedFile() string {
	return filepath.Join(p.Data, identity.DirectoryName, acknowledgedName)
}

// remember reads what the node had learned, and stores what it learns.
func (p *Part) remember() error {
	upTo := map[uint64]uint64{}
	text, err := os.ReadFile(p.acknowledgedFile())
	if err == nil {
		err = json.Unmarshal(text, &upTo)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: %w", p.acknowledgedFile(), err)
	}
	p.group.Remember(upTo, func(now map[uint64]uint64) error {
		text, err := json.Marshal(now)
		if err != nil {
			return err
		}
		return identity.WriteFile(p.acknowledgedFile(), text)
	})
	return nil
}

// checkComplete refuses to go on with a data directory that lacks what the node had
// acknowledged.
func (p *Part) checkComplete(ctx context.Context, replica *persistence.Replica) error {
	voters, members, err := cluster.NewestMembers(replica, p.log)
	if err != nil || len(members) == 0 { // a blank node has acknowledged nothing
		return err
	}
	last, err := p.log.LastIndex()
	if err != nil || last == 0 { // the first start of a new cluster, on the content of a former one
		return err
	}
	p.transport.Changed(members)
	last = max(last, replica.Applied().Number)
	waits := time.AfterFunc(awaitReport, func() { p.sayWaitsFor(members) })
	defer waits.Stop()
	err = p.node.CheckComplete(ctx, uint64(p.identity.ID), last, voters, p.transport.Peer)
	if errors.Is(err, cluster.ErrOlderCopy) {
		return fmt.Errorf("%w\n  put the newest directory back, or let a new node take this one's place:\n  parley cluster replace %s, on another node", err, p.identity.ID)
	}
	return err
}

// sayWaitsFor tells the operator whom a node that starts has to ask.
func (p *Part) sayWaitsFor(members cluster.Table) {
	var others []string
	for id, d := range members {
		if identity.NodeID(id) != p.identity.ID {
			others = append(others, fmt.Sprintf("%s (%s at %s)", identity.NodeID(id), d.Name, d.Address))
		}
	}
	slices.Sort(others)
	p.Logger.Warn("the node waits for the cluster: before it takes part, a majority of the voters, itself included, must say that its data directory is not an older copy", "node", p.identity.ID.String(), "members", strings.Join(others, ", "))
}
