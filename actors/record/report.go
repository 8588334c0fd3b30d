package record

import (
	"encoding/binary"
	"slices"
	"time"

	"parley/client/parley"
	"parley/journal"
)

// ReportID returns the id of a report.
func (r *Report) ReportID() parley.ReportID { return parley.IDFromBytes[parley.ReportID](r.GetId()) }

// ByOrg returns the organization that reports.
func (r *Report) ByOrg() parley.OrgID { return parley.IDFromBytes[parley.OrgID](r.GetBy()) }

// Key returns the key of the report's row in journal.ReportTable while it is open, else in
// journal.ClosedReportTable.
func (r *Report) Key() []byte {
	if closed := r.GetClosedMs(); closed != 0 {
		return slices.Concat(binary.BigEndian.AppendUint32(nil, journal.Day(time.UnixMilli(closed))), r.GetBy(), r.GetId())
	}
	return slices.Concat(r.GetBy(), r.GetSubject())
}
