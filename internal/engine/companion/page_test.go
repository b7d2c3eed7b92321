package companion_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/redistest"
)

// snippet is a program of docs/redis.md.
type snippet struct{ language, text string }

var fenced = regexp.MustCompile("(?s)```(python|js|sh)\n(.*?)```")

// snippets returns the programs of the page that use Redis: those that follow events, and those
// that hand in one.
func snippets(t *testing.T) (follow, handIn []snippet) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "redis.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range fenced.FindAllStringSubmatch(string(page), -1) {
		switch s := (snippet{m[1], m[2]}); {
		case strings.Contains(s.text, "lilac:s:env"):
			follow = append(follow, s)
		case strings.Contains(s.text, "lilac:in"):
			handIn = append(handIn, s)
		}
	}
	if len(follow) != 3 || len(handIn) != 3 {
		t.Fatalf("the page has %d programs that follow events and %d that hand in one, want 3 each", len(follow), len(handIn))
	}
	return follow, handIn
}

// clientEnv names a directory in which the npm package redis is installed.
const clientEnv = "LILAC_TEST_REDIS_CLIENT"

func (s snippet) command(ctx context.Context, t *testing.T, url string) *exec.Cmd {
	t.Helper()
	program := map[string][]string{"python": {"python3", "-c"}, "js": {"node", "-e"}, "sh": {"sh", "-c"}}[s.language]
	if _, err := exec.LookPath(program[0]); err != nil || s.language == "js" && os.Getenv(clientEnv) == "" {
		hint := program[0] + " is needed, and " + clientEnv + " for Node: a directory with the npm package redis"
		if os.Getenv("CI") == "true" {
			t.Fatal(hint)
		}
		t.Skip(hint)
	}
	cmd := exec.CommandContext(ctx, program[0], append(program[1:], s.text)...)
	path := os.Getenv("PYTHONPATH")
	if err := exec.CommandContext(ctx, "python3", "-c", "import redis").Run(); err != nil && s.language == "python" {
		path, err = filepath.Abs(filepath.Join("testdata", "python"))
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd.Env = append(os.Environ(), "REDIS_URL="+url, "PYTHONPATH="+path, "PYTHONDONTWRITEBYTECODE=1", "NODE_PATH="+filepath.Join(os.Getenv(clientEnv), "node_modules"))
	return cmd
}

// output is what a running program has printed.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) has(words ...string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(o.text.String(), w) })
}

func (o *output) count(word string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Count(o.text.String(), word)
}

// The programs of the page do what it says, also while another program disturbs the stream.
func TestTheProgramsOfThePage(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	follow, handIn := snippets(t)
	for _, s := range follow {
		t.Run("follow/"+s.language, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			w := newWorld(t, server.URL())
			w.publish(topic, "early", 3)
			early := []string{"early0", "early1", "early2"}
			if group := map[string]string{"python": "python", "js": "node"}[s.language]; group != "" {
				// An earlier run was killed before it acknowledged two, of which one was trimmed.
				w.same(server, topic)
				server.Do("XGROUP", "CREATE", "lilac:s:env", group, "0")
				server.Do("XREADGROUP", "GROUP", group, "worker-1", "COUNT", "2", "STREAMS", "lilac:s:env", ">")
				server.Do("XDEL", "lilac:s:env", "1-0")
				early = early[1:]
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var out output
			cmd := s.command(ctx, t, server.URL())
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { stop(); _ = cmd.Wait() }()
			until(t, "it has read the early events", func() bool { return out.has(early...) })
			w.publish(topic, "later", 3)
			until(t, "it has read the later events", func() bool { return out.has("later0", "later1", "later2") })
			server.Do("XADD", "lilac:s:env", "*", "hello", "world")
			w.publish(topic, "last", 2)
			w.same(server, topic)
		})
	}
	for _, s := range handIn {
		t.Run("hand in/"+s.language, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			w := newWorld(t, server.URL())
			for range 2 {
				if out, err := s.command(t.Context(), t, server.URL()).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			w.empty(server)
			if got := w.logged(topicIn); len(got) != 1 || !strings.Contains(got[0], "build-42") {
				t.Errorf("the log has %q", got)
			}
		})
	}
}
