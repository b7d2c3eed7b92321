package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"lilac/internal/config"
	"lilac/internal/fault"
	"lilac/internal/notify"
)

// lookEvery is how often the configuration file is looked at. A look is one
// call of the system, and it sees what a watch of the kernel misses: network
// file systems, and files that are links into a directory that is replaced.
const lookEvery = time.Second

// fileState tells one content of a file from another.
type fileState struct {
	at   time.Time
	size int64
	ok   bool
}

func stateOf(path string) fileState {
	info, err := os.Stat(path)
	if err != nil {
		return fileState{}
	}
	return fileState{info.ModTime(), info.Size(), true}
}

// followConfiguration reads the configuration again when it is asked to, and
// when the file has changed and stays as it is for one look: an editor may
// write it in pieces.
func (p *program) followConfiguration(ctx context.Context) error {
	if p.Load == nil {
		return nil
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	path := p.Config.File
	used := p.fileAtStart
	last := used
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.Reload:
			used = stateOf(path)
			p.reload("it was asked for")
		case <-tick.C:
			if path == "" {
				continue
			}
			now := stateOf(path)
			if now == last && now != used && now.ok {
				used = now
				p.reload("the file changed")
			}
			last = now
		}
	}
}

// reload takes over what may change while the program runs. A configuration
// with a mistake changes nothing.
func (p *program) reload(why string) {
	p.tell(notify.Reloading)
	defer p.tell(notify.Ready)
	next, warnings, err := p.Load()
	for _, w := range warnings {
		p.Logger.Warn("the configuration has an oddity", "warning", w.String())
	}
	if err == nil && next.File == "" && p.Config.File != "" {
		err = &fs.PathError{Op: "read", Path: p.Config.File, Err: fs.ErrNotExist}
	}
	if err == nil {
		err = p.takeOver(next, why)
	}
	if err != nil {
		trouble := "the new configuration has a mistake and is not used; \"lilac config check\" says where"
		if errors.Is(err, fs.ErrNotExist) {
			trouble = "the configuration file is gone; what it said is still used"
		}
		p.reloadTrouble.Store(&trouble)
		p.Logger.Error("the configuration was not reloaded, the old one stays in force", "reason", why, "error", fault.ToWire(err).Message)
	}
}

func (p *program) takeOver(next *config.Config, why string) error {
	// What was opened at the start is compared with the start.
	merged, change := p.now.Load().config.Adopt(next)
	p.Secrets.Add(next.Secrets()...)
	rules, err := p.rules(merged)
	if err != nil {
		return err
	}
	if err := p.choose(merged); err != nil {
		return err
	}
	p.env.SetRules(rules)
	p.hosts.Set(merged.AllowedHosts)
	p.runner.Configure(runnerSettings(merged))
	if p.Level != nil {
		var level slog.Level
		_ = level.UnmarshalText([]byte(merged.Log.Level)) // the configuration was validated
		p.Level.Set(level)
	}
	p.reloadTrouble.Store(nil)
	if len(change.Restart) > 0 {
		trouble := "a restart is needed for " + strings.Join(change.Restart, ", ")
		p.reloadTrouble.Store(&trouble)
	}
	p.Logger.Info("the configuration was reloaded", "reason", why, "applied", change.Applied, "need_restart", change.Restart, "model", p.now.Load().choice.String())
	return nil
}
