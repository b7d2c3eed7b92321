package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
	"lilac/internal/serve/httpapi"
	"lilac/internal/telemetry/notify"
)

// reloader applies changes of the configuration.
type reloader struct {
	*base
	hosts *httpapi.Hosts
	// fileAtStart is the version of the configuration file that the start read.
	fileAtStart fileState
}

// follow reloads the configuration on a signal and when the file changes.
func (r reloader) follow(ctx context.Context) error {
	if r.Load == nil {
		return nil
	}
	w := &fileWatch{path: r.Config.Sought, busy: r.Config.DataDir, used: r.fileAtStart, logger: r.Logger}
	return w.run(ctx, r.Reload, func() { r.reload("a signal") }, func() { r.reload("a change of the file") })
}

// reload applies the settings that may change at runtime. A configuration with a mistake
// changes nothing.
func (r reloader) reload(why string) {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	r.tell(notify.Reloading)
	defer r.tell(notify.Ready)
	next, warnings, err := r.Load()
	for _, w := range warnings {
		r.Logger.Warn("the configuration has a probable mistake", "warning", w.String())
	}
	if err == nil && next.File == "" && r.now.Load().config.File != "" {
		err = fault.Wrap(fault.Invalid, fs.ErrNotExist, "The configuration file %s is gone", r.Config.Sought)
	}
	if err == nil {
		err = r.takeOver(next, why)
	}
	if err == nil {
		r.probable.Store(&warnings)
	}
	if err != nil {
		trouble := "the new configuration has a mistake and is not used; \"lilac config check\" says where"
		if errors.Is(err, fs.ErrNotExist) {
			trouble = "the configuration file is gone; its last content is still used"
		}
		r.Logger.Error("the configuration was not reloaded, the old one stays in force", "reason", why, "error", fault.ToWire(err).Message, "mistakes", mistakes(err))
		r.reloadTrouble.Store(&trouble)
	}
}

// mistakes returns the number of mistakes in a configuration.
func mistakes(err error) int {
	found, more := config.Each(err)
	return len(found) + more
}

func (r reloader) takeOver(next *config.Config, why string) error {
	// Settings that take effect only at the start are compared with the values at the start.
	merged, change := r.now.Load().config.Adopt(next)
	r.Secrets.Add(next.Secrets()...)
	rules, err := ruleBuilder{r.base}.rules(merged)
	if err != nil {
		return err
	}
	if err := r.choose(merged); err != nil {
		return err
	}
	if err := r.sources.set(merged); err != nil {
		return err
	}
	r.env.SetRules(rules)
	r.mcp.Set(merged.MCPServers)
	r.hosts.Set(merged.AllowedHosts)
	r.runner.Configure(runnerSettings(merged))
	for _, s := range r.platforms {
		s.router.Configure(r.routerSettings())
		s.configure(merged)
	}
	if r.Level != nil {
		var level slog.Level
		_ = level.UnmarshalText([]byte(merged.Log.Level)) // the configuration was validated
		r.Level.Set(level)
	}
	r.Logger.Info("the configuration was reloaded", "reason", why, "applied", change.Applied, "need_restart", change.Restart, "model", r.now.Load().choice.String())
	r.reloadTrouble.Store(nil)
	if len(change.Restart) > 0 {
		trouble := "a restart is needed for " + strings.Join(change.Restart, ", ")
		r.reloadTrouble.Store(&trouble)
	}
	return nil
}
