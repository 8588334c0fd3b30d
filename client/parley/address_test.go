package parley_test

import (
	"net/url"
	"testing"

	"parley/client/parley"
)

func TestDialable(t *testing.T) {
	for text, want := range map[string]bool{
		"http://a": true, "http://a:1/x": true, "https://u:p@a.example:65535": true, "http://[::1]": true, "http://[::1]:80": true, "smtp://192.0.2.1": true,
		"http://a:0": false, "http://a:00": false, "http://a:65536": false, "http://a:99999": false, "http://a:99999999999999999999": false,
		"http://a:": false, "http://[::1]:": false, "http://": false, "http://:80": false, "http://u@:80": false, "a:80": false, "/a": false, "": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if parley.Dialable(u) != want {
			t.Errorf("%q: got %t", text, !want)
		}
	}
}
