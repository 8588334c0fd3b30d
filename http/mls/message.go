package mls

import "encoding/binary"

// Suite is a cipher suite by its number in the registry of IANA.
type Suite uint16

// WireFormat says what an MLSMessage contains.
type WireFormat uint16

// Wire formats. source: RFC 9420 17.2
const (
	FormatPublic     WireFormat = 1
	FormatPrivate    WireFormat = 2
	FormatWelcome    WireFormat = 3
	FormatGroupInfo  WireFormat = 4
	FormatKeyPackage WireFormat = 5
)

// ContentType says what a public or private message contains.
type ContentType uint8

// Content types. source: RFC 9420 6
const (
	ContentApplication ContentType = 1
	ContentProposal    ContentType = 2
	ContentCommit      ContentType = 3
)

// SenderType says how a public message names its sender.
type SenderType uint8

// Sender types. source: RFC 9420 6
const (
	SenderMember            SenderType = 1
	SenderExternal          SenderType = 2
	SenderNewMemberProposal SenderType = 3
	SenderNewMemberCommit   SenderType = 4
)

// version10 is the number of MLS 1.0, the only version there is.
const version10 = 1

// Message is the header of a public or private message.
type Message struct {
	// Format is FormatPublic or FormatPrivate.
	Format  WireFormat
	GroupID []byte
	Epoch   uint64
	Content ContentType
	// Sender is of public messages only; of private ones it is encrypted.
	Sender SenderType
	// Leaf is the index of the sender's leaf, if Sender is SenderMember; if it is SenderExternal, the
	// index of an external sender.
	Leaf uint32
	// AuthenticatedData is what the sender signed in the clear.
	AuthenticatedData []byte
}

// ParseMessage reads an MLSMessage with a public or private message. Another wire format
// is an error. Commits and application messages are read to their end; of a public
// proposal, only what Message has.
func ParseMessage(data []byte) (Message, error) {
	r := &reader{data: data}
	r.version()
	m := Message{Format: WireFormat(r.u16())}
	switch {
	case r.fault != nil:
	case m.Format == FormatPublic:
		m.public(r)
	case m.Format == FormatPrivate:
		m.private(r)
	default:
		r.fail(2, "the wire format is neither that of a public nor that of a private message")
	}
	if r.fault == nil && m.Content == ContentProposal && m.Format == FormatPublic {
		return m, nil
	}
	if err := r.end(); err != nil {
		return Message{}, err
	}
	return m, nil
}

// version reads the version, which every structure begins with that has one.
func (r *reader) version() {
	if at := r.at; r.u16() != version10 {
		r.fail(at, "the version is not MLS 1.0")
	}
}

// private reads a PrivateMessage. source: RFC 9420 6.3
func (m *Message) private(r *reader) {
	m.GroupID, m.Epoch = r.vector(), r.u64()
	m.contentType(r)
	m.AuthenticatedData = r.vector()
	r.vector() // encrypted_sender_data
	r.vector() // ciphertext
}

// public reads a PublicMessage. source: RFC 9420 6.2
func (m *Message) public(r *reader) {
	m.GroupID, m.Epoch = r.vector(), r.u64()
	at := r.at
	switch m.Sender = SenderType(r.u8()); m.Sender {
	case SenderMember, SenderExternal:
		m.Leaf = r.u32()
	case SenderNewMemberProposal, SenderNewMemberCommit:
	default:
		r.fail(at, "there is no such sender type")
	}
	m.AuthenticatedData = r.vector()
	m.contentType(r)
	switch {
	case r.fault != nil || m.Content == ContentProposal:
		return
	case m.Content == ContentApplication:
		r.vector()
	default:
		r.commit()
	}
	r.vector() // signature
	if m.Content == ContentCommit {
		r.vector() // confirmation_tag
	}
	if m.Sender == SenderMember {
		r.vector() // membership_tag
	}
}

func (m *Message) contentType(r *reader) {
	at := r.at
	if m.Content = ContentType(r.u8()); m.Content < ContentApplication || m.Content > ContentCommit {
		r.fail(at, "there is no such content type")
	}
}

// commit passes over a Commit. source: RFC 9420 12.4
func (r *reader) commit() {
	r.vector() // proposals
	if r.optional() {
		r.leafNode()
		r.within(func() {
			r.vector()            // encryption_key
			r.within(r.encrypted) // encrypted_path_secret
		})
	}
}

// optional reads whether a value is present.
func (r *reader) optional() bool {
	at := r.at
	present := r.u8()
	if present > 1 {
		r.fail(at, "the presence of a value is neither 0 nor 1")
	}
	return present == 1
}

// encrypted passes over an HPKECiphertext.
func (r *reader) encrypted() {
	r.vector() // kem_output
	r.vector() // ciphertext
}

// Welcome is what is readable of a Welcome.
type Welcome struct {
	Suite Suite
	// Recipients is how many owners of KeyPackages it is for.
	Recipients int
}

// ParseWelcome reads a Welcome, in an MLSMessage or bare. source: RFC 9420 12.4.3.1
func ParseWelcome(data []byte) (Welcome, error) {
	r := &reader{data: data}
	if len(data) >= 4 && binary.BigEndian.Uint16(data) == version10 && binary.BigEndian.Uint16(data[2:]) == uint16(FormatWelcome) {
		// A bare Welcome that begins alike would be for nobody.
		r.take(4)
	}
	w := Welcome{Suite: Suite(r.u16())}
	at := r.at
	r.within(func() {
		r.vector() // the reference of a KeyPackage
		r.encrypted()
		w.Recipients++
	})
	if w.Recipients == 0 {
		r.fail(at, "the Welcome is for nobody")
	}
	r.vector() // encrypted_group_info
	if err := r.end(); err != nil {
		return Welcome{}, err
	}
	return w, nil
}

// GroupInfo is what a joiner by external commit begins with.
type GroupInfo struct {
	Suite   Suite
	GroupID []byte
	Epoch   uint64
	// RatchetTree and ExternalPub say that the GroupInfo has these extensions. A joiner
	// by external commit needs both.
	RatchetTree, ExternalPub bool
}

// ParseGroupInfo reads a GroupInfo, in an MLSMessage or bare. source: RFC 9420 12.4.3
func ParseGroupInfo(data []byte) (GroupInfo, error) {
	r := &reader{data: data}
	r.unwrap(FormatGroupInfo)
	r.version()
	g := GroupInfo{Suite: Suite(r.u16()), GroupID: r.vector(), Epoch: r.u64()}
	r.vector() // tree_hash
	r.vector() // confirmed_transcript_hash
	r.extensions(nil)
	r.extensions(func(kind uint16, _ []byte) {
		g.RatchetTree = g.RatchetTree || kind == extensionRatchetTree
		g.ExternalPub = g.ExternalPub || kind == extensionExternalPub
	})
	r.vector() // confirmation_tag
	r.u32()    // signer
	r.vector() // signature
	if err := r.end(); err != nil {
		return GroupInfo{}, err
	}
	return g, nil
}

// unwrap passes over the beginning of an MLSMessage, if there is one. What it contains
// begins with the version as the message does; without the message, a cipher suite follows
// and then the length of a vector, which is not zero.
func (r *reader) unwrap(format WireFormat) {
	if len(r.data) >= 6 && binary.BigEndian.Uint32(r.data) == version10<<16|uint32(format) && binary.BigEndian.Uint16(r.data[4:]) == version10 {
		r.take(4)
	}
}

// Extensions that are looked for. source: RFC 9420 17.3 and draft-ietf-mls-extensions
const (
	extensionRatchetTree = 0x0002
	extensionExternalPub = 0x0004
	extensionLastResort  = 0x000a
)

// extensionsMax bounds how many extensions a list has. RFC 9420 has no bound.
const extensionsMax = 64

// extensions reads a list of extensions, no two of one type.
func (r *reader) extensions(found func(kind uint16, data []byte)) {
	var kinds [extensionsMax]uint16
	n := 0
	r.within(func() {
		at := r.at
		kind, data := r.u16(), r.vector()
		if r.fault != nil {
			return
		}
		if n == extensionsMax {
			r.fail(at, "there are more than 64 extensions")
			return
		}
		for _, before := range kinds[:n] {
			if before == kind {
				r.fail(at, "an extension occurs twice")
			}
		}
		kinds[n] = kind
		n++
		if found != nil {
			found(kind, data)
		}
	})
}
