package main

import (
	"crypto/x509"
	"encoding/pem"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"parley/http/svid/svidtest"
)

// svidCommand makes files of the trust domain workloads.example: `svid bundle FILE`,
// `svid jwt AUDIENCE FILE`, which is as spire-agent prints it, and `svid x509 FILE KEYFILE`.
func svidCommand(ts *testscript.TestScript, neg bool, args []string) {
	write := func(name string, content []byte) { ts.Check(os.WriteFile(ts.MkAbs(name), content, 0o600)) }
	switch {
	case neg || len(args) == 0:
		ts.Fatalf("usage: svid bundle|jwt|x509")
	case args[0] == "bundle" && len(args) == 2:
		write(args[1], workloadAuthority().Bundle())
	case args[0] == "jwt" && len(args) == 3:
		write(args[2], []byte("token(spiffe://workloads.example/web):\n\t"+workloadAuthority().JWT("/web", args[1])+"\nbundle(spiffe://workloads.example):\n\t{}\n"))
	case args[0] == "x509" && len(args) == 3:
		key, chain := svidtest.NewKey(), []byte(nil)
		for _, der := range workloadAuthority().X509("/db", key.Public()) {
			chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
		}
		stored, err := x509.MarshalPKCS8PrivateKey(key)
		ts.Check(err)
		write(args[1], chain)
		write(args[2], pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: stored}))
	default:
		ts.Fatalf("unknown: svid %q", args)
	}
}
