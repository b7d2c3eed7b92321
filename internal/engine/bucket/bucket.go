package bucket

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"lilac/internal/foundation/fault"
)

const (
	// answerWithin bounds one attempt, with its data.
	answerWithin = time.Minute
	// attempts bounds the tries of an operation. pause is the time before the second attempt, and
	// doubles before each further one.
	attempts = 3
	pause    = 200 * time.Millisecond
	// maxListed and maxError bound the pages of a list and the text of an error, in bytes.
	maxListed = 4 << 20
	maxError  = 16 << 10
)

// Credentials sign the requests.
type Credentials struct{ AccessKeyID, SecretAccessKey, SessionToken string }

// Options configure a [Bucket].
type Options struct {
	Address Address
	// Credentials is called for each request, because they may change.
	Credentials func() Credentials
	// HTTP sends the requests; nil means a client of its own.
	HTTP *http.Client
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

// Bucket is a bucket. It is safe for concurrent use.
type Bucket struct{ o Options }

// New returns a bucket. It sends nothing.
func New(o Options) *Bucket {
	if o.HTTP == nil {
		o.HTTP = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, OnProxyConnectResponse: fault.ProxyAnswer, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute}}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Bucket{o}
}

// Object is an entry in a list.
type Object struct {
	Key      string
	Size     int64
	Modified time.Time
}

// Put writes an object. It is durable when Put returns.
func (b *Bucket) Put(ctx context.Context, key string, data []byte) error {
	_, err := b.do(ctx, "write to", http.MethodPut, b.o.Address.url(key), data, 0)
	return err
}

// Get reads an object of at most limit bytes. One that does not exist is a fault.NotFound.
func (b *Bucket) Get(ctx context.Context, key string, limit int64) ([]byte, error) {
	return b.do(ctx, "read from", http.MethodGet, b.o.Address.url(key), nil, limit)
}

// Delete deletes an object. One that does not exist is no error.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	_, err := b.do(ctx, "delete from", http.MethodDelete, b.o.Address.url(key), nil, 0)
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	return err
}

// List calls page for all objects, in the order of their keys, up to 1,000 at a time.
func (b *Bucket) List(ctx context.Context, page func([]Object) error) error {
	for token := ""; ; {
		u := b.o.Address.url("")
		q := url.Values{"list-type": {"2"}, "prefix": {b.o.Address.Prefix}}
		if token != "" {
			q.Set("continuation-token", token)
		}
		u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
		raw, err := b.do(ctx, "list", http.MethodGet, u, nil, maxListed)
		if err != nil {
			return err
		}
		var list struct {
			IsTruncated           bool
			NextContinuationToken string
			Contents              []struct {
				Key          string
				Size         int64
				LastModified time.Time
			}
		}
		if err := xml.Unmarshal(raw, &list); err != nil {
			return fmt.Errorf("decode the list of the bucket %s: %w", b.o.Address.Name, err)
		}
		objects := make([]Object, 0, len(list.Contents))
		for _, c := range list.Contents {
			objects = append(objects, Object{strings.TrimPrefix(c.Key, b.o.Address.Prefix), c.Size, c.LastModified})
		}
		if err := page(objects); err != nil {
			return err
		}
		if !list.IsTruncated || list.NextContinuationToken == "" {
			return nil
		}
		token = list.NextContinuationToken
	}
}

// do sends a request until it has an answer that will not change.
func (b *Bucket) do(ctx context.Context, what, method string, u *url.URL, data []byte, limit int64) (body []byte, err error) {
	for n := 1; ; n++ {
		body, passes, err := b.try(ctx, method, u, data, limit)
		if err == nil {
			return body, nil
		}
		if !passes || n == attempts || ctx.Err() != nil {
			return nil, b.explain(what, err)
		}
		select {
		case <-time.After(pause << (n - 1)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// refusal is an answer of the store with a status that is not 2xx. See "Error responses" in
// Amazon's documentation of S3.
type refusal struct {
	Status  int    `xml:"-"`
	Code    string `xml:"Code"`
	Message string `xml:"Message"`
}

func (r *refusal) Error() string {
	out := strconv.Itoa(r.Status)
	if r.Code != "" {
		out += " " + r.Code
	}
	if r.Message != "" {
		out += ": " + r.Message
	}
	return out
}

// try sends one request. passes reports whether a failure may pass.
func (b *Bucket) try(ctx context.Context, method string, u *url.URL, data []byte, limit int64) (body []byte, passes bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(data))
	if err != nil {
		return nil, false, err
	}
	if err := b.sign(req, data); err != nil {
		return nil, false, err
	}
	res, err := b.o.HTTP.Do(req)
	if err != nil {
		return nil, true, err
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		why := refusal{Status: res.StatusCode}
		if raw, err := io.ReadAll(io.LimitReader(res.Body, maxError)); err == nil {
			_ = xml.Unmarshal(raw, &why) // some answers, such as those of proxies, are not XML
		}
		return nil, why.Status >= 500 || why.Status == http.StatusTooManyRequests || why.Code == "RequestTimeout", &why
	}
	body, err = io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err == nil && limit > 0 && int64(len(body)) > limit {
		return nil, false, fault.New(fault.TooLarge, "The object has more than %d bytes.", limit)
	}
	return body, true, err
}

func (b *Bucket) sign(req *http.Request, data []byte) error {
	c := b.o.Credentials()
	if c.AccessKeyID == "" || c.SecretAccessKey == "" {
		return fault.New(fault.Unauthenticated, "There are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
	}
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:])
	req.Header.Set("X-Amz-Content-Sha256", hash)
	credentials := aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.SessionToken}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	return signer.SignHTTP(req.Context(), credentials, req, hash, "s3", b.o.Address.Region, b.o.Now())
}

// explain turns a failure into a sentence for the operator.
func (b *Bucket) explain(what string, err error) error {
	var told *fault.Error
	if errors.As(err, &told) || errors.Is(err, context.Canceled) {
		return err
	}
	kind, advice := fault.Unavailable, ""
	var why *refusal
	if errors.As(err, &why) {
		switch {
		case why.Code == "NoSuchBucket":
			advice = " Create the bucket, or correct the address."
		case why.Status == http.StatusNotFound:
			kind = fault.NotFound
		case why.Status == http.StatusForbidden, why.Status == http.StatusUnauthorized:
			advice = " Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, the region, and the rights: s3:GetObject, s3:PutObject, s3:DeleteObject, s3:ListBucket."
		case why.Status == http.StatusMovedPermanently, why.Code == "AuthorizationHeaderMalformed":
			advice = " The bucket is in another region: set region in the address."
		}
	}
	return fault.Wrap(kind, err, "Lilac cannot %s the bucket %s at %s: %s.%s", what, b.o.Address.Name, b.o.Address.Endpoint.Host, strings.TrimSuffix(fault.Plain(err), "."), advice)
}
