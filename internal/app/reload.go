package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
	"lilac/internal/telemetry/notify"
)

// followConfiguration reloads the configuration on a signal and when the file changes.
func (p *program) followConfiguration(ctx context.Context) error {
	if p.Load == nil {
		return nil
	}
	w := &fileWatch{path: p.Config.Sought, busy: p.Config.DataDir, used: p.fileAtStart, logger: p.Logger}
	return w.run(ctx, p.Reload, func() { p.reload("it was asked for") }, func() { p.reload("the file changed") })
}

// reload applies the settings that may change at runtime. A configuration with a mistake
// changes nothing.
func (p *program) reload(why string) {
	p.tell(notify.Reloading)
	defer p.tell(notify.Ready)
	next, warnings, err := p.Load()
	for _, w := range warnings {
		p.Logger.Warn("the configuration has an oddity", "warning", w.String())
	}
	if err == nil && next.File == "" && p.now.Load().config.File != "" {
		err = fault.Wrap(fault.Invalid, fs.ErrNotExist, "The configuration file %s is gone", p.Config.Sought)
	}
	if err == nil {
		err = p.takeOver(next, why)
	}
	if err != nil {
		trouble := "the new configuration has a mistake and is not used; \"lilac config check\" says where"
		if errors.Is(err, fs.ErrNotExist) {
			trouble = "the configuration file is gone; what it said is still used"
		}
		p.Logger.Error("the configuration was not reloaded, the old one stays in force", "reason", why, "error", fault.ToWire(err).Message, "mistakes", mistakes(err))
		p.reloadTrouble.Store(&trouble)
	}
}

// mistakes returns the number of mistakes in a configuration.
func mistakes(err error) int {
	found, more := config.Each(err)
	return len(found) + more
}

func (p *program) takeOver(next *config.Config, why string) error {
	// Settings that take effect only at the start are compared with the values at the start.
	merged, change := p.now.Load().config.Adopt(next)
	p.Secrets.Add(next.Secrets()...)
	rules, err := p.rules(merged)
	if err != nil {
		return err
	}
	if err := p.choose(merged); err != nil {
		return err
	}
	if err := p.setSources(merged); err != nil {
		return err
	}
	p.env.SetRules(rules)
	p.hosts.Set(merged.AllowedHosts)
	p.runner.Configure(runnerSettings(merged))
	for _, s := range p.platforms {
		s.router.Configure(p.routerSettings())
		s.configure(merged)
	}
	if p.Level != nil {
		var level slog.Level
		_ = level.UnmarshalText([]byte(merged.Log.Level)) // the configuration was validated
		p.Level.Set(level)
	}
	p.Logger.Info("the configuration was reloaded", "reason", why, "applied", change.Applied, "need_restart", change.Restart, "model", p.now.Load().choice.String())
	p.reloadTrouble.Store(nil)
	if len(change.Restart) > 0 {
		trouble := "a restart is needed for " + strings.Join(change.Restart, ", ")
		p.reloadTrouble.Store(&trouble)
	}
	return nil
}
