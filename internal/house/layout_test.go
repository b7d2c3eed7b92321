package house_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// rooms says what each package may import of ours. A package that is not here
// has no place yet; an import that is not here is a decision to be made.
var rooms = map[string]string{
	"chat":  "",
	"fault": "",
	"sse":   "",
	"event": "chat fault lazyregexp",

	"lazyregexp": "",
	"clip":       "",
	"plain":      "",
	"logtest":    "",
	"realpath":   "",

	"schedule": "fault",
	"webhook":  "event fault clip",

	"db":         "event fault",
	"bus":        "db event fault",
	"delivery":   "bus db event fault clip",
	"sqlitebus":  "delivery bus db event fault",
	"redisbus":   "delivery bus db event fault clip",
	"bustest":    "bus db event fault",
	"damagetest": "db event fault",

	"egress":  "clip fault",
	"config":  "realpath egress environment event fault schedule webhook clock files lazyregexp",
	"logs":    "lazyregexp clip",
	"metrics": "",
	"health":  "",
	"notify":  "",
	"backup":  "db fault health",
	"tracing": "fault clip",
	"observe": "agent bus chat event fault health llm metrics tool tracing",

	"llm":       "chat fault sse",
	"anthropic": "llm chat fault sse",
	"openai":    "llm chat fault sse",
	"demo":      "llm chat fault lazyregexp clip",
	"llmtest":   "llm chat fault sse",

	"rundir":    "",
	"connlimit": "",
	"sandbox":   "fault realpath",
	"tool":      "chat fault clip",
	"builtin":   "tool sandbox egress chat fault clip",

	"agent":       "chat llm tool fault",
	"session":     "agent bus chat db event fault llm tool clip plain",
	"environment": "bus chat db event fault tool lazyregexp clip",
	"clock":       "environment schedule db event fault",
	"files":       "environment db event fault realpath",

	"task": "chat db event fault tool clip",

	"entity":  "fault lazyregexp",
	"surface": "db event",
	"outbox":  "surface db event fault",
	"compose": "surface chat entity event clip",
	"relay":   "bus chat db event fault outbox surface clip",
	"router":  "bus chat compose db event fault llm surface",

	"workflow": "bus chat db event fault outbox schedule surface lazyregexp clip",

	"discord": "db egress event fault surface clip",

	"store": "db bus chat event discord fault session environment surface outbox router relay task toolserver workflow clock files clip",

	"httpapi":    "webhook origin health metrics bus chat db environment event fault session sse task workflow toolserver lazyregexp plain",
	"webui":      "",
	"webuitest":  everything,
	"origin":     "fault",
	"toolwire":   "fault",
	"toolserver": "connlimit origin toolwire fault db schedule lazyregexp clip",
	"toolcli":    "toolwire fault plain",
	"callables":  "builtin schedule tool toolserver toolwire chat db entity environment event fault outbox session surface workflow task clip",
	"cmd/tools":  "toolcli",

	"client": "health bus event fault session sse task toolserver",
	"doctor": "bus client health config db delivery fault redisbus sandbox sqlitebus store discord",

	"app":         everything,
	"freeport":    "",
	"redistest":   "freeport",
	"discordtest": "",
	"bench":       everything,
	"e2e":         everything,
	"house":       everything,
	"cmd/lilac":   everything,
}

const everything = "*"

// inTests are packages that any test may import beside its own room.
var inTests = "clip logtest health bustest damagetest webuitest llmtest discordtest redistest freeport anthropic openai sqlitebus store demo sse chat event fault db bus"

// banned imports, with the reason.
var banned = map[string]string{
	"text/template": "methods called by name make the linker keep everything",
	"html/template": "methods called by name make the linker keep everything",
	"io/ioutil":     "deprecated",
	"log":           "log/slog, passed in",
}

// vagueNames say nothing about what a package promises.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "manager", "misc", "base", "types"}

type pkg struct {
	ImportPath   string
	Name         string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Imports,TestImports,XTestImports", "lilac/...")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// room is the package's name in the table; "" is not ours.
func room(importPath string) string {
	p, ok := strings.CutPrefix(importPath, "lilac/")
	if !ok {
		return ""
	}
	return strings.TrimPrefix(p, "internal/")
}

// check returns what is wrong with a package.
func check(p pkg) (wrong []string) {
	name := room(p.ImportPath)
	allowed, declared := rooms[name]
	if !declared {
		return []string{name + " has not declared its place: add it to the table in internal/house and to docs/architecture.md"}
	}
	if slices.Contains(vagueNames, p.Name) || slices.Contains(vagueNames, path.Base(p.ImportPath)) {
		wrong = append(wrong, name+" has a name that says nothing")
	}
	may := func(list, imported string) bool {
		return list == everything || slices.Contains(strings.Fields(list), imported)
	}
	for _, imported := range p.Imports {
		if reason, no := banned[imported]; no {
			wrong = append(wrong, name+" imports "+imported+": "+reason)
		}
		if other := room(imported); other != "" && !may(allowed, other) {
			wrong = append(wrong, name+" must not import "+other)
		}
	}
	for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
		if other := room(imported); other != "" && other != name && !may(allowed, other) && !may(inTests, other) {
			wrong = append(wrong, "a test of "+name+" must not import "+other)
		}
	}
	return wrong
}

func TestPackagesKeepToTheirRooms(t *testing.T) {
	all := packages(t)
	if len(all) < 10 {
		t.Fatalf("only %d packages were found", len(all))
	}
	for _, p := range all {
		for _, w := range check(p) {
			t.Error(w)
		}
	}
}

func TestControlForeignImportsAreSeen(t *testing.T) {
	for _, p := range []pkg{
		{ImportPath: "lilac/internal/chat", Name: "chat", Imports: []string{"lilac/internal/db"}},
		{ImportPath: "lilac/internal/agent", Name: "agent", Imports: []string{"lilac/internal/bus"}},
		{ImportPath: "lilac/internal/session", Name: "session", Imports: []string{"lilac/internal/store"}},
		{ImportPath: "lilac/internal/config", Name: "config", XTestImports: []string{"lilac/internal/app"}},
		{ImportPath: "lilac/internal/newroom", Name: "newroom"},
		{ImportPath: "lilac/internal/webui", Name: "webui", Imports: []string{"html/template"}},
		{ImportPath: "lilac/internal/chat", Name: "util"},
	} {
		if len(check(p)) != 1 {
			t.Errorf("%s importing %v: %q, want one objection", p.ImportPath, slices.Concat(p.Imports, p.XTestImports), check(p))
		}
	}
}
