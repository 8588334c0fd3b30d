package telemetry

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/cluster"
	"parley/cluster/link"
)

// theGroup is the label of the only group of replicas.
const theGroup = "0"

// clusterCollectors expose the numbers of a node of a cluster: those of its group, and those
// of each other node: the link to it, and its clock.
func clusterCollectors(take func() (cluster.Stats, bool)) []prometheus.Collector {
	group := func(each func(cluster.Stats, ...string)) {
		if s, ok := take(); ok {
			each(s, theGroup)
		}
	}
	links := newCollector([]string{"peer"}, func(each func(link.Stats, ...string)) {
		s, _ := take()
		for _, l := range s.Links {
			each(l, fmt.Sprintf("%016x", l.Peer))
		}
	},
		gauge("parley_cluster_link_up", "1 while the peer takes messages of this node, 0 while it is not reached.", func(l link.Stats) int { return oneIf(l.Up) }),
		counter("parley_cluster_link_messages_sent_total", "Messages, requests and answers sent to the peer.", func(l link.Stats) uint64 { return l.MessagesSent }),
		counter("parley_cluster_link_messages_received_total", "Messages, requests and answers received from the peer.", func(l link.Stats) uint64 { return l.MessagesReceived }),
		counter("parley_cluster_link_sent_bytes_total", "Bytes sent to the peer, contents of the group included.", func(l link.Stats) uint64 { return l.BytesSent }),
		counter("parley_cluster_link_received_bytes_total", "Bytes received from the peer, contents of the group included.", func(l link.Stats) uint64 { return l.BytesReceived }),
		counter("parley_cluster_link_messages_dropped_total", "Messages that were not sent because the peer was not reached or too much waited for it. Raft sends again what matters.", func(l link.Stats) uint64 { return l.Dropped }),
		gauge("parley_cluster_link_calls_pending", "Requests to the peer without an answer yet.", func(l link.Stats) int { return l.Pending }),
		gauge("parley_cluster_link_waiting_bytes", "Bytes that wait to be sent to the peer.", func(l link.Stats) int { return l.Waiting }),
		gauge("parley_cluster_link_waiting_bytes_max", "Limit of parley_cluster_link_waiting_bytes.", func(l link.Stats) int { return l.WaitingMax }),
	)
	clocks := newCollector([]string{"peer"}, func(each func(time.Duration, ...string)) {
		s, _ := take()
		for peer, offset := range s.ClockOffsets {
			each(offset, fmt.Sprintf("%016x", peer))
		}
	}, gauge("parley_cluster_clock_offset_seconds", "By how much the wall clock of the peer is ahead of this node's, in seconds, measured every 2 s; missing if the peer did not answer within 0.5 s.", time.Duration.Seconds))
	return []prometheus.Collector{
		groupCollector(group), replicationCollector(group), forwardedCollector(group), links, clocks, fenceCollector(group),
	}
}

// clusterStats calls each with the numbers of a group and its label, unless the node has not
// started.
type clusterStats func(each func(cluster.Stats, ...string))

// groupCollector exposes who leads and who belongs to the group.
func groupCollector(take clusterStats) prometheus.Collector {
	type stats = cluster.Stats
	return newCollector([]string{"group"}, take,
		gauge("parley_cluster_leads", "1 while this node leads the group and takes entries.", func(s stats) int { return oneIf(s.Leads) }),
		gauge("parley_cluster_has_leader", "1 while this node knows a leader, itself or another node.", func(s stats) int { return oneIf(s.Led) }),
		gauge("parley_cluster_term", "Newest term that this node knows.", func(s stats) uint64 { return s.Loop.Term }),
		counter("parley_cluster_leaderships_total", "Leaderships that this node has seen begin, its own and those of other nodes.", func(s stats) uint64 { return s.Leaderships }),
		gauge("parley_cluster_voters", "Members of the group that vote.", func(s stats) int { return s.Loop.Voters }),
		gauge("parley_cluster_learners", "Members of the group that do not vote yet.", func(s stats) int { return s.Loop.Learners }),
		gauge("parley_cluster_diverged", "1 while a member of the group holds entries that were acknowledged and that the group does not have, until it is replaced.", func(s stats) int { return oneIf(s.Loop.Diverged > 0) }),
		gauge("parley_cluster_members_up", "Members of the group that this node reaches, itself included.", func(s stats) int { return s.MembersUp }),
	)
}

// replicationCollector exposes how far this node's replica and log are.
func replicationCollector(take clusterStats) prometheus.Collector {
	type stats = cluster.Stats
	return newCollector([]string{"group"}, take,
		gauge("parley_cluster_commit_index", "Newest index that this node knows to be committed.", func(s stats) uint64 { return s.Loop.Commit }),
		gauge("parley_cluster_applied_index", "Newest index that this node's replica has applied.", func(s stats) uint64 { return s.Loop.Applied }),
		gauge("parley_cluster_applied_lag_entries", "Entries that this node knows to be committed and has not applied.", func(s stats) uint64 { return s.Loop.Commit - s.Loop.Applied }),
		gauge("parley_cluster_log_bytes", "Bytes of the files of the raft log.", func(s stats) int64 { return s.Log.DiskBytes }),
		gauge("parley_cluster_log_segments", "Files of the raft log.", func(s stats) int { return s.Log.Segments }),
		counter("parley_cluster_log_written_bytes_total", "Bytes written to the raft log.", func(s stats) uint64 { return s.Log.Bytes }),
		counter("parley_cluster_log_syncs_total", "Syncs of the raft log.", func(s stats) uint64 { return s.Log.Syncs }),
		gauge("parley_cluster_sync_age_seconds", "Age of the oldest record of the raft log that waits for its sync, in seconds; 0 if none does.", func(s stats) float64 { return s.Loop.SyncAge.Seconds() }),
		counter("parley_cluster_fence_failures_total", "Fences that did not pass: no leader answered in time.", func(s stats) uint64 { return s.FenceFailures }),
		counter("parley_cluster_contents_sent_total", "Contents of the group that another node took from this one, because it joined or lagged too far.", func(s stats) uint64 { return s.Contents.Sent }),
		counter("parley_cluster_contents_unsent_total", "Contents of the group that could not be sent.", func(s stats) uint64 { return s.Contents.Unsent }),
		counter("parley_cluster_contents_received_total", "Contents of the group that this node took from another one.", func(s stats) uint64 { return s.Contents.Received }),
		gauge("parley_cluster_window_entries", "Requests and entries that this node has under way at the leader.", func(s stats) int { return s.Window.Entries }),
		gauge("parley_cluster_window_entries_max", "Limit of parley_cluster_window_entries.", func(s stats) int { return s.Window.EntriesMax }),
		gauge("parley_cluster_window_bytes", "Bytes that this node has under way at the leader.", func(s stats) int { return s.Window.Bytes }),
		gauge("parley_cluster_window_bytes_max", "Limit of parley_cluster_window_bytes.", func(s stats) int { return s.Window.BytesMax }),
	)
}

// forwardedCollector exposes what became of requests that went to the leader.
func forwardedCollector(take clusterStats) prometheus.Collector {
	return newCollector([]string{"group", "outcome"}, func(each func(uint64, ...string)) {
		take(func(s cluster.Stats, labels ...string) {
			each(s.Forwarded.Answered, labels[0], "answered")
			each(s.Forwarded.Undecided, labels[0], "undecided")
			each(s.Forwarded.Unknown, labels[0], "unknown")
		})
	}, counter("parley_cluster_forwarded_total",
		"Requests and entries sent to the leader by outcome: answered; undecided, not reached or not decided there, and sent again; unknown, cut off before the answer.",
		func(n uint64) uint64 { return n }))
}

// fenceCollector exposes how long fences took.
func fenceCollector(take clusterStats) prometheus.Collector {
	return &distributionCollector{
		desc: prometheus.NewDesc("parley_cluster_fence_seconds", "Time that a read waited for its fence, in seconds.", []string{"group"}, nil),
		take: func(each func(distribution, ...string)) {
			take(func(s cluster.Stats, labels ...string) { each(s.Fences, labels...) })
		},
	}
}
