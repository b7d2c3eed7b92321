// Package s3test is a server that speaks the part of Amazon S3's protocol that Lilac uses: objects
// of one bucket, with the name of the bucket in the path. It refuses what Amazon refuses,
// including requests whose signature does not match, which it computes with Amazon's own library.
package s3test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// The credentials, the region, and the bucket of the server.
const (
	KeyID  = "AKIDEXAMPLE"
	Secret = "a-secret-of-a-bucket"
	Region = "eu-central-1"
	Name   = "the-bucket"
)

// page is the number of keys in a page of a list: fewer than Amazon's 1,000, so that lists have
// several pages.
const page = 3

// Server is a running server.
type Server struct {
	URL  string
	mu   sync.Mutex
	data map[string]object
	// fail is how many of the next requests fail with a status, requests counts them.
	fail, status, requests int
}

type object struct {
	bytes    []byte
	modified time.Time
}

// Start starts a server, which ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{data: map[string]object{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Address returns the address of the bucket, with a prefix.
func (s *Server) Address(prefix string) string {
	return "s3://" + Name + "/" + prefix + "?" + url.Values{"endpoint": {s.URL}, "region": {Region}}.Encode()
}

// Env returns the environment that selects the bucket.
func (s *Server) Env(prefix string) []string {
	return []string{"LILAC_BLOBS=" + s.Address(prefix), "AWS_ACCESS_KEY_ID=" + KeyID, "AWS_SECRET_ACCESS_KEY=" + Secret}
}

// Fail lets the next n requests fail with a status; n < 0 means all.
func (s *Server) Fail(n, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.status = n, status
}

// Requests returns the number of requests so far.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Keys returns all keys, sorted.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.data))
}

// Set replaces an object, as if it had been written some time ago.
func (s *Server) Set(key string, data []byte, ago time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data[key] = object{data, time.Now().Add(-ago)}
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if s.fail != 0 {
		s.fail--
		refuse(w, s.status, "InternalError", "We encountered an internal error. Please try again.")
		return
	}
	if code := verify(r, body); code != "" {
		refuse(w, http.StatusForbidden, code, "The request signature we calculated does not match the signature you provided.")
		return
	}
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if name != Name {
		refuse(w, http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist")
		return
	}
	switch {
	case r.Method == http.MethodGet && key == "":
		s.list(w, r.URL.Query())
	case r.Method == http.MethodGet:
		o, ok := s.data[key]
		if !ok {
			refuse(w, http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
			return
		}
		_, _ = w.Write(o.bytes)
	case r.Method == http.MethodPut && key != "":
		s.data[key] = object{body, time.Now()}
	case r.Method == http.MethodDelete && key != "":
		delete(s.data, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "The specified method is not allowed against this resource.")
	}
}

func (s *Server) list(w http.ResponseWriter, q url.Values) {
	type content struct {
		Key          string
		LastModified string
		Size         int
	}
	var out struct {
		XMLName               xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []content
	}
	for _, key := range slices.Sorted(maps.Keys(s.data)) {
		if !strings.HasPrefix(key, q.Get("prefix")) || key <= q.Get("continuation-token") {
			continue
		}
		if len(out.Contents) == page {
			out.IsTruncated, out.NextContinuationToken = true, out.Contents[page-1].Key
			break
		}
		out.Contents = append(out.Contents, content{key, s.data[key].modified.UTC().Format("2006-01-02T15:04:05.000Z"), len(s.data[key].bytes)})
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(out)
}

// verify returns the code of a refusal, or "".
func verify(r *http.Request, body []byte) string {
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	if r.Header.Get("X-Amz-Content-Sha256") != hash {
		return "XAmzContentSHA256Mismatch"
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil || time.Since(at).Abs() > 15*time.Minute {
		return "RequestTimeTooSkewed"
	}
	again, err := http.NewRequest(r.Method, "http://"+r.Host+r.URL.RequestURI(), nil)
	if err != nil {
		return "InvalidRequest"
	}
	again.ContentLength = r.ContentLength
	again.Header.Set("X-Amz-Content-Sha256", hash)
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	if err := signer.SignHTTP(r.Context(), aws.Credentials{AccessKeyID: KeyID, SecretAccessKey: Secret}, again, hash, "s3", Region, at); err != nil {
		return "InvalidRequest"
	}
	if again.Header.Get("Authorization") != r.Header.Get("Authorization") {
		return "SignatureDoesNotMatch"
	}
	return ""
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, message)
}
