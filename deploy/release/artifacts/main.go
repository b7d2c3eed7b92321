// Command artifacts checks the directory that goreleaser fills: the archives, packages,
// checksums, bills of materials, and the Homebrew formula of a release.
//
//	go run ./deploy/release/artifacts dist
//
// It prints a line for each thing that it has checked, and ends with a sentence for each
// mistake. The checks of the packages need dpkg-deb, rpm, and systemd-analyze; those that
// are missing are named, and are a mistake if CI is true.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: artifacts DIRECTORY")
		os.Exit(2)
	}
	r := &report{}
	checkRelease(r, os.Args[1])
	for _, line := range r.good {
		fmt.Println(line)
	}
	for _, line := range r.bad {
		fmt.Fprintln(os.Stderr, "MISTAKE:", line)
	}
	if len(r.bad) > 0 {
		os.Exit(1)
	}
}

// report collects the checks and their findings.
type report struct{ good, bad []string }

func (r *report) goodf(format string, args ...any) {
	r.good = append(r.good, fmt.Sprintf(format, args...))
}

func (r *report) badf(format string, args ...any) {
	r.bad = append(r.bad, fmt.Sprintf(format, args...))
}

// platform is a system and architecture that a release is built for.
type platform struct{ os, arch string }

var platforms = []platform{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"darwin", "amd64"},
	{"darwin", "arm64"},
	{"windows", "amd64"},
	{"windows", "arm64"},
}

func (p platform) String() string { return p.os + "_" + p.arch }

// program is the name of the binary.
func (p platform) program() string {
	if p.os == "windows" {
		return "lilac.exe"
	}
	return "lilac"
}

// archive is the end of the archive's name.
func (p platform) archive() string {
	if p.os == "windows" {
		return p.String() + ".zip"
	}
	return p.String() + ".tar.gz"
}

// inArchives are files that every archive must contain, besides the program.
var inArchives = []string{"LICENSE", "THIRD_PARTY_NOTICES.md", "README.md", "docs/install.md", "deploy/lilac.service", "build/completions/lilac.bash", "build/man/lilac.1"}

// inPackages are files that every Debian and RPM package must contain.
var inPackages = []string{
	"/usr/bin/lilac", "/usr/lib/systemd/system/lilac.service", "/etc/lilac/config.yaml", "/etc/lilac/environment",
	"/usr/share/bash-completion/completions/lilac", "/usr/share/zsh/vendor-completions/_lilac",
	"/usr/share/fish/vendor_completions.d/lilac.fish", "/usr/share/man/man1/lilac.1", "/usr/share/man/man1/lilac-serve.1", "/usr/share/doc/lilac/copyright",
}

// checkRelease checks everything in the directory.
func checkRelease(r *report, dir string) {
	checkChecksums(r, dir)
	for _, p := range platforms {
		if name := only(r, dir, "lilac_*_"+p.archive()); name != "" {
			checkArchive(r, filepath.Join(dir, name), p)
		}
		if name := only(r, dir, "lilac_*_"+p.String()+".bom.json"); name != "" {
			checkBill(r, filepath.Join(dir, name))
		}
		if p.os != "linux" {
			continue
		}
		if name := only(r, dir, "lilac_*_"+p.String()+".deb"); name != "" {
			checkDebian(r, filepath.Join(dir, name), p)
		}
		if name := only(r, dir, "lilac_*_"+p.String()+".rpm"); name != "" {
			checkRPM(r, filepath.Join(dir, name))
		}
	}
	if name := only(r, dir, "homebrew/Formula/lilac.rb", "homebrew/lilac.rb"); name != "" {
		checkFormula(r, dir, name)
	}
}

// only returns the one file that matches one of the patterns.
func only(r *report, dir string, patterns ...string) string {
	var found []string
	for _, pattern := range patterns {
		matches, _ := filepath.Glob(filepath.Join(dir, pattern))
		found = append(found, matches...)
	}
	if len(found) != 1 {
		r.badf("%d files match %s, want one", len(found), strings.Join(patterns, " or "))
		return ""
	}
	name, err := filepath.Rel(dir, found[0])
	if err != nil {
		r.badf("%s: %v", found[0], err)
	}
	return name
}
