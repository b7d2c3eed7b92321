package bucket

import (
	"net"
	"net/url"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
)

// Scheme is the scheme of the address of a bucket.
const Scheme = "s3://"

// Address says where a bucket is.
type Address struct {
	// Name is the name of the bucket, and Prefix that of all keys in it, which is empty or ends
	// with a slash.
	Name, Prefix string
	// Endpoint is the server, with a scheme. PathStyle puts the name of the bucket into the
	// path; otherwise it is part of the host.
	Endpoint  *url.URL
	PathStyle bool
	Region    string
}

// bucketName is the form of the names of buckets, see "Bucket naming rules" in Amazon's
// documentation of S3.
var bucketName = lazyregexp.New(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// Parse reads an address: s3://BUCKET/PREFIX?region=REGION for Amazon, or
// s3://BUCKET/PREFIX?endpoint=https://HOST for another store. region is us-east-1 by default.
func Parse(address string) (Address, error) {
	invalid := func(why string) error {
		return fault.New(fault.Invalid, "The address of the bucket %s. It looks like s3://BUCKET/PREFIX?region=eu-central-1, or s3://BUCKET?endpoint=https://minio.example.com.", why)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme+"://" != Scheme || u.Opaque != "" {
		return Address{}, invalid("cannot be read")
	}
	q := u.Query()
	for key := range q {
		if key != "endpoint" && key != "region" {
			return Address{}, invalid("has the unknown parameter " + key)
		}
	}
	a := Address{Name: u.Host, Prefix: strings.Trim(u.Path, "/"), Region: q.Get("region")}
	if a.Prefix != "" {
		a.Prefix += "/"
	}
	switch {
	case u.User != nil:
		return Address{}, invalid("has credentials in it, which logs would show: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead")
	case !bucketName().MatchString(a.Name) || net.ParseIP(a.Name) != nil:
		return Address{}, invalid("has no valid name of a bucket")
	case u.Fragment != "":
		return Address{}, invalid("has a fragment")
	}
	if a.Region == "" {
		a.Region = "us-east-1"
	}
	endpoint := q.Get("endpoint")
	if endpoint == "" {
		// A name with dots does not match the certificate of *.s3.REGION.amazonaws.com.
		endpoint, a.PathStyle = "https://s3."+a.Region+".amazonaws.com", strings.Contains(a.Name, ".")
	} else {
		a.PathStyle = true
	}
	if a.Endpoint, err = url.Parse(endpoint); err != nil || a.Endpoint.Scheme != "http" && a.Endpoint.Scheme != "https" || a.Endpoint.Host == "" || a.Endpoint.User != nil || strings.Trim(a.Endpoint.Path, "/") != "" || a.Endpoint.RawQuery != "" {
		return Address{}, invalid("has an endpoint that is not like https://minio.example.com")
	}
	return a, nil
}

// url returns the address of an object, or of the bucket if key is empty.
func (a Address) url(key string) *url.URL {
	u := *a.Endpoint
	path := "/"
	if a.PathStyle {
		path = "/" + a.Name + "/"
	} else {
		u.Host = a.Name + "." + u.Host
	}
	if key != "" {
		path += a.Prefix + key
	}
	u.Path, u.RawPath = path, escape(path)
	return &u
}

// escape escapes a path as the signature requires it: everything but unreserved characters and
// slashes.
func escape(path string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(path) {
		switch c := path[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}
