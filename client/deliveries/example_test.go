package deliveries_test

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"parley/client/deliveries"
)

// A receiver checks the signatures and the age of a delivery before it reads the body.
func ExampleOpen() {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	body := []byte(`{"test": 2432232314}`)
	head := http.Header{
		"Webhook-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}, "Webhook-Timestamp": {"1614265330"},
		"Webhook-Signature": {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
		"X-Svc-Signature":   {"sha256=80ec8a89ce3cd22133a1066caecb4d04fea7467657c8514d717ec42c38a5c94c"},
	}
	now := time.Unix(1614265340, 0)

	delivery, err := deliveries.Open(secret, "svc", head, body, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(delivery.ID)

	_, err = deliveries.Open(secret, "svc", head, []byte(`{"test": 0}`), now)
	fmt.Println(errors.Is(err, deliveries.ErrSignature))
	_, err = deliveries.Open(secret, "svc", head, body, now.Add(time.Hour))
	fmt.Println(errors.Is(err, deliveries.ErrStale))
	// Output:
	// msg_p5jXN8AQM9LWM0D4loKWxJek
	// true
	// true
}
