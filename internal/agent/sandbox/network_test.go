package sandbox_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lilac/internal/agent/sandbox"
)

// listen returns a Unix socket in its own directory, like those of the tool server and the
// proxy.
func listen(t *testing.T) net.Listener {
	t.Helper()
	dir, err := os.MkdirTemp("", "lilac-sock-")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = listener.Close(), os.RemoveAll(dir) })
	return listener
}

// sayTo sends a word to a socket and prints the answer. The test binary runs it as a client
// in the sandbox.
func sayTo(socket, word string) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Fprintln(conn, word)
	answer, err := io.ReadAll(conn)
	fmt.Print(string(answer))
	return err
}

func TestBoundSocketIsTalkedToWithoutANetwork(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		listener := listen(t)
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				line, _ := bufio.NewReader(conn).ReadString('\n')
				fmt.Fprintf(conn, "heard %s", line)
				_ = conn.Close()
			}
		}()
		policy := sandbox.Policy{Workspace: t.TempDir(), Binds: []sandbox.Bind{
			{Source: listener.Addr().String(), Target: "/run/lilac/tools.sock"},
			{Source: self, Target: "/run/lilac/bin/tools"},
		}}
		out, res := script(t, box, policy, "tools hello; ls /sys/class/net 2>/dev/null", sayEnv+"=/run/lilac/tools.sock")
		if res.ExitCode != 0 && out != "heard hello\n" || !strings.HasPrefix(out, "heard hello\n") {
			t.Errorf("%+v %q", res, out)
		}
		// Control: without the bind, the socket is not visible.
		policy.Binds = policy.Binds[1:]
		if out, res := script(t, box, policy, "tools hello", sayEnv+"="+listener.Addr().String()); res.ExitCode == 0 || strings.Contains(out, "heard") {
			t.Errorf("control: %+v %q", res, out)
		}
	})
}

func TestProxyIsTheOnlyWayOut(t *testing.T) {
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		listener := listen(t)
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s by proxy", r.Method, r.URL)
		})}
		served := make(chan struct{})
		go func() { defer close(served); _ = server.Serve(listener) }()
		t.Cleanup(func() { _ = server.Close(); <-served })

		get := `exec 3<>/dev/tcp/127.0.0.1/3128 && printf 'GET http://a.test/x HTTP/1.0\r\n\r\n' >&3 && cat <&3; exit 7`
		policy := sandbox.Policy{Workspace: t.TempDir(), Proxy: listener.Addr().String()}
		out, res := script(t, box, policy, "env | grep -ci _proxy=http://127.0.0.1:3128; "+get)
		if res.ExitCode != 7 || !strings.HasPrefix(out, "6\n") || !strings.HasSuffix(out, "GET http://a.test/x by proxy") {
			t.Errorf("%+v %q", res, out)
		}
		for name, probe := range map[string]string{
			"look a name up":      "getent ahosts example.com",
			"reach a name server": "exec 3<>/dev/udp/1.1.1.1/53 && printf x >&3",
			"reach an address":    "exec 3<>/dev/tcp/1.1.1.1/80",
			"reach the metadata":  "exec 3<>/dev/tcp/169.254.169.254/80",
		} {
			if out, res := script(t, box, policy, probe); res.ExitCode == 0 {
				t.Errorf("%s: %q", name, out)
			}
		}
		if out, res := script(t, box, sandbox.Policy{Workspace: t.TempDir()}, get); res.ExitCode == 7 && strings.Contains(out, "by proxy") {
			t.Errorf("control: without a proxy it answers %q", out)
		}
	})
}

func TestExitCodesPassThroughTheForwarder(t *testing.T) {
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		listener := listen(t)
		policy := sandbox.Policy{Workspace: t.TempDir(), Proxy: listener.Addr().String()}
		for text, want := range map[string]int{"exit 3": 3, "kill -SEGV $$": 139, "true": 0} {
			var out bytes.Buffer
			res, err := box.Run(t.Context(), sandbox.Command{Argv: []string{"bash", "-c", text}, Stdout: &out}, policy)
			if err != nil || res.ExitCode != want {
				t.Errorf("%s: %+v %v %s", text, res, err, out.String())
			}
		}
	})
}
