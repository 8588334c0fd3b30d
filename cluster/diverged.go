package cluster

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"

	"parley/client/parley"
	"parley/cluster/consensus"
	"parley/cluster/raftlog"
	"parley/persistence/layout"
)

// MessagesAfter calls found with the messages that the log of a stopped node holds behind an index,
// in the order of the log and some more than once, and returns the first index of the log.
func MessagesAfter(log raftlog.Options, index uint64, found func(parley.MessageID)) (first uint64, err error) {
	return raftlog.Entries(log, index, func(e *raftpb.Entry) error {
		batch, err := consensus.Payload(e)
		if err == nil && (len(batch) == 0 || batch[0] != keyEntry) {
			err = layout.BatchMessages(batch, found)
		}
		if err != nil {
			return fmt.Errorf("entry %d of the log: %w", e.GetIndex(), err)
		}
		return nil
	})
}
