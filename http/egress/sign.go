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

	"parley/client/parley"
)

// SecretPrefix is the prefix of every webhook secret. // docs: webhooks.md
const SecretPrefix = "whsec_"

const secretBytes = 32

// previousSignature is the suffix of the header name for the former secret's signature.
const previousSignature = "-Signature-Previous"

// ErrSecret means that a text is not a webhook secret. The error does not contain the
// text.
var ErrSecret = errors.New("not a webhook secret")

// NewSecret returns a new webhook secret: the prefix and 32 random bytes in base64.
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

// Sign adds the signatures of a body to a request's header, under both schemes and for
// each of the secrets, which are ordered newest first:
//
//	X-<Brand>-Signature:          sha256=<hex>
//	X-<Brand>-Signature-Previous: sha256=<hex>
//	Webhook-Id:                   id
//	Webhook-Timestamp:            seconds since 1970
//	Webhook-Signature:            v1,<base64>[ v1,<base64>]
//
// The first two headers are the HMAC-SHA256 of the body alone, keyed with the text of the
// newest secret and, if there is one, of the secret before it. The last header is the
// HMAC-SHA256 of "id.timestamp.body", keyed with the bytes that the secret encodes, so it
// cannot be replayed later or under another id.
//
// During a rotation there are two secrets, and a receiver that knows either one finds its
// signature. The first header has only one signature, because receivers compare it whole.
//
// The error is ErrSecret if a secret is invalid or there is none; the header is then
// unchanged. // docs: webhooks.md // source: Standard Webhooks 1.0, Signature scheme
func Sign(head http.Header, brand, id string, at time.Time, body []byte, secrets ...string) error {
	if len(secrets) == 0 {
		return ErrSecret
	}
	stamp := strconv.FormatInt(at.Unix(), 10)
	standard := make([]string, len(secrets))
	for i, secret := range secrets {
		key, err := secretKey(secret)
		if err != nil {
			return err
		}
		standard[i] = "v1," + base64.StdEncoding.EncodeToString(sum(key, []byte(id), dot, []byte(stamp), dot, body))
	}
	head.Del("X-" + brand + previousSignature)
	for i, name := range []string{"-Signature", previousSignature}[:min(2, len(secrets))] {
		head.Set("X-"+brand+name, "sha256="+hex.EncodeToString(sum([]byte(secrets[i]), body)))
	}
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
