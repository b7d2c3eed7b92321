package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// checkChecksums compares checksums.txt with the files, both ways.
func checkChecksums(r *report, dir string) {
	file, err := os.Open(filepath.Join(dir, "checksums.txt"))
	if err != nil {
		r.badf("there is no list of checksums: %v", err)
		return
	}
	defer file.Close()
	listed := map[string]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		want, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || filepath.Base(name) != name {
			r.badf("checksums.txt has the line %q, want a checksum, two spaces, and a name", lines.Text())
			continue
		}
		listed[name] = true
		switch got, err := checksum(filepath.Join(dir, name)); {
		case err != nil:
			r.badf("checksums.txt names %s: %v", name, err)
		case got != want:
			r.badf("%s has another checksum than checksums.txt says", name)
		}
	}
	for _, pattern := range []string{"*.tar.gz", "*.zip", "*.deb", "*.rpm", "*.bom.json"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, file := range files {
			if name := filepath.Base(file); !listed[name] {
				r.badf("checksums.txt does not name %s", name)
			}
		}
	}
	r.goodf("checksums.txt: %d files have the checksums that it says", len(listed))
}

func checksum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// bill is the part of a CycloneDX bill of materials that is checked.
type bill struct {
	Format   string `json:"bomFormat"`
	Metadata struct {
		Component struct{ Name, Version string }
	}
	Components []struct{ Name, Version string }
}

// fewestComponents is far below what Lilac links, and above what a bill has that was made
// of something else.
const fewestComponents = 30

func checkBill(r *report, path string) {
	name := filepath.Base(path)
	data, err := os.ReadFile(path)
	if err != nil {
		r.badf("%v", err)
		return
	}
	var b bill
	if err := json.Unmarshal(data, &b); err != nil {
		r.badf("%s is not JSON: %v", name, err)
		return
	}
	sqlite := false
	for _, c := range b.Components {
		sqlite = sqlite || c.Name == "modernc.org/sqlite"
		if c.Version == "" {
			r.badf("%s has no version of %s", name, c.Name)
		}
	}
	switch {
	case b.Format != "CycloneDX":
		r.badf("%s has the format %q, want CycloneDX", name, b.Format)
	case b.Metadata.Component.Name != "lilac":
		r.badf("%s describes %q, want lilac", name, b.Metadata.Component.Name)
	case len(b.Components) < fewestComponents || !sqlite:
		r.badf("%s has %d components, want at least %d, and modernc.org/sqlite among them", name, len(b.Components), fewestComponents)
	default:
		r.goodf("%s: %d components", name, len(b.Components))
	}
}

// inFormula finds the archives that a formula downloads, with their checksums.
var inFormula = regexp.MustCompile(`url "[^"]*/([^"/]+)"\s+sha256 "([0-9a-f]{64})"`)

// checkFormula compares the formula with the archives of macOS and Linux.
func checkFormula(r *report, dir, name string) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		r.badf("%v", err)
		return
	}
	archives := inFormula.FindAllSubmatch(data, -1)
	for _, m := range archives {
		if got, err := checksum(filepath.Join(dir, string(m[1]))); err != nil || got != string(m[2]) {
			r.badf("%s: the checksum of %s is not that of the archive (%v)", name, m[1], err)
		}
	}
	if len(archives) != 4 {
		r.badf("%s has %d archives, want four: macOS and Linux, on amd64 and arm64", name, len(archives))
	}
	for _, want := range []string{"bin.install", "man1.install", "bash_completion.install", "service do"} {
		if !bytes.Contains(data, []byte(want)) {
			r.badf("%s does not contain %q", name, want)
		}
	}
	r.goodf("%s: %d archives", name, len(archives))
}
