package operator_test

import (
	"fmt"
	"time"

	"parley/actors/operator"
	"parley/client/parley"
)

// A registration token admits as many organizations as it has uses. A use that admitted nobody is
// given back.
func Example() {
	now := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	id := parley.RegistrationID{1}

	var state operator.State
	do := func(c operator.Command) {
		events, err := operator.Decide(&state, c, now)
		for _, e := range events {
			operator.Evolve(&state, e)
		}
		fmt.Printf("%T: %v\n", c, err)
	}
	do(operator.AddRegistration{ID: id, Hash: []byte("hash"), Uses: 1, Expires: now.Add(time.Hour)})
	do(operator.UseRegistration{Hash: []byte("hash")})
	do(operator.UseRegistration{Hash: []byte("hash")})
	do(operator.ReturnRegistration{ID: id})
	do(operator.UseRegistration{Hash: []byte("hash")})

	// Output:
	// operator.AddRegistration: <nil>
	// operator.UseRegistration: <nil>
	// operator.UseRegistration: registration_closed: The registration token admits nobody.
	// operator.ReturnRegistration: <nil>
	// operator.UseRegistration: <nil>
}
