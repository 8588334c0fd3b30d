package blackbox

import (
	"slices"
	"strings"
	"testing"
	"time"
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
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		h, off, deleted := b.listens(says(500), says(200)), b.listens(says(500), says(200)), b.listens(says(500), says(200))
		m := a.Send(b)
		j := h.waitForStatus(m, "failed")
		if !Same(j["attempts"], 1) || !Same(j["last_status_code"], 500) || !strings.Contains(Text(j, "last_error"), "500") {
			t.Errorf("after an answer of 500 the job is %v", j)
		}
		planned(t, j, 5*time.Second)
		h.waitForCounts(0, 1, 0, 0)
		Marked(t, a, m, "new")
		waiting := off.waitForStatus(m, "failed")
		deleted.waitForStatus(m, "failed")
		b.Delete(deleted.path("")).Want(204)
		off.setActive(false)
		off.setActive(false)
		missed := a.Send(b)
		h.waitForStatus(missed, "delivered")
		h.retried(m, j)
		time.Sleep(time.Second)
		off.checkAfterPause(m, waiting, missed)
		if n := len(deleted.to.deliveries()); n != 1 {
			t.Errorf("a deleted webhook received %d deliveries", n)
		}
		h.waitForStatus(a.Send(b), "delivered")
		off.waitForCounts(2, 0, 0, 0)
		for _, d := range off.to.deliveries() {
			if d.body["message_id"] == missed["id"] {
				t.Error("a message that arrived while the webhook was off was announced")
			}
		}
	})
}

// retried checks the second attempt of a job, which completes it.
func (h *hook) retried(m, j obj) {
	t := h.agent.T
	t.Helper()
	done := h.waitForStatus(m, "delivered")
	if done["id"] != j["id"] || !Same(done["attempts"], 2) || !Same(done["last_status_code"], 200) {
		t.Errorf("after the retry the job is %v", done)
	}
	var both []*delivery
	for _, d := range h.to.deliveries() {
		if d.body["message_id"] == m["id"] {
			both = append(both, d.judged(t, h))
		}
	}
	if len(both) != 2 {
		t.Fatalf("%d attempts, want 2", len(both))
	}
	first, second := both[0], both[1]
	if waited := second.at.Sub(first.at); waited < 4400*time.Millisecond || waited > 6500*time.Millisecond {
		t.Errorf("the retry came after %v", waited)
	}
	if string(first.raw) != string(second.raw) || first.header.Get("Webhook-Id") != second.header.Get("Webhook-Id") || first.header.Get("Webhook-Timestamp") == second.header.Get("Webhook-Timestamp") {
		t.Errorf("a retry must be the same delivery at another time: %s %v", second.raw, second.header)
	}
}

// checkAfterPause checks a webhook that was off while a retry was due and a message
// arrived, and switches it on.
func (h *hook) checkAfterPause(m, waiting, missed obj) {
	t := h.agent.T
	t.Helper()
	if now := h.job(m); !Same(now, waiting) || len(h.to.deliveries()) != 1 {
		t.Errorf("while the webhook was off it received %d deliveries, and the job became %v", len(h.to.deliveries()), now)
	}
	h.retry(waiting).As("off").Refused(409, "invalid_transition").Is("current_status", "inactive")
	h.waitForCounts(0, 1, 0, 0)
	h.setActive(true)
	h.waitForStatus(m, "delivered")
	if j := h.job(missed); j != nil {
		t.Errorf("an event that occurred while it was off has the job %v", j)
	}
}

// TestProcessing: during an attempt the job's status says so, and the job counts as
// pending.
func TestProcessing(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		h := b.listens(hangs)
		m := a.Send(b)
		h.to.waitForDelivery(t, 1)
		if j := h.waitForStatus(m, "processing"); j["next_attempt_at"] != nil || j["delivered_at"] != nil || j["last_attempt_at"] != nil {
			t.Errorf("during the attempt the job is %v", j)
		}
		h.waitForCounts(0, 0, 0, 1)
		for range 79 { // more than the server leases at once
			a.Send(b)
		}
		h.waitForCounts(0, 0, 0, 80)
		waiting, leased := h.jobs("pending"), h.jobs("processing")
		if len(waiting) == 0 || len(waiting)+len(leased) != 80 {
			t.Errorf("of 80 jobs %d are pending and %d are processing", len(waiting), len(leased))
		}
		for _, j := range slices.Concat(waiting, leased) {
			h.checkJob(j)
		}
		h.retry(h.job(m)).As("under way").Want(200).Is("id", h.job(m)["id"])
		time.Sleep(300 * time.Millisecond)
		for i, d := range h.to.deliveries() { // others may be attempted during a late one
			if i > 0 && Same(d.body["message_id"], m["id"]) {
				t.Error("a delivery in progress was sent again")
			}
		}
	})
}

func TestRetryByHand(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		h := b.listens(says(503, "Retry-After", "3600"), says(500), says(200))
		m := a.Send(b)
		j := h.waitForStatus(m, "failed")
		planned(t, j, time.Hour)
		again := h.retry(j).Want(200).Is("id", j["id"])
		Exactly(t, "a retry", again.Body, jobFields)
		h.to.waitForDelivery(t, 2)
		Eventually(t, "the second attempt is over", func() bool { return Same(h.job(m)["attempts"], 2) && h.job(m)["status"] == "failed" })
		planned(t, h.job(m), 5*time.Minute)
		h.retry(j).Want(200)
		done := h.waitForStatus(m, "delivered")
		if !Same(done["attempts"], 3) {
			t.Errorf("after two manual retries the job is %v", done)
		}
		h.retry(j).As("delivered").Refused(409, "invalid_transition").Is("current_status", "delivered", "allowed", []any{})
		h.to.checkNoMore(t, 3)
	})
}

// TestGone: a target that answers 410 receives no more deliveries.
func TestGone(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		h := b.listens(says(410), says(200))
		m := a.Send(b)
		j := h.waitForStatus(m, "dead")
		if !Same(j["last_status_code"], 410) || !Same(j["attempts"], 1) || j["next_attempt_at"] != nil {
			t.Errorf("the job is %v", j)
		}
		row := h.read()
		if row["active"] != false || row["disabled_at"] == nil || row["disabled_reason"] == nil {
			t.Errorf("the webhook of a target that answered 410 is %v", row)
		}
		h.waitForCounts(0, 0, 1, 0)
		missed := a.Send(b)
		h.retry(j).As("inactive").Refused(409, "invalid_transition").Is("current_status", "inactive")
		b.Post(h.path("/test"), nil).As("inactive").Refused(409, "invalid_transition")
		h.to.checkNoMore(t, 1)
		h.setActive(true)
		h.retry(j).Want(200)
		if done := h.waitForStatus(m, "delivered"); !Same(done["attempts"], 1) {
			t.Errorf("a dead job after a retry is %v", done)
		}
		h.waitForCounts(1, 0, 0, 0)
		if j := h.job(missed); j != nil {
			t.Errorf("an event that occurred while it was off has the job %v", j)
		}
		h.waitForStatus(a.Send(b), "delivered")
	})
}

func TestTestEvent(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		b := s.Org(t).Agent("b")
		for _, h := range []*hook{b.listens(), b.wants("group.invited")} {
			a := b.Post(h.path("/test"), nil).Want(200).Is("event", "webhook.test", "message_id", nil, "webhook_id", h.id)
			Exactly(t, "the job", a.Body, jobFields)
			d := h.to.waitForDelivery(t, 1).judged(t, h)
			Exactly(t, "the payload", d.body, "message_id agent_id event timestamp")
			if d.body["event"] != "webhook.test" || d.body["message_id"] != nil || d.header.Get("Webhook-Id") != a.Str("id") {
				t.Errorf("the payload of a test event is %s", d.raw)
			}
			h.waitForCounts(1, 0, 0, 0)
		}
	})
}

// TestRotation: during a rotation deliveries are signed with the new and the old secret.
// Otherwise they have one signature.
func TestRotation(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		h := b.listens()
		a.Send(b)
		if plain, standard := h.to.waitForDelivery(t, 1).judged(t, h).signatures(); plain != 1 || standard != 1 {
			t.Errorf("%d and %d signatures of one secret", plain, standard)
		}
		before := h.secret
		rotated := b.Post(h.path("/rotate-secret"), nil).Want(200).Is("id", h.id)
		h.secret = rotated.Str("secret")
		if h.secret == before || !secretForm.MatchString(h.secret) {
			rotated.Errorf("not a new secret")
		}
		a.Send(b)
		d := h.to.waitForDelivery(t, 2).judged(t, h)
		if err := d.verified(before); err != nil {
			t.Errorf("with the old secret: %v", err)
		}
		if plain, standard := d.signatures(); plain != 2 || standard != 2 {
			t.Errorf("%d and %d signatures of two secrets", plain, standard)
		}
		for name, secret := range map[string]string{"X-Svc-Signature": h.secret, "X-Svc-Signature-Previous": before} {
			if got := d.header.Get(name); got != plainSignature(secret, d.raw) {
				t.Errorf("%s is %q", name, got)
			}
		}
		if strings.Contains(string(b.Get("/webhooks").Raw), "whsec_") {
			t.Error("the listing shows a secret")
		}
		b.Get(h.path("/deliveries")).Want(200)
	})
}

// TestWebhooksSurviveARestart: webhooks, jobs, secrets and due times persist.
func TestWebhooksSurviveARestart(t *testing.T) {
	OneServerOnly(t, "the leader goes on delivering")
	Own(t, func(t *testing.T, journals string) {
		s := Start(t, "--journals", journals, "--webhook-ca", theSink(t).caFile)
		a, b := Pair(t, s)
		h, broken, off := b.listens(), b.listens(says(500), says(200)), b.listens()
		off.setActive(false)
		m := a.Send(b)
		h.waitForStatus(m, "delivered")
		broken.waitForStatus(m, "failed")
		look := func() any {
			return []any{h.read(), broken.read(), off.read(), h.jobs(""), broken.jobs(""), b.Get(h.path("/deliveries/summary")).Body}
		}
		before := look()
		if err := s.Drain(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		s.Restart(t)
		if now := look(); !Same(now, before) {
			t.Errorf("changed by a restart\nbefore %v\nafter  %v", before, now)
		}
		h.waitForStatus(a.Send(b), "delivered")
		h.to.waitForDelivery(t, 2).judged(t, h)
		broken.waitForStatus(m, "delivered")
		broken.to.waitForDelivery(t, 2).judged(t, broken)
		off.to.checkNoMore(t, 0)
		VerifyDirectory(t, s)
	})
}

// TestRetryByHandIsAtOnce: a manual retry is attempted at once, however often the target
// failed before.
func TestRetryByHandIsAtOnce(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		h := b.listens(says(500))
		first := a.Send(b)
		h.waitForStatus(first, "failed")
		for range 14 {
			a.Send(b)
		}
		Eventually(t, "attempts are held", func() bool { return len(h.to.deliveries()) >= 10 && len(h.jobs("pending")) > 0 })
		h.to.answers(says(200))
		began := time.Now()
		h.retry(h.job(first)).Want(200)
		h.waitForStatus(first, "delivered")
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("a manual retry took %v", took)
		}
	})
}
