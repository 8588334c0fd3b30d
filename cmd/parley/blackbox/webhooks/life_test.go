package webhooks

import (
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/hooktest"
)

// planned checks when the next attempt of a job is due: wait after the last one, plus or
// minus 10%.
func planned(t testing.TB, j obj, wait time.Duration) {
	t.Helper()
	took, _ := j["last_duration_ms"].(float64)
	got := between(t, j, "last_attempt_at", "next_attempt_at") - time.Duration(took)*time.Millisecond
	if got < wait*9/10-100*time.Millisecond || got > wait*11/10+500*time.Millisecond {
		t.Errorf("the next attempt is due %v after the last, want %v: %v", got, wait, j)
	}
}

// TestFirstRetry: the first retry comes after five seconds, belongs to the same job, and
// completes it. While a webhook is off, the server attempts no deliveries and creates no
// jobs, not even afterwards; pending jobs stay pending. After a webhook is deleted,
// nothing is attempted.
func TestFirstRetry(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		h, off, deleted := hooktest.Listening(b, hooktest.Says(500), hooktest.Says(200)), hooktest.Listening(b, hooktest.Says(500), hooktest.Says(200)), hooktest.Listening(b, hooktest.Says(500), hooktest.Says(200))
		m := a.Send(b)
		j := h.WaitForStatus(m, "failed")
		if !kit.Same(j["attempts"], 1) || !kit.Same(j["last_status_code"], 500) || !strings.Contains(kit.Text(j, "last_error"), "500") {
			t.Errorf("after an answer of 500 the job is %v", j)
		}
		planned(t, j, 5*time.Second)
		h.WaitForCounts(0, 1, 0, 0)
		kit.Marked(t, a, m, "new")
		waiting := off.WaitForStatus(m, "failed")
		deleted.WaitForStatus(m, "failed")
		b.Delete(deleted.Path("")).Want(204)
		off.SetActive(false)
		off.SetActive(false)
		missed := a.Send(b)
		h.WaitForStatus(missed, "delivered")
		h.Retried(m, j)
		time.Sleep(time.Second)
		off.CheckAfterPause(m, waiting, missed)
		if n := len(deleted.To.Deliveries()); n != 1 {
			t.Errorf("a deleted webhook received %d deliveries", n)
		}
		h.WaitForStatus(a.Send(b), "delivered")
		off.WaitForCounts(2, 0, 0, 0)
		for _, d := range off.To.Deliveries() {
			if d.Body["message_id"] == missed["id"] {
				t.Error("a message that arrived while the webhook was off was announced")
			}
		}
	})
}

// TestProcessing: during an attempt the job's status says so, and the job counts as
// pending.
func TestProcessing(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		h := hooktest.Listening(b, hangs)
		m := a.Send(b)
		h.To.WaitForDelivery(t, 1)
		if j := h.WaitForStatus(m, "processing"); j["next_attempt_at"] != nil || j["delivered_at"] != nil || j["last_attempt_at"] != nil {
			t.Errorf("during the attempt the job is %v", j)
		}
		h.WaitForCounts(0, 0, 0, 1)
		for range 79 { // more than the server leases at once
			a.Send(b)
		}
		h.WaitForCounts(0, 0, 0, 80)
		waiting, leased := h.Jobs("pending"), h.Jobs("processing")
		if len(waiting) == 0 || len(waiting)+len(leased) != 80 {
			t.Errorf("of 80 jobs %d are pending and %d are processing", len(waiting), len(leased))
		}
		for _, j := range slices.Concat(waiting, leased) {
			h.CheckJob(j)
		}
		h.Retry(h.Job(m)).As("under way").Want(200).Is("id", h.Job(m)["id"])
		time.Sleep(300 * time.Millisecond)
		for i, d := range h.To.Deliveries() { // others may be attempted during a late one
			if i > 0 && kit.Same(d.Body["message_id"], m["id"]) {
				t.Error("a delivery in progress was sent again")
			}
		}
	})
}

func TestRetryByHand(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		h := hooktest.Listening(b, hooktest.Says(503, "Retry-After", "3600"), hooktest.Says(500), hooktest.Says(200))
		m := a.Send(b)
		j := h.WaitForStatus(m, "failed")
		planned(t, j, time.Hour)
		again := h.Retry(j).Want(200).Is("id", j["id"])
		kit.Exactly(t, "a retry", again.Body, hooktest.JobFields)
		h.To.WaitForDelivery(t, 2)
		kit.Eventually(t, "the second attempt is over", func() bool { return kit.Same(h.Job(m)["attempts"], 2) && h.Job(m)["status"] == "failed" })
		planned(t, h.Job(m), 5*time.Minute)
		h.Retry(j).Want(200)
		done := h.WaitForStatus(m, "delivered")
		if !kit.Same(done["attempts"], 3) {
			t.Errorf("after two manual retries the job is %v", done)
		}
		h.Retry(j).As("delivered").Refused(409, "invalid_transition").Is("current_status", "delivered", "allowed", []any{})
		h.To.CheckNoMore(t, 3)
	})
}

// TestGone: a target that answers 410 receives no more deliveries.
func TestGone(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		other, stranger, stream := hooktest.Wanting(b, "webhook.disabled"), hooktest.Wanting(a, "webhook.disabled"), b.Stream("")
		h := hooktest.Listening(b, hooktest.Says(410), hooktest.Says(200))
		m := a.Send(b)
		told := other.To.WaitForDelivery(t, 1).Judged(t, other)
		if told.Body["message_id"] != nil || told.Body["agent_id"] != b.ID || told.Body["webhook_id"] != h.ID || told.Body["disabled_reason"] != "target_gone" {
			t.Errorf("the agent's other webhook received %s", told.Raw)
		}
		for e := stream.Next(); ; e = stream.Next() {
			if e.Name == "webhook" {
				if e.ID != "" || e.Data["webhook_id"] != h.ID || e.Data["disabled_reason"] != "target_gone" {
					t.Errorf("the stream brought %+v", e)
				}
				break
			}
		}
		j := h.WaitForStatus(m, "dead")
		if !kit.Same(j["last_status_code"], 410) || !kit.Same(j["attempts"], 1) || j["next_attempt_at"] != nil {
			t.Errorf("the job is %v", j)
		}
		row := h.Read()
		if row["active"] != false || row["disabled_at"] == nil || row["disabled_reason"] == nil {
			t.Errorf("the webhook of a target that answered 410 is %v", row)
		}
		h.WaitForCounts(0, 0, 1, 0)
		missed := a.Send(b)
		h.Retry(j).As("inactive").Refused(409, "invalid_transition").Is("current_status", "inactive")
		b.Post(h.Path("/test"), nil).As("inactive").Refused(409, "invalid_transition")
		h.To.CheckNoMore(t, 1)
		h.SetActive(true)
		h.Retry(j).Want(200)
		if done := h.WaitForStatus(m, "delivered"); !kit.Same(done["attempts"], 1) {
			t.Errorf("a dead job after a retry is %v", done)
		}
		h.WaitForCounts(1, 0, 0, 0)
		if j := h.Job(missed); j != nil {
			t.Errorf("an event that occurred while it was off has the job %v", j)
		}
		h.WaitForStatus(a.Send(b), "delivered")
		other.To.CheckNoMore(t, 1)
		stranger.To.CheckNoMore(t, 0)
	})
}

func TestTestEvent(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		b := s.Org(t).Agent("b")
		for _, h := range []*hooktest.Hook{hooktest.Listening(b), hooktest.Wanting(b, "group.invited")} {
			a := b.Post(h.Path("/test"), nil).Want(200).Is("event", "webhook.test", "message_id", nil, "webhook_id", h.ID)
			kit.Exactly(t, "the job", a.Body, hooktest.JobFields)
			d := h.To.WaitForDelivery(t, 1).Judged(t, h)
			kit.Exactly(t, "the payload", d.Body, "message_id agent_id event timestamp")
			if d.Body["event"] != "webhook.test" || d.Body["message_id"] != nil || d.Header.Get("Webhook-Id") != a.Str("id") {
				t.Errorf("the payload of a test event is %s", d.Raw)
			}
			h.WaitForCounts(1, 0, 0, 0)
		}
	})
}

// TestRotation: during a rotation deliveries are signed with the new and the old secret.
// Otherwise they have one signature.
func TestRotation(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		h := hooktest.Listening(b)
		a.Send(b)
		if plain, standard := h.To.WaitForDelivery(t, 1).Judged(t, h).Signatures(); plain != 1 || standard != 1 {
			t.Errorf("%d and %d signatures of one secret", plain, standard)
		}
		before := h.Secret
		rotated := b.Post(h.Path("/rotate-secret"), nil).Want(200).Is("id", h.ID)
		h.Secret = rotated.Str("secret")
		if h.Secret == before || !hooktest.SecretForm.MatchString(h.Secret) {
			rotated.Errorf("not a new secret")
		}
		a.Send(b)
		d := h.To.WaitForDelivery(t, 2).Judged(t, h)
		if err := d.Verified(before); err != nil {
			t.Errorf("with the old secret: %v", err)
		}
		if plain, standard := d.Signatures(); plain != 2 || standard != 2 {
			t.Errorf("%d and %d signatures of two secrets", plain, standard)
		}
		for name, secret := range map[string]string{"X-Svc-Signature": h.Secret, "X-Svc-Signature-Previous": before} {
			if got := d.Header.Get(name); got != hooktest.PlainSignature(secret, d.Raw) {
				t.Errorf("%s is %q", name, got)
			}
		}
		if strings.Contains(string(b.Get("/webhooks").Raw), "whsec_") {
			t.Error("the listing shows a secret")
		}
		b.Get(h.Path("/deliveries")).Want(200)
	})
}

// TestWebhooksSurviveARestart: webhooks, jobs, secrets and due times persist.
func TestWebhooksSurviveARestart(t *testing.T) {
	kit.OneServerOnly(t, "the leader goes on delivering")
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals, "--webhook-ca", hooktest.SharedSink(t).CAFile)
		a, b := kit.Pair(t, s)
		h, broken, off := hooktest.Listening(b), hooktest.Listening(b, hooktest.Says(500), hooktest.Says(200)), hooktest.Listening(b)
		off.SetActive(false)
		m := a.Send(b)
		h.WaitForStatus(m, "delivered")
		broken.WaitForStatus(m, "failed")
		look := func() any {
			return []any{h.Read(), broken.Read(), off.Read(), h.Jobs(""), broken.Jobs(""), b.Get(h.Path("/deliveries/summary")).Body}
		}
		before := look()
		if err := s.Drain(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		s.Restart(t)
		if now := look(); !kit.Same(now, before) {
			t.Errorf("changed by a restart\nbefore %v\nafter  %v", before, now)
		}
		h.WaitForStatus(a.Send(b), "delivered")
		h.To.WaitForDelivery(t, 2).Judged(t, h)
		broken.WaitForStatus(m, "delivered")
		broken.To.WaitForDelivery(t, 2).Judged(t, broken)
		off.To.CheckNoMore(t, 0)
		kit.VerifyDirectory(t, s)
	})
}

// TestRetryByHandIsAtOnce: a manual retry is attempted at once, however often the target
// failed before.
func TestRetryByHandIsAtOnce(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		h := hooktest.Listening(b, hooktest.Says(500))
		first := a.Send(b)
		h.WaitForStatus(first, "failed")
		for range 14 {
			a.Send(b)
		}
		kit.Eventually(t, "attempts are held", func() bool { return len(h.To.Deliveries()) >= 10 && len(h.Jobs("pending")) > 0 })
		h.To.Answers(hooktest.Says(200))
		began := time.Now()
		h.Retry(h.Job(first)).Want(200)
		h.WaitForStatus(first, "delivered")
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("a manual retry took %v", took)
		}
	})
}
