package conventions_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// releasePlatforms lists operating systems whose binaries link different modules.
var releasePlatforms = []string{"linux", "darwin", "windows"}

// licenseFiles are the names under which modules keep their license and their notices.
var licenseFiles = []string{"LICENSE", "LICENSE.md", "LICENSE.txt", "LICENCE", "COPYING", "NOTICE", "NOTICE.txt"}

// embeddedPackages lists the directories of npm packages whose files are part of a released binary.
var embeddedPackages = []string{"internal/serve/webui/katex"}

type module struct{ Path, Version, Dir string }

// linkedModules returns the modules whose code is part of a released binary, by path.
func linkedModules(t *testing.T) map[string]module {
	t.Helper()
	all := make(map[string]module)
	for _, system := range releasePlatforms {
		var stderr bytes.Buffer
		cmd := exec.Command("go", "list", "-deps", "-json=Module", "lilac/cmd/lilac", "lilac/cmd/tools")
		cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("list the modules for %s: %v\n%s", system, err, stderr.String())
		}
		for dec := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct{ Module *module }
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if p.Module != nil && p.Module.Version != "" {
				all[p.Module.Path] = *p.Module
			}
		}
	}
	return all
}

func TestThirdPartyNoticesAreCurrent(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Third-party notices\n\n" + generatedNote +
		"The released programs contain code of these projects, under the licenses below.\n\n")
	// Many modules share one text, for example the Apache License.
	users := make(map[string][]string)
	all := linkedModules(t)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		m := all[path]
		found := 0
		for _, name := range licenseFiles {
			text, err := os.ReadFile(filepath.Join(m.Dir, name))
			if err == nil {
				found++
				key := strings.ReplaceAll(strings.TrimSpace(string(text)), "\r\n", "\n")
				users[key] = append(users[key], m.Path+" "+m.Version)
			}
		}
		if found == 0 {
			t.Errorf("%s %s has no license file: check its license by hand before linking it", m.Path, m.Version)
		}
	}
	for _, dir := range embeddedPackages {
		dir = filepath.Join("..", "..", "..", dir)
		license, err := os.ReadFile(filepath.Join(dir, "LICENSE"))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(dir, "package.json"))
		var about struct{ Name, Version string }
		if err == nil {
			err = json.Unmarshal(raw, &about)
		}
		if err != nil {
			t.Fatalf("read the version of a package: %v", err)
		}
		key := strings.TrimSpace(string(license))
		users[key] = append(users[key], about.Name+" "+about.Version+" (npm)")
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("find Go's directory: %v", err)
	}
	goLicense, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	if err != nil {
		t.Fatalf("read the license of Go's standard library: %v", err)
	}
	key := strings.TrimSpace(string(goLicense))
	users[key] = append(users[key], "the Go standard library")

	texts := slices.SortedFunc(maps.Keys(users), func(a, b string) int { return strings.Compare(users[a][0]+a, users[b][0]+b) })
	for _, text := range texts {
		for _, user := range users[text] {
			fmt.Fprintf(&b, "- %s\n", user)
		}
		b.WriteString("\n```text\n" + strings.ReplaceAll(text, "```", "'''") + "\n```\n\n")
	}
	want := strings.TrimSuffix(b.String(), "\n")
	path := filepath.Join("..", "..", "..", "THIRD_PARTY_NOTICES.md")
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("THIRD_PARTY_NOTICES.md is stale; run: go test ./internal/testkit/conventions -update")
	}
}
