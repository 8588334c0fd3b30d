package access

import "testing"

// TestQuotaProfileWith: With leaves the profile that it is called on unchanged.
func TestQuotaProfileWith(t *testing.T) {
	before := Quotas("public")
	five := 5
	after, err := before.With(1, "agents", &five)
	if err != nil || *after.limit(1, "agents") != 5 || *before.limit(1, "agents") != 3 || *after.limit(2, "agents") != 10 {
		t.Errorf("%v, %v, %v", before, after, err)
	}
	if after, err = after.With(1, "agents", nil); err != nil || after.limit(1, "agents") != nil {
		t.Errorf("%v, %v", after, err)
	}
	less := -1
	for _, err := range []error{
		func() error { _, err := before.With(4, "agents", &five); return err }(),
		func() error { _, err := before.With(-1, "agents", &five); return err }(),
		func() error { _, err := before.With(1, "cakes", &five); return err }(),
		func() error { _, err := before.With(1, "agents", &less); return err }(),
	} {
		if err == nil {
			t.Error("accepted")
		}
	}
}
