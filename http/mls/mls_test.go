package mls

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"parley/http/mls/mlstest"
)

// octets are base64url in the vectors.
type octets []byte

func (o *octets) UnmarshalText(text []byte) (err error) {
	*o, err = base64.RawURLEncoding.DecodeString(string(text))
	return err
}

type keyPackageVector struct {
	Name          string
	Suite         Suite
	Message, Bare octets
	InitKey       octets `json:"init_key"`
	EncryptionKey octets `json:"encryption_key"`
	SignatureKey  octets `json:"signature_key"`
	Identity      string
	NotBefore     uint64 `json:"not_before"`
	NotAfter      uint64 `json:"not_after"`
	LastResort    bool   `json:"last_resort"`
	Ed25519       bool
	Reference     octets
}

type messageVector struct {
	Name              string
	Message           octets
	GroupID           string `json:"group_id"`
	AuthenticatedData octets `json:"authenticated_data"`
	Sender            SenderType
	Leaf              uint32
	Format            WireFormat
	Epoch             uint64
	Content           ContentType
}

type welcomeVector struct {
	Name          string
	Suite         Suite
	Message, Bare octets
	References    []octets
}

type groupInfoVector struct {
	Name          string
	Suite         Suite
	Message, Bare octets
	GroupID       string `json:"group_id"`
	Epoch         uint64
	RatchetTree   bool `json:"ratchet_tree"`
	ExternalPub   bool `json:"external_pub"`
}

// vectors are messages of npm's ts-mls, written by cmd/parley/judges/mlsvectors.mjs.
type vectors struct {
	KeyPackages []keyPackageVector `json:"key_packages"`
	Messages    []messageVector
	Welcomes    []welcomeVector
	GroupInfos  []groupInfoVector `json:"group_infos"`
}

func readVectors(t testing.TB) (v vectors) {
	t.Helper()
	text, err := os.ReadFile("testdata/ts-mls.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.KeyPackages) < 6 || len(v.Messages) < 8 || len(v.Welcomes) < 2 || len(v.GroupInfos) < 4 {
		t.Fatalf("too few vectors: %d, %d, %d, %d", len(v.KeyPackages), len(v.Messages), len(v.Welcomes), len(v.GroupInfos))
	}
	return v
}

// parsers are all that this package reads, by name.
var parsers = map[string]func([]byte) error{
	"KeyPackage": func(b []byte) error { _, err := ParseKeyPackage(b); return err },
	"Message":    func(b []byte) error { _, err := ParseMessage(b); return err },
	"Welcome":    func(b []byte) error { _, err := ParseWelcome(b); return err },
	"GroupInfo":  func(b []byte) error { _, err := ParseGroupInfo(b); return err },
}

func TestKeyPackages(t *testing.T) {
	for _, v := range readVectors(t).KeyPackages {
		for form, data := range map[string][]byte{"message": v.Message, "bare": v.Bare} {
			k, err := ParseKeyPackage(data)
			if err != nil {
				t.Errorf("%s, %s: %v", v.Name, form, err)
				continue
			}
			if k.Suite != v.Suite || !bytes.Equal(k.InitKey, v.InitKey) || !bytes.Equal(k.EncryptionKey, v.EncryptionKey) || !bytes.Equal(k.SignatureKey, v.SignatureKey) ||
				string(k.Identity) != v.Identity || k.NotBefore != v.NotBefore || k.NotAfter != v.NotAfter || k.LastResort != v.LastResort || !bytes.Equal(k.Bare(), v.Bare) {
				t.Errorf("%s, %s: got %+v", v.Name, form, k)
			}
			if err := k.VerifyEd25519(); (err == nil) != v.Ed25519 {
				t.Errorf("%s, %s: the signatures: %v", v.Name, form, err)
			}
			if reference, known := k.Reference(); known != (len(v.Reference) > 0) || !bytes.Equal(reference, v.Reference) {
				t.Errorf("%s, %s: the reference is %x, %v; want %x", v.Name, form, reference, known, v.Reference)
			}
		}
	}
}

// What tests of other packages use is sound.
func TestMadeForTests(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	made := mlstest.KeyPackage{Key: key, Identity: "ann@acme.localhost", LastResort: true}
	k, err := ParseKeyPackage(made.Message(now))
	if err != nil || k.VerifyEd25519() != nil || string(k.Identity) != made.Identity || !k.LastResort || k.NotBefore != 1_800_000_000-3600 {
		t.Errorf("%+v, %v, %v", k, err, k.VerifyEd25519())
	}
}

// Both signatures count, and every byte of what they cover.
func TestKeyPackageSignatures(t *testing.T) {
	sound := readVectors(t).KeyPackages[0].Bare
	refused := 0
	for at := range sound {
		changed := bytes.Clone(sound)
		changed[at] ^= 1
		k, err := ParseKeyPackage(changed)
		if err != nil {
			refused++
			continue
		}
		if err := k.VerifyEd25519(); !errors.Is(err, ErrSignature) {
			t.Errorf("with another byte %d it verifies: %v", at, err)
		}
	}
	if refused > len(sound)/4 {
		t.Errorf("%d of %d changes could not be read: the test says little about signatures", refused, len(sound))
	}
	k, err := ParseKeyPackage(sound)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*KeyPackage){
		"the signature of the leaf":     func(k *KeyPackage) { k.leafSignature = k.signature },
		"the signature of the package":  func(k *KeyPackage) { k.signature = k.leafSignature },
		"no signature key":              func(k *KeyPackage) { k.SignatureKey = nil },
		"a suite with other signatures": func(k *KeyPackage) { k.Suite = 7 },
	} {
		spoilt := k
		if spoil(&spoilt); !errors.Is(spoilt.VerifyEd25519(), ErrSignature) {
			t.Errorf("%s: it verifies", name)
		}
	}
}

func TestMessages(t *testing.T) {
	for _, v := range readVectors(t).Messages {
		m, err := ParseMessage(v.Message)
		if err != nil {
			t.Errorf("%s: %v", v.Name, err)
			continue
		}
		if string(m.GroupID) != v.GroupID || m.Epoch != v.Epoch || m.Format != v.Format || m.Content != v.Content ||
			m.Sender != v.Sender || m.Leaf != v.Leaf || !bytes.Equal(m.AuthenticatedData, v.AuthenticatedData) {
			t.Errorf("%s: got %+v", v.Name, m)
		}
	}
}

func TestWelcomes(t *testing.T) {
	for _, v := range readVectors(t).Welcomes {
		for _, data := range [][]byte{v.Message, v.Bare} {
			w, err := ParseWelcome(data)
			if err != nil || w.Suite != v.Suite || w.Recipients != len(v.References) {
				t.Errorf("%s: got %+v, %v", v.Name, w, err)
			}
		}
	}
}

func TestGroupInfos(t *testing.T) {
	for _, v := range readVectors(t).GroupInfos {
		for _, data := range [][]byte{v.Message, v.Bare} {
			g, err := ParseGroupInfo(data)
			if err != nil || g.Suite != v.Suite || string(g.GroupID) != v.GroupID || g.Epoch != v.Epoch || g.RatchetTree != v.RatchetTree || g.ExternalPub != v.ExternalPub {
				t.Errorf("%s: got %+v, %v", v.Name, g, err)
			}
		}
	}
}

// Nothing can be cut off and nothing added, but to public proposals, of which only the
// header is read; and no structure is read as another.
func TestWholeStructures(t *testing.T) {
	for kind, samples := range readVectors(t).samples() {
		parse := parsers[kind]
		for name, data := range samples {
			if parse(data) != nil {
				t.Errorf("%s %s: %v", kind, name, parse(data))
			}
			if strings.Contains(name, "proposal") && !strings.HasPrefix(name, "private") {
				continue
			}
			for end := range data {
				if fault := (*Error)(nil); !errors.As(parse(data[:end]), &fault) {
					t.Errorf("%s %s: the first %d of %d bytes are read: %v", kind, name, end, len(data), parse(data[:end]))
				}
			}
			if fault := (*Error)(nil); !errors.As(parse(append(bytes.Clone(data), 0)), &fault) || fault.At != len(data) {
				t.Errorf("%s %s: a byte too many is accepted: %v", kind, name, fault)
			}
			for other, parse := range parsers {
				if other != kind && parse(data) == nil {
					t.Errorf("%s %s is read as %s too", kind, name, other)
				}
			}
		}
	}
}

// samples returns the bytes of all vectors, by what they are and their names.
func (v vectors) samples() map[string]map[string][]byte {
	out := map[string]map[string][]byte{"KeyPackage": {}, "Message": {}, "Welcome": {}, "GroupInfo": {}}
	for _, k := range v.KeyPackages {
		out["KeyPackage"][k.Name], out["KeyPackage"][k.Name+", bare"] = k.Message, k.Bare
	}
	for _, m := range v.Messages {
		out["Message"][m.Name] = m.Message
	}
	for _, w := range v.Welcomes {
		out["Welcome"][w.Name], out["Welcome"][w.Name+", bare"] = w.Message, w.Bare
	}
	for _, g := range v.GroupInfos {
		out["GroupInfo"][g.Name], out["GroupInfo"][g.Name+", bare"] = g.Message, g.Bare
	}
	return out
}

// leaf returns a leaf node with a source and what belongs to it.
func leaf(credential uint16, source byte, rest ...byte) []byte {
	b := appendVector(appendVector(nil, "encryption key"), "signature key")
	b = appendVector(binary.BigEndian.AppendUint16(b, credential), "identity")
	b = append(b, 2, 0, 1, 2, 0, 1, 0, 0, 2, 0, 1, source)
	return appendVector(append(append(b, rest...), 0), "signature")
}

// keyPackageOf returns a KeyPackage around a leaf node; nobody has signed it.
func keyPackageOf(initKey string, leaf []byte, extensions []byte) []byte {
	b := append(appendVector([]byte{0, 1, 0, 1}, initKey), leaf...)
	return appendVector(appendVector(b, extensions), "signature")
}

var lifetime = make([]byte, 16)

func TestFaults(t *testing.T) {
	many := []byte{}
	for i := range extensionsMax + 1 {
		many = append(binary.BigEndian.AppendUint16(many, uint16(i)), 0)
	}
	private := func(format, content byte) []byte {
		return []byte{0, 1, 0, format, 1, 'g', 0, 0, 0, 0, 0, 0, 0, 7, content, 0, 0, 0}
	}
	public := func(rest ...byte) []byte { return append([]byte{0, 1, 0, 1, 1, 'g', 0, 0, 0, 0, 0, 0, 0, 7}, rest...) }
	for name, c := range map[string]struct {
		kind string
		data []byte
		want string
	}{
		"a sound KeyPackage":            {"KeyPackage", keyPackageOf("init key", leaf(1, 1, lifetime...), nil), ""},
		"64 extensions":                 {"KeyPackage", keyPackageOf("init key", leaf(1, 1, lifetime...), many[:3*extensionsMax]), ""},
		"65 extensions":                 {"KeyPackage", keyPackageOf("init key", leaf(1, 1, lifetime...), many), "more than 64 extensions"},
		"an extension twice":            {"KeyPackage", keyPackageOf("init key", leaf(1, 1, lifetime...), []byte{0, 10, 0, 0, 10, 0}), "occurs twice"},
		"half an extension":             {"KeyPackage", keyPackageOf("init key", leaf(1, 1, lifetime...), []byte{0, 10}), "the bytes end too early"},
		"an extension that is too long": {"KeyPackage", keyPackageOf("init key", leaf(1, 1, lifetime...), []byte{0, 10, 1}), "longer than what is left"},
		"X.509":                         {"KeyPackage", keyPackageOf("init key", leaf(2, 1, lifetime...), nil), "not a basic one"},
		"a leaf of an update":           {"KeyPackage", keyPackageOf("init key", leaf(1, 2), nil), "not made for a KeyPackage"},
		"a leaf of a commit":            {"KeyPackage", keyPackageOf("init key", leaf(1, 3, 0), nil), "not made for a KeyPackage"},
		"a leaf of nothing":             {"KeyPackage", keyPackageOf("init key", leaf(1, 4), nil), "no such source"},
		"one key for both":              {"KeyPackage", keyPackageOf("encryption key", leaf(1, 1, lifetime...), nil), "the init key"},
		"odd capabilities":              {"KeyPackage", bytes.Replace(keyPackageOf("init key", leaf(1, 1, lifetime...), nil), []byte{2, 0, 1, 2, 0, 1}, []byte{1, 1, 3, 0, 0, 1}, 1), "pairs of bytes"},
		"version 2":                     {"KeyPackage", append([]byte{0, 2}, keyPackageOf("init key", leaf(1, 1, lifetime...), nil)[2:]...), "not MLS 1.0"},
		"a long form of a length":       {"KeyPackage", append([]byte{0, 1, 0, 1, 0x40, 8}, keyPackageOf("init key", leaf(1, 1, lifetime...), nil)[5:]...), "shortest form"},
		"a longer form of a length":     {"KeyPackage", append([]byte{0, 1, 0, 1, 0x80, 0, 0, 8}, keyPackageOf("init key", leaf(1, 1, lifetime...), nil)[5:]...), "shortest form"},
		"a form for 8 bytes":            {"KeyPackage", []byte{0, 1, 0, 1, 0xc0, 0, 0, 0, 0, 0, 0, 0}, "reserved form"},
		"a vector of a gigabyte":        {"KeyPackage", []byte{0, 1, 0, 1, 0xbf, 0xff, 0xff, 0xff}, "longer than what is left"},
		"nothing":                       {"Message", nil, "the bytes end too early"},
		"a private application message": {"Message", private(2, 1), ""},
		"a private message of nothing":  {"Message", private(2, 4), "no such content type"},
		"a private message of zero":     {"Message", private(2, 0), "no such content type"},
		"a KeyPackage for a message":    {"Message", private(5, 1), "neither that of a public nor"},
		"a public application message":  {"Message", public(1, 0, 0, 0, 5, 0, 1, 0, 0, 0), ""},
		"a sender of no type":           {"Message", public(5, 0, 3), "no such sender type"},
		"a commit without a path":       {"Message", public(4, 0, 3, 0, 0, 0, 0), ""},
		"a commit with half a path":     {"Message", public(4, 0, 3, 0, 2, 0, 0), "neither 0 nor 1"},
		"a commit of a member":          {"Message", public(1, 0, 0, 0, 5, 0, 3, 0, 0, 0, 0, 0), ""},
		"a commit without a tag":        {"Message", public(1, 0, 0, 0, 5, 0, 3, 0, 0, 0, 0), "the bytes end too early"},
		"a Welcome for nobody":          {"Welcome", []byte{0, 1, 0, 0}, "for nobody"},
		"a Welcome for one":             {"Welcome", []byte{0, 1, 5, 2, 'r', 'r', 0, 0, 0}, ""},
	} {
		err := parsers[c.kind](c.data)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestAllocations(t *testing.T) {
	v := readVectors(t)
	for name, c := range map[string]struct {
		parse func([]byte) error
		data  []byte
		max   float64
	}{
		"KeyPackage": {parsers["KeyPackage"], v.KeyPackages[0].Message, 4},
		"Message":    {parsers["Message"], v.Messages[0].Message, 4},
		"GroupInfo":  {parsers["GroupInfo"], v.GroupInfos[0].Message, 5},
	} {
		if got := testing.AllocsPerRun(100, func() { _ = c.parse(c.data) }); got > c.max {
			t.Errorf("reading a %s allocates %v times, at most %v are allowed", name, got, c.max)
		}
	}
}

// FuzzParse reads anything as anything. What is a KeyPackage is one without its MLSMessage
// too, and nothing that is read is longer than what it was read from.
func FuzzParse(f *testing.F) {
	for _, samples := range readVectors(f).samples() {
		for _, data := range samples {
			f.Add(data)
		}
	}
	f.Add(keyPackageOf("init key", leaf(1, 1, lifetime...), []byte{0, 10, 0}))
	f.Fuzz(func(t *testing.T, data []byte) {
		for kind, parse := range parsers {
			if fault, err := (*Error)(nil), parse(data); err != nil && (!errors.As(err, &fault) || fault.At < 0 || fault.At > len(data)) {
				t.Errorf("%s: %v", kind, err)
			}
		}
		k, err := ParseKeyPackage(data)
		if err != nil {
			return
		}
		again, err := ParseKeyPackage(k.Bare())
		if err != nil || again.Suite != k.Suite || !bytes.Equal(again.Identity, k.Identity) || !bytes.Equal(again.Bare(), k.Bare()) {
			t.Errorf("without its MLSMessage it is %+v, %v", again, err)
		}
		if _, known := k.Reference(); known != (k.Suite >= 1 && k.Suite <= 7) {
			t.Errorf("the reference of suite %d is known: %v", k.Suite, known)
		}
		_ = k.VerifyEd25519()
	})
}
