package verify

import (
	"bytes"
	"fmt"
	"time"

	"parley/actors/encoding"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// row is a row of a table. The slot is beyond all slots if the row is still in an outbox.
type row struct {
	*verifier
	slot       parley.Slot
	table      journal.Table
	key, value []byte
}

// family says which form the keys and values of a table have, nil for any, and what else
// must be true of a row. The check is nil if other checks cover the rows.
type family struct {
	key, value form
	check      func(row)
}

type form func([]byte) bool

func of(length int) form   { return func(b []byte) bool { return len(b) == length } }
func over(length int) form { return func(b []byte) bool { return len(b) > length } }

// byKey finds a row as it lies in its table, byOwner one with the id of its owner and a
// name as key.
func byKey(c check) func(row) { return func(r row) { r.find(c, r.key, r.value) } }

func byOwner(c check) func(row) { return func(r row) { r.find(c, r.key[:16], r.value, r.key[16:]) } }

var families = map[journal.Table]family{
	journal.SlugTable:         {check: func(r row) { r.find(slugRows, r.value, r.key) }},
	journal.WorkloadTable:     {check: func(r row) { r.find(workloadClaims, workloadKey(r.slot, r.value)) }},
	journal.NameTable:         {key: over(16), check: byOwner(nameRows)},
	journal.RosterTable:       {key: of(24), check: byKey(rosterRows)},
	journal.ClientTable:       {check: byKey(clientRows)},
	journal.PollTable:         {check: row.poll},
	journal.KidTable:          {check: row.kid},
	journal.ConversationTable: {key: of(24), check: row.list},
	journal.OnceTable:         {key: hasScope, check: row.once},
	journal.GroupNameTable:    {key: over(16), check: byOwner(groupNameRows)},
	journal.GroupRosterTable:  {key: of(24), check: byKey(groupRosterRows)},
	journal.RequestTable:      {key: of(32), check: byKey(requestRows)},
	journal.ConcernTable:      {key: of(32), check: row.concern},
	journal.PlaceTable:        {key: of(32), check: byKey(placeRows)},
	journal.PublicTable:       {key: of(16), check: row.public},
	journal.HolderTable:       {key: of(32), value: of(16), check: byKey(holderRows)},
	journal.TransferredTable:  {key: of(16), value: of(8)}, // the checks of feeds cover what it may not pass over
	journal.ListedTable:       {key: of(16), value: of(8)}, // the same
	journal.ReadTable:         {key: of(16), value: of(8)}, // the receipts cover what it passes over
	journal.TaskedTable:       {key: of(16), value: of(8)}, // the checks of lists cover what it passes over
	journal.TaskTable:         {key: of(48), value: of(0), check: row.task},
	journal.WebhookTable:      {key: of(32), check: byKey(webhookRows)},
	journal.DeliveryTable:     {key: of(24), check: row.delivery},
	journal.RetryTable:        {key: of(32), check: func(r row) { r.find(retryRows, r.key[:16], r.key[24:], r.key[16:24]) }},
	journal.QuarantineTable:   {key: of(25), value: over(7), check: row.quarantine},
	journal.SpentTable:        {key: over(4), value: of(16), check: row.spent},
	journal.CardTable:         {key: of(16), check: row.card},
	journal.ActivityTable:     {key: of(16), check: row.activity},
	journal.ErasureTable:      {check: row.erasure},
	journal.KeyLogTable:       {key: of(8), check: inKeyLog(keyLogHashes)},
	journal.KeyLogPlaceTable:  {key: of(parley.KeyLogHashBytes), check: inKeyLog(keyLogPlaces)},
	journal.KeyPackageTable:   {key: record.IsKeyPackageKey, check: row.keyPackage},
	journal.HandedOutTable:    {key: record.IsHandedOutKey, value: of(0), check: row.keyPackage},
	journal.MLSCommitTable:    {key: of(24), check: row.mlsCommit},
	journal.MLSGroupInfoTable: {key: of(16), check: row.mlsGroupInfo},
	journal.MLSWelcomeTable:   {key: of(24), check: func(r row) { r.find(mlsWelcomeRows, r.key) }},
	journal.MLSMemberTable:    {check: row.mlsMember},
	journal.ReportTable:       {key: of(32), check: row.report},
	journal.ClosedReportTable: {key: of(36), check: row.report},
	journal.TokenTable:        {key: of(32), check: row.token},
}

// readTables checks all rows of the tables.
func (x *verifier) readTables() error {
	err := x.Tables(func(slot parley.Slot, table journal.Table, key, value []byte) error {
		x.progress("tables")
		x.fails(knownTables, false)
		row{x, slot, table, key, value}.read()
		return x.err
	})
	for k, value := range x.puts {
		if err == nil && value != nil {
			row{x, parley.Slots, journal.Table(k[0]), []byte(k[1:]), value}.read()
		}
	}
	x.failed(err)
	return x.err
}

// read checks one row.
func (r row) read() {
	f, known := families[r.table]
	switch {
	case !known || f.key != nil && !f.key(r.key) || f.value != nil && !f.value(r.value):
		r.unknown()
	case f.check != nil:
		f.check(r)
	}
}

func (r row) unknown() {
	r.fault(knownTables, fmt.Sprintf("table %d, key %x", r.table, r.key), "nobody reads such rows")
}

// decode decodes the row's value, or reports that it cannot be read.
func (r row) decode(into any) bool {
	err := encoding.Unmarshal(r.value, into)
	if err != nil {
		r.fault(knownTables, fmt.Sprintf("table %d, key %x", r.table, r.key), "the row cannot be read: %v", err)
	}
	return err == nil
}

// concern checks the row of a live request about an agent.
func (r row) concern() {
	if !r.settled[string(r.key)] {
		r.find(concernRows, r.key, r.value)
	}
}

// public checks a row of the directory. The one in an outbox replaces the stored one.
func (r row) public() {
	if _, replaced := r.puts[string(byte(r.table))+string(r.key)]; !replaced || r.slot == parley.Slots {
		r.find(directoryRows, r.key, r.value)
	}
}

// erasure checks the row of an erasure. It says nothing about other rows.
func (r row) erasure() {
	if r.slot != parley.Slots && !record.IsErasure(r.slot, r.key, r.value) {
		r.unknown()
	}
}

// quarantineTold is how many bytes of a quarantined message are reported.
const quarantineTold = 128

// quarantine reports a message that could not be decoded.
func (r row) quarantine() {
	q := record.QuarantinedOf(r.key, r.value)
	where := fmt.Sprintf("%s, message %d of its queue", q.Actor(), q.Number)
	r.holds(quarantined, r.slot == q.To.Slot(), where, "its row lies in slot %d, and nobody looks for it there", r.slot)
	r.fault(quarantined, where, "%d bytes that could not be decoded at %s (%s), so that they had no effect: %x",
		len(q.Word), q.At.Format(time.RFC3339), q.Why, q.Word[:min(len(q.Word), quarantineTold)])
}

// inKeyLog finds a row of the key log, which lies in the key log's slot.
func inKeyLog(c check) func(row) {
	return func(r row) {
		r.find(c, r.key, r.value)
		r.holds(keyLogEntries, r.slot == rules.KeyLogStream.Slot(), fmt.Sprintf("slot %d, key %x", r.slot, r.key), "a row of the key log lies where nobody looks for it")
	}
}

// report checks that a report lies where its organization, its subject and its closing say.
func (r row) report() {
	var stored record.Report
	if !r.decode(&stored) {
		return
	}
	if id := stored.ReportID(); !bytes.Equal(stored.Key(), r.key) || (stored.GetClosedMs() != 0) != (r.table == journal.ClosedReportTable) || id.Slot() != r.slot || stored.ByOrg().Slot() != r.slot {
		r.fault(knownTables, fmt.Sprintf("table %d, key %x", r.table, r.key), "the report %s belongs elsewhere", id)
	}
}
