package webhook_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"parley/actors/actorstest"
	"parley/actors/webhook"
	"parley/client/parley"
)

type (
	life = actorstest.Life[*webhook.State, webhook.Command, webhook.Event]
	turn = actorstest.Turn[*webhook.State, webhook.Command, webhook.Event]
)

var rules = actorstest.Rules[*webhook.State, webhook.Command, webhook.Event]{
	Zero:   func() *webhook.State { return &webhook.State{} },
	Decide: webhook.Decide, Evolve: webhook.Evolve, Tag: webhook.Tag, New: webhook.New,
}

func TestStories(t *testing.T) {
	actorstest.Tell(t, "testdata/stories", rules, parse, show)
}

// acme owns the webhook of the stories.
var acme = parley.OrgID(actorstest.Named("acme"))

// jobs returns the rows that a host would have.
func jobs(history []webhook.Event) map[uint64]*webhook.Job {
	rows := map[uint64]*webhook.Job{}
	for _, e := range history {
		webhook.Fold(rows, e)
	}
	return rows
}

// due returns the jobs that a host would pass to Lease, the earliest first.
func due(rows map[uint64]*webhook.Job, now time.Time) []*webhook.Job {
	ready := []*webhook.Job{}
	for _, j := range rows {
		if at, waits := j.Retry(); waits && !at.After(now) {
			ready = append(ready, j)
		}
	}
	slices.SortFunc(ready, func(a, b *webhook.Job) int {
		return cmp.Or(cmp.Compare(a.NextMs, b.NextMs), cmp.Compare(a.Number, b.Number))
	})
	return ready
}

func parse(l *actorstest.Line, life *life) webhook.Command {
	by := acme
	if l.Has("by") {
		by = l.ID("by")
	}
	edge := uint64(number(l, "edge", int(life.State.GetCursor())))
	switch l.Verb {
	case "create":
		return webhook.Create{
			ID: webhook.ID(actorstest.Named("hook")), Agent: actorstest.Named("alice"), Org: acme, URL: l.Text("url"),
			Events: events(l.Text("events")), SealedSecret: []byte("s0"), Edge: edge, Taken: l.Has("taken"),
		}
	case "toggle":
		return webhook.Toggle{By: by, Active: l.Has("on") || !l.Has("off"), Edge: edge}
	case "rotate":
		return webhook.Rotate{By: by, SealedSecret: []byte(l.Text("secret"))}
	case "delete":
		return webhook.Delete{By: by}
	case "test":
		return webhook.Test{By: by}
	case "retry":
		return webhook.Retry{By: by, Job: jobs(life.History)[uint64(*l.Number("job"))]}
	case "agent-revoked":
		return webhook.Retire{}
	case "feed":
		return parseFeed(l)
	case "lease":
		return webhook.Lease{Max: number(l, "places", 1), Due: due(jobs(life.History), life.Now)}
	case "report":
		return webhook.Report{Outcomes: []webhook.Outcome{parseOutcome(l, life)}}
	case "expire":
		return webhook.Expire{}
	}
	panic("no such verb: " + l.Verb)
}

func number(l *actorstest.Line, key string, otherwise int) int {
	if n := l.Number(key); n != nil {
		return *n
	}
	return otherwise
}

func events(words string) (list []webhook.What) {
	for word := range strings.SplitSeq(words, ", ") {
		if what, ok := webhook.ParseEvent(word); ok {
			list = append(list, what)
		}
	}
	return list
}

// parseFeed returns entries from..upto of the feed, all alike.
func parseFeed(l *actorstest.Line) webhook.Collect {
	from, upto := *l.Number("from"), *l.Number("upto")
	what := webhook.MessageReceived
	if l.Has("of") {
		what = events(l.Text("of"))[0]
	}
	c := webhook.Collect{Upto: uint64(upto)}
	for position := from; position <= upto; position++ {
		ref := actorstest.Named(fmt.Sprint(position))
		c.News = append(c.News, webhook.Entry{Position: uint64(position), News: &webhook.News{Event: what, Ref: ref[:]}})
	}
	return c
}

func parseOutcome(l *actorstest.Line, life *life) webhook.Outcome {
	o := webhook.Outcome{
		Unsent: l.Has("unsent"), Code: number(l, "code", 0), Error: l.Text("error"), Jitter: number(l, "jitter", 0),
		Took: 100 * time.Millisecond, Lease: uint64(number(l, "lease", int(life.State.GetLastLease()))),
	}
	if l.Has("retry-after") {
		o.RetryAfter, _ = time.ParseDuration(l.Text("retry-after"))
	}
	return o
}

// show renders the webhook, its counts, and each job that is not delivered.
func show(life *life) string {
	s := life.State
	if s.Deleted() {
		return "deleted"
	}
	words := []string{"inactive"}
	if s.GetActive() {
		words[0] = "active"
	}
	if _, reason, disabled := s.DisabledAt(); disabled {
		words[0] += " (" + reason.String() + ")"
	}
	if n := len(s.Sealed(life.Now)); n > 1 {
		words = append(words, fmt.Sprintf("signs with %d secrets", n))
	}
	sum := s.Summary()
	words = append(words, fmt.Sprintf("%d jobs: %d delivered, %d failed, %d dead, %d pending", sum.Total, sum.Delivered, sum.Failed, sum.Dead, sum.Pending))
	rows := jobs(life.History)
	for _, n := range slices.Sorted(maps.Keys(rows)) {
		if rows[n].Status != webhook.Delivered {
			words = append(words, showJob(rows[n], life.Now))
		}
	}
	return strings.Join(words, "; ")
}

func showJob(j *webhook.Job, now time.Time) string {
	text := fmt.Sprintf("#%d %s", j.Number, j.Status)
	if j.Event != webhook.MessageReceived {
		text += " (" + j.Event.Word() + ")"
	}
	if j.Attempts > 0 {
		text += fmt.Sprintf(", attempt %d", j.Attempts)
	}
	if j.LastCode > 0 {
		text += fmt.Sprintf(", last %d", j.LastCode)
	}
	if j.LastError != "" {
		text += ", " + j.LastError
	}
	if at, waits := j.Retry(); waits {
		text += fmt.Sprintf(", next in %v", max(0, at.Sub(now)))
	}
	return text
}

// TestMoves prints the whole life of a job as a table.
func TestMoves(t *testing.T) {
	datadriven.RunTest(t, "testdata/moves.golden", func(t *testing.T, d *datadriven.TestData) string {
		out := strings.Builder{}
		for n := range len(webhook.Status_name) {
			if status := webhook.Status(n); n > 0 {
				fmt.Fprintf(&out, "%s\n", status)
				for _, move := range status.Moves() {
					fmt.Fprintf(&out, "  %s\n", move)
				}
			}
		}
		return out.String()
	})
}

// TestErrorsAreShort: only the beginning of an error from a target or the network is
// kept, as valid text.
func TestErrorsAreShort(t *testing.T) {
	s := busy(t, 1)
	rows := map[uint64]*webhook.Job{1: {Number: 1, Status: webhook.Pending}}
	for _, c := range []webhook.Command{
		webhook.Lease{Max: 1}, webhook.Report{Outcomes: []webhook.Outcome{{Lease: 1, Error: "\xff" + strings.Repeat("ü", 1000)}}},
	} {
		for _, e := range do(t, s, c, actorstest.Epoch) {
			webhook.Fold(rows, e)
		}
	}
	if want := "\uFFFD" + strings.Repeat("ü", webhook.ErrorCharsMax-1); rows[1].LastError != want {
		t.Errorf("kept %q", rows[1].LastError)
	}
}

// TestJobIDs: within one webhook each number has one id, and each id one number. Other
// webhooks have other ids.
func TestJobIDs(t *testing.T) {
	id := webhook.ID(actorstest.Named("hook"))
	s := &webhook.State{Id: id.Bytes(), LastJob: 1 << 40}
	seen := map[webhook.JobID]bool{webhook.JobID(id): true}
	for _, n := range []uint64{1, 2, 255, 256, 65536, 1 << 32, 1 << 40} {
		job := s.JobID(n)
		if back, ok := s.JobNumber(job); back != n || !ok || seen[job] {
			t.Errorf("job %d is %v and comes back as %d, %v", n, job, back, ok)
		}
		if job.Slot() != id.Slot() {
			t.Errorf("job %d has slot %d, its webhook %d", n, job.Slot(), id.Slot())
		}
		seen[job] = true
	}
	for _, stranger := range []webhook.JobID{webhook.JobID(id), s.JobID(1<<40 + 1), actorstest.Named("other")} {
		if n, ok := s.JobNumber(stranger); ok {
			t.Errorf("%v was accepted as job %d", stranger, n)
		}
	}
}

// TestEventWords: events are spelled with dots, and in no other way.
func TestEventWords(t *testing.T) {
	for n := range len(webhook.What_name) {
		if what := webhook.What(n); n > 0 {
			if back, ok := webhook.ParseEvent(what.Word()); back != what || !ok || strings.Contains(what.Word(), "_") {
				t.Errorf("%v is spelled %q and is parsed as %v, %v", what, what.Word(), back, ok)
			}
		}
	}
	for _, word := range []string{"", "no.event", "message_received", "message.", "message.received "} {
		if what, ok := webhook.ParseEvent(word); ok {
			t.Errorf("%q was parsed as %v", word, what)
		}
	}
}

func TestGolden(t *testing.T) {
	at := actorstest.Epoch.UnixMilli()
	idOf := func(name string) []byte { id := actorstest.Named(name); return id[:] }
	attempt := &webhook.Attempt{Lease: 9, Job: 5, Nth: 1, First: true, BeganMs: at + 3}
	results := []*webhook.Result{{
		Lease: 9, Job: 5, Status: webhook.Failed, Code: 503, Error: "busy", BeganMs: at + 3, DurationMs: 12, NextMs: at + 5000, Unsent: true,
	}}
	actorstest.Golden(
		t, "testdata/events.golden", rules,
		&webhook.State{
			Id: idOf("hook"), Agent: idOf("alice"), Org: idOf("acme"), Url: "https://hook.example/a", Description: "the hook",
			Events: []webhook.What{webhook.MessageReceived, webhook.GroupInvited}, CreatedMs: at, DeletedMs: at + 9, Active: true,
			DisabledMs: at + 8, DisabledReason: webhook.OnlyFailures, Cursor: 77, FailingSinceMs: at + 4, HeldUntilMs: at + 6,
			Secrets: []*webhook.Secret{{Sealed: []byte("new"), UntilMs: at + 7}}, LastJob: 6, LastFirst: 5, Unsent: []uint64{4, 300},
			LastLease: 9, UnderWay: []*webhook.Attempt{attempt}, RetryTurn: true, Failed: 1, Delivered: 2, Dead: 3, Retried: 4,
			SentUrl: "https://HOOK.example/a", Conversation: idOf("task"), ConfigId: "config", EndedMs: at + 10,
		},
		[]webhook.Event{
			&webhook.Created{
				Id: idOf("hook"), Agent: idOf("alice"), Org: idOf("acme"), Url: "https://hook.example/a", Description: "the hook",
				Events: []webhook.What{webhook.MessageReceived, webhook.GroupInvited}, SealedSecret: []byte("sealed"), Cursor: 77, AtMs: at,
				SentUrl: "https://HOOK.example/a", Conversation: idOf("task"), ConfigId: "config",
			},
			&webhook.Activated{Cursor: 78, AtMs: at},
			&webhook.Deactivated{AtMs: at},
			&webhook.Disabled{Reason: webhook.TargetGone, AtMs: at},
			&webhook.Rotated{SealedSecret: []byte("sealed"), AtMs: at},
			&webhook.Deleted{AtMs: at},
			&webhook.Collected{Upto: 80, First: 7, News: []*webhook.News{{
				Event: webhook.MessageReceived, Ref: idOf("m1"), Note: []byte("note"), HappenedMs: at - 1, Position: 79,
			}}, AtMs: at, Ended: true},
			&webhook.Tested{Job: 8, AtMs: at, Position: 80},
			&webhook.Leased{Attempts: []*webhook.Attempt{attempt}},
			&webhook.Reported{Results: results, FailingSinceMs: at + 4, HeldUntilMs: at + 6, AtMs: at},
			&webhook.Expired{Results: results, AtMs: at},
			&webhook.Retried{Job: 5, Dead: true, AtMs: at},
			&webhook.Released{AtMs: at},
			&webhook.Redirected{Url: "https://hook.example/b", SentUrl: "https://HOOK.example/b", SealedSecret: []byte("sealed"), AtMs: at},
		},
	)
}
