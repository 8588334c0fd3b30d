package judges

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// vectors are the test vectors that docs/encryption.md names for implementers.
type vectors struct {
	Agents []struct {
		Name              string   `json:"name"`
		ID                string   `json:"agent_id"`
		SigningPublic     hexBytes `json:"signing_public_hex"`
		EncryptionPublic  hexBytes `json:"encryption_public_hex"`
		EncryptionPrivate hexBytes `json:"encryption_private_hex"`
		PQPublic          hexBytes `json:"pq_public_hex"`
		PQPrivate         hexBytes `json:"pq_private_hex"`
	} `json:"agents"`
	Open   []vector `json:"open"`
	Refuse []vector `json:"refuse"`
}

type vector struct {
	Why     string   `json:"why"`
	From    string   `json:"from"`
	To      string   `json:"to"`
	Text    string   `json:"text"`
	Payload hexBytes `json:"payload_hex"`
}

type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

func (v vectors) job(of vector) job {
	j := job{Do: "open", Sealed: of.Text}
	for _, agent := range v.Agents {
		if agent.Name == of.From {
			j.Sender, j.Signer = agent.ID, b64(agent.SigningPublic)
		}
		if agent.Name == of.To {
			j.Recipient, j.RecipientPublic, j.RecipientPrivate = agent.ID, b64(agent.EncryptionPublic), b64(agent.EncryptionPrivate)
			if len(agent.PQPublic) > 0 {
				j.RecipientPublic, j.RecipientPrivate = b64(agent.PQPublic), b64(agent.PQPrivate)
			}
		}
	}
	return j
}

// TestHPKEVectors makes @hpke/core decrypt the published test vectors of all versions.
func TestHPKEVectors(t *testing.T) {
	needNode(t)
	for version, file := range map[int]string{2: "hpke-v1-byte2.json", 3: "hpke-v1-byte3.json"} {
		t.Run(file, func(t *testing.T) { judgeVectors(t, file, version) })
	}
}

func judgeVectors(t *testing.T, file string, version int) {
	text, err := os.ReadFile("../../../client/e2ee/testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Open) == 0 || len(v.Refuse) == 0 {
		t.Fatal("there are no vectors")
	}
	var jobs []job
	for _, vector := range slices.Concat(v.Open, v.Refuse) {
		jobs = append(jobs, v.job(vector))
	}
	for i, o := range judge(t, jobs) {
		if i >= len(v.Open) {
			if o.Refused == "" {
				t.Errorf("%s: opened, and must not be", v.Refuse[i-len(v.Open)].Why)
			}
			continue
		}
		if want := v.Open[i]; o.Refused != "" || o.Payload != b64(want.Payload) || o.Version != version {
			t.Errorf("%s: refused %q, payload %s, want %x", want.Why, o.Refused, o.Payload, want.Payload)
		}
	}
	t.Logf("ok - @hpke/core opens %d published vectors and refuses %d", len(v.Open), len(v.Refuse))
}
