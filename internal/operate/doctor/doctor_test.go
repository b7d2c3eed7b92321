package doctor_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/client"
	"lilac/internal/operate/config"
	"lilac/internal/operate/doctor"
	"lilac/internal/store"
)

// patient creates an installation without problems.
func patient(t *testing.T, env map[string]string, file string) doctor.Patient {
	t.Helper()
	home := t.TempDir()
	source := config.Source{Getenv: func(name string) string {
		if name == "HOME" {
			return home
		}
		return env[name]
	}, Flags: config.Flags{Addr: "127.0.0.1:0"}}
	if file != "" {
		source.File = filepath.Join(home, "c.yaml")
		if err := os.WriteFile(source.File, []byte(file), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cfg, warnings, err := config.Load(source)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(cfg.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	return doctor.Patient{Config: cfg, Warnings: warnings}
}

func examine(t *testing.T, p doctor.Patient, check string) doctor.Finding {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, f := range doctor.Examine(ctx, p) {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("nothing was said about %s", check)
	return doctor.Finding{}
}

// check compares a finding with the expected one. A finding that is not OK must have advice.
func check(t *testing.T, f doctor.Finding, status doctor.Status, want string) {
	t.Helper()
	if f.Status != status || !strings.Contains(f.Message, want) {
		t.Errorf("%s is %s: %q, want %s with %q", f.Check, f.Status, f.Message, status, want)
	}
	if f.Status != doctor.OK && f.Advice == "" {
		t.Errorf("%s does not say what to do: %q", f.Check, f.Message)
	}
}

// answers starts a server that returns fixed texts by path.
func answers(t *testing.T, texts map[string]string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := texts[r.URL.Path]
		status := http.StatusOK
		if !ok {
			status = http.StatusNotFound
		}
		if strings.Contains(text, "not_ready") {
			status = http.StatusServiceUnavailable
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(s.Close)
	return s
}

func with(t *testing.T, p doctor.Patient, s *httptest.Server) doctor.Patient {
	t.Helper()
	c, err := client.Connect(client.Options{Addr: s.URL, Token: "0123456789abcdef"})
	if err != nil {
		t.Fatal(err)
	}
	p.Server = c
	return p
}

const ready = `{"status":"ready","parts":[{"name":"writer","status":"ok"}]}`

func TestNothingIsWrong(t *testing.T) {
	p := patient(t, nil, "")
	for _, name := range []string{"configuration", "data directory", "workspace", "privacy", "disk", "clock", "database", "bus", "keys", "model", "port"} {
		check(t, examine(t, p, name), doctor.OK, "")
	}
	check(t, examine(t, p, "server"), doctor.Warn, "not running")
	p.Unfound = fault.Wrap(fault.Unauthenticated, &fs.PathError{Op: "open", Path: "token", Err: fs.ErrPermission}, "The token cannot be read")
	if f := examine(t, p, "server"); !strings.Contains(f.Message, "token cannot be read") || !strings.Contains(f.Advice, "as the user") {
		t.Errorf("a server whose token this user may not read: %q (%q)", f.Message, f.Advice)
	}
}

func TestMachine(t *testing.T) {
	t.Run("others can read the data", func(t *testing.T) {
		p := patient(t, nil, "")
		if err := os.Chmod(p.Config.DataDir, 0o755); err != nil {
			t.Fatal(err)
		}
		check(t, examine(t, p, "privacy"), doctor.Warn, "0755")
	})
	t.Run("the clock went back", func(t *testing.T) {
		p := patient(t, nil, "")
		if err := os.WriteFile(filepath.Join(p.Config.DataDir, "lilac.db"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		p.Now = func() time.Time { return time.Now().Add(-time.Hour) }
		check(t, examine(t, p, "clock"), doctor.Warn, "in the future")
		p.Now = func() time.Time { return time.Date(1970, 7, 1, 0, 0, 0, 0, time.Local) } // in 1970 in every time zone
		check(t, examine(t, p, "clock"), doctor.Fail, "1970")
	})
	t.Run("the port is taken", func(t *testing.T) {
		p := patient(t, nil, "")
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		p.Config.Addr = l.Addr().String()
		check(t, examine(t, p, "port"), doctor.Fail, "another program")
	})
	t.Run("another Lilac has the port", func(t *testing.T) {
		p := patient(t, nil, "")
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/healthz" {
				_, _ = io.WriteString(w, `{"status":"ok","version":"v9"}`)
			}
		}))
		defer other.Close()
		p.Config.Addr = other.Listener.Addr().String()
		check(t, examine(t, p, "port"), doctor.Fail, "another Lilac (v9)")
	})
	t.Run("root examines the data of a service", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("only root can give something away: run this test as root")
		}
		p := patient(t, nil, "")
		const advice = "instead of root"
		if f := examine(t, p, "sandbox"); f.Status == doctor.OK && !strings.Contains(f.Advice, advice) {
			t.Errorf("for its own data, root is told %+v", f)
		}
		if err := os.Chown(p.Config.DataDir, 61234, 61234); err != nil {
			t.Fatal(err)
		}
		if f := examine(t, p, "sandbox"); strings.Contains(f.Advice, advice) {
			t.Errorf("for those of another user, root is told %+v", f)
		}
	})
	t.Run("what a start could not use", func(t *testing.T) {
		p := patient(t, nil, "")
		blobs, token := filepath.Join(p.Config.DataDir, "blobs"), filepath.Join(p.Config.DataDir, "token")
		check(t, examine(t, p, "stored files"), doctor.OK, "created on first start")
		check(t, examine(t, p, "token"), doctor.OK, "created on first start")
		if err := errors.Join(os.WriteFile(blobs, nil, 0o600), os.Mkdir(token, 0o700)); err != nil {
			t.Fatal(err)
		}
		check(t, examine(t, p, "stored files"), doctor.Fail, "not a directory")
		check(t, examine(t, p, "token"), doctor.Fail, token)
	})
	t.Run("the database is gone from its files", func(t *testing.T) {
		p := patient(t, nil, "")
		if err := os.Mkdir(filepath.Join(p.Config.DataDir, "blobs"), 0o700); err != nil {
			t.Fatal(err)
		}
		check(t, examine(t, p, "database"), doctor.Warn, "missing or empty")
		if err := os.WriteFile(filepath.Join(p.Config.DataDir, "lilac.db"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, examine(t, p, "database"), doctor.Warn, "missing or empty")
	})
	t.Run("a file is in the way", func(t *testing.T) {
		p := patient(t, nil, "")
		p.Config.Workspace = filepath.Join(p.Config.DataDir, "x")
		if err := os.WriteFile(p.Config.Workspace, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, examine(t, p, "workspace"), doctor.Fail, "not a directory")
	})
	t.Run("a file cannot be opened", func(t *testing.T) {
		p := patient(t, nil, "")
		if err := os.WriteFile(filepath.Join(p.Config.DataDir, "lilac.db"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		// A directory cannot be opened as a file, even by root, which may run the tests.
		if err := os.Mkdir(filepath.Join(p.Config.DataDir, "lilac.lock"), 0o700); err != nil {
			t.Fatal(err)
		}
		check(t, examine(t, p, "database"), doctor.Fail, "lilac.lock cannot be opened: is a directory")
		check(t, examine(t, p, "groups"), doctor.Warn, "lilac.lock cannot be opened")
	})
	t.Run("what cannot be looked at is not called absent", func(t *testing.T) {
		p := patient(t, nil, "")
		p.Config.DataDir = filepath.Join(p.Config.DataDir, strings.Repeat("n", 300))
		check(t, examine(t, p, "database"), doctor.Fail, "cannot open the database")
	})
	t.Run("a stored file is damaged", func(t *testing.T) {
		p := patient(t, nil, "")
		d, err := db.Open(t.Context(), db.Options{Dir: p.Config.DataDir, Migrations: slices.Concat(sqlitebus.Migrations, store.Migrations)})
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
		b, err := store.OpenBlobs(store.BlobsDir(p.Config.DataDir), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := b.Put(t.Context(), []byte("a file"))
		if err != nil {
			t.Fatal(err)
		}
		p.Deep = true
		check(t, examine(t, p, "database"), doctor.OK, "stored files are intact")
		name := strings.TrimPrefix(ref, store.BlobPrefix)
		if err := os.WriteFile(filepath.Join(p.Config.DataDir, "blobs", name[:2], name), []byte("A FILE"), 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, examine(t, p, "database"), doctor.Fail, name+" is damaged")
		p.Deep = false
		check(t, examine(t, p, "database"), doctor.OK, "")
	})
	t.Run("a long text is damaged", func(t *testing.T) {
		p := patient(t, nil, "")
		d, err := db.Open(t.Context(), db.Options{Dir: p.Config.DataDir, Migrations: slices.Concat(sqlitebus.Migrations, store.Migrations)})
		if err != nil {
			t.Fatal(err)
		}
		err = d.Update(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`INSERT INTO long_texts (owner, id, at, data) VALUES ('request-1', 'the hash of another text', 0, CAST('text' AS BLOB))`)
			return err
		})
		if err := errors.Join(err, d.Close()); err != nil {
			t.Fatal(err)
		}
		p.Deep = true
		check(t, examine(t, p, "database"), doctor.Fail, "request-1/the hash of another text of the table long_texts is damaged")
	})
	t.Run("the database is damaged", func(t *testing.T) {
		p := patient(t, nil, "")
		if err := os.WriteFile(filepath.Join(p.Config.DataDir, "lilac.db"), []byte("no database at all"), 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, examine(t, p, "database"), doctor.Fail, "")
	})
}

// doctor reports problems that prevent a start before a server is started.
func TestWhatAStartRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := patient(t, nil, "")
	check(t, examine(t, p, "tool port"), doctor.OK, "none configured")
	check(t, examine(t, p, "traces"), doctor.OK, "")
	p.Config.Tools.Addr = taken.Addr().String()
	check(t, examine(t, p, "tool port"), doctor.Fail, p.Config.Tools.Addr+" is in use by another program")
	p.Traces = fault.InvalidField("OTEL_X", "OTEL_X is wrong.")
	check(t, examine(t, p, "traces"), doctor.Fail, "OTEL_X is wrong")
}

// The sandbox cannot be tested without a directory for temporary files, whatever is installed.
func TestTemporaryFiles(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("needs bubblewrap (apt-get install bubblewrap)")
	}
	p := patient(t, nil, "")
	check(t, examine(t, p, "temporary files"), doctor.OK, "")
	gone := filepath.Join(t.TempDir(), "gone")
	t.Setenv("TMPDIR", gone)
	check(t, examine(t, p, "temporary files"), doctor.Fail, gone)
	if f := examine(t, p, "sandbox"); f.Status != doctor.Warn || !strings.Contains(f.Message, "TMPDIR") || strings.Contains(f.Message+f.Advice, "apt-get") {
		t.Errorf("the sandbox is %s: %q (%q)", f.Status, f.Message, f.Advice)
	}
}

func TestConfiguration(t *testing.T) {
	check(t, examine(t, patient(t, nil, "modle: demo\n"), "configuration"), doctor.Warn, `did you mean "model"`)
	check(t, examine(t, patient(t, nil, "modle: demo\nadr: x\n"), "configuration"), doctor.Warn, "and 1 more")
	for file, want := range map[string]doctor.Status{
		"providers: {openai: {apiKey: sk-0123456789abcdef}}\n":    doctor.Warn,
		"webhooks: {ci: {secret: 0123456789abcdef}}\n":            doctor.Warn,
		"bus: {url: \"redis://:0123456789abcdef@127.0.0.1:1\"}\n": doctor.Warn,
		"providers: {openai: {apiKey: \"${KEY}\"}}\n":             doctor.OK,
		"bus: {url: \"redis://127.0.0.1:1\"}\n":                   doctor.OK,
	} {
		p := patient(t, map[string]string{"KEY": "sk-0123456789abcdef"}, file)
		if err := os.Chmod(filepath.Dir(filepath.Dir(p.Config.File)), 0o755); err != nil { // the test's own directory is private
			t.Fatal(err)
		}
		got := examine(t, p, "configuration")
		if got.Status != want || (want == doctor.Warn) != strings.Contains(got.Message, "other users can read it") {
			t.Errorf("with %q: %+v, want %s", file, got, want)
		}
	}
	private := patient(t, nil, "webhooks: {ci: {secret: 0123456789abcdef}}\n")
	if err := os.Chmod(filepath.Dir(private.Config.File), 0o700); err != nil {
		t.Fatal(err)
	}
	check(t, examine(t, private, "configuration"), doctor.OK, "") // others cannot enter its directory
	homeless := fault.Wrap(fault.Invalid, errors.New("The home directory is unknown; set HOME"), "workspace cannot be made an absolute path")
	if got := doctor.Broken(homeless); len(got) != 1 || !strings.Contains(got[0].Message, "set HOME") {
		t.Errorf("the cause of a mistake is missing: %+v", got)
	}
	if got := doctor.Broken(context.Canceled); len(got) != 1 || got[0].Status != doctor.Fail || got[0].Advice == "" {
		t.Errorf("a configuration that cannot be used: %+v", got)
	}
}

func TestKeys(t *testing.T) {
	for key, want := range map[string]string{
		"sk-ant-0123456789": "set for anthropic", "sk-ant-01234 56789": "a space", `"sk-ant-0123456789"`: "a quote",
		"your-key-here": "a placeholder", "sk-proj-0123456789": "does not start with sk-ant-",
	} {
		status := doctor.Warn
		if strings.HasPrefix(want, "set") {
			status = doctor.OK
		}
		f := examine(t, patient(t, map[string]string{"ANTHROPIC_API_KEY": key, "LILAC_MODEL": "demo"}, ""), "keys")
		check(t, f, status, want)
		if strings.Contains(f.Message+f.Advice, key) {
			t.Errorf("the key is in %q", f.Message)
		}
	}
}

// provider starts a fake provider that accepts one API key and has one model.
func provider(t *testing.T, skew time.Duration) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
		if r.Header.Get("Authorization") != "Bearer good-key-0815" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"data":[{"id":"gpt-4o"},{"id":"other"}]}`))
	}))
	t.Cleanup(s.Close)
	return s
}

func TestServer(t *testing.T) {
	good := map[string]string{"/readyz": ready, "/dlq": `{"deadLetters":[]}`, "/bus/groups": `{"groups":[{"topic":"env","group":"environment","active":true}]}`}
	for _, tt := range []struct {
		name   string
		change map[string]string
		check  string
		status doctor.Status
		want   string
	}{
		{"works", nil, "server", doctor.OK, "ready at"},
		{"its database is not here", nil, "database", doctor.Warn, "though a server runs"},
		{"its workspace is not here", nil, "workspace", doctor.Warn, "though a server runs"},
		{"groups get on", nil, "groups", doctor.OK, ""},
		{"no dead letters", nil, "dead letters", doctor.OK, "none"},
		{"a part failed", map[string]string{"/readyz": `{"status":"not_ready","parts":[{"name":"disk","status":"failed","message":"it is full"}]}`}, "server: disk", doctor.Fail, "it is full"},
		{"not ready", map[string]string{"/readyz": `{"status":"not_ready","parts":[{"name":"disk","status":"failed","message":"it is full"}]}`}, "server", doctor.Fail, "disk: it is full"},
		{"a restart is needed", map[string]string{"/readyz": `{"status":"ready","parts":[{"name":"configuration","status":"warning","message":"a restart is needed for addr"}]}`}, "server: configuration", doctor.Warn, "addr"},
		{"a dead letter", map[string]string{"/dlq": `{"deadLetters":[{"id":"1"}]}`}, "dead letters", doctor.Warn, "not be handled: 1"},
		{"a group that is gone", map[string]string{"/bus/groups": `{"groups":[{"topic":"env","group":"old","backlog":7,"oldestMs":3600000}]}`}, "groups", doctor.Warn, "no consumer"},
		{"a stuck group", map[string]string{"/bus/groups": `{"groups":[{"topic":"env","group":"runner","pending":1,"oldestMs":3600000,"active":true}]}`}, "groups", doctor.Fail, "runner"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			texts := map[string]string{}
			for path, text := range good {
				texts[path] = text
			}
			for path, text := range tt.change {
				texts[path] = text
			}
			check(t, examine(t, with(t, patient(t, nil, ""), answers(t, texts)), tt.check), tt.status, tt.want)
		})
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	p := with(t, patient(t, nil, ""), gone)
	gone.Close()
	check(t, examine(t, p, "server"), doctor.Warn, "no response")
}
