package bucket_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lilac/internal/engine/bucket"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/freeport"
	"lilac/internal/testkit/s3test"
)

const (
	// s3rverEnv names a directory with the npm package s3rver:
	// npm install --prefix DIR s3rver@3.7.1
	s3rverEnv = "LILAC_TEST_S3RVER"
	// minioEnv names the program minio:
	// go -C tools/minio build -o DIR/ tool
	minioEnv = "LILAC_TEST_MINIO"
)

// TestServersOfOthers runs the operations against servers that nobody here wrote. MinIO takes minutes
// to build, so that CI tests it in a step of its own.
func TestServersOfOthers(t *testing.T) {
	if program := os.Getenv(minioEnv); program != "" {
		t.Run("MinIO", func(t *testing.T) { testMinIO(t, program) })
		return
	}
	dir := os.Getenv(s3rverEnv)
	if dir == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("CI tests against s3rver: set " + s3rverEnv)
		}
		t.Skip("set " + s3rverEnv + " to a directory with the npm package s3rver, or " + minioEnv + " to the program minio")
	}
	t.Run("s3rver", func(t *testing.T) { testS3rver(t, dir) })
}

// s3rver does not check signatures.
func testS3rver(t *testing.T, dir string) {
	address := freeport.Loopback(t)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	server := exec.CommandContext(t.Context(), "node", filepath.Join(dir, "node_modules", "s3rver", "bin", "s3rver.js"),
		"--directory", t.TempDir(), "--address", host, "--port", port, "--configure-bucket", "files")
	server.Env = append(os.Environ(), "NODE_OPTIONS=--openssl-legacy-provider") // its page tokens have an old cipher
	start(t, server, address)
	testOperations(t, address, bucket.Credentials{AccessKeyID: "S3RVER", SecretAccessKey: "S3RVER"})
}

func testMinIO(t *testing.T, program string) {
	address, dir := freeport.Loopback(t), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "files"), 0o700); err != nil { // the bucket
		t.Fatal(err)
	}
	server := exec.CommandContext(t.Context(), program, "server", "--address", address, "--console-address", freeport.Loopback(t), dir)
	server.Env = append(os.Environ(), "MINIO_ROOT_USER="+s3test.KeyID, "MINIO_ROOT_PASSWORD="+s3test.Secret, "MINIO_REGION=us-east-1", "MINIO_UPDATE=off")
	start(t, server, address)
	testOperations(t, address, bucket.Credentials{AccessKeyID: s3test.KeyID, SecretAccessKey: s3test.Secret})
	for name, c := range map[string]struct{ address, secret, want string }{
		"a wrong secret": {"s3://files?endpoint=http://" + address, "wrong", "Check AWS_ACCESS_KEY_ID"},
		"no such bucket": {"s3://other?endpoint=http://" + address, s3test.Secret, "Create the bucket"},
		"another region": {"s3://files?region=us-west-2&endpoint=http://" + address, s3test.Secret, "the region"},
	} {
		err := open(t, c.address, c.secret).Put(t.Context(), "k", []byte("v"))
		if err == nil || !strings.Contains(fault.ToWire(err).Message, c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// start starts a server, which ends with the test, and waits until it answers.
func start(t *testing.T, server *exec.Cmd, address string) {
	var log strings.Builder
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Wait() // it was killed when the context of the test ended
		if t.Failed() {
			t.Log(log.String())
		}
	})
	if !e2e.Poll(30*time.Second, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil && res.StatusCode < http.StatusInternalServerError
	}) {
		t.Fatal("the server does not answer")
	}
}

func testOperations(t *testing.T, address string, credentials bucket.Credentials) {
	a, err := bucket.Parse("s3://files/team%20a/x?endpoint=http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	b := bucket.New(bucket.Options{Address: a, Credentials: func() bucket.Credentials { return credentials }})
	const n = 1005 // more than a page
	for i := range n {
		if err := b.Put(t.Context(), fmt.Sprintf("%064x", i), []byte(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := b.Get(t.Context(), fmt.Sprintf("%064x", 7), 10); err != nil || string(got) != "7" {
		t.Errorf("read %q, %v", got, err)
	}
	listed, pages := 0, 0
	err = b.List(t.Context(), func(objects []bucket.Object) error {
		listed, pages = listed+len(objects), pages+1
		return nil
	})
	if err != nil || listed != n || pages != 2 {
		t.Errorf("listed %d objects in %d pages, %v", listed, pages, err)
	}
	for range 2 { // also one that is gone
		if err := b.Delete(t.Context(), fmt.Sprintf("%064x", 7)); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Get(t.Context(), fmt.Sprintf("%064x", 7), 10); fault.KindOf(err) != fault.NotFound {
		t.Errorf("what was deleted: %v", err)
	}
}
