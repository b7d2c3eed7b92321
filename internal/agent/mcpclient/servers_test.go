package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/effort"
)

func input(t testing.TB, v any) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// onHTTP returns the entry of a fake HTTP server.
func onHTTP(t testing.TB, stateless bool) ServerConfig {
	t.Helper()
	server := fake("good")
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: stateless}))
	t.Cleanup(web.CloseClientConnections)
	t.Cleanup(web.Close)
	return ServerConfig{URL: web.URL + "/mcp"}
}

// onSSE returns the entry of a fake server with the old transport.
func onSSE(t testing.TB) ServerConfig {
	t.Helper()
	server := fake("good")
	web := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	return ServerConfig{Type: "sse", URL: web.URL + "/sse"}
}

func TestTypesOfResultsAreKept(t *testing.T) {
	for name, entry := range map[string]ServerConfig{"stdio": stdioFake(t, "good"), "http": onHTTP(t, false), "stateless": onHTTP(t, true), "sse": onSSE(t)} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, Options{}, map[string]ServerConfig{"Fake One": entry})
			offers := s.Offers()
			if len(offers) != 1 || offers[0].Server != "fake-one" || !offers[0].Resources || !offers[0].Prompts {
				t.Fatalf("it offers %+v: %+v", offers, s.Status())
			}
			got, err := s.Call(t.Context(), "fake-one", "media", nil, People{})
			if err != nil {
				t.Fatal(err)
			}
			want := Result{Content: []Content{
				{Type: TypeText, Text: "see"},
				{Type: TypeImage, Data: []byte("png"), MimeType: "image/png"},
				{Type: TypeAudio, Data: []byte("wav"), MimeType: "audio/wav"},
				{Type: TypeLink, URI: "file:///a", Name: "a"},
				{Type: TypeResource, URI: "x:b", Text: "inside", MimeType: "text/plain"},
			}, Structured: json.RawMessage(`{"n":1}`)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if got, err := s.Call(t.Context(), "fake-one", "echo", input(t, map[string]any{"text": "hi", "n": 2}), People{}); err != nil || got.texts() != "hi2" {
				t.Errorf("echo: %v, %v", got, err)
			}
			_, err = s.Call(t.Context(), "fake-one", "fail", nil, People{})
			if fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "the disk is full") {
				t.Errorf("a tool that fails: %v", err)
			}
			if read, err := s.Read(t.Context(), "fake-one", "x:note"); err != nil || read.texts() != "a note" {
				t.Errorf("read: %v, %v", read, err)
			}
			if list, err := s.Resources(t.Context(), "fake-one"); err != nil || len(list) != 1 || list[0].URI != "x:note" {
				t.Errorf("resources: %v, %v", list, err)
			}
			if list, err := s.Prompts(t.Context(), "fake-one"); err != nil || len(list) != 1 || !list[0].Arguments[0].Required {
				t.Errorf("prompts: %v, %v", list, err)
			}
			if messages, err := s.Prompt(t.Context(), "fake-one", "greet", map[string]string{"who": "Ann"}); err != nil || messages[0].Content.Text != "Greet Ann" {
				t.Errorf("prompt: %v, %v", messages, err)
			}
			if _, err := s.Call(t.Context(), "fake-one", "missing", nil, People{}); fault.KindOf(err) != fault.Invalid {
				t.Errorf("a tool that does not exist: %v", err)
			}
		})
	}
}

func TestProgressIsShownInOneLine(t *testing.T) {
	s := serve(t, Options{}, map[string]ServerConfig{"fake": stdioFake(t, "good")})
	var mu sync.Mutex
	var lines []string
	// Progress that arrives with the result may come too late to be shown.
	eventually(t, "a line of progress", func() bool {
		_, err := s.Call(t.Context(), "fake", "progress", nil, People{Show: func(line string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, line)
		}})
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		return len(lines) > 0
	})
	mu.Lock()
	defer mu.Unlock()
	if lines[0] != "fake.progress: 1/3 half[31m way" {
		t.Errorf("it showed %q", lines)
	}
}

func TestACallOfAServerThatEndsHasAnUnknownOutcome(t *testing.T) {
	s := serve(t, Options{}, map[string]ServerConfig{"fake": stdioFake(t, "shadow"), "other": stdioFake(t, "good")})
	_, err := s.Call(t.Context(), "fake", "crash", nil, People{})
	// The reason is that of the end, not what the list said of the server before.
	if wire := fault.ToWire(err); wire.Code != CodeUnknown || !strings.Contains(wire.Message, "not known") || !strings.Contains(wire.Message, "out of cheese") {
		t.Errorf("the call of a server that crashes: %v", err)
	}
	eventually(t, "it works again", func() bool {
		got, err := s.Call(t.Context(), "fake", "echo", input(t, map[string]any{"text": "back"}), People{})
		return err == nil && got.texts() == "back0"
	})
	for _, status := range s.Status() {
		if want := map[string]int{"fake": 1, "other": 0}[status.Name]; status.Restarts != want {
			t.Errorf("%s was restarted %d times, not %d", status.Name, status.Restarts, want)
		}
	}
}

func TestAServerThatHangsIsRestarted(t *testing.T) {
	entry := stdioFake(t, "good")
	entry.Timeout = Timeout(100 * time.Millisecond)
	s := serve(t, Options{}, map[string]ServerConfig{"fake": entry})
	for range maxTimeouts {
		if _, err := s.Call(t.Context(), "fake", "hang", nil, People{}); fault.KindOf(err) != fault.Timeout {
			t.Fatalf("a call that hangs: %v", err)
		}
	}
	eventually(t, "it is restarted", func() bool { return s.Status()[0].Restarts == 1 && s.Status()[0].State == Ready })
}

func TestServersThatFailHarmOnlyThemselves(t *testing.T) {
	entries := map[string]ServerConfig{"good": stdioFake(t, "good"), "off": {Disabled: true}, "remote": {URL: "http://127.0.0.1:1/mcp"}}
	for _, kind := range []string{"mute", "dies", "npm", "garbage"} {
		entry := stdioFake(t, kind)
		if kind != "dies" && kind != "npm" { // which must have the time to die by itself
			entry.Start = 300_000_000 // 300 ms
		}
		entries[kind] = entry
	}
	entries["missing"] = ServerConfig{Command: "no-such-program"}
	s := serve(t, Options{limits: limits{backoff: func(int, time.Duration) (int, time.Duration) { return 1, time.Hour }}}, entries)
	want := map[string]string{
		"good": "", "mute": "it has no network, which hosts of the server can allow (npx needs registry.npmjs.org, uvx pypi.org and files.pythonhosted.org); it did not start in time", "npm": "its last words: npm error code ENOTFOUND npm error network request", "dies": "exit code 3; its last words: the key is missing", "garbage": "",
		"missing": "not installed", "remote": "connection refused", "off": "",
	}
	for _, status := range s.Status() {
		if !strings.Contains(status.Trouble, want[status.Name]) || (status.State == Ready) != (status.Name == "good") {
			t.Errorf("%s is %s: %q", status.Name, status.State, status.Trouble)
		}
	}
	if _, err := s.Call(t.Context(), "dies", "echo", nil, People{}); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "the key is missing") {
		t.Errorf("a call of a server that does not work: %v", err)
	}
	if got, err := s.Call(t.Context(), "good", "echo", input(t, map[string]any{"text": "x"}), People{}); err != nil || got.texts() != "x0" {
		t.Errorf("a call of the server that works: %v, %v", got, err)
	}
}

func TestResultsAndFloodsAreBounded(t *testing.T) {
	effort.SkipSlow(t)
	for name, entry := range map[string]ServerConfig{"stdio": stdioFake(t, "good"), "http": onHTTP(t, false), "sse": onSSE(t)} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, Options{limits: limits{message: 1 << 18, minute: 8 << 20}}, map[string]ServerConfig{"fake": entry})
			if _, err := s.Call(t.Context(), "fake", "big", input(t, map[string]any{"n": 6}), People{}); fault.ToWire(err).Code != CodeUnknown {
				t.Errorf("a result of 6 MiB: %v", err)
			}
			eventually(t, "it works again", func() bool {
				_, err := s.Call(t.Context(), "fake", "echo", nil, People{})
				return err == nil
			})
			if _, err := s.Call(t.Context(), "fake", "flood", nil, People{}); err == nil {
				t.Error("a flood ended well")
			}
			eventually(t, "the flood is ended", func() bool { return s.Status()[0].Restarts >= 2 })
		})
	}
}

// A tool may work for longer than the limit, as long as it says that it works.
func TestProgressGivesACallMoreTime(t *testing.T) {
	entry := stdioFake(t, "good")
	entry.Timeout = Timeout(time.Second)
	s := serve(t, Options{}, map[string]ServerConfig{"fake": entry})
	if got, err := s.Call(t.Context(), "fake", "steady", input(t, map[string]any{"n": 1500}), People{}); err != nil || got.texts() != "done" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNamesOfToolsCannotShadow(t *testing.T) {
	s := serve(t, Options{}, map[string]ServerConfig{"fake": stdioFake(t, "shadow")})
	var names []string
	for _, tool := range s.Offers()[0].Tools {
		names = append(names, tool.Name)
		if first, _, _ := strings.Cut(tool.Name, "."); slices.Contains(reserved, first) || strings.ContainsAny(tool.Name, " \n/") || len(tool.Name) > maxToolName {
			t.Errorf("it offers a tool %q", tool.Name)
		}
	}
	if !slices.Contains(names, "bash") || !slices.Contains(names, "surface.messages.send") { // below mcp.fake they shadow nothing
		t.Errorf("it offers %q", names)
	}
	if trouble := s.Status()[0].Trouble; trouble != "" {
		t.Errorf("the server has the trouble %q", trouble)
	}
	for _, tool := range s.Offers()[0].Tools {
		if tool.Original != "a b" {
			continue
		}
		if tool.Name != "a_b_c8687a08" { // settings name it
			t.Errorf("the tool %q has the name %q", tool.Original, tool.Name)
		}
		if got, err := s.Call(t.Context(), "fake", tool.Original, nil, People{}); err != nil || got.texts() != "mine" {
			t.Errorf("%+v, %v", got, err)
		}
		return
	}
	t.Errorf("it offers no tool with a space in its name: %q", names)
}

func TestEveryNameOfAToolHasASafeOne(t *testing.T) {
	known := map[string]string{}
	for original, begins := range map[string]string{
		"getAll": "getAll", "calendar.read": "calendar.read", "a-b_c": "a-b_c", // as they are
		"files/read": "files_read_", "files:read": "files_read_", "files_read": "files_read", "größe": "gr_e_", "ファイル": "_", ".hidden": "hidden_", "a..b": "a_b_",
		"resources": "resources_", "prompts.get": "prompts_get_", strings.Repeat("l", 200): strings.Repeat("l", 119) + "_", strings.Repeat("l", 201): strings.Repeat("l", 119) + "_",
	} {
		name := safeName(original)
		if !toolName().MatchString(name) || len(name) > maxToolName || !strings.HasPrefix(name, begins) {
			t.Errorf("%q has the name %q", original, name)
		}
		if other, taken := known[name]; taken {
			t.Errorf("%q and %q are both called %q", original, other, name)
		}
		known[name] = original
	}
}

func TestChangesAreListedAndPublished(t *testing.T) {
	for name, entry := range map[string]ServerConfig{"stdio": stdioFake(t, "good"), "http": onHTTP(t, false), "sse": onSSE(t)} {
		t.Run(name, func(t *testing.T) {
			entry.Watch = []string{"x:note"}
			published := make(chan Notice, 16)
			s := serve(t, Options{Publish: func(_ context.Context, n Notice) error { published <- n; return nil }}, map[string]ServerConfig{"fake": entry})
			if _, err := s.Call(t.Context(), "fake", "change", input(t, map[string]any{"text": "fresh"}), People{}); err != nil {
				t.Fatal(err)
			}
			want := map[Kind]Notice{
				ToolsChanged:    {Server: "fake", Kind: ToolsChanged, Added: []string{"fresh"}},
				ResourceUpdated: {Server: "fake", Kind: ResourceUpdated, URI: "x:note"},
			}
			for len(want) > 0 {
				select {
				case n := <-published:
					if diff := cmp.Diff(want[n.Kind], n); diff != "" {
						t.Error(diff)
					}
					delete(want, n.Kind)
				case <-time.After(20 * time.Second):
					t.Fatalf("not published: %v", want)
				}
			}
			if got, err := s.Call(t.Context(), "fake", "fresh", nil, People{}); err != nil || got.texts() != "new" {
				t.Errorf("the new tool: %v, %v", got, err)
			}
			if !slices.ContainsFunc(s.Offers()[0].Tools, func(t Tool) bool { return t.Name == "fresh" }) {
				t.Error("the new tool is not listed")
			}
		})
	}
}

func TestSetKeepsServersWhoseEntryDidNotChange(t *testing.T) {
	same, changed := stdioFake(t, "good"), stdioFake(t, "good")
	s := serve(t, Options{}, map[string]ServerConfig{"same": same, "changed": changed, "gone": stdioFake(t, "good")})
	before := map[string]int64{}
	for _, status := range s.Status() {
		before[status.Name] = status.Since
	}
	changed.DisabledTools = []string{"echo"}
	s.Set(map[string]ServerConfig{"same": same, "changed": changed, "new": stdioFake(t, "good")})
	s.Settle(t.Context())
	for _, status := range s.Status() {
		if kept := status.Since == before[status.Name]; status.State != Ready || kept != (status.Name == "same") {
			t.Errorf("%+v, kept %v", status, kept)
		}
	}
	if got := s.Names(); !slices.Equal(got, []string{"changed", "new", "same"}) {
		t.Errorf("the servers are %q", got)
	}
	for _, offer := range s.Offers() {
		if offer.Server == "changed" && slices.ContainsFunc(offer.Tools, func(t Tool) bool { return t.Name == "echo" }) {
			t.Error("a tool that is disabled is offered")
		}
	}
}

func TestCallsOfOneServerAreBounded(t *testing.T) {
	s := serve(t, Options{}, map[string]ServerConfig{"fake": stdioFake(t, "good"), "other": stdioFake(t, "good")})
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for range maxCalls {
		calls.Go(func() {
			for ctx.Err() == nil { // the calls below may take its place
				_, _ = s.Call(ctx, "fake", "hang", nil, People{})
			}
		})
	}
	eventually(t, "the server is busy", func() bool {
		_, err := s.Call(t.Context(), "fake", "echo", nil, People{})
		return fault.KindOf(err) == fault.RateLimited
	})
	if _, err := s.Call(t.Context(), "other", "echo", nil, People{}); err != nil {
		t.Errorf("a call of another server: %v", err)
	}
	cancel()
	calls.Wait()
}

func TestBackoff(t *testing.T) {
	failures, pause := 0, time.Duration(0)
	for _, c := range []struct {
		lived, want time.Duration
	}{{0, time.Second}, {0, 2 * time.Second}, {time.Second, 4 * time.Second}, {2 * time.Minute, time.Second}, {0, 2 * time.Second}} {
		if failures, pause = Backoff(failures, c.lived); pause != c.want {
			t.Errorf("after %s: %s, not %s", c.lived, pause, c.want)
		}
	}
	for range 100 {
		failures, pause = Backoff(failures, 0)
	}
	if pause != maxPause {
		t.Errorf("the longest pause is %s", pause)
	}
}

func TestAServerIsASourceOfEvents(t *testing.T) {
	for name, source := range map[string]bool{"a source": true, "control: it is none": false} {
		t.Run(name, func(t *testing.T) {
			emitted := make(chan string, 8)
			o := Options{Emit: func(_ context.Context, server string, data json.RawMessage) error {
				emitted <- server + " " + string(data)
				return errors.New("refused") // harms nothing
			}}
			entry := stdioFake(t, "good")
			entry.Events = source
			s := serve(t, o, map[string]ServerConfig{"fake": entry})
			for _, id := range []string{"e1", "e2"} {
				if _, err := s.Call(t.Context(), "fake", "emit", input(t, map[string]any{"text": id}), People{}); err != nil {
					t.Fatal(err)
				}
				if !source {
					continue
				}
				if got := <-emitted; got != `fake {"id":"`+id+`","type":"im.message.received","payload":{"n":1}}` {
					t.Errorf("it emitted %s", got)
				}
			}
			if len(emitted) > 0 {
				t.Errorf("it emitted %d more", len(emitted))
			}
		})
	}
}

// A program that npx cannot download says at most that it cannot; which setting is missing is said
// first.
func TestTheNetworkOfAServerThatDoesNotStart(t *testing.T) {
	npx, plain := ServerConfig{Command: "npx"}, ServerConfig{Command: "/opt/server"}
	open := ServerConfig{Command: "npx", Hosts: []string{"registry.npmjs.org"}, Internal: true}
	for _, c := range []struct {
		config ServerConfig
		denied []string
		slow   bool
		want   string
	}{
		{npx, nil, false, "it has no network"},
		{plain, nil, true, "it has no network"},
		{plain, nil, false, ""},
		{open, nil, true, ""},
		{open, []string{"a.example:443"}, false, "its network refused a.example:443"},
	} {
		if got := c.config.networkAdvice(c.denied, c.slow); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%+v, refused %v, slow %v: %q", c.config, c.denied, c.slow, got)
		}
	}
	if rules := open.rules(); !rules[0].Internal {
		t.Errorf("hosts of an internal network are refused: %+v", rules)
	}
}
