package operator

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"parley/client/parley"
	"parley/cmd/parley/admin"
	"parley/cmd/parley/program"
)

type ReportCmd struct {
	List  reportListCmd  `cmd:"" help:"List what organizations reported and is open, oldest first."`
	Close reportCloseCmd `cmd:"" help:"Close a report. The organizations are not told. It is kept for 400 days."`
}

type reportListCmd struct {
	Closed bool `help:"List the closed reports instead."`
	operatorFlags
}

// Run lists the reports page by page.
func (c *reportListCmd) Run(ctx context.Context, std *program.Streams) error {
	all := []admin.Report{}
	for cursor := ""; ; {
		var page admin.ReportPage
		if err := c.get(ctx, fmt.Sprintf("reports?closed=%t&cursor=%s", c.Closed, url.QueryEscape(cursor)), nil, &page); err != nil {
			return err
		}
		all = append(all, page.Items...)
		if page.NextCursor == nil {
			break
		}
		cursor = page.NextCursor.String()
	}
	if std.JSON {
		return program.List(std, all)
	}
	rows := [][]string{{"REPORT", "CREATED", "CATEGORY", "ABOUT", "OF ORGANIZATION", "REPORTED BY", "NOTE"}}
	for _, r := range all {
		rows = append(rows, []string{
			r.ID.String(), r.CreatedAt.Format(time.RFC3339), r.Category, subjectOf(r), r.OrgID.String(), r.ReportedBy.String(), r.Note,
		})
	}
	return std.Table(rows)
}

// subjectOf names what a report is about.
func subjectOf(r admin.Report) string {
	switch {
	case r.MessageID != nil:
		return "message " + r.MessageID.String()
	case r.AgentID != nil:
		return "agent " + r.AgentID.String()
	case r.GroupID != nil:
		return "group " + r.GroupID.String()
	}
	return ""
}

type reportCloseCmd struct {
	Report parley.ReportID `arg:"" help:"Id of the report."`
	changeFlags
}

func (c *reportCloseCmd) Run(ctx context.Context, std *program.Streams) error {
	var closed admin.Report
	if err := c.change(ctx, "reports/"+c.Report.String()+"/close", struct{}{}, &closed); err != nil {
		return err
	}
	if std.JSON {
		return std.Value(closed)
	}
	return std.Say("closed %s, a report of %s about %s", closed.ID, closed.Category, subjectOf(closed))
}
