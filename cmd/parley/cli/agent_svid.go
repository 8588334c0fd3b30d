package cli

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"parley/client/api"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type agentSVIDChallengeCmd struct{ profile.AgentArg }

func (c *agentSVIDChallengeCmd) Run(ctx context.Context, std *program.Streams, agent *profile.OwnAgent) error {
	challenge, err := agent.Agents.SVIDChallenge(ctx, agent.ID)
	if err != nil {
		return err
	}
	return std.Show(challenge, "challenge  %s\naudience   %s\nexpires    %s\nmint a JWT-SVID for the audience, then: %s", challenge.ChallengeID, challenge.Audience, program.Clock(challenge.ExpiresAt),
		program.Typed("agent verify-svid "+agent.Name+" --challenge-id ID --jwt-file FILE"))
}

type agentVerifySVIDCmd struct {
	profile.AgentArg
	JWTFile     string `name:"jwt-file" placeholder:"FILE" help:"File with a JWT-SVID for the challenge's audience, also as spire-agent prints it; - is standard input. Needs --challenge-id."`
	ChallengeID string `name:"challenge-id" placeholder:"ID" help:"Challenge that the JWT-SVID was minted for, as printed by agent svid-challenge."`
	X509        string `name:"x509" placeholder:"FILE" help:"PEM file with an X.509-SVID: the leaf, then intermediate certificates. The command gets the challenge itself."`
	Key         string `placeholder:"FILE" help:"PEM file with the key of the X.509-SVID; default: the same name with .key in place of .pem."`
}

// Run proves a workload identity by either document.
func (c *agentVerifySVIDCmd) Run(ctx context.Context, std *program.Streams) error {
	if (c.JWTFile == "") == (c.X509 == "") || (c.JWTFile == "") != (c.ChallengeID == "") {
		return program.ExitError{Code: program.ExitUsage, Err: errors.New("use either --jwt-file with --challenge-id, or --x509")}
	}
	agent, err := c.ProvideAgent(ctx)
	if err != nil {
		return err
	}
	in := api.VerifySVID{ID: agent.ID, ChallengeID: c.ChallengeID}
	if c.X509 != "" {
		in, err = c.signed(ctx, agent)
	} else {
		in.JWTSVID, err = readToken(std, c.JWTFile)
	}
	if err != nil {
		return err
	}
	proven, err := agent.Agents.VerifySVID(ctx, in)
	if err != nil {
		return err
	}
	return std.Show(proven, "%s has proven %s\nthe organization has trust tier %d", program.Text(agent.Handle), proven.SPIFFEID, proven.TrustTier)
}

// jwtPattern finds a token in what `spire-agent api fetch jwt` prints, as text or JSON.
var jwtPattern = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`)

// tokenFileMax bounds what is read of a file with a token, in bytes.
const tokenFileMax = 1 << 20

// readToken reads a JWT-SVID from a file, or from standard input if the path is "-".
func readToken(std *program.Streams, path string) (*string, error) {
	text, err := std.Read(path, tokenFileMax)
	if err != nil {
		return nil, err
	}
	token := string(jwtPattern.Find(text))
	if token == "" {
		return nil, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s contains no JWT-SVID", path)}
	}
	return &token, nil
}

// signed gets a challenge and signs it with the key of the X.509-SVID.
func (c *agentVerifySVIDCmd) signed(ctx context.Context, agent *profile.OwnAgent) (api.VerifySVID, error) {
	if c.Key == "" {
		c.Key = strings.TrimSuffix(c.X509, ".pem") + ".key"
	}
	chain, err := readChain(c.X509)
	if err != nil {
		return api.VerifySVID{}, err
	}
	key, err := readKeyFile(c.Key)
	if err != nil {
		return api.VerifySVID{}, err
	}
	challenge, err := agent.Agents.SVIDChallenge(ctx, agent.ID)
	if err != nil {
		return api.VerifySVID{}, err
	}
	return agent.Agents.SignedSVID(agent.ID, challenge, chain, key)
}

// readChain reads the certificates of a PEM file.
func readChain(path string) (chain [][]byte, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			chain = append(chain, block.Bytes)
		}
	}
	if len(chain) == 0 {
		return nil, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s contains no PEM certificate", path)}
	}
	return chain, nil
}

// readKeyFile reads the first private key of a PEM file.
func readKeyFile(path string) (crypto.Signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var key any
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		default:
			continue
		}
		if signer, ok := key.(crypto.Signer); ok && err == nil {
			return signer, nil
		}
		return nil, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s: the private key cannot be used", path)}
	}
	return nil, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s contains no PEM private key", path)}
}
