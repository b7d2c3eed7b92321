package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lilac/internal/testkit/effort"
)

func TestChecksumsMustMatchTheFiles(t *testing.T) {
	sum := func(content string) string {
		s := sha256.Sum256([]byte(content))
		return hex.EncodeToString(s[:])
	}
	for name, c := range map[string]struct {
		files map[string]string
		list  string
		want  string
	}{
		"all match":       {map[string]string{"a.deb": "a"}, sum("a") + "  a.deb\n", ""},
		"another content": {map[string]string{"a.deb": "b"}, sum("a") + "  a.deb\n", "another checksum"},
		"a missing file":  {nil, sum("a") + "  a.deb\n", "names a.deb"},
		"a file too many": {map[string]string{"a.deb": "a", "b.rpm": "b"}, sum("a") + "  a.deb\n", "does not name b.rpm"},
		"another place":   {nil, sum("a") + "  ../a.deb\n", "has the line"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "checksums.txt"), c.list)
			for file, content := range c.files {
				write(t, filepath.Join(dir, file), content)
			}
			r := &report{}
			checkChecksums(r, dir)
			expect(t, r, c.want)
		})
	}
}

func TestABillNamesWhatIsInTheBinary(t *testing.T) {
	component := `{"name":"modernc.org/sqlite","version":"v1"}`
	full := strings.Repeat(component+",", fewestComponents) + component
	for name, c := range map[string]struct{ bill, want string }{
		"complete":         {`{"bomFormat":"CycloneDX","metadata":{"component":{"name":"lilac"}},"components":[` + full + `]}`, ""},
		"of something":     {`{"bomFormat":"CycloneDX","metadata":{"component":{"name":"tool"}},"components":[` + full + `]}`, `describes "tool"`},
		"empty":            {`{"bomFormat":"CycloneDX","metadata":{"component":{"name":"lilac"}},"components":[]}`, "has 0 components"},
		"another format":   {`{"bomFormat":"SPDX","metadata":{"component":{"name":"lilac"}},"components":[` + full + `]}`, "want CycloneDX"},
		"without versions": {`{"bomFormat":"CycloneDX","metadata":{"component":{"name":"lilac"}},"components":[` + full + `,{"name":"x"}]}`, "no version of x"},
		"cut":              {`{"bomFormat":"CycloneDX"`, "is not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bill")
			write(t, path, c.bill)
			r := &report{}
			checkBill(r, path)
			expect(t, r, c.want)
		})
	}
}

func TestAProgramMustBeForItsPlatformAndStatic(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs; run without -short")
	}
	source := filepath.Join(t.TempDir(), "main.go")
	write(t, source, "package main\n\nfunc main() {}\n")
	for _, p := range effort.Sample(platforms, len(platforms)) {
		program := filepath.Join(t.TempDir(), p.program())
		build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, source)
		build.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		content, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range platforms {
			if err := checkProgram(content, other); (err == nil) != (other == p) {
				t.Errorf("a program for %s, checked for %s: %v", p, other, err)
			}
		}
	}
	// The machine's shell is a program with libraries.
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("a shell is needed as a program that is not static")
	}
	content, err := os.ReadFile(shell)
	if err != nil {
		t.Fatal(err)
	}
	err = checkStatic(bytes.NewReader(content), "amd64")
	if err == nil {
		t.Errorf("a program with libraries passes as static")
	}
}

func TestAUnitWithAMisspeltSettingIsFound(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is needed to verify units: apt-get install systemd")
	}
	program, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	for manager, unit := range map[string]string{"--system": "lilac.service", "--user": "lilac.user.service"} {
		good := filepath.Join("..", "..", unit)
		text, err := os.ReadFile(good)
		if err != nil {
			t.Fatal(err)
		}
		bad := filepath.Join(t.TempDir(), unit)
		write(t, bad, strings.Replace(string(text), "WatchdogSec=", "WatchdgSec=", 1))
		r := &report{}
		checkUnit(r, good, manager, program)
		expect(t, r, "")
		checkUnit(r, bad, manager, program)
		expect(t, r, "WatchdgSec")
	}
}

func TestTheLaunchdAgentIsWellFormed(t *testing.T) {
	file, err := os.Open(filepath.Join("..", "..", "lilac.plist"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var list struct {
		Keys []string `xml:"dict>key"`
	}
	if err := xml.NewDecoder(file).Decode(&list); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"Label", "ProgramArguments", "RunAtLoad", "KeepAlive", "ExitTimeOut"} {
		if !slices.Contains(list.Keys, key) {
			t.Errorf("the agent has the keys %q, want %s among them", list.Keys, key)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// expect fails the test unless exactly one mistake contains the text, or none if it is empty.
func expect(t *testing.T, r *report, want string) {
	t.Helper()
	if want == "" && len(r.bad) == 0 {
		return
	}
	if want == "" || len(r.bad) != 1 || !strings.Contains(r.bad[0], want) {
		t.Errorf("mistakes %q, want one that contains %q", r.bad, want)
	}
}
