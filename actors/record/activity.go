package record

import (
	"encoding/binary"
	"time"

	"parley/client/parley"
)

// Hour returns the number of the hour of an instant, counted from 1970-01-01 UTC.
func Hour(t time.Time) uint32 { return uint32(t.Unix() / 3600) }

// TokenKey returns the key of a row of journal.TokenTable.
func TokenKey(org parley.OrgID, client parley.ClientID) []byte {
	return append(org.Bytes(), client[:]...)
}

// HourRow encodes the value of a row of journal.ActivityTable or journal.TokenTable.
func HourRow(hour uint32) []byte { return binary.BigEndian.AppendUint32(nil, hour) }

// HourOf returns the beginning of the hour in such a row, UTC. It
// reports false if the row has another form.
func HourOf(row []byte) (time.Time, bool) {
	if len(row) != 4 {
		return time.Time{}, false
	}
	return time.Unix(int64(binary.BigEndian.Uint32(row))*3600, 0).UTC(), true
}
