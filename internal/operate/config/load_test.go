package config_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"lilac/internal/agent/egress"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/catalog"
	"lilac/internal/operate/config"
)

// load reads a file in an environment that contains only HOME and env.
func load(t *testing.T, file string, env map[string]string, flags config.Flags) (*config.Config, []config.Warning, error) {
	t.Helper()
	home := t.TempDir()
	path := ""
	if file != "" {
		path = filepath.Join(home, "c.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config.Load(config.Source{File: path, Flags: flags, Getenv: func(name string) string {
		if name == "HOME" {
			return home
		}
		return env[name]
	}})
}

func TestDefaultsAreSafeAndNeedNoFile(t *testing.T) {
	c, warnings, err := load(t, "", nil, config.Flags{})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("err %v, warnings %v", err, warnings)
	}
	if c.Addr != "127.0.0.1:7420" || c.Limits.Request.Steps != 50 || time.Duration(c.Limits.Request.Time) != time.Hour ||
		c.Sandbox.Mode != "auto" || c.File != "" {
		t.Errorf("defaults are %+v", c)
	}
	if !filepath.IsAbs(c.DataDir) || filepath.Base(c.DataDir) != ".lilac" || filepath.Base(c.Workspace) != "lilac" {
		t.Errorf("paths are %q and %q", c.DataDir, c.Workspace)
	}
	m, err := c.ResolveModel()
	if err != nil || m.String() != "demo" || m.Type != config.Demo {
		t.Errorf("model is %v, %v", m, err)
	}
}

func TestFlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	const file = "addr: 127.0.0.1:1\nlog: {level: warn, format: json}\n"
	env := map[string]string{"LILAC_ADDR": "127.0.0.1:2", "LILAC_LOG_LEVEL": "error"}
	c, _, err := load(t, file, env, config.Flags{Addr: "127.0.0.1:3"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][2]string{
		"addr":         {c.Addr, c.Origin("addr")},
		"log.level":    {c.Log.Level, c.Origin("log.level")},
		"log.format":   {c.Log.Format, c.Origin("log.format")},
		"sandbox.mode": {string(c.Sandbox.Mode), c.Origin("sandbox.mode")},
	}
	want := map[string][2]string{
		"addr":         {"127.0.0.1:3", "flag --addr"},
		"log.level":    {"error", "LILAC_LOG_LEVEL"},
		"log.format":   {"json", "the file"},
		"sandbox.mode": {"auto", "default"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWholeFileIsRead(t *testing.T) {
	c, warnings, err := load(t, `
# everything
addr: localhost:9000
allowedHosts: [lilac.example.org]
dataDir: data
workspace: ~/work
bus: {url: "redis://localhost"}
model: local/llama3
providers:
  local: {type: openai, baseURL: "http://127.0.0.1:11434/v1"}
  anthropic:
    apiKey: ${MY_KEY}
models:
  local/llama3:
    contextTokens: 8192
    maxOutputTokens: 20000
    images: true
    pdfs: true
    audio: true
    thinking: true
    tools: true
    price: {input: 0.5, output: 1}
limits:
  request: {steps: 5, tokens: 1000, money: 0.25, time: 90s}
  day: {tokens: 5000, money: 2}
system: |
  Be kind.
sandbox: {mode: off}
log: {level: debug, format: text}
`, map[string]string{"MY_KEY": "k-123"}, config.Flags{})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("err %v, warnings %v", err, warnings)
	}
	if c.DataDir != filepath.Join(filepath.Dir(c.File), "data") {
		t.Errorf("a relative path is %q, not beside the file", c.DataDir)
	}
	if got := c.Providers["anthropic"]; got.APIKey.Reveal() != "k-123" || got.BaseURL != "https://api.anthropic.com" {
		t.Errorf("the built-in provider was not merged: %q", got.BaseURL)
	}
	m, err := c.ResolveModel()
	if err != nil {
		t.Fatal(err)
	}
	want := config.ModelChoice{
		Provider: "local", Name: "llama3", Type: config.OpenAI, BaseURL: "http://127.0.0.1:11434/v1",
		ContextTokens: 8192, MaxOutputTokens: 8192, Images: true, Price: &config.Price{Input: 0.5, Output: 1}, Why: "set by the file",
		Facts: catalog.Model{PDFs: true, Audio: true, Thinking: true, Tools: true},
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
	if c.System != "Be kind.\n" || time.Duration(c.Limits.Request.Time) != 90*time.Second || c.Limits.Day.Money != 2 || c.Sandbox.Mode != "off" {
		t.Errorf("read %+v", c)
	}
}

func TestMistakesAreNamedWithTheirPlace(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		env        map[string]string
		want       string
	}{
		{"wrong type", "limits:\n  request:\n    steps: many\n", nil, "c.yaml:3:12: limits.request.steps has to be a number, not a text"},
		{"a list for keys", "rules:\n  - name: a\n", nil, "c.yaml:2:3: rules has to be keys with values, not a list"},
		{"keys for a text", "rules: {a: {when: {type: x}, do: {drop: true}, rate: {runs: 1}}}", nil, "rules.a.rate has to be a text, not keys with values"},
		{"a number for a list", "allowedHosts: 3", nil, "c.yaml:1:15: allowedHosts has to be a list, not a number"},
		{"half a task", "tasks: {perSession: 1.5}", nil, "c.yaml:1:21: tasks.perSession has to be a whole number, not 1.5"},
		{"no end of tasks", "tasks: {total: .inf}", nil, "c.yaml:1:16: tasks.total has to be a whole number, not .inf"},
		{"more tasks than there are numbers", "tasks: {total: 99999999999999999999}", nil, "c.yaml:1:16: tasks.total is too large"},
		{"no number", "limits: {day: {money: .nan}}", nil, "c.yaml:1:16: limits.day.money has to be a number with an end, not NaN"},
		{"no number, as a word", "limits:\n  day: {money: NaN}", nil, "c.yaml:2:9: limits.day.money has to be a number with an end, not NaN"},
		{"no end, as a text", "compactAt: \"-inf\"", nil, "c.yaml:1:1: compactAt has to be a number with an end, not -Inf"},
		{"no end, in a variable", "models: {m: {price: {input: \"${P}\"}}}", map[string]string{"P": "Infinity"}, "c.yaml:1:22: models.m.price.input has to be a number with an end, not +Inf"},
		{"no end, by another name", "limits: {day: {money: &x .inf}, session: {money: *x}}", nil, "There is one more mistake"},
		{"no data directory", "dataDir: \"\"", nil, "c.yaml:1:1: dataDir is empty"},
		{"a colon", "system: Say: hello\n", nil, "c.yaml:1:9: a key with a value is not allowed here; correct the indentation, or put a text that contains a colon in quotes"},
		{"a tab", "limits:\n\trequest: {steps: 1}\n", nil, "c.yaml:2:1: a tab stands where"},
		{"broken YAML", "addr: [1\nlog: {", nil, "c.yaml:"},
		{"same key twice", "addr: 127.0.0.1:1\naddr: 127.0.0.1:2\n", nil, `c.yaml:2:1: the key "addr" is already in line 1; remove one of them.`},
		{"bad duration", "limits: {request: {time: soon}}", nil, `c.yaml:1:26: "soon" is not a duration`},
		{"missing variable", "system: \"${NOPE}\"", nil, "c.yaml:1:9: the environment variable NOPE is not set"},
		{"a list", "- a\n- b\n", nil, "not a list of keys"},
		{"two documents", "addr: a:1\n---\naddr: b:1\n", nil, "c.yaml:3:5: a second document begins here"},
		{"the home directory of another user", "dataDir: ~foo/x", nil, `c.yaml:1:1: dataDir is "~foo/x"; ~ stands for your own`},
		{"no port", "addr: localhost", nil, "host:port"},
		{"open address without a token", "addr: 0.0.0.0:7420", nil, "Set LILAC_TOKEN"},
		{"all addresses without a token", "addr: \":7420\"", nil, "Set LILAC_TOKEN"},
		{"short token", "", map[string]string{"LILAC_TOKEN": "short"}, "shorter than 16"},
		{"workspace in data", "dataDir: ~/d\nworkspace: ~/d/w", nil, "inside the data directory"},
		{"data in workspace", "dataDir: ~/w/d\nworkspace: ~/w", nil, "contains the data directory"},
		{"the same directory", "dataDir: ~/w\nworkspace: ~/w", nil, "inside the data directory"},
		{"redis without a host", "bus: {url: \"redis://\"}", nil, "no host"},
		{"redis with a name for a port", "bus: {url: \"redis://host:redis\"}", nil, "a port that is no number"},
		{"redis with a port that is none", "bus: {url: \"redis://host:76390\"}", nil, "the highest is 65535"},
		{"a slash in the password of redis", "bus: {url: \"redis://:p@rt/hunter2@localhost\"}", nil, "a password with / : @ ? # or % in it has %2F"},
		{"a question mark in the password of redis", "bus: {url: \"redis://localhost:1?hunter2@localhost\"}", nil, "a password with / : @ ? # or % in it has %2F"},
		{"a mistyped parameter of redis", "bus: {url: \"redis://localhost?addr=localhost:2&mastr_set=x\"}", nil, `c.yaml:1:7: The URL of Redis has the unknown parameter "mastr_set", did you mean "master_set"? There are`},
		{"a parameter of something else", "bus: {url: \"redis://localhost?foo=hunter2\"}", nil, `the unknown parameter "foo". There are: addr, db, master_set,`},
		{"parameters that are none", "bus: {url: \"redis://localhost?a;b\"}", nil, "?addr=host2:26379&master_set=NAME"},
		{"redis database", "bus: {url: \"redis://localhost/x\"}", nil, "number of a database"},
		{"redis prefix", "bus: {url: \"redis://localhost\", prefix: \"a b\"}", nil, "not a prefix"},
		{"password of sentinels without sentinels", "bus: {url: \"redis://localhost\", sentinelPasswordFile: c.yaml}", nil, "has no master_set"},
		{"redis password file", "bus: {url: \"redis://localhost\", passwordFile: /nonexistent}", nil, "cannot be read"},
		{"redis settings without redis", "bus: {caFile: /nonexistent}", nil, "are for Redis"},
		{"other bus", "bus: {url: \"kafka:\"}", nil, "unknown"},
		{"a scheme alone", "bus: {url: unix}", nil, "is unknown; use redis://"},
		{"model without provider", "model: gpt", nil, "provider/model"},
		{"unknown provider", "model: antropic/claude", nil, `did you mean "anthropic"?`},
		{"no key", "model: openai/gpt-5", nil, "set OPENAI_API_KEY or providers.openai.apiKey."},
		{"provider without type", "providers: {x: {baseURL: \"http://h\"}}", nil, "has no type"},
		{"provider of unknown type", "providers: {x: {type: opnai, baseURL: \"http://h\"}}", nil, `did you mean "openai"? Use`},
		{"provider without URL", "providers: {x: {type: openai}}", nil, "base URL"},
		{"negative limit", "limits: {day: {tokens: -1}}", nil, "limits.day.tokens is negative"},
		{"money without a price", "model: x/y\nproviders: {x: {type: openai, baseURL: \"http://h\"}}\nlimits: {day: {money: 1}}", nil, "price of x/y is unknown"},
		{"money without a price of the gate", "model: demo\nrouter: {gate: x/y}\nproviders: {x: {type: openai, baseURL: \"http://h\"}}\nlimits: {day: {money: 1}}", nil, "price of x/y is unknown"},
		{"unknown word", "log: {level: warning}", nil, `did you mean "warn"?`},
		{"relative path for commands", "sandbox: {readOnly: [src]}", nil, "sandbox.readOnly[0] is \"src\"; it must be an absolute path"},
		{"data shown to commands", "dataDir: ~/d\nworkspace: ~/w\nsandbox: {writable: [/opt, ~/]}", nil, "sandbox.writable[1] would show the data directory"},
		{"processes shown to commands", "sandbox: {readOnly: [/proc/1]}", nil, "shows more than files"},
		{"little memory for commands", "sandbox: {limits: {memory: 64MiB}}", nil, "sandbox.limits.memory is too small to run a command; it must be at least 128MiB"},
		{"tasks that may ask for less than they get", "tasks: {maxTime: 1m}", nil, "tasks.maxTime is too small; it must be at least tasks.time, which is 1h"},
		{"bad size", "sandbox: {limits: {disk: 4GB}}", nil, `c.yaml:1:26: "4GB" is not a size`},
		{"every host", "sandbox: {network: {hosts: {\"*\": {}}}}", nil, "sandbox.network.hosts.*: "},
		{"credential for many", "sandbox: {network: {hosts: {\"*.a.org\": {headers: {A: b}}}}}", nil, "a credential goes to no host that is not named"},
		{"unknown sandbox", "sandbox: {mode: bubblewarp}", nil, `did you mean "bubblewrap"?`},
		{"bad host", "allowedHosts: [\"*.example.org\"]", nil, "not a host name"},
		{"bad proxy", "trustedProxies: [lilac.example.org]", nil, "not an IP address or a network"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := load(t, tt.file, tt.env, config.Flags{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error is %v, want one with %q", err, tt.want)
			}
			if fault.KindOf(err) != fault.Invalid || strings.Contains(err.Error(), "\n") {
				t.Errorf("error of kind %s is %q", fault.KindOf(err), err)
			}
		})
	}
}

func TestFileThatWasNamedMustExist(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	if _, _, err := config.Load(config.Source{File: missing}); err == nil {
		t.Error("--config with a missing file was accepted")
	}
	_, _, err := load(t, "", map[string]string{"LILAC_CONFIG": missing}, config.Flags{})
	if err == nil {
		t.Fatal("LILAC_CONFIG with a missing file was accepted")
	}
	if said := fault.ToWire(err).Message; !strings.Contains(said, "There is no configuration file "+missing) {
		t.Errorf("what doctor shows does not say why: %s", said)
	}
}

func TestFileThatCannotBeReadIsSaidWhy(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("n", 300)) // file systems reject such a long name, even for root
	_, _, err := config.Load(config.Source{File: long})
	if err == nil {
		t.Fatal("a file that cannot be read was accepted")
	}
	if said := fault.ToWire(err).Message; !strings.Contains(said, "cannot be read: file name too long") {
		t.Errorf("what doctor shows does not say why: %s", said)
	}
}

func TestSymbolicLinkDoesNotHideOverlap(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("data", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	flags := config.Flags{DataDir: filepath.Join(dir, "data"), Workspace: filepath.Join(dir, "link", "w")}
	if _, _, err := load(t, "", nil, flags); err == nil {
		t.Error("a workspace that a link puts into the data directory was accepted")
	}
	flags.Workspace = filepath.Join(dir, "other")
	if _, _, err := load(t, "", nil, flags); err != nil {
		t.Errorf("control: directories that are apart were refused: %v", err)
	}
}

func TestOpenAddressWithTokenIsAccepted(t *testing.T) {
	env := map[string]string{"LILAC_TOKEN": "0123456789abcdef"}
	if _, _, err := load(t, "addr: 0.0.0.0:7420", env, config.Flags{}); err != nil {
		t.Error(err)
	}
	for _, addr := range []string{"localhost:1", "127.0.0.2:1", "[::1]:1", "[::ffff:127.0.0.1]:1"} {
		if _, _, err := load(t, "", nil, config.Flags{Addr: addr}); err != nil {
			t.Errorf("loopback %s was refused: %v", addr, err)
		}
	}
}

func TestAMarkBeforeTheFirstKeyIsNotPartOfIt(t *testing.T) {
	c, warnings, err := load(t, "\ufeffsystem: kind\n", nil, config.Flags{})
	if err != nil || len(warnings) > 0 || c.System != "kind" {
		t.Errorf("system is %q: %v, %v", c.System, warnings, err)
	}
}

func TestSubstitutionKeepsLiterals(t *testing.T) {
	for in, want := range map[string]string{
		"a ${X} b":   "a ex b",
		"${X}${X}":   "exex",
		"$${X}":      "${X}",
		"cost $5":    "cost $5",
		"open ${end": "open ${end",
		"a ${} ${X}": "a ${} ex",
	} {
		c, _, err := load(t, fmt.Sprintf("system: %q\n", in), map[string]string{"X": "ex"}, config.Flags{})
		if err != nil || c.System != want {
			t.Errorf("%q became %q (%v), want %q", in, c.System, err, want)
		}
	}
	c, _, err := load(t, "system: ${X}\n", map[string]string{"X": "a: b\nmodel: demo # no"}, config.Flags{})
	if err != nil || c.System != "a: b\nmodel: demo # no" || len(c.Model) > 0 {
		t.Errorf("a value was read as YAML: %q, %v", c.System, err)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	const canary = "canary-secret"
	c, _, err := load(t, "", map[string]string{"OPENAI_API_KEY": canary, "LILAC_TOKEN": canary + canary}, config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&shown, verb+"\n", c.Providers["openai"].APIKey)
	}
	fmt.Fprintf(&shown, "%v %+v %#v", *c, c.Providers, c.Token)
	data, err := c.JSON()
	if err != nil {
		t.Fatal(err)
	}
	shown.Write(data)
	asYAML, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	shown.Write(asYAML)
	slog.New(slog.NewJSONHandler(&shown, nil)).Info("x", "key", c.Token, "config", c)
	if strings.Contains(shown.String(), canary) || strings.Contains(shown.String(), fmt.Sprintf("%x", canary)) {
		t.Errorf("the secret was shown:\n%s", shown.String())
	}
	if c.Providers["openai"].APIKey.Reveal() != canary {
		t.Error("control: the secret is lost")
	}
}

func TestModelIsChosenByWhatIsSet(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string
		want string
		base string
	}{
		{"no key", nil, "demo", ""},
		{"anthropic first", map[string]string{"OPENAI_API_KEY": "a", "ANTHROPIC_API_KEY": "b"}, "anthropic/claude-sonnet-5-5", "https://api.anthropic.com"},
		{"openai", map[string]string{"OPENAI_API_KEY": "a", "GEMINI_API_KEY": "b"}, "openai/gpt-5.4", "https://api.openai.com/v1"},
		{"gemini", map[string]string{"GEMINI_API_KEY": "b"}, "gemini/gemini-3.8-flash", "https://generativelanguage.googleapis.com/v1beta/openai"},
		{"named", map[string]string{"OPENAI_API_KEY": "a", "LILAC_MODEL": "demo"}, "demo", ""},
		{"local without a key", map[string]string{"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1/", "LILAC_MODEL": "openai/a/b"}, "openai/a/b", "http://127.0.0.1:11434/v1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _, err := load(t, "", tt.env, config.Flags{})
			if err != nil {
				t.Fatal(err)
			}
			m, err := c.ResolveModel()
			if err != nil || m.String() != tt.want || m.BaseURL != tt.base {
				t.Errorf("chose %v at %q (%v), want %s at %q", m.String(), m.BaseURL, err, tt.want, tt.base)
			}
		})
	}
}

func TestPriceIsKnownOnlyForTheSameModel(t *testing.T) {
	for name, priced := range map[string]bool{
		"gpt-5": true, "gpt-5-2025-08-07": true, "gpt-5-mini": true, "gpt-5-pro": false, "gpt-5.5": true, "gpt-5.7": false,
		"claude-sonnet-4-5": true, "claude-sonnet-4-5-20250929": true, "claude-opus-4-1": true, "claude-opus-4-6": true, "claude-sonnet-5-5": true, "gpt-5.4": true, "gpt-5.4-pro": true, "gpt-6.1-sol": false, "claude-opus-5-6": false, "claude-9": false, "llama3": false,
	} {
		env := map[string]string{"OPENAI_API_KEY": "k", "LILAC_MODEL": "openai/" + name}
		c, _, err := load(t, "", env, config.Flags{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.ResolveModel()
		if err != nil || m.ContextTokens < 100_000 || m.MaxOutputTokens == 0 || (m.Price != nil) != priced {
			t.Errorf("%s: price %v, context %d, output %d (%v), want priced %v", name, m.Price, m.ContextTokens, m.MaxOutputTokens, err, priced)
		}
	}
}

func TestSchemaAcceptsTheDefaults(t *testing.T) {
	schema, err := config.Schema()
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := config.Default().JSON()
	if err != nil {
		t.Fatal(err)
	}
	check := func(data []byte) error {
		var v map[string]any
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		return resolved.Validate(v)
	}
	if err := check(data); err != nil {
		t.Errorf("the schema refuses the defaults: %v", err)
	}
	for _, bad := range []string{`{"adr":1}`, `{"limits":{"request":{"time":"soon"}}}`, `{"log":{"level":"loud"}}`} {
		if check([]byte(bad)) == nil {
			t.Errorf("the schema accepts %s", bad)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte("addr: 127.0.0.1:1\nlimits: {request: {steps: 3}}"))
	f.Add([]byte("a: &x {b: *x}\n<<: *x"))
	f.Add([]byte("system: ${A} $${B"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := config.Load(config.Source{File: path, Getenv: func(string) string { return "/tmp/x" }})
		if err != nil && fault.KindOf(err) != fault.Invalid {
			t.Errorf("error of kind %s: %v", fault.KindOf(err), err)
		}
	})
}

func TestSandboxIsConfigured(t *testing.T) {
	c, warnings, err := load(t, `
sandbox:
  readOnly: [/opt/tools]
  writable: [~/shared]
  hidden: [/opt/tools/secret]
  network:
    bytes: 64MiB
    hosts:
      "*.example.org": {ports: [8443]}
      api.github.com:
        headers: {Authorization: "Bearer ${GITHUB_TOKEN}"}
      registry.npmjs.org:
  limits: {memory: 1GiB, processes: 100, time: 2m}
`, map[string]string{"GITHUB_TOKEN": "canary"}, config.Flags{})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("err %v, warnings %v", err, warnings)
	}
	want := []egress.Rule{
		{Host: "*.example.org", Ports: []int{8443}},
		{Host: "api.github.com", Headers: map[string]string{"Authorization": "Bearer canary"}},
		{Host: "registry.npmjs.org"},
	}
	if diff := cmp.Diff(want, c.Sandbox.Network.EgressRules()); diff != "" {
		t.Error(diff)
	}
	l := c.Sandbox.Limits
	if l.Memory != 1<<30 || l.Processes != 100 || l.Disk != 4<<30 || c.Sandbox.Network.Bytes != 64<<20 || c.Sandbox.Network.Connections != 64 ||
		!filepath.IsAbs(c.Sandbox.Writable[0]) || c.Sandbox.Mode != "auto" {
		t.Errorf("read %+v", c.Sandbox)
	}
	if printed, err := c.JSON(); err != nil || strings.Contains(string(printed), "canary") || !strings.Contains(string(printed), "1GiB") {
		t.Errorf("printed %s, %v", printed, err)
	}
}

func TestMistakesAreReportedWhereTheyStand(t *testing.T) {
	for _, tt := range []struct {
		file string
		env  map[string]string
		want string
	}{
		{"limits:\n  request:\n    steps: -1\n", nil, "c.yaml:3:5: "},
		{"allowedHosts:\n  - good.example\n  - \"bad host\"\n", nil, "c.yaml:3:5: "},
		{"# first\nlog:\n  level: inof\n", nil, "c.yaml:3:3: "},
		{"providers:\n  x:\n    type: opnai\n", nil, "c.yaml:3:5: "},
		{"model: nowhere/m\n", nil, "c.yaml:1:1: "},
		// A mistake in an environment variable has no position in the file.
		{"log:\n  level: info\n", map[string]string{"LILAC_LOG_LEVEL": "inof"}, "log.level is"},
	} {
		_, _, err := load(t, tt.file, tt.env, config.Flags{})
		if err == nil || !strings.Contains(err.Error(), tt.want) || tt.env != nil && strings.Contains(err.Error(), "c.yaml") {
			t.Errorf("%q: %v, want %q", tt.file, err, tt.want)
		}
	}
}
