package sandbox

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/realpath"
)

// basePath finds programs where distributions and people install them.
const basePath = helperDir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"

// systemDirs lists the directories that are shown read-only if they exist. On most
// systems, all except /usr are links into it, and are shown as links.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"}

// homeDir is the path at which a confined command sees its home directory.
const homeDir = "/run/lilac/home"

// etcPaths lists the part of /etc that programs need and that contains no secrets: the
// linker's cache, alternatives, certificates, time zone, file types, ports, fonts. It is
// short because each path is a mount, and bubblewrap checks all mounts for each one that
// it adds.
var etcPaths = []string{
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/etc/protocols", "/etc/services", "/etc/fonts",
	"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted",
}

// resolved is a policy whose paths are resolved and do not contradict each other.
type resolved struct {
	Policy
	hidden []string
	masked []string
	shown  []shown
	dir    string
	home   string // as the command sees it
}

// shown is a path of the machine that a command sees.
type shown struct {
	realpath.Path
	writable bool
}

// resolve checks a policy. It compares paths after following links, so that a hidden path
// cannot be reached by another name.
func resolve(cmd Command, policy Policy) (resolved, error) {
	r := resolved{Policy: policy}
	if len(cmd.Argv) == 0 || cmd.Argv[0] == "" {
		return r, fault.InvalidField("command", "There is no command to run.")
	}
	for _, arg := range slices.Concat(cmd.Argv, cmd.Env) {
		if strings.ContainsRune(arg, 0) {
			return r, fault.InvalidField("command", "A command must not contain a NUL character.")
		}
	}
	for _, kv := range cmd.Env {
		if key, _, ok := strings.Cut(kv, "="); !ok || key == "" {
			return r, fault.InvalidField("env", "An environment variable must be written KEY=value.")
		}
	}
	if !filepath.IsAbs(policy.Workspace) {
		return r, fault.InvalidField("workspace", "The workspace must be an absolute path, not %q.", policy.Workspace)
	}
	workspace, err := realpath.Follow(policy.Workspace)
	if err != nil {
		return r, fmt.Errorf("find workspace: %w", err)
	}
	r.Workspace, r.shown = workspace.Real, []shown{{workspace, true}}
	if info, err := os.Stat(r.Workspace); err != nil {
		return r, fmt.Errorf("find workspace: %w", err)
	} else if !info.IsDir() {
		return r, fault.InvalidField("workspace", "The workspace %s is not a directory.", r.Workspace)
	}
	for _, system := range append([]string{"/etc", "/proc", "/sys", "/dev", "/run"}, systemDirs...) {
		if inside(system, r.Workspace) || system != "/run" && inside(r.Workspace, system) {
			return r, fault.InvalidField("workspace", "The workspace must not be %s: it belongs to the system.", r.Workspace)
		}
	}
	for _, path := range policy.Hidden {
		way, err := realpath.Follow(path)
		if err != nil {
			return r, fmt.Errorf("find hidden path: %w", err)
		}
		if inside(way.Real, r.Workspace) || inside(r.Workspace, way.Real) && !policy.Own {
			return r, fault.InvalidField("workspace", "The workspace %s and %s, which commands must not see, must not contain each other.", r.Workspace, way.Real)
		}
		r.hidden = append(r.hidden, way.Real)
	}
	for _, path := range policy.Masked {
		way, err := realpath.Follow(path)
		if err != nil {
			return r, fmt.Errorf("find masked path: %w", err)
		}
		if overlap(way.Real, r.Workspace) {
			return r, fault.InvalidField("hidden", "%s cannot be hidden: it is in the workspace or holds it, and commands may move what is in there.", path)
		}
		r.masked = append(r.masked, way.Real)
	}
	r.Binds = nil
	for _, bind := range policy.Binds {
		if bind, err = r.bind(bind); err != nil {
			return r, err
		}
		r.Binds = append(r.Binds, bind)
	}
	if policy.Home != "" {
		hidden := r.hidden
		r.hidden = nil // only this directory of them becomes visible, and it holds nothing hidden
		home, err := r.bind(Bind{Source: policy.Home, Target: homeDir, Writable: true})
		if r.hidden = hidden; err != nil {
			return r, err
		}
		r.Binds, r.Home, r.home = append(r.Binds, home), home.Source, home.Target
	}
	if policy.Proxy != "" {
		way, err := r.bind(Bind{Source: policy.Proxy, Target: proxySocket})
		if err != nil {
			return r, err
		}
		r.Binds = append(r.Binds, way)
	}
	if r.dir, err = startDir(cmd.Dir, r.Workspace); err != nil {
		return r, err
	}
	if r.TmpBytes <= 0 {
		r.TmpBytes = DefaultTmpBytes
	}
	if r.Hostname == "" {
		r.Hostname = "lilac"
	}
	r.Limits = r.Limits.orDefault()
	return r, nil
}

// bind checks a path to show against the paths that were resolved before it.
func (r *resolved) bind(b Bind) (Bind, error) {
	given := b.Source
	if !filepath.IsAbs(b.Source) || b.Target != "" && !filepath.IsAbs(b.Target) {
		return b, fault.InvalidField("binds", "A path to bind must be absolute, not %q.", given)
	}
	way, err := realpath.Follow(b.Source)
	if err == nil {
		_, err = os.Lstat(way.Real)
	}
	if err != nil {
		return b, fault.Wrap(fault.Invalid, err, "The path %s cannot be shown to commands", given)
	}
	b.Source = way.Real
	if b.Target == "" {
		b.Target = b.Source
	}
	b.Target = filepath.Clean(b.Target)
	for _, kernel := range []string{"/proc", "/sys", "/dev"} {
		if overlap(b.Source, kernel) || overlap(b.Target, kernel) {
			return b, fault.InvalidField("binds", "%s must not be bound: it shows more than files.", given)
		}
	}
	for _, hidden := range r.hidden {
		if overlap(hidden, b.Source) {
			return b, fault.InvalidField("binds", "%s must not be bound: it would show %s.", given, hidden)
		}
	}
	for _, masked := range r.masked {
		if inside(b.Source, masked) {
			return b, fault.InvalidField("binds", "%s must not be bound: it lies in %s, which is hidden.", given, masked)
		}
		if b.Writable && inside(masked, b.Source) {
			return b, fault.InvalidField("hidden", "%s cannot be hidden: it is in the writable %s, and commands may move what is in there.", masked, given)
		}
	}
	// A command can create links where it may write, so nothing is mounted there.
	written := []string{r.Workspace}
	for _, before := range r.Binds {
		if before.Writable {
			written = append(written, before.Target)
		}
	}
	for _, dir := range written {
		if inside(b.Target, dir) {
			return b, fault.InvalidField("binds", "%s must not appear in %s: commands may write there already.", given, dir)
		}
	}
	// Nor is a path from there shown: a command could replace it by a link, and the next
	// command would see the target of that link.
	next := shown{way, b.Writable}
	for _, before := range r.shown {
		for _, pair := range [][2]shown{{next, before}, {before, next}} {
			if inner, outer := pair[0], pair[1]; outer.writable && inner.Under(outer.Real) {
				return b, fault.InvalidField("binds", "%s must not be bound: commands may write in %s, and so decide where %s leads.", given, outer.Real, inner.Real)
			}
		}
	}
	r.shown = append(r.shown, next)
	return b, nil
}

func startDir(dir, workspace string) (string, error) {
	if dir == "" {
		return workspace, nil
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(workspace, dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "The directory %s cannot be entered.", dir)
	}
	if !inside(real, workspace) {
		return "", fault.InvalidField("dir", "The directory %s is outside the workspace.", dir)
	}
	return real, nil
}

// WithPrograms returns a PATH variable that puts dir before the machine's directories. It
// is for unconfined commands; confined commands see only the bound paths.
func WithPrograms(dir string) string { return "PATH=" + dir + ":" + basePath }

// environment returns the complete environment of a command.
func (r resolved) environment(extra []string) []string {
	env := []string{
		"HOME=" + cmp.Or(r.home, r.Workspace), "PATH=" + basePath, "TMPDIR=/tmp", "LANG=C.UTF-8",
		"TERM=dumb", "USER=lilac", "LOGNAME=lilac", "SHELL=/bin/bash", "LILAC_CWD=" + r.dir,
	}
	if r.Proxy != "" {
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
			env = append(env, name+"="+proxyURL, strings.ToLower(name)+"="+proxyURL)
		}
		env = append(env, "NO_PROXY=localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1")
	}
	for _, kv := range extra {
		key, _, _ := strings.Cut(kv, "=")
		env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, key+"=") })
		env = append(env, kv)
	}
	return env
}

// inside reports whether path is dir or lies below it; both are clean and absolute.
func inside(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

func overlap(a, b string) bool { return inside(a, b) || inside(b, a) }

// written returns the directories on disk that a command may write to.
func (r resolved) written() []string {
	dirs := []string{r.Workspace}
	for _, bind := range r.Binds {
		if bind.Writable {
			dirs = append(dirs, bind.Source)
		}
	}
	return dirs
}
