package actors

import (
	"parley/actors/org"
	"parley/actors/rules"
	"parley/journal"
)

// workloadControls plant faults in what is stored about workload identities.
var workloadControls = map[string]tamperCase{
	"a SPIFFE id finds nobody": {func(x *tamperer) {
		x.dropFirst('R', ofTable(journal.WorkloadTable))
	}, []string{"workload-claims", "workload-identities"}, false},
	"a SPIFFE id finds another": {func(x *tamperer) {
		x.alter('R', ofTable(journal.WorkloadTable), flipLast)
	}, []string{"workload-claims", "workload-identities"}, false},
	"a SPIFFE id is claimed by another": {func(x *tamperer) {
		x.alter('E', ofKind(journal.WorkloadStream), flipLast)
	}, []string{"workload-claims"}, false},
	"nobody claims a SPIFFE id": {func(x *tamperer) {
		x.dropFirst('E', ofKind(journal.WorkloadStream))
	}, []string{"workload-claims"}, false},
	"an organization has proven a SPIFFE id that nobody claims": {func(x *tamperer) {
		rewriteEvent(x, journal.OrgStream, rules.Org, func(e org.Event) bool { _, ok := e.(*org.WorkloadProven); return ok },
			func(e org.Event) { e.(*org.WorkloadProven).SpiffeId = "spiffe://example.org/other" })
	}, []string{"workload-identities"}, false},
	"a challenge was answered for nobody": {func(x *tamperer) {
		x.alter('R', func(k, v []byte) bool { return ofTable(journal.SpentTable)(k, v) && string(k[8:]) == "workload" }, flipLast)
	}, []string{"registrations"}, false},
}
