package admin

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"parley/actors"
	"parley/actors/operator"
	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
)

// ReportEndpoint lists and closes the reports of organizations.
type ReportEndpoint struct{ Node *actors.Node }

// Report is what an organization reported. One of MessageID, AgentID and GroupID is set.
type Report struct {
	ID        parley.ReportID   `json:"report_id"`
	Category  string            `json:"category"`
	Note      string            `json:"note"`
	MessageID *parley.MessageID `json:"message_id"`
	AgentID   *parley.AgentID   `json:"agent_id"`
	GroupID   *parley.GroupID   `json:"group_id"`
	// OrgID is the organization that sent the message or owns the agent or the group.
	OrgID      parley.OrgID `json:"org_id"`
	ReportedBy parley.OrgID `json:"reported_by"`
	CreatedAt  api.Time     `json:"created_at"`
	// ClosedAt is null while the report is open.
	ClosedAt *api.Time `json:"closed_at"`
}

// ReportPage is the answer of GET /reports.
type ReportPage struct {
	Items      []Report         `json:"items"`
	NextCursor *parley.ReportID `json:"next_cursor"`
	HasMore    bool             `json:"has_more"`
}

// reportPageMost is the maximum number of reports in a page.
const reportPageMost = 200

// Mount adds the calls.
func (d *ReportEndpoint) Mount(calls *Calls) {
	calls.Show(operator.RoleSupport, "GET /reports", d.list)
	calls.Change(operator.RoleSupport, "/reports/{report}/close", d.close)
}

// list answers GET /reports?closed=true&cursor=ID: the open or the closed reports, oldest first.
func (d *ReportEndpoint) list(w http.ResponseWriter, r *http.Request) {
	var after parley.ReportID
	if text := r.URL.Query().Get("cursor"); text != "" {
		if err := after.UnmarshalText([]byte(text)); err != nil {
			writeRefusal(w, errBadRequest.Saying("cursor is the next_cursor of a page."))
			return
		}
	}
	all, err := d.Node.Orgs.Reports(r.Context(), r.URL.Query().Get("closed") == "true")
	if err != nil {
		writeRefusal(w, err)
		return
	}
	page := ReportPage{Items: []Report{}}
	for _, found := range all {
		if bytes.Compare(found.GetId(), after[:]) <= 0 {
			continue
		}
		if len(page.Items) == reportPageMost {
			page.HasMore, page.NextCursor = true, &page.Items[reportPageMost-1].ID
			break
		}
		page.Items = append(page.Items, shownReport(found))
	}
	writeJSON(w, http.StatusOK, page)
}

func (d *ReportEndpoint) close(w http.ResponseWriter, r *http.Request) {
	id, err := parley.ParseID[parley.ReportID](r.PathValue("report"))
	if err != nil {
		err = errBadRequest.Saying(fmt.Sprintf("%q is not the id of a report.", r.PathValue("report")))
	}
	var closed *record.Report
	if err == nil {
		closed, err = d.Node.Orgs.CloseReport(r.Context(), id)
	}
	if err != nil {
		writeRefusal(w, err)
		return
	}
	slog.Info("the operator closed a report", "report_id", id, "from", r.RemoteAddr)
	writeJSON(w, http.StatusOK, shownReport(closed))
}

func shownReport(r *record.Report) Report {
	shown := Report{
		ID: r.ReportID(), Category: r.GetCategory(), Note: r.GetNote(), OrgID: parley.IDFromBytes[parley.OrgID](r.GetReported()), ReportedBy: r.ByOrg(),
		CreatedAt: api.At(time.UnixMilli(r.GetAtMs())), ClosedAt: atMs(r.GetClosedMs()),
	}
	switch r.GetKind() {
	case record.Report_message:
		shown.MessageID = new(parley.IDFromBytes[parley.MessageID](r.GetSubject()))
	case record.Report_agent:
		shown.AgentID = new(parley.IDFromBytes[parley.AgentID](r.GetSubject()))
	default:
		shown.GroupID = new(parley.IDFromBytes[parley.GroupID](r.GetSubject()))
	}
	return shown
}
