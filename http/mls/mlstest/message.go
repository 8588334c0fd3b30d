package mlstest

import "encoding/binary"

// Commit describes a commit. What a server does not read of it is random, so that no two are
// alike.
type Commit struct {
	// Group is the group_id, Epoch the epoch that the commit is made in.
	Group string
	Epoch uint64
	// Public makes a public message of a member. External makes one of sender
	// new_member_commit. The default is a private message.
	Public, External bool
	// Padding is how many bytes the commit is longer.
	Padding int
}

// Content types of messages. source: RFC 9420 6
const (
	contentApplication = 1
	contentProposal    = 2
	contentCommit      = 3
)

// Message returns the commit in an MLSMessage. source: RFC 9420 6
func (c Commit) Message() []byte {
	if !c.Public && !c.External {
		return private(c.Group, c.Epoch, contentCommit, append(random(), noise(c.Padding)...))
	}
	b := header([]byte{0, 1, 0, 1}, c.Group, c.Epoch)
	if c.External {
		b = append(b, 4)
	} else {
		b = append(b, 1, 0, 0, 0, 0)
	}
	b = append(vector(b, nil), contentCommit)
	b = append(vector(b, noise(c.Padding)), 0) // proposals, and no path
	b = vector(vector(b, random()), random())  // signature, confirmation_tag
	if c.External {
		return b
	}
	return vector(b, random()) // membership_tag
}

// Application returns an application message as a private message in an MLSMessage.
func Application(group string, epoch uint64) []byte {
	return private(group, epoch, contentApplication, random())
}

// Proposal returns a proposal as a private message in an MLSMessage.
func Proposal(group string, epoch uint64) []byte {
	return private(group, epoch, contentProposal, random())
}

// private returns a PrivateMessage in an MLSMessage. source: RFC 9420 6.3
func private(group string, epoch uint64, content byte, ciphertext []byte) []byte {
	b := append(header([]byte{0, 1, 0, 2}, group, epoch), content)
	return vector(vector(vector(b, nil), random()), ciphertext)
}

func header(b []byte, group string, epoch uint64) []byte {
	return binary.BigEndian.AppendUint64(vector(b, []byte(group)), epoch)
}

// Extensions of a GroupInfo. source: RFC 9420 17.3
const (
	extensionRatchetTree = 2
	extensionExternalPub = 4
)

// GroupInfo describes a GroupInfo.
type GroupInfo struct {
	Group string
	Epoch uint64
	// Suite is 1 if it is 0.
	Suite uint16
	// WithoutTree and WithoutPub leave out the extensions ratchet_tree and external_pub.
	WithoutTree, WithoutPub bool
	// Padding is how many bytes the ratchet tree is longer.
	Padding int
}

// Message returns the GroupInfo in an MLSMessage. source: RFC 9420 12.4.3
func (g GroupInfo) Message() []byte {
	b := binary.BigEndian.AppendUint16([]byte{0, 1, 0, 4, 0, 1}, max(g.Suite, 1))
	b = vector(vector(header(b, g.Group, g.Epoch), random()), random()) // tree_hash, confirmed_transcript_hash
	b = vector(b, nil)
	var extensions []byte
	if !g.WithoutTree {
		extensions = vector(append(extensions, 0, extensionRatchetTree), noise(32+g.Padding))
	}
	if !g.WithoutPub {
		extensions = vector(append(extensions, 0, extensionExternalPub), random())
	}
	b = vector(vector(b, extensions), random()) // confirmation_tag
	return vector(append(b, 0, 0, 0, 0), random())
}

// Welcome returns a Welcome for one newcomer in an MLSMessage. Its GroupInfo has so many
// bytes more than it needs. source: RFC 9420 12.4.3.1
func Welcome(suite uint16, padding int) []byte {
	secrets := vector(vector(vector(nil, random()), random()), random())
	b := vector(binary.BigEndian.AppendUint16([]byte{0, 1, 0, 3}, suite), secrets)
	return vector(b, noise(32+padding))
}
