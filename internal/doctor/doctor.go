package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"lilac/internal/client"
	"lilac/internal/config"
	"lilac/internal/db"
	"lilac/internal/fault"
	"lilac/internal/redisbus"
	"lilac/internal/sandbox"
	"lilac/internal/sqlitebus"
	"lilac/internal/store"
)

// Status is how a check went.
type Status string

// The outcomes of a check.
const (
	OK   Status = "ok"
	Warn Status = "warning"
	Fail Status = "failed"
)

// Finding is the outcome of one check.
type Finding struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
	// Advice says what to do; empty when there is nothing to do.
	Advice string `json:"advice,omitempty"`
}

const (
	// lowDisk is where a warning begins: the log of a busy day fits in it.
	lowDisk = 1 << 30
	// noDisk is where SQLite soon fails.
	noDisk = 64 << 20
	// reachTimeout bounds the look at the model's host.
	reachTimeout = 3 * time.Second
)

// Patient is what is examined.
type Patient struct {
	Config *config.Config
	// Server is the client of the running server; nil when none was found.
	Server *client.Client
	// Deep reads every row of the database.
	Deep bool
	Now  func() time.Time
}

// Examine runs every check. It takes a few seconds at most, but for a deep one.
func Examine(ctx context.Context, p Patient) []Finding {
	if p.Now == nil {
		p.Now = time.Now
	}
	server, running := p.server(ctx)
	out := []Finding{
		{Check: "configuration", Status: OK, Message: describe(p.Config)},
		p.directory("data directory", p.Config.DataDir),
		p.directory("workspace", p.Config.Workspace),
		p.disk(),
		p.clock(),
		p.database(ctx, running),
		p.bus(ctx),
		p.sandbox(ctx),
		p.model(ctx),
		server,
	}
	if running {
		out = append(out, p.deadLetters(ctx))
	}
	return out
}

func describe(c *config.Config) string {
	if c.File == "" {
		return "no file; environment and defaults"
	}
	return c.File
}

// directory checks that a directory can be written, or made.
func (p Patient) directory(check, dir string) Finding {
	at := dir
	for {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			return Finding{check, Fail, at + " is not a directory", "Move it away, or choose another place."}
		}
		if err == nil {
			break
		}
		if parent := filepath.Dir(at); parent != at {
			at = parent
			continue
		}
		return Finding{check, Fail, fmt.Sprintf("%s cannot be examined: %v", dir, err), "Choose another place."}
	}
	const writeAndEnter = 3
	if err := syscall.Access(at, writeAndEnter); err != nil {
		return Finding{check, Fail, at + " cannot be written", "Change its owner or mode, or choose another place."}
	}
	if at != dir {
		return Finding{check, OK, dir + " will be made", ""}
	}
	return Finding{check, OK, dir, ""}
}

func (p Patient) disk() Finding {
	at := p.Config.DataDir
	var st syscall.Statfs_t
	for syscall.Statfs(at, &st) != nil && filepath.Dir(at) != at {
		at = filepath.Dir(at)
	}
	free := st.Bavail * uint64(st.Bsize)
	message := fmt.Sprintf("%d MiB free", free>>20)
	switch {
	case free < noDisk:
		return Finding{"disk", Fail, message, "Free some space: the database cannot grow."}
	case free < lowDisk:
		return Finding{"disk", Warn, message, "Free some space soon."}
	}
	return Finding{"disk", OK, message, ""}
}

// clock finds a clock that stands before what was written already.
func (p Patient) clock() Finding {
	now := p.Now()
	if now.Year() < 2024 {
		return Finding{"clock", Fail, "it is " + now.Format(time.RFC3339) + " here", "Set the clock: timers and limits depend on it."}
	}
	info, err := os.Stat(filepath.Join(p.Config.DataDir, db.FileName))
	if err == nil && info.ModTime().Sub(now) > time.Minute {
		return Finding{"clock", Warn, "the database was written in the future, " + info.ModTime().Format(time.RFC3339), "Set the clock: timers and limits depend on it."}
	}
	return Finding{"clock", OK, now.Format(time.RFC3339), ""}
}

func (p Patient) database(ctx context.Context, running bool) Finding {
	const check = "database"
	path := filepath.Join(p.Config.DataDir, db.FileName)
	if _, err := os.Stat(path); err != nil {
		return Finding{check, OK, "there is none yet; the first start makes it", ""}
	}
	if running {
		f := Finding{check, OK, "the running server has it open", ""}
		if p.Deep {
			f.Status, f.Advice = Warn, "Stop the server for a deep look."
		}
		return f
	}
	database, err := db.Open(ctx, db.Options{Dir: p.Config.DataDir, Migrations: slices.Concat(redisbus.Migrations, store.Migrations)})
	if err != nil {
		return Finding{check, Fail, fault.ToWire(err).Message, adviceFor(err)}
	}
	defer database.Close()
	bad, err := database.Verify(ctx)
	if err == nil && p.Deep {
		var rows []string
		rows, err = damagedRows(ctx, database)
		bad = append(bad, rows...)
	}
	switch {
	case err != nil:
		return Finding{check, Fail, "it could not be read to its end: " + err.Error(), "Keep a copy of the data directory and look at the disk."}
	case len(bad) > 0:
		return Finding{check, Fail, fmt.Sprintf("%d damaged places, the first: %s", len(bad), bad[0]), "Keep a copy of the data directory and restore a good one."}
	}
	if p.Deep {
		return Finding{check, OK, "every row is as it was written", ""}
	}
	return Finding{check, OK, path, ""}
}

func damagedRows(ctx context.Context, database *db.DB) ([]string, error) {
	b, err := sqlitebus.New(database, sqlitebus.Options{Logger: slog.New(slog.DiscardHandler), TrimEvery: -1})
	if err != nil {
		return nil, fmt.Errorf("open the bus: %w", err)
	}
	defer b.Close()
	bad, err := b.Verify(ctx)
	if err != nil {
		return bad, err
	}
	rows, err := store.New(database).Verify(ctx)
	return append(bad, rows...), err
}

func adviceFor(err error) string {
	if fault.KindOf(err) == fault.Conflict {
		return "If another Lilac runs on it, stop that one or choose another --data."
	}
	return "Keep a copy of the data directory before anything else."
}

func (p Patient) sandbox(ctx context.Context) Finding {
	if p.Config.Sandbox.Mode == config.SandboxOff {
		return Finding{"sandbox", Warn, "off: commands of the agent can do everything that you can", "Set sandbox.mode to auto."}
	}
	box, err := sandbox.Open(ctx, sandbox.Mode(p.Config.Sandbox.Mode))
	if err != nil {
		advice := "Install bubblewrap (apt-get install bubblewrap), or accept the risk with sandbox: {mode: off}."
		if runtime.GOOS != "linux" {
			advice = "Commands are confined on Linux only. Accept the risk with sandbox: {mode: off}."
		}
		return Finding{"sandbox", Warn, "commands are refused: " + fault.ToWire(err).Message, advice}
	}
	return Finding{"sandbox", OK, box.Name(), ""}
}

func (p Patient) model(ctx context.Context) Finding {
	m, err := p.Config.ResolveModel()
	if err != nil {
		return Finding{"model", Fail, fault.ToWire(err).Message, ""}
	}
	if m.Type == config.Demo {
		return Finding{"model", OK, "the built-in demo (" + m.Why + ")", "For a real one set ANTHROPIC_API_KEY or OPENAI_API_KEY."}
	}
	message := fmt.Sprintf("%s (%s)", m, m.Why)
	u, err := url.Parse(m.BaseURL)
	if err != nil {
		return Finding{"model", Fail, message + ": its base URL cannot be read", ""}
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return Finding{"model", Warn, message + ": " + u.Host + " cannot be reached", "Look at the network, at providers." + m.Provider + ".baseURL and at proxies."}
	}
	_ = conn.Close()
	return Finding{"model", OK, message, ""}
}

func (p Patient) server(ctx context.Context) (f Finding, running bool) {
	if p.Server == nil {
		return Finding{"server", Warn, "it does not run", "Start it with: lilac serve"}, false
	}
	err := p.Server.Ready(ctx)
	switch kind := fault.KindOf(err); {
	case err == nil:
		return Finding{"server", OK, "it answers at " + p.Server.Addr(), ""}, true
	case client.NoServer(err):
		return Finding{"server", Warn, "it does not answer at " + p.Server.Addr(), "Start it with: lilac serve"}, false
	case kind == fault.Unavailable:
		return Finding{"server", Fail, "it runs and is not ready: " + fault.ToWire(err).Message, "Its log says why."}, true
	}
	return Finding{"server", Fail, fault.ToWire(err).Message, "Its log says why."}, true
}

func (p Patient) deadLetters(ctx context.Context) Finding {
	letters, err := p.Server.DeadLetters(ctx, client.Page{Limit: 100})
	if err != nil {
		return Finding{"dead letters", Fail, fault.ToWire(err).Message, ""}
	}
	if len(letters) == 0 {
		return Finding{"dead letters", OK, "none", ""}
	}
	return Finding{"dead letters", Warn, fmt.Sprintf("%d events could not be handled", len(letters)), "See them with: lilac dlq list"}
}
