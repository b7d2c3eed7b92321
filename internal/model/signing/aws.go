package signing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"lilac/internal/foundation/fault"
)

// AWSCredentials are an access key of AWS.
type AWSCredentials struct {
	AccessKeyID, SecretAccessKey string
	// SessionToken belongs to temporary credentials.
	SessionToken string
}

// AWSFromEnv reads credentials from the usual variables.
func AWSFromEnv(getenv func(string) string) AWSCredentials {
	trim := func(name string) string { return strings.TrimSpace(getenv(name)) }
	return AWSCredentials{AccessKeyID: trim("AWS_ACCESS_KEY_ID"), SecretAccessKey: trim("AWS_SECRET_ACCESS_KEY"), SessionToken: trim("AWS_SESSION_TOKEN")}
}

// AWS signs requests to Amazon Bedrock.
type AWS struct {
	// Credentials is called for each request, so that credentials may change.
	Credentials func() AWSCredentials
	Base        http.RoundTripper
	Now         func() time.Time
}

// RoundTrip implements [http.RoundTripper].
func (a *AWS) RoundTrip(req *http.Request) (*http.Response, error) {
	c := a.Credentials()
	if c.AccessKeyID == "" || c.SecretAccessKey == "" {
		return nil, fault.New(fault.Unauthenticated, "There are no credentials for AWS: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
	}
	region, service, err := awsScope(req.URL.Hostname())
	if err != nil {
		return nil, err
	}
	hash, err := bodyHash(req)
	if err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	signed := req.Clone(req.Context())
	signed.Header.Del("Authorization")
	signed.Header.Del("X-Api-Key")
	// A header without a value is not sent, but tells the transport something, and the signer would
	// sign it.
	unsent := http.Header{}
	for name, values := range signed.Header {
		if len(values) == 0 {
			unsent[name] = values
			delete(signed.Header, name)
		}
	}
	credentials := aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.SessionToken}
	if err := v4.NewSigner().SignHTTP(context.WithoutCancel(req.Context()), credentials, signed, hash, service, region, a.Now()); err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	maps.Copy(signed.Header, unsent)
	return a.Base.RoundTrip(signed)
}

// awsScope returns the region and the service of a host such as
// bedrock-runtime.eu-central-1.amazonaws.com or bedrock-mantle.us-east-1.api.aws.
func awsScope(host string) (region, service string, err error) {
	labels := strings.Split(host, ".")
	for i, label := range labels {
		name, ok := strings.CutPrefix(label, "bedrock")
		if !ok || i+1 >= len(labels) {
			continue
		}
		service = "bedrock"
		if strings.HasPrefix(name, "-mantle") {
			service = "bedrock-mantle"
		}
		return labels[i+1], service, nil
	}
	return "", "", fault.New(fault.Invalid, "The address %s is not one of Amazon Bedrock, such as bedrock-runtime.REGION.amazonaws.com.", host)
}

// bodyHash returns the SHA-256 of the body, without using it up.
func bodyHash(req *http.Request) (string, error) {
	hash := sha256.New()
	if req.Body != nil && req.Body != http.NoBody {
		if req.GetBody == nil {
			return "", errors.New("the body can be read only once")
		}
		body, err := req.GetBody()
		if err != nil {
			return "", err
		}
		_, err = io.Copy(hash, body)
		if err := errors.Join(err, body.Close()); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
