package actors

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parley/actors/org"
)

// What ends something that the node remembers beside the journal.
const (
	holds    = "its fields are listed"
	config   = "nothing: it is set before the start"
	term     = "StopLeading: it serves a node that leads"
	observed = "an observer of applied changes, on every node"
	checked  = "a comparison with what is stored, at each read"
	fixed    = "erasure, on every node: the rows never change"
	process  = "nothing: it is about this process, not about what is stored"
)

// memory lists what a node remembers beside the journal, with what ends it. Functions, interfaces,
// channels, contexts and locks are left out.
var memory = map[string]string{
	"actors.Node.Agents": holds, "actors.Node.Orgs": holds, "actors.Node.Messages": holds, "actors.Node.Feeds": holds,
	"actors.Node.Groups": holds, "actors.Node.Webhooks": holds, "actors.Node.Receipts": holds, "actors.Node.Erasures": holds,
	"actors.Node.Keys": holds, "actors.Node.CardKeys": holds, "actors.Node.ReceiptKeys": holds, "actors.Node.LogKeys": holds,
	"actors.Node.KeyLog": holds, "actors.Node.Operators": holds, "actors.Node.core": holds,
	"actors.Agents.Agents": holds, "actors.Agents.core": holds, "actors.Orgs.Orgs": holds, "actors.Orgs.core": holds,
	"actors.Messages.Messages": holds, "actors.Messages.core": holds, "actors.Groups.Groups": holds, "actors.Groups.core": holds,
	"actors.Operators.core": holds, "actors.Keys.stream": config, "actors.Keys.core": holds, "actors.KeyLog.core": holds,

	"actors.core.engine": holds, "actors.core.queries": holds, "actors.core.agents": holds, "actors.core.orgs": holds, "actors.core.operators": holds,
	"actors.core.messages": holds, "actors.core.groups": holds, "actors.core.webhooks": holds, "actors.core.receipts": holds,
	"actors.core.erasures": holds, "actors.core.memory": term, "actors.core.erased": config, "actors.core.logger": config,
	"actors.core.queue": config, "actors.core.kidsMove": config, "actors.core.unlogged": config,

	"host.Engine.Logger": config, "host.Engine.system": config, "host.Engine.shared": config, "host.Engine.produce": config,
	"host.Engine.gather": config, "host.Engine.Timeout": config, "host.Engine.GatherMax": config, "host.Engine.IdleFor": config,
	"host.Engine.QueueMessages": config, "host.Engine.QueriesMax": config, "host.Engine.shards": term, "host.Engine.asks": process,
	"host.Engine.workers": process, "host.Engine.quarantined": process, "host.Engine.live": process, "host.Engine.queries": process,
	"host.Engine.activations": process, "host.Engine.draining": process,
	// A hint that comes late activates an actor, which is rejected on a node that does not lead.
	"host.Engine.retries": process, "host.Engine.gathers": process, "host.Engine.watches": process,

	"query.Queries.Agents": holds, "query.Queries.Orgs": holds, "query.Queries.Messages": holds, "query.Queries.Feeds": holds,
	"query.Queries.Groups": holds, "query.Queries.Webhooks": holds, "query.Queries.reader": holds, "query.Agents.reader": holds,
	"query.Orgs.reader": holds, "query.Messages.reader": holds, "query.Feeds.reader": holds, "query.Groups.reader": holds,
	"query.Webhooks.reader": holds, "query.reader.lookups": holds, "query.reader.records": fixed, "query.reader.counts": holds,
	"query.reader.newest": checked, "query.reader.limits": config, "query.reader.agents": holds, "query.reader.groups": holds,
	"query.lookups.agents": observed, "query.lookups.orgs": observed, "query.lookups.firsts": checked, "query.lookups.oldest": fixed,
	"query.lookups.changes": observed,
	"query.lookups.rosters": checked, "query.lookups.names": fixed, "query.lookups.groups": fixed,
	"cache.PollIndex.feeds": observed, "cache.PollIndex.blockEntries": config,

	"delivery.Webhooks.Webhooks": holds, "delivery.Webhooks.engine": holds, "delivery.Webhooks.queries": holds,
	"delivery.Webhooks.receipts": holds, "delivery.Webhooks.dispatching": term,
	"delivery.Receipts.ReadStep": config, "delivery.Receipts.queries": holds, "delivery.Receipts.webhooks": holds,
	"delivery.Receipts.batch": process,

	// A journal ends its own memory.
	"query.reader.journal": config, "host.Engine.journal": config, "actors.core.journal": config, "delivery.Webhooks.journal": config,
	"delivery.Receipts.journal": config, "erasure.Options.Journal": config,

	"erasure.Erasures.Options": holds, "erasure.Options.Logger": config, "erasure.Erasures.leads": term,
}

// walkMemory calls see with each field of the structs of the actors that a type leads to. It goes
// on into the fields for which see says so.
func walkMemory(of reflect.Type, seen map[reflect.Type]bool, see func(field string) (deeper bool)) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || seen[of] || !strings.HasPrefix(of.PkgPath(), "parley/actors") {
		return
	}
	seen[of] = true
	for f := range of.Fields() {
		at := strings.TrimPrefix(f.Type.String(), "*")
		if k := f.Type.Kind(); k == reflect.Func || k == reflect.Interface || k == reflect.Chan || strings.HasPrefix(at, "sync.") {
			continue
		}
		if see(fmt.Sprintf("%s.%s", of, f.Name)) {
			walkMemory(f.Type, seen, see)
		}
	}
}

// unlisted returns the fields that the list lacks, and the entries of it that are no fields.
func unlisted(of reflect.Type) (missing, stale []string) {
	left := maps.Clone(memory)
	walkMemory(of, map[reflect.Type]bool{}, func(field string) bool {
		ends, listed := memory[field]
		if delete(left, field); !listed {
			missing = append(missing, field)
		}
		return ends == holds
	})
	return missing, slices.Sorted(maps.Keys(left))
}

// TestMemoryEnds: it is known of everything that a node remembers what ends it. Another node may
// change what it is about.
func TestMemoryEnds(t *testing.T) {
	if missing, stale := unlisted(reflect.TypeFor[Node]()); len(missing)+len(stale) > 0 {
		t.Errorf("what ends %v? %v do not exist", missing, stale)
	}
	type planted struct{ Seen map[string]bool }
	if missing, _ := unlisted(reflect.TypeFor[planted]()); !slices.Contains(missing, "actors.planted.Seen") {
		t.Error("control: a new field was not found")
	}
}

// TestTermEnds: nothing of what serves a node that leads is left when it leads no more.
func TestTermEnds(t *testing.T) {
	h := newWebhookFixture(t, 1)
	h.say(1)
	h.until("the webhook is watched", func() bool { return h.node.Webhooks.Stats().Agents == 1 })
	former := h.node.memory.Load()
	if len(former.quota.used) == 0 || len(former.activity.active) == 0 {
		t.Fatal("control: the term remembers nothing")
	}
	h.node.StopLeading()
	m := h.node.memory.Load()
	if m.after == 0 || m.quota.used != nil || m.activity.active != nil {
		t.Errorf("the next term begins with %d sums and %d senders", len(m.quota.used), len(m.activity.active))
	}
	if live, s := h.node.Live(), h.node.Webhooks.Stats(); live != 0 || s.Agents != 0 || h.courier.dropsAll.Load() != 1 {
		t.Errorf("%d actors and %d agents with webhooks are left", live, s.Agents)
	}
	h.node.Lead(func(err error) { t.Error(err) })
	if _, err := h.node.Orgs.SetTerms(context.Background(), h.owner, org.Suspend{}); err != nil {
		t.Error(err)
	}
}
