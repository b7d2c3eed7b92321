package conventions_test

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

// layers lists the folders of internal/ from the bottom up. A package may import
// the packages of the layers that its row names, and no package of a layer above
// its own.
var layers = []layer{
	{"foundation", ""},
	{"telemetry", "foundation"},
	{"model", "foundation"},
	{"engine", "foundation"},
	{"agent", "foundation model"},
	{"core", "foundation model engine agent"},
	{"surfaces", "foundation engine agent core"},
	{"serve", "foundation telemetry engine agent core"},
	{"store", "foundation engine core surfaces serve"},
	{"operate", "foundation telemetry model engine agent core surfaces serve store"},
	{"app", "foundation telemetry model engine agent core surfaces serve store operate"},
	{"testkit", "foundation telemetry model engine agent core surfaces serve store operate app"},
}

type layer struct{ name, imports string }

// neighbors lists the imports between two packages of one layer.
var neighbors = map[string]string{
	"foundation/event":    "foundation/chat foundation/fault foundation/grant foundation/lazyregexp foundation/order",
	"foundation/fault":    "foundation/order",
	"foundation/grant":    "foundation/fault foundation/lazyregexp",
	"foundation/policy":   "foundation/fault foundation/grant foundation/lazyregexp foundation/setting",
	"foundation/schedule": "foundation/fault",
	"foundation/schema":   "foundation/fault",
	"foundation/setting":  "foundation/schedule",

	"model/anthropic": "model/llm",
	"model/openai":    "model/llm",
	"model/responses": "model/llm",
	"model/demo":      "model/llm",
	"model/trial":     "model/llm",
	"model/titles":    "model/llm",
	"model/fallback":  "model/llm",

	"engine/bus":       "engine/db",
	"engine/delivery":  "engine/bus engine/db",
	"engine/longtext":  "engine/db",
	"engine/sqlitebus": "engine/delivery engine/bus engine/db engine/longtext",
	"engine/companion": "engine/delivery engine/db",

	"agent":           "agent/tool",
	"agent/sandbox":   "agent/egress",
	"agent/builtin":   "agent/tool agent/sandbox agent/egress",
	"agent/mcpclient": "agent/sandbox agent/egress",
	"agent/remote":    "agent/builtin agent/tool",
	"agent/web":       "agent/egress",

	"core/clock":       "core/environment core/kernel",
	"core/files":       "core/environment",
	"core/program":     "core/environment",
	"core/compose":     "core/surface",
	"core/environment": "core/kernel",
	"core/task":        "core/kernel",
	"core/entity":      "core/surface",
	"core/interaction": "core/kernel core/session core/surface",
	"core/outbox":      "core/kernel core/surface",
	"core/relay":       "core/kernel core/outbox core/surface",
	"core/mark":        "core/kernel",
	"core/router":      "core/compose core/kernel core/mark core/surface",
	"core/session":     "core/kernel",
	"core/workflow":    "core/kernel core/outbox core/surface",

	"serve/forward":    "serve/origin",
	"serve/callables":  "serve/toolserver serve/toolwire",
	"serve/httpapi":    "serve/origin serve/prompting serve/toolserver",
	"serve/openaiapi":  "serve/prompting",
	"serve/mcpserver":  "serve/toolserver serve/toolwire",
	"serve/toolserver": "serve/connlimit serve/origin serve/toolwire",

	"operate/doctor":     "operate/client operate/config",
	"operate/setup":      "operate/config",
	"operate/toolcli":    "serve/toolwire",
	"operate/transcript": "operate/client",
	"operate/acp":        "operate/client operate/transcript",
	"operate/terminal":   "operate/client operate/terminal/markdown operate/transcript",

	"app":     "app/observe",
	"app/cli": "app",
}

// entryPoints are the folders outside internal/. They may import every layer.
var entryPoints = []string{"cmd/lilac", "cmd/tools", "bench", "e2e", "deploy/release/artifacts", "deploy/release/manpages", "deploy/site"}

// inTests lists packages of higher layers that every test may import: the default
// engines and models.
const inTests = "model/anthropic model/openai model/demo model/llm engine/sqlitebus engine/bus engine/db store telemetry/health"

// banned imports, with the reason.
var banned = map[string]string{
	"text/template": "methods called by name make the linker keep everything",
	"html/template": "methods called by name make the linker keep everything",
	"io/ioutil":     "deprecated",
	"log":           "log/slog, passed in",
}

// vagueNames lists package names that say nothing about a package's purpose.
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

// place splits an import path of this module into its layer and its path below
// internal/. Packages outside internal/ have no layer. A path of another module
// returns two empty strings.
func place(importPath string) (layerName, name string) {
	name, ours := strings.CutPrefix(importPath, "lilac/")
	if !ours {
		return "", ""
	}
	name, inside := strings.CutPrefix(name, "internal/")
	if !inside {
		return "", name
	}
	layerName, _, _ = strings.Cut(name, "/")
	return layerName, name
}

// objections returns the rules that a package breaks, as sentences.
func objections(p pkg) (list []string) {
	layerName, name := place(p.ImportPath)
	row := slices.IndexFunc(layers, func(l layer) bool { return l.name == layerName })
	if row < 0 && !slices.Contains(entryPoints, name) {
		return []string{name + " is in no layer: move it into one of the folders in the table of layers"}
	}
	if slices.Contains(vagueNames, p.Name) || slices.Contains(vagueNames, path.Base(p.ImportPath)) {
		list = append(list, name+" has a name that does not say what it promises")
	}
	allowed := func(importedLayer, imported string) bool {
		switch {
		case row < 0, layerName == "testkit":
			return true
		case importedLayer == layerName:
			return slices.Contains(strings.Fields(neighbors[name]), imported)
		}
		return slices.Contains(strings.Fields(layers[row].imports), importedLayer)
	}
	for _, path := range p.Imports {
		if reason, no := banned[path]; no {
			list = append(list, name+" imports "+path+": "+reason)
		}
		importedLayer, imported := place(path)
		switch {
		case imported == "":
		case importedLayer == "testkit" && layerName != "testkit":
			list = append(list, name+" must not import "+imported+": test support stays out of the product")
		case !allowed(importedLayer, imported):
			list = append(list, name+" must not import "+imported)
		}
	}
	// A test may use what its package may use, test support, and the packages
	// below its own layer.
	for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
		importedLayer, imported := place(path)
		if imported == "" || imported == name || importedLayer == "testkit" || importedLayer == layerName || allowed(importedLayer, imported) {
			continue
		}
		if !slices.Contains(strings.Fields(inTests), imported) {
			list = append(list, "a test of "+name+" must not import "+imported)
		}
	}
	return list
}

func TestPackagesKeepToTheirLayers(t *testing.T) {
	all := packages(t)
	if len(all) < 10 {
		t.Fatalf("go list found %d packages, want all of the module", len(all))
	}
	for _, p := range all {
		for _, objection := range objections(p) {
			t.Error(objection)
		}
	}
}

func TestLayersImportOnlyLayersBelow(t *testing.T) {
	var below []string
	for _, l := range layers {
		for _, imported := range strings.Fields(l.imports) {
			if !slices.Contains(below, imported) {
				t.Errorf("the row of %s allows %s, which is not below it", l.name, imported)
			}
		}
		below = append(below, l.name)
	}
}

func TestControlForbiddenImportsAreReported(t *testing.T) {
	for _, p := range []pkg{
		{ImportPath: "lilac/internal/foundation/chat", Name: "chat", Imports: []string{"lilac/internal/engine/db"}},
		{ImportPath: "lilac/internal/agent", Name: "agent", Imports: []string{"lilac/internal/engine/bus"}},
		{ImportPath: "lilac/internal/core/session", Name: "session", Imports: []string{"lilac/internal/store"}},
		{ImportPath: "lilac/internal/core/session", Name: "session", Imports: []string{"lilac/internal/core/router"}},
		{ImportPath: "lilac/internal/operate/config", Name: "config", XTestImports: []string{"lilac/internal/app"}},
		{ImportPath: "lilac/internal/serve/httpapi", Name: "httpapi", Imports: []string{"lilac/internal/testkit/llmtest"}},
		{ImportPath: "lilac/internal/newfolder", Name: "newfolder"},
		{ImportPath: "lilac/internal/serve/webui", Name: "webui", Imports: []string{"html/template"}},
		{ImportPath: "lilac/internal/foundation/chat", Name: "util"},
	} {
		if got := objections(p); len(got) != 1 {
			t.Errorf("objections(%s importing %v) = %q, want exactly one", p.ImportPath, slices.Concat(p.Imports, p.XTestImports), got)
		}
	}
}
