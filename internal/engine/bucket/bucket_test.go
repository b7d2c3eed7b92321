package bucket_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	"lilac/internal/engine/bucket"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/s3test"
)

func open(t testing.TB, address, secret string) *bucket.Bucket {
	t.Helper()
	a, err := bucket.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return bucket.New(bucket.Options{Address: a, Credentials: func() bucket.Credentials {
		return bucket.Credentials{AccessKeyID: s3test.KeyID, SecretAccessKey: secret}
	}})
}

func TestObjects(t *testing.T) {
	for _, prefix := range []string{"", "team a/50%+ä=&"} {
		s := s3test.Start(t)
		s.Set("elsewhere", []byte("not ours"), 0)
		b := open(t, s.Address(strings.NewReplacer("%", "%25", "?", "%3F").Replace(prefix)), s3test.Secret)
		ctx := t.Context()
		for _, key := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			if err := b.Put(ctx, key, []byte("old "+key)); err != nil {
				t.Fatal(err)
			}
			if err := b.Put(ctx, key, []byte("data "+key)); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := b.Get(ctx, "c", 6); err != nil || string(got) != "data c" {
			t.Errorf("read %q, %v", got, err)
		}
		if _, err := b.Get(ctx, "c", 5); fault.KindOf(err) != fault.TooLarge {
			t.Errorf("above the limit: %v", err)
		}
		for range 2 { // also one that is gone
			if err := b.Delete(ctx, "c"); err != nil {
				t.Error(err)
			}
		}
		if _, err := b.Get(ctx, "c", 100); fault.KindOf(err) != fault.NotFound {
			t.Errorf("what was deleted: %v", err)
		}
		var listed []string
		err := b.List(ctx, func(objects []bucket.Object) error {
			for _, o := range objects {
				if o.Size != 6 && o.Key != "elsewhere" || o.Modified.IsZero() {
					t.Errorf("listed %+v", o)
				}
				listed = append(listed, o.Key)
			}
			return nil
		})
		want := []string{"a", "b", "d", "e", "f", "g"}
		if prefix == "" {
			want = []string{"a", "b", "d", "e", "elsewhere", "f", "g"}
		}
		if err != nil || !slices.Equal(listed, want) {
			t.Errorf("listed %q, %v, want %q", listed, err, want)
		}
	}
}

// A failure that may pass is tried again; any other says what to do.
func TestFailures(t *testing.T) {
	effort.SkipSlow(t)
	s := s3test.Start(t)
	b := open(t, s.Address(""), s3test.Secret)
	s.Fail(2, http.StatusServiceUnavailable)
	if err := b.Put(t.Context(), "k", bytes.Repeat([]byte("x"), 1000)); err != nil || s.Requests() != 3 {
		t.Errorf("after %d requests: %v", s.Requests(), err)
	}
	for name, c := range map[string]struct {
		b    *bucket.Bucket
		want string
		// requests is how many an operation sends.
		requests int
		fail     int
	}{
		"down":                {b, "500 InternalError: We encountered an internal error", 3, 500},
		"a wrong secret":      {open(t, s.Address(""), "wrong"), "Check AWS_ACCESS_KEY_ID", 1, 0},
		"no credentials":      {open(t, s.Address(""), ""), "set AWS_ACCESS_KEY_ID", 0, 0},
		"no such bucket":      {open(t, strings.Replace(s.Address(""), s3test.Name, "other", 1), s3test.Secret), "Create the bucket", 1, 0},
		"another region":      {open(t, strings.Replace(s.Address(""), s3test.Region, "us-west-2", 1), s3test.Secret), "the region", 1, 0},
		"nothing is reached":  {open(t, "s3://"+s3test.Name+"?endpoint=http://127.0.0.1:1", s3test.Secret), "cannot write to the bucket the-bucket at 127.0.0.1:1", 0, 0},
		"control: it is well": {b, "", 1, 0},
	} {
		if c.fail > 0 {
			s.Fail(-1, c.fail)
		}
		before := s.Requests()
		err := c.b.Put(t.Context(), "k", nil)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(fault.ToWire(err).Message, c.want) || s.Requests()-before != c.requests {
			t.Errorf("%s: %d requests, %v, want %q", name, s.Requests()-before, err, c.want)
		}
		s.Fail(0, 0)
	}
}

func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"s3://files":                                               "https://files.s3.us-east-1.amazonaws.com/",
		"s3://files/team/a/?region=eu-west-1":                      "https://files.s3.eu-west-1.amazonaws.com/team/a/",
		"s3://my.files":                                            "https://s3.us-east-1.amazonaws.com/my.files/",
		"s3://files/p?endpoint=http://127.0.0.1:9000":              "http://127.0.0.1:9000/files/p/",
		"s3://files?endpoint=https://x.example.com/&region=garage": "https://x.example.com/files/",
	} {
		a, err := bucket.Parse(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		host, path := a.Endpoint.Host, "/"
		if a.PathStyle {
			path = "/" + a.Name + "/"
		} else {
			host = a.Name + "." + host
		}
		if got := a.Endpoint.Scheme + "://" + host + path + a.Prefix; got != want {
			t.Errorf("%s is %s, want %s", address, got, want)
		}
	}
	for _, address := range []string{"", "s3://", "s3://A", "https://files", "s3://key:secret@files", "s3://files?bucket=x", "s3://files?endpoint=x", "s3://files?endpoint=https://x/path", "s3://10.0.0.1", "s3://a?region=%zz", "s3://files#x"} {
		if _, err := bucket.Parse(address); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("s3://files/a?region=b&endpoint=http://c")
	f.Fuzz(func(t *testing.T, address string) {
		if a, err := bucket.Parse(address); err == nil && (a.Endpoint == nil || a.Name == "" || strings.HasPrefix(a.Prefix, "/")) {
			t.Errorf("%q is %+v", address, a)
		}
	})
}
