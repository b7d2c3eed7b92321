package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/config"
	"lilac/internal/telemetry/health"
)

// configuration reports the source of the settings and any warnings about them.
func (p Patient) configuration() Finding {
	c := p.Config
	if c.File == "" {
		return Finding{"configuration", OK, "no file; environment and defaults", ""}
	}
	if len(p.Warnings) > 0 {
		message := p.Warnings[0].String()
		if more := len(p.Warnings) - 1; more > 0 {
			message += fmt.Sprintf(" (and %d more: lilac config check)", more)
		}
		return Finding{"configuration", Warn, message, "Check that line of the file. Lilac ignores unknown keys."}
	}
	if osfile.HasModes && c.SecretInFile() && othersCanRead(c.File) {
		return Finding{"configuration", Warn, c.File + " contains a key or password, and other users can read it", "chmod 600 " + c.File + ", or use ${NAME} instead."}
	}
	return Finding{"configuration", OK, c.File, ""}
}

// othersCanRead reports whether the mode of a file lets other users read it, and the modes of the
// directories above let them reach it.
func othersCanRead(file string) bool {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm()&0o044 == 0 {
		return false
	}
	for file != filepath.Dir(file) {
		file = filepath.Dir(file)
		if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o011 == 0 {
			return false
		}
	}
	return true
}

// workspace checks the workspace. A start creates the directory, but a running server does not
// recreate it.
func (p Patient) workspace(running bool) Finding {
	const check = "workspace"
	if _, err := os.Stat(p.Config.Workspace); running && errors.Is(err, fs.ErrNotExist) {
		return Finding{
			check, Warn, "there is no " + p.Config.Workspace + ", though a server runs",
			"If it is that server's workspace, every command is refused: put it back, or start Lilac again, which makes an empty one.",
		}
	}
	return p.directory(check, p.Config.Workspace)
}

// temporary checks that the directory for temporary files exists, because Lilac does not create
// it.
func temporary(dir string) Finding {
	if err := osfile.CanWrite(dir); err != nil {
		return Finding{
			"temporary files", Fail, fmt.Sprintf("%s cannot be used: %v", dir, err),
			"Make it, or name another one in TMPDIR: the sandbox is tried there, and sockets are made there unless XDG_RUNTIME_DIR names a place.",
		}
	}
	return Finding{"temporary files", OK, dir, ""}
}

// directory checks that a directory is writable or can be created.
func (p Patient) directory(check, dir string) Finding {
	at := dir
	for {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			return Finding{check, Fail, at + " is not a directory", "Move it, or choose another path."}
		}
		if err == nil {
			break
		}
		if parent := filepath.Dir(at); parent != at {
			at = parent
			continue
		}
		return Finding{check, Fail, fmt.Sprintf("cannot examine %s: %v", dir, err), "Choose another path."}
	}
	if err := osfile.CanWrite(at); err != nil {
		return Finding{check, Fail, fmt.Sprintf("user %[2]d cannot write to %[1]s", at, os.Geteuid()), "Change its owner or mode, or choose another path."}
	}
	if at != dir {
		return Finding{check, OK, dir + " (created on first start)", ""}
	}
	return Finding{check, OK, dir, ""}
}

// private checks that other users cannot read the data directory.
func (p Patient) private() Finding {
	const check = "privacy"
	for _, name := range []string{"", config.TokenFile, db.FileName} {
		path := filepath.Join(p.Config.DataDir, name)
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Finding{check, Fail, fmt.Sprintf("cannot examine %s: %v", path, err), "Check its owner and mode."}
		}
		if mode := info.Mode().Perm(); osfile.HasModes && mode&0o077 != 0 {
			return Finding{check, Warn, fmt.Sprintf("other users can access %s (mode %04o)", path, mode), "chmod go= " + path}
		}
	}
	return Finding{check, OK, "only its owner can read the data directory", ""}
}

// token checks that a start could read the token file, if it exists.
func (p Patient) token() Finding {
	if _, err := p.Config.OperatorToken(); err != nil {
		return refused("token", err)
	}
	return Finding{"token", OK, "readable (created on first start if missing)", ""}
}

func (p Patient) disk() Finding {
	disk, err := health.DiskAt(p.Config.DataDir)
	if err != nil {
		return Finding{"disk", Fail, fault.Plain(err), "Choose another data directory."}
	}
	message := fmt.Sprintf("%d MiB free in %s", disk.Free>>20, p.Config.DataDir)
	switch {
	case disk.Free < health.NoDisk:
		return Finding{"disk", Fail, message, "Free disk space: the database cannot grow."}
	case disk.Network() != "":
		return Finding{"disk", Warn, "the data directory is on " + disk.Network(), "Use a local disk. SQLite cannot rely on locks and syncs of network file systems."}
	case disk.Free < health.LowDisk:
		return Finding{"disk", Warn, message, "Free disk space soon."}
	}
	return Finding{"disk", OK, message, ""}
}

// clock reports a system clock that is behind the time of data that was already written.
func (p Patient) clock() Finding {
	const advice = "Set the clock: timers and limits depend on it."
	now := p.Now()
	if now.Year() < 2024 {
		return Finding{"clock", Fail, "the clock shows " + now.Format(time.RFC3339), advice}
	}
	for _, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(filepath.Join(p.Config.DataDir, db.FileName+suffix))
		if err == nil && info.ModTime().Sub(now) > time.Minute {
			return Finding{"clock", Warn, "the database was last written at " + info.ModTime().Format(time.RFC3339) + ", which is in the future: the clock was set back", advice}
		}
	}
	return Finding{"clock", OK, now.Format(time.RFC3339), ""}
}

// port checks that a server could listen on the configured address.
func (p Patient) port() Finding {
	return port("port", p.Config.Addr, "another address with --addr or addr")
}

// toolPort checks the address of the tool server, without which the server does not start.
func (p Patient) toolPort() Finding {
	if p.Config.Tools.Addr == "" {
		return Finding{"tool port", OK, "none configured; commands use the socket", ""}
	}
	return port("tool port", p.Config.Tools.Addr, "another address in tools.addr")
}

func port(check, addr, other string) Finding {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		_ = l.Close() // it was opened only to test the address
		return Finding{check, OK, addr + " is free", ""}
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		what := addr + " is in use by another program"
		if version := lilacAt(addr); version != "" {
			what = fmt.Sprintf("%s is in use by another Lilac (%s), which has other data", addr, version)
		}
		return Finding{check, Fail, what, "Stop it, or choose " + other + "."}
	}
	if errors.Is(err, syscall.EACCES) {
		return Finding{check, Fail, "no permission to listen on " + addr, "Ports below 1024 require a privilege. Choose a higher port."}
	}
	return Finding{check, Fail, fmt.Sprintf("cannot listen on %s: %v", addr, err), "Choose " + other + "."}
}

// lilacAt returns the version of the Lilac at an address of this machine, or "" if there is none.
func lilacAt(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	asking := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := asking.Get("http://" + net.JoinHostPort(host, port) + "/healthz")
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	var alive struct{ Status, Version string }
	if json.NewDecoder(io.LimitReader(res.Body, 4096)).Decode(&alive) != nil || alive.Status == "" {
		return ""
	}
	return text.TruncateRunes(alive.Version, 60)
}

// traces checks that the OTEL_* variables are valid for a start.
func (p Patient) traces() Finding {
	if p.Traces != nil {
		return Finding{"traces", Fail, says(p.Traces), "Correct or unset the variable. Until then, Lilac does not start."}
	}
	return Finding{"traces", OK, "tracing follows the OTEL_* variables", ""}
}
