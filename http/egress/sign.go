package egress

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"parley"
)

// SecretPrefix begins every webhook secret. // contract: Webhooks
const SecretPrefix = "whsec_"

const secretBytes = 32

// ErrSecret says that a text cannot be a webhook's secret. The text is not in it.
var ErrSecret = errors.New("not a webhook secret")

// NewSecret makes a webhook's secret: the prefix and 32 random bytes in base64.
func NewSecret(entropy parley.Entropy) string {
	var key [secretBytes]byte
	for i := 0; i < len(key); i += 8 {
		drawn := entropy()
		copy(key[i:i+8], drawn[2:])
		key[i] ^= drawn[0]
		key[i+1] ^= drawn[1]
	}
	return SecretPrefix + base64.StdEncoding.EncodeToString(key[:])
}

// Sign puts the signatures of a body into a request's head, under both schemes
// and for each of the secrets, of which the newest stands first:
//
//	X-<Brand>-Signature: sha256=<hex>[,sha256=<hex>]
//	Webhook-Id:          id
//	Webhook-Timestamp:   seconds since 1970
//	Webhook-Signature:   v1,<base64>[ v1,<base64>]
//
// The first is the HMAC-SHA256 of the body alone, keyed with the text of the
// secret; the last that of "id.timestamp.body", keyed with the bytes which the
// secret encodes, and so cannot be replayed later or under another id.
//
// While a secret is being replaced there are two of them, and a receiver that
// has either finds its own. They stand in one line: of a header that comes twice
// many receivers see the first alone, and others one line of both anyway.
//
// ErrSecret: one of the secrets is none, or there is none; the head is then as
// it was. // contract: Webhooks // source: Standard Webhooks 1.0, Signature scheme
func Sign(head http.Header, brand, id string, at time.Time, body []byte, secrets ...string) error {
	if len(secrets) == 0 {
		return ErrSecret
	}
	stamp := strconv.FormatInt(at.Unix(), 10)
	plain := make([]string, len(secrets))
	standard := make([]string, len(secrets))
	for i, secret := range secrets {
		key, err := secretKey(secret)
		if err != nil {
			return err
		}
		plain[i] = "sha256=" + hex.EncodeToString(sum([]byte(secret), body))
		standard[i] = "v1," + base64.StdEncoding.EncodeToString(sum(key, []byte(id), dot, []byte(stamp), dot, body))
	}
	head.Set("X-"+brand+"-Signature", strings.Join(plain, ","))
	head.Set("Webhook-Id", id)
	head.Set("Webhook-Timestamp", stamp)
	head.Set("Webhook-Signature", strings.Join(standard, " "))
	return nil
}

var dot = []byte{'.'}

func secretKey(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, SecretPrefix)
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if !ok || err != nil || len(key) == 0 {
		return nil, ErrSecret
	}
	return key, nil
}

func sum(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		mac.Write(part)
	}
	return mac.Sum(nil)
}
