package rest

import (
	"strings"
	"testing"

	"parley/client/parley"
)

// TestListPageHasRoomForFirstRow: a page has room for its first row, however long that
// is, and then for no other row.
func TestListPageHasRoomForFirstRow(t *testing.T) {
	l := &List{lists: &Lists{ArrayBytes: parley.ArrayBytesMax}, Call: &Call{host: &Host{}, route: &Route{}}, Limit: 2}
	row := strings.Repeat("r", parley.PageBytesMax)
	if !l.Add([]byte{1}, row, nil) || l.Add([]byte{2}, row, nil) || l.err != nil || l.rows != 1 || !l.more {
		t.Errorf("a page of long rows has %d, more %v, %v", l.rows, l.more, l.err)
	}
}
