package hooktest

import (
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// Pushed returns the bodies of the notifications that a target has, once the task has
// ended.
func (x *Target) Pushed(t *testing.T) (bodies []string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		bodies = nil
		for _, d := range x.Deliveries() {
			bodies = append(bodies, string(d.Raw))
		}
		if len(bodies) > 0 && strings.Contains(bodies[len(bodies)-1], "TASK_STATE_COMPLETED") {
			return bodies
		}
		if time.Now().After(deadline) {
			t.Fatalf("the last notification is not the end of the task: %q", bodies)
		}
	}
}

// RefusesPushTargets checks that a server not in development mode refuses targets that are
// not public addresses, for push notifications too.
func RefusesPushTargets(t *testing.T, s *kit.Server) {
	a, b := kit.Pair(t, s)
	b.Bridged()
	task := a.Begins(b, "m-1")
	create := func(address string) *kit.Answer {
		return a.Reaches(b, "CreateTaskPushNotificationConfig", obj{"taskId": task, "url": address}).As("%q", address)
	}
	blocked := func(refused *kit.Answer) {
		t.Helper()
		refused.RPCFails(-32602, "INVALID_PARAMS")
		details, _ := refused.At("error.data").([]any)
		violation := obj{}
		if rows := kit.Objects(details); len(rows) == 2 {
			fields, _ := rows[1]["fieldViolations"].([]any)
			for _, violation = range kit.Objects(fields) {
			}
		}
		if violation["field"] != "url" {
			refused.Errorf("want a violation of the field url")
		}
	}
	for _, host := range BlockedHosts {
		blocked(create("https://" + host + "/push"))
	}
	for _, bad := range []string{"http://hooks.unknown.invalid/", "ftp://hooks.unknown.invalid/", "https://user:pass@hooks.unknown.invalid/", "https://hooks.unknown.invalid/#part", "hooks.unknown.invalid", ""} {
		blocked(create(bad))
	}
	inline := kit.Cleartext("m-2", "hello")
	inline["configuration"] = obj{"returnImmediately": true, "taskPushNotificationConfig": obj{"url": "https://169.254.169.254/"}}
	blocked(a.Reaches(b, "SendMessage", inline))
	create("https://hooks.unknown.invalid/push").As("control").Want(200).Is("result.url", "https://hooks.unknown.invalid/push")
	if n := len(b.Everything()); n != 1 {
		t.Errorf("%d messages; a message with a blocked target must not be stored", n)
	}
}

// BlockedHosts are spellings of addresses that are not public.
var BlockedHosts = []string{
	// Loopback, in all spellings that URLs allow.
	"127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0x7F.0x0.0x0.0x1", "017700000001", "0177.0.0.1", "0177.1",
	"127.0.0.1.", "127.1.", "127.255.255.254", "0", "0.0.0.0", "0x0", "00", "%31%32%37.0.0.1", "127%2e0.0.1",
	"１２７.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1",
	"localhost", "LOCALHOST", "localhost.", "a.localhost", "ｌｏｃａｌｈｏｓｔ",
	"[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::a00:1]", "[::ffff:93.184.216.34]", "[2002:7f00:1::]", "[2002:a00:1::1]",
	// Private networks, shared and link-local addresses, cloud metadata services.
	"10.0.0.1", "10.255.255.255", "0xa.0.0.1", "167772161", "172.16.0.1", "172.31.255.254", "192.168.0.1", "192.168.257", "0xc0.0xa8.1.1", "100.64.0.1",
	"169.254.169.254", "2852039166", "0xa9fea9fe", "0xA9.0xFE.0xA9.0xFE", "0251.0376.0251.0376", "169.254.43518", "168.63.129.16", "[::ffff:169.254.169.254]", "[fd00:ec2::254]",
	"[fc00::1]", "[fdff::1]", "[fe80::1]", "[fec0::1]", "[2001:db8::1]", "[100::1]", "[2001::1]", "[ff02::1]",
	// Reserved, documentation, benchmarking, multicast and broadcast addresses.
	"192.0.0.1", "192.0.2.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "4294967295", "192.88.99.1",
}
