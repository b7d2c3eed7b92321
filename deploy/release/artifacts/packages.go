package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// find reports whether a command exists. A missing one is a mistake in CI.
func find(r *report, command, install string) bool {
	if _, err := exec.LookPath(command); err == nil {
		return true
	}
	line := fmt.Sprintf("not checked, because %s is missing: apt-get install %s", command, install)
	if os.Getenv("CI") == "true" {
		r.badf("%s", line)
	} else if !slices.Contains(r.good, line) {
		r.goodf("%s", line)
	}
	return false
}

// run returns the output of a command.
func run(command string, args ...string) (string, error) {
	out, err := exec.Command(command, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	return string(out), nil
}

// checkDebian unpacks a Debian package, verifies its unit, and runs its program if it is
// for this machine.
func checkDebian(r *report, path string, p platform) {
	if !find(r, "dpkg-deb", "dpkg") {
		return
	}
	name := filepath.Base(path)
	if arch, err := run("dpkg-deb", "--field", path, "Architecture"); err != nil || strings.TrimSpace(arch) != p.arch {
		r.badf("%s is for %q, want %s (%v)", name, strings.TrimSpace(arch), p.arch, err)
	}
	root, err := os.MkdirTemp("", "lilac-deb-")
	if err != nil {
		r.badf("%v", err)
		return
	}
	defer os.RemoveAll(root)
	if _, err := run("dpkg-deb", "--extract", path, root); err != nil {
		r.badf("%s cannot be unpacked: %v", name, err)
		return
	}
	complete := true
	for _, file := range inPackages {
		if found, _ := filepath.Glob(filepath.Join(root, file) + "*"); len(found) == 0 {
			r.badf("%s does not contain %s", name, file)
			complete = false
		}
	}
	if !complete {
		return
	}
	if secrets, err := os.Stat(filepath.Join(root, "etc/lilac/environment")); err != nil || secrets.Mode().Perm() != 0o600 {
		r.badf("%s: everybody may read /etc/lilac/environment (%v)", name, err)
	}
	program, err := os.ReadFile(filepath.Join(root, "usr/bin/lilac"))
	if err == nil {
		err = checkProgram(program, p)
	}
	if err != nil {
		r.badf("%s: the program %v", name, err)
		return
	}
	r.goodf("%s: the files of a package, and a program for %s", name, p)
	if p.os != runtime.GOOS || p.arch != runtime.GOARCH {
		return
	}
	checkInstalled(r, name, root)
}

// checkInstalled runs the program of a package, and verifies its unit and those of the
// repository.
func checkInstalled(r *report, name, root string) {
	version, err := run(filepath.Join(root, "usr/bin/lilac"), "version")
	if err != nil || !strings.HasPrefix(version, "lilac ") || strings.Contains(version, "devel") {
		r.badf("%s: lilac version says %q, want the version of the release (%v)", name, version, err)
		return
	}
	r.goodf("%s: %s", name, strings.TrimSpace(version))
	for unit, manager := range map[string]string{
		filepath.Join(root, "usr/lib/systemd/system/lilac.service"): "--system",
		filepath.Join("deploy", "lilac.service"):                    "--system",
		filepath.Join("deploy", "lilac.user.service"):               "--user",
	} {
		checkUnit(r, unit, manager, filepath.Join(root, "usr/bin/lilac"))
	}
}

// startsProgram finds the program in a unit.
var startsProgram = regexp.MustCompile(`(?m)^ExecStart=\S+`)

// checkUnit verifies a systemd unit. The unit names a program that this machine does not
// have, so another one takes its place.
func checkUnit(r *report, unit, manager, program string) {
	if !find(r, "systemd-analyze", "systemd") {
		return
	}
	dir, err := os.MkdirTemp("", "lilac-unit-")
	if err != nil {
		r.badf("%v", err)
		return
	}
	defer os.RemoveAll(dir)
	text, err := os.ReadFile(unit)
	changed := filepath.Join(dir, "lilac.service")
	if err == nil {
		err = os.WriteFile(changed, startsProgram.ReplaceAll(text, []byte("ExecStart="+program)), 0o644)
	}
	if err != nil {
		r.badf("%s: %v", unit, err)
		return
	}
	verify := exec.Command("systemd-analyze", manager, "verify", "--man=no", changed)
	verify.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
	out, err := verify.CombinedOutput()
	if objections := aboutUnit(string(out), changed); err != nil || objections != "" {
		r.badf("%s: systemd-analyze verify has objections: %s (%v)", unit, objections, err)
		return
	}
	r.goodf("%s: systemd-analyze verify has no objection", filepath.Base(unit))
}

// aboutUnit returns the lines of systemd-analyze without those about other units of this machine, which
// it also reads. A line begins with the path of its unit, if it is about one.
func aboutUnit(out, unit string) string {
	var own []string
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "/") || strings.HasPrefix(line, unit+":") {
			own = append(own, line)
		}
	}
	return strings.Join(own, "")
}

// checkRPM compares the list of an RPM package with what belongs in it.
func checkRPM(r *report, path string) {
	if !find(r, "rpm", "rpm") {
		return
	}
	name := filepath.Base(path)
	list, err := run("rpm", "-qlp", "--nosignature", path)
	if err != nil {
		r.badf("%s cannot be read: %v", name, err)
		return
	}
	files := strings.Split(strings.TrimSpace(list), "\n")
	missing := 0
	for _, want := range inPackages {
		// Manual pages may be compressed.
		if !slices.Contains(files, want) && !slices.Contains(files, want+".gz") {
			r.badf("%s does not contain %s", name, want)
			missing++
		}
	}
	if missing == 0 {
		r.goodf("%s: %d files", name, len(files))
	}
}
