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
)

// s3rverEnv names a directory with the npm package s3rver, a server that nobody here wrote:
// npm install --prefix DIR s3rver@3.7.1
const s3rverEnv = "LILAC_TEST_S3RVER"

// TestARealServer runs the operations against s3rver, which does not check signatures.
func TestARealServer(t *testing.T) {
	dir := os.Getenv(s3rverEnv)
	if dir == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("CI tests against s3rver: set " + s3rverEnv)
		}
		t.Skip("set " + s3rverEnv + " to a directory with the npm package s3rver")
	}
	host, port, err := net.SplitHostPort(freeport.Loopback(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	server := exec.CommandContext(ctx, "node", filepath.Join(dir, "node_modules", "s3rver", "bin", "s3rver.js"),
		"--directory", t.TempDir(), "--address", host, "--port", port, "--configure-bucket", "files")
	server.Env = append(os.Environ(), "NODE_OPTIONS=--openssl-legacy-provider") // its page tokens have an old cipher
	var log strings.Builder
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		_ = server.Wait() // it was killed
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	endpoint := "http://" + net.JoinHostPort(host, port)
	if !e2e.Poll(30*time.Second, func() bool {
		res, err := http.Get(endpoint)
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil
	}) {
		t.Fatal("the server does not answer")
	}
	a, err := bucket.Parse("s3://files/team%20a/x?endpoint=" + endpoint)
	if err != nil {
		t.Fatal(err)
	}
	b := bucket.New(bucket.Options{Address: a, Credentials: func() bucket.Credentials { return bucket.Credentials{AccessKeyID: "S3RVER", SecretAccessKey: "S3RVER"} }})
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
	if err := b.Delete(t.Context(), fmt.Sprintf("%064x", 7)); err != nil {
		t.Error(err)
	}
	if _, err := b.Get(t.Context(), fmt.Sprintf("%064x", 7), 10); fault.KindOf(err) != fault.NotFound {
		t.Errorf("what was deleted: %v", err)
	}
}
