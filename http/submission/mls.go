package submission

import (
	"encoding/base64"
	"strings"

	"parley/actors/group"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/mls"
)

// mlsHeader returns what a group's rules need of an application message of its MLS group,
// nil if a payload is none. The format of the Go client begins with 0x01, an MLSMessage with
// 0x00, which is A in base64url.
func mlsHeader(in *api.Send, to parley.GroupID) *group.MLSHeader {
	if in.EncryptionVersion != api.SenderKeyV1 || !strings.HasPrefix(in.EncryptedPayload, "A") {
		return nil
	}
	data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(in.EncryptedPayload, "="))
	if err != nil {
		return nil
	}
	m, err := mls.ParseMessage(data)
	if err != nil || m.Format != mls.FormatPrivate || m.Content != mls.ContentApplication || string(m.GroupID) != to.String() {
		return nil
	}
	return &group.MLSHeader{Epoch: m.Epoch}
}
