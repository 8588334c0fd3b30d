package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"parley/cluster"
	"parley/cluster/identity"
	"parley/cmd/parley/program"
)

// Divergence is what a node that has diverged from its cluster keeps about that.
type Divergence struct {
	// Common is the newest entry that the node has in common with the others, 0 if that is not
	// known.
	Common uint64    `json:"common"`
	Found  time.Time `json:"found_at"`
	Reason string    `json:"reason"`
}

func divergenceFile(data string) string {
	return filepath.Join(data, identity.DirectoryName, "diverged.json")
}

// ReadDivergence returns what the node of a data directory keeps of its divergence, nil if it has
// not diverged.
func ReadDivergence(data string) (*Divergence, error) {
	text, err := os.ReadFile(divergenceFile(data))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	d := &Divergence{}
	if err == nil {
		if err = json.Unmarshal(text, d); err != nil {
			err = fmt.Errorf("%s: %w", divergenceFile(data), err)
		}
	}
	return d, err
}

// tellTimeout bounds how long a node that has diverged takes to tell the others.
const tellTimeout = 500 * time.Millisecond

// checkStart refuses to take part with a data directory that lacks what the node had
// acknowledged, or holds what the others do not have.
func (p *Part) checkStart(ctx context.Context) error {
	last, err := p.log.LastIndex()
	if err != nil || last == 0 { // it joins, or is the first start of a new cluster
		return err
	}
	members := p.group.Newest()
	waits := time.AfterFunc(awaitReport, func() { sayWaitsFor(members, p.identity.ID, p.Logger) })
	defer waits.Stop()
	return p.unfit(p.node.CheckStart(ctx, p.transport.Peer))
}

// end ends the process. The loop, which has stopped, waits for nobody that is told before.
func (p *Part) end(err error) {
	if !errors.Is(err, cluster.ErrDiverged) {
		p.Fatal(p.unfit(err))
		return
	}
	go p.ending.Do(func() { p.Fatal(p.unfit(err)) })
}

// unfit adds to an error that says why this node must not take part what the operator can do. The
// other nodes learn that it has diverged.
func (p *Part) unfit(err error) error {
	switch {
	case errors.Is(err, cluster.ErrDiverged):
		ctx, cancel := context.WithTimeout(context.Background(), tellTimeout)
		defer cancel()
		d := Divergence{Common: p.node.TellDiverged(ctx, p.group.Newest(), p.transport.Peer), Found: p.Clock().UTC(), Reason: err.Error()}
		text, _ := json.MarshalIndent(d, "", "  ") // no field of it can fail
		if failed := identity.WriteFile(divergenceFile(p.Data), append(text, '\n')); failed != nil {
			err = errors.Join(err, failed)
		}
		return diverged(err, p.Data, p.identity.ID)
	case errors.Is(err, cluster.ErrOlderCopy):
		return program.ExitError{Code: program.ExitConflict, Err: fmt.Errorf("%w\n  put the newest directory back, or let a new node take this one's place:\n  parley cluster replace %s, on another node", err, p.identity.ID)}
	}
	return err
}

// sayWaitsFor tells the operator whom a node that starts has to ask.
func sayWaitsFor(members cluster.Table, self identity.NodeID, logger *slog.Logger) {
	var others []string
	for id, d := range members {
		if identity.NodeID(id) != self {
			others = append(others, fmt.Sprintf("%s (%s at %s)", identity.NodeID(id), d.Name, d.Address))
		}
	}
	slices.Sort(others)
	logger.Warn("the node waits for the cluster: before it takes part, a majority of the voters, itself included, must say that its data directory is not an older copy", "node", self.String(), "members", strings.Join(others, ", "))
}

// diverged says what an operator can do about a node that has diverged.
func diverged(err error, data string, node identity.NodeID) error {
	return program.ExitError{Code: program.ExitConflict, Err: fmt.Errorf("%w\n  nothing of it is changed or overwritten; \"parley verify --diverged --data %s\" lists the messages that only this node has\n  to let a new node take its place: parley cluster replace %s, on another node", err, data, node)}
}
