package mcpclient

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lilac/internal/agent/sandbox"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/setting"
)

// peersEnv names a directory in which the servers of the protocol's own project are
// installed with npm.
const peersEnv = "LILAC_TEST_MCP_PEERS"

// peer returns the program of a server, and the directory that it needs.
func peer(t testing.TB, name string) (program, modules string) {
	t.Helper()
	dir := os.Getenv(peersEnv)
	if dir == "" {
		t.Skip("needs servers from npm: npm install --prefix DIR @modelcontextprotocol/server-{everything,filesystem,memory}@2026.8.31; then set " + peersEnv + "=DIR")
	}
	modules = filepath.Join(dir, "node_modules")
	program = filepath.Join(modules, "@modelcontextprotocol", "server-"+name, "dist", "index.js")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%s is not installed: %v", name, err)
	}
	return program, modules
}

// confined returns options with the real sandbox, which shows the servers.
func confined(t testing.TB, modules, workspace string) Options {
	t.Helper()
	box, err := sandbox.Open(t.Context(), sandbox.ModeAuto)
	if err != nil {
		t.Fatal(err)
	}
	homes := t.TempDir()
	return Options{
		Sandbox: box, Policy: sandbox.Policy{Workspace: workspace, Binds: []sandbox.Bind{{Source: modules}}},
		Home: func(name string) (string, error) {
			home := filepath.Join(homes, name)
			return home, os.MkdirAll(home, 0o700)
		},
	}
}

// kill kills the process whose command line contains a mark.
func kill(t testing.TB, mark string) {
	t.Helper()
	found := 0
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		line, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(line, []byte("\x00"+mark+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			found++
		}
	}
	if found == 0 {
		t.Errorf("no process has the mark %s", mark)
	}
}

func TestTheFilesystemServerWorksOnTheWorkspace(t *testing.T) {
	program, modules := peer(t, "filesystem")
	workspace := t.TempDir()
	s := serve(t, confined(t, modules, workspace), map[string]ServerConfig{"files": {Command: "node", Args: []string{program, workspace}}})
	path := filepath.Join(workspace, "note.txt")
	if _, err := s.Call(t.Context(), "files", "write_file", input(t, map[string]any{"path": path, "content": "written"}), People{}); err != nil {
		t.Fatalf("write: %v: %+v", err, s.Status())
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "written" {
		t.Errorf("the file is %q, %v", data, err)
	}
	if got, err := s.Call(t.Context(), "files", "read_text_file", input(t, map[string]any{"path": path}), People{}); err != nil || !strings.Contains(fmt.Sprint(got.texts(), string(got.Structured)), "written") {
		t.Errorf("read: %v, %v", got, err)
	}
	if _, err := s.Call(t.Context(), "files", "read_text_file", input(t, map[string]any{"path": "/etc/hostname"}), People{}); err == nil {
		t.Error("it reads a file outside the workspace")
	}
}

func TestTheMemoryServerKeepsItsFilesOverRestarts(t *testing.T) {
	program, modules := peer(t, "memory")
	mark := "mark-" + filepath.Base(t.TempDir()) + strconv.Itoa(os.Getpid())
	s := serve(t, confined(t, modules, t.TempDir()), map[string]ServerConfig{"memory": {
		Command: "node", Args: []string{program, mark}, Env: map[string]setting.Secret{"MEMORY_FILE_PATH": "/run/lilac/home/memory.jsonl"}, Files: filesNone,
	}})
	entity := map[string]any{"entities": []any{map[string]any{"name": "Ann", "entityType": "person", "observations": []string{"likes lilac"}}}}
	if _, err := s.Call(t.Context(), "memory", "create_entities", input(t, entity), People{}); err != nil {
		t.Fatalf("create: %v: %+v", err, s.Status())
	}
	kill(t, mark)
	eventually(t, "it works again and remembers", func() bool {
		got, err := s.Call(t.Context(), "memory", "read_graph", nil, People{})
		return err == nil && strings.Contains(got.texts()+string(got.Structured), "likes lilac")
	})
}

// startEverything starts the server with all features over HTTP.
func startEverything(t testing.TB, program string, port int) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("node", program, "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+strconv.Itoa(port))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	eventually(t, "it listens", func() bool {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return cmd
}

func TestTheServerWithAllFeaturesWorksAndIsKilledDuringCalls(t *testing.T) {
	program, modules := peer(t, "everything")
	for _, transport := range []string{transportStdio, transportHTTP} {
		t.Run(transport, func(t *testing.T) {
			mark := "mark-" + strconv.Itoa(os.Getpid())
			entry := ServerConfig{Command: "node", Args: []string{program, "stdio", mark}}
			end := func() { kill(t, mark) }
			if transport == transportHTTP {
				listener, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				port := listener.Addr().(*net.TCPAddr).Port
				_ = listener.Close()
				web := startEverything(t, program, port)
				entry = ServerConfig{URL: fmt.Sprintf("http://127.0.0.1:%d/mcp", port)}
				end = func() {
					_ = web.Process.Kill()
					_ = web.Wait()
					web = startEverything(t, program, port)
				}
			}
			s := serve(t, confined(t, modules, t.TempDir()), map[string]ServerConfig{"all": entry})
			if got, err := s.Call(t.Context(), "all", "get-sum", input(t, map[string]any{"a": 2, "b": 3}), People{}); err != nil || !strings.Contains(got.texts(), "5") {
				t.Fatalf("sum: %v, %v: %+v", got, err, s.Status())
			}
			if got, err := s.Call(t.Context(), "all", "get-tiny-image", nil, People{}); err != nil || len(got.Content) < 2 || got.Content[1].Type != TypeImage || !bytes.HasPrefix(got.Content[1].Data, []byte("\x89PNG")) {
				t.Errorf("a picture: %v", err)
			}
			if got, err := s.Call(t.Context(), "all", "get-structured-content", input(t, map[string]any{"location": "New York"}), People{}); err != nil || !strings.Contains(string(got.Structured), "temperature") {
				t.Errorf("a structured result: %v, %v", got, err)
			}
			if list, err := s.Resources(t.Context(), "all"); err != nil || len(list) == 0 {
				t.Errorf("resources: %v, %v", list, err)
			} else if read, err := s.Read(t.Context(), "all", list[0].URI); err != nil || len(read.Content) == 0 {
				t.Errorf("read %s: %v", list[0].URI, err)
			}
			if messages, err := s.Prompt(t.Context(), "all", "simple-prompt", nil); err != nil || len(messages) == 0 {
				t.Errorf("prompt: %v", err)
			}
			lines := make(chan string, 100)
			ended := make(chan error, 1)
			go func() {
				_, err := s.Call(t.Context(), "all", "trigger-long-running-operation", input(t, map[string]any{"duration": 30, "steps": 300}), People{Show: func(line string) { lines <- line }})
				ended <- err
			}()
			select {
			case line := <-lines:
				if !strings.Contains(line, "/300") {
					t.Errorf("the progress is %q", line)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it reports no progress")
			}
			end()
			if err := <-ended; fault.ToWire(err).Code != CodeUnknown {
				t.Errorf("the call that was interrupted: %v", err)
			}
			eventually(t, "it works again", func() bool {
				_, err := s.Call(t.Context(), "all", "echo", input(t, map[string]any{"message": "x"}), People{})
				return err == nil
			})
		})
	}
}
