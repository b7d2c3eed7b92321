package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
	"lilac/internal/telemetry/health"
	"lilac/internal/telemetry/logs"
	"lilac/internal/testkit/logtest"
)

const (
	testToken = "0123456789abcdef-operator"
	// patience is shorter than the polling interval for files, so that only a watch can have
	// noticed a change.
	patience = 30 * time.Second
)

// running is the program, running in this process with a configuration file.
type running struct {
	t    testing.TB
	home string
	file string
	p    *program
	log  *logtest.Log
	hup  chan os.Signal
	stop func() error
}

func start(t *testing.T, file string) *running { return startWith(t, file, Seams{}) }

func startWith(t testing.TB, file string, seams Seams) *running {
	t.Helper()
	r := &running{t: t, home: t.TempDir(), log: &logtest.Log{}, hup: make(chan os.Signal, 1)}
	r.file = filepath.Join(r.home, ".lilac", "config.yaml")
	if err := os.Mkdir(filepath.Dir(r.file), 0o700); err != nil {
		t.Fatal(err)
	}
	r.write(file)
	load := func() (*config.Config, []config.Warning, error) {
		return config.Load(config.Source{Getenv: func(name string) string {
			return map[string]string{"HOME": r.home, "LILAC_TOKEN": testToken, "LILAC_METRICS_TOKEN": "0123456789abcdef-metrics", "LILAC_ADDR": "127.0.0.1:0"}[name]
		}})
	}
	cfg, _, err := load()
	if err != nil {
		t.Fatal(err)
	}
	var level slog.LevelVar
	var secrets logs.Secrets
	ctx, cancel := context.WithCancel(context.Background())
	r.p, err = build(ctx, Options{
		Config: cfg, Stdout: io.Discard, Version: "test", Load: load, Reload: r.hup, Level: &level, Secrets: &secrets, Seams: seams,
		Logger: logs.New(r.log, logs.Options{Level: &level, Secrets: &secrets}),
	})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	if err := r.p.callables.server.Check(); err != nil {
		t.Error(err)
	}
	done := make(chan error, 1)
	go func() { done <- r.p.run(ctx) }()
	var once sync.Once
	var ended error
	r.stop = func() error {
		once.Do(func() {
			cancel()
			ended = <-done
			if err := r.p.close(); ended == nil {
				ended = err
			}
		})
		return ended
	}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	r.eventually("it is ready", func() bool { return r.ready().Ready })
	return r
}

// write replaces the file atomically, like editors. Otherwise, on a busy machine, the empty
// file could stay unchanged long enough to be loaded.
func (r *running) write(file string) {
	r.t.Helper()
	next := r.file + ".next"
	if err := errors.Join(os.WriteFile(next, []byte(file), 0o600), os.Rename(next, r.file)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) get(path, token string) (int, string) { return r.call("GET", path, token, "") }

func (r *running) post(path, body string) (int, string) { return r.call("POST", path, testToken, body) }

// newSession creates a session and returns its id.
func (r *running) newSession() string {
	r.t.Helper()
	_, body := r.post("/sessions", `{}`)
	var session struct{ ID string }
	if err := json.Unmarshal([]byte(body), &session); err != nil || session.ID == "" {
		r.t.Fatal(body, err)
	}
	return session.ID
}

func (r *running) call(method, path, token, send string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequest(method, "http://"+r.p.web.listener.Addr().String()+path, strings.NewReader(send))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func (r *running) ready() health.Report {
	code, body := r.get("/readyz", "")
	out := health.Report{Ready: code == 200}
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		r.t.Fatalf("%s: %v", body, err)
	}
	return out
}

func (r *running) part(name string) health.Part {
	for _, p := range r.ready().Parts {
		if p.Name == name {
			return p
		}
	}
	return health.Part{}
}

// eventually waits until a condition holds. The limit allows for many model calls on a busy
// machine.
func (r *running) eventually(what string, cond func() bool) {
	r.t.Helper()
	r.within(4*patience, what, cond)
}

func (r *running) within(limit time.Duration, what string, cond func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(limit); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not within %s: %s\n%s", limit, what, r.log.String())
		}
	}
}

// setting returns the effective value that the web page shows.
func (r *running) setting(key string) string {
	_, body := r.get("/settings", testToken)
	var out struct{ Settings []struct{ Key, Value string } }
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		r.t.Fatalf("%s: %v", body, err)
	}
	for _, s := range out.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

func TestReloadAppliesWhatIsSafe(t *testing.T) {
	r := start(t, "system: one\nlog: {level: info}\n")
	r.write("system: two\nlog: {level: debug}\nlimits: {request: {steps: 3}}\nallowedHosts: [lilac.example]\nsandbox: {mode: off}\n")
	r.within(patience, "the file is seen without being asked", func() bool { return r.setting("system") == "two" })
	for key, want := range map[string]string{"limits.request.steps": "3", "log.level": "debug", "sandbox.mode": "auto"} {
		if got := r.setting(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	r.eventually("what needs a restart is named", func() bool {
		return r.part("configuration").Message == "a restart is needed for sandbox.mode" && strings.Contains(r.log.String(), `"need_restart":["sandbox.mode"]`)
	})
	if !r.ready().Ready {
		t.Error("a setting that waits for a restart makes it unready")
	}
	if level := r.p.Level.Level(); level != slog.LevelDebug {
		t.Errorf("the level is %s", level)
	}
}

func TestMistakeInTheFileKeepsTheOldSettings(t *testing.T) {
	r := start(t, "system: one\n")
	for _, bad := range []string{"system: [\n", "limits: {request: {steps: -1}}\n", "model: nowhere/m\nsystem: two\n"} {
		r.write(bad)
		r.hup <- os.Interrupt // any signal on this channel triggers a reload
		r.eventually("the mistake is told", func() bool { return r.part("configuration").Status == health.Warning })
		if got := r.setting("system"); got != "one" {
			t.Errorf("after %q system is %q", bad, got)
		}
		if !r.ready().Ready {
			t.Error("a mistake in the file makes a program that works unready")
		}
		r.write("system: one\n")
		r.hup <- os.Interrupt
		r.eventually("it is good again", func() bool { return r.part("configuration").Status == health.OK })
	}
	if log := r.log.String(); !strings.Contains(log, "config.yaml:1:") {
		t.Errorf("the log does not say where the mistake is:\n%s", log)
	}
	if err := os.Remove(r.file); err != nil {
		t.Fatal(err)
	}
	r.eventually("a file that is gone is told", func() bool { return r.part("configuration").Status == health.Warning })
	if log := r.log.String(); !strings.Contains(log, "config.yaml is gone") {
		t.Errorf("the log does not say that the file is gone:\n%s", log)
	}
}

// atLine is a writer that calls a function for each line of a log.
type atLine func(line string)

func (f atLine) Write(line []byte) (int, error) {
	f(string(line))
	return len(line), nil
}

// When /readyz reports a failed reload, the log must already contain the reason.
func TestTheLogSaysWhyBeforeReadyz(t *testing.T) {
	var p reloader
	said := false
	p = reloader{base: &base{Options: Options{
		Config: &config.Config{},
		Load:   func() (*config.Config, []config.Warning, error) { return nil, nil, errors.New("a mistake") },
		Logger: logs.New(atLine(func(line string) {
			said = said || strings.Contains(line, "was not reloaded")
			if p.reloadTrouble.Load() != nil {
				t.Errorf("/readyz was first: %s", line)
			}
		}), logs.Options{}),
	}}}
	p.reload("a signal")
	if !said || p.reloadTrouble.Load() == nil {
		t.Errorf("in the log: %v, in /readyz: %v", said, p.reloadTrouble.Load())
	}
}

func TestMistakeInARuleKeepsTheOldRules(t *testing.T) {
	const good = "rules:\n  ci:\n    when: {type: build.*}\n    do: {drop: true}\n"
	r := start(t, good)
	names := func() (out []string) {
		for _, rule := range r.p.env.Rules() {
			out = append(out, rule.Name)
		}
		return out
	}
	before := names()
	r.write(good + "  more:\n    when:\n      type: x\n      if: .a ==\n    do: {drop: true}\n")
	r.within(patience, "the mistake is told with its place", func() bool {
		return r.part("configuration").Status == health.Warning && strings.Contains(r.log.String(), "config.yaml:8:7: The condition of the rule more")
	})
	if got := names(); before[0] != "ci" || !slices.Equal(before, got) {
		t.Errorf("the rules are %q, want %q", got, before)
	}
	r.write(good + "  more:\n    when: {type: x}\n    do: {drop: true}\n")
	r.eventually("the mended file applies", func() bool { return slices.Contains(names(), "more") && r.part("configuration").Status == health.OK })
}

func TestReloadedModelAnswersNewRequestsAndItsKeyIsHidden(t *testing.T) {
	r := start(t, "model: demo\n")
	r.write("model: local/m\nproviders: {local: {type: openai, baseURL: \"http://127.0.0.1:1/v1\", apiKey: canary-key-0815}}\n")
	r.hup <- os.Interrupt
	r.eventually("the model is another one", func() bool { return r.p.now.Load().choice.Name == "m" })
	r.p.Logger.Error("call failed", "header", "x-api-key: canary-key-0815")
	if strings.Contains(r.log.String(), "canary-key-0815") {
		t.Errorf("the new key is in the log:\n%s", r.log)
	}
}

// store changes the database of the running program directly.
func (r *running) store(change func(*db.Tx) error) {
	r.t.Helper()
	if err := r.p.db.Update(context.Background(), change); err != nil {
		r.t.Fatal(err)
	}
}

// Readiness fails while any one component is unhealthy, and recovers afterwards.
func TestEachSickPartShows(t *testing.T) {
	r := start(t, "system: one\n")
	t.Run("writer", func(t *testing.T) {
		hold, held := make(chan struct{}), make(chan struct{})
		go func() {
			_ = r.p.db.Update(context.Background(), func(*db.Tx) error {
				close(held)
				<-hold // blocks the database writer
				return nil
			})
		}()
		<-held
		m := health.New(health.Options{
			Probes:   []health.Probe{{Name: "writer", Run: func(ctx context.Context) error { return r.p.db.Probe(ctx, 0) }}},
			Patience: 50 * time.Millisecond,
		})
		m.Working()
		m.Check(context.Background())
		if m.Report().Ready {
			t.Error("a writer that hangs is not seen")
		}
		close(hold)
		r.eventually("it is green again", func() bool {
			m.Check(context.Background())
			return m.Report().Ready
		})
	})
	t.Run("needed", func(t *testing.T) {
		var needed []string
		for _, part := range r.ready().Parts {
			if part.Needed {
				needed = append(needed, part.Name)
			}
		}
		if want := []string{"writer", "bus", "runner"}; !slices.Equal(needed, want) {
			t.Errorf("an answer needs %v, want %v", needed, want)
		}
	})
	t.Run("groups", func(t *testing.T) {
		progress := &health.Progress{Stuck: time.Hour, Must: []string{"runner", "somebody"}, Now: time.Now}
		err := r.p.checkGroups(context.Background(), progress)
		if fault.KindOf(err) != fault.Unavailable || r.p.describeTrouble(err) != "the group somebody has no consumer" {
			t.Errorf("a group without a consumer: %v", err)
		}
		progress.Must = []string{"runner"}
		if err := r.p.checkGroups(context.Background(), progress); err != nil {
			t.Errorf("it is not green again: %v", err)
		}
	})
	t.Run("runner", func(t *testing.T) {
		probe := r.p.lostRequests(0)
		if err := probe(context.Background()); err != nil {
			t.Errorf("a runner that works: %v", err)
		}
		lost := session.Request{ID: "web:s:lost", SessionID: "s", Client: "web", State: event.StateRunning, CreatedAt: 1, StartedAt: 1}
		r.store(func(tx *db.Tx) error { return r.p.store.Requests.CreateRequest(tx, lost) })
		_ = probe(context.Background()) // records the first observation
		if err := probe(context.Background()); fault.KindOf(err) != fault.Unavailable || !strings.Contains(r.p.describeTrouble(err), "1 request recorded as running") {
			t.Errorf("a request that nobody works on: %v", err)
		}
		asking := lost
		asking.Detail = "Answer \"continue\" to allow 5 steps more."
		r.store(func(tx *db.Tx) error { return r.p.store.Requests.SaveRequest(tx, asking) })
		if err := probe(context.Background()); err != nil {
			t.Errorf("a request that waits for an answer at a limit: %v", err)
		}
		lost.State = event.StateFailed
		r.store(func(tx *db.Tx) error { return r.p.store.Requests.SaveRequest(tx, lost) })
		if err := probe(context.Background()); err != nil {
			t.Errorf("it is not green again: %v", err)
		}
	})
	t.Run("disk", func(t *testing.T) {
		for free, want := range map[uint64]health.Part{
			10 << 20:  {Name: "disk", Status: health.Failed, Message: "the disk is full: only 10 MiB free, and below 64 MiB, Lilac is not ready; free some space"},
			500 << 20: {Name: "disk", Status: health.Warning, Message: "only 500 MiB free; below 64 MiB, Lilac is not ready"},
			1 << 40:   {Name: "disk", Status: health.OK},
		} {
			probe := r.p.checkDisk(func(string) (health.Disk, error) { return health.Disk{Free: free}, nil })
			m := health.New(health.Options{Probes: []health.Probe{{Name: "disk", Run: probe}}, Describe: r.p.describeTrouble})
			m.Check(context.Background())
			if got := m.Report().Parts; !slices.Contains(got, want) {
				t.Errorf("with %d bytes free: %+v, want %+v", free, got, want)
			}
		}
	})
	t.Run("closed database", func(t *testing.T) {
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{
			"writer": r.p.db.Probe(context.Background(), 0), "bus": r.p.bus.Healthy(context.Background()), "runner": r.p.lostRequests(0)(context.Background()),
		} {
			if err == nil {
				t.Errorf("with a closed database the %s is called healthy", name)
			}
		}
	})
}

// Refused commands are a warning in the server's own health report. A check from outside does
// not run with the restrictions of the service, so it could miss the problem. The server is
// still ready. The control runs commands unconfined.
func TestRefusedCommandsAreAWarning(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for file, want := range map[string]health.Part{
		"sandbox: {mode: bubblewrap}\n": {Name: "sandbox", Status: health.Warning, Message: "commands are refused; the log says why"},
		"sandbox: {mode: off}\n":        {Name: "sandbox", Status: health.OK},
	} {
		r := start(t, file)
		_ = r.p.box.Wait() // this test expects the error
		if got := r.part("sandbox"); got != want {
			t.Errorf("%s: %+v", file, got)
		}
		if !r.ready().Ready {
			t.Errorf("%s: it is not ready", file)
		}
	}
}

// A path that commands must see but that no longer exists is a warning, too.
func TestWhatCommandsAreShownIsMissed(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("needs bubblewrap (apt-get install bubblewrap)")
	}
	dir := filepath.Join(t.TempDir(), "shared")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r := start(t, "sandbox: {writable: [\""+dir+"\"]}\n")
	refused := func() bool {
		return strings.HasPrefix(r.part("sandbox").Message, "commands are refused: the workspace, or a path")
	}
	if refused() {
		t.Errorf("with all in its place: %+v", r.part("sandbox"))
	}
	for _, path := range []string{dir, r.p.Config.Workspace} {
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		if !refused() || !r.ready().Ready {
			t.Errorf("without %s: %+v", path, r.ready())
		}
		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
		if refused() {
			t.Errorf("%s is back: %+v", path, r.part("sandbox"))
		}
	}
}

func TestMetricsAreOpenedByTheirOwnTokenAlone(t *testing.T) {
	r := start(t, "model: demo\n")
	for _, tt := range []struct {
		path, token string
		want        int
	}{
		{"/metrics", testToken, 200},
		{"/metrics", "0123456789abcdef-metrics", 200},
		{"/metrics", "", 401},
		{"/metrics", "0123456789abcdef-metricz", 401},
		{"/sessions", "0123456789abcdef-metrics", 401},
		{"/bus/env", "0123456789abcdef-metrics", 401},
		{"/settings", "0123456789abcdef-metrics", 401},
		{"/healthz", "", 200},
	} {
		if code, body := r.get(tt.path, tt.token); code != tt.want {
			t.Errorf("%s with %q: %d, want %d: %s", tt.path, tt.token, code, tt.want, body)
		}
	}
	_, body := r.get("/metrics", testToken)
	for _, want := range []string{
		"lilac_build_info{go=", `version="test"} 1`, `lilac_bus_group_backlog{group="runner",topic="cmd.request"} 0`, "lilac_bus_dead_letters 0",
		"lilac_requests_running 0", "lilac_sessions_active 0", `lilac_part_ok{part="writer"} 1`, `lilac_http_requests_total{route="GET /metrics",status="200"}`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s:\n%s", want, body)
		}
	}
}
