package actors

import (
	"strings"
	"time"

	"parley/actors/group"
)

// instantLayout is the format of instants in the API.
const instantLayout = "2006-01-02T15:04:05.000000Z"

// Blanks stand in the body of a notice for what only the group's turn knows about the
// request. Each is as long as its value, so that the lengths in an encoded body stay right,
// and has control characters, which no JSON string has unescaped.
var (
	BlankRequestID = strings.Repeat("\x01", 36)
	BlankInviter   = strings.Repeat("\x02", 36)
	BlankStatus    = strings.Repeat("\x03", len("pending")) // or invited
	BlankExpiry    = strings.Repeat("\x04", len(instantLayout))
)

// fillNotice returns the body of a notice with the values of a request in its blanks.
func fillNotice(body []byte, r *group.Request) []byte {
	return []byte(strings.NewReplacer(
		BlankRequestID, r.RequestID().String(), BlankInviter, r.Inviter().String(), BlankStatus, r.GetStatus().String(),
		BlankExpiry, time.UnixMilli(r.GetExpiresMs()).UTC().Format(instantLayout),
	).Replace(string(body)))
}
