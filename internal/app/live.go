package app

import (
	"strings"
	"sync"
	"sync/atomic"

	"lilac/internal/app/observe"
	"lilac/internal/core/router"
	"lilac/internal/core/task"
	"lilac/internal/model/fallback"
	"lilac/internal/model/llm"
	"lilac/internal/operate/config"
	"lilac/internal/serve/httpapi"
)

// live holds the configuration in force, which a reload replaces.
type live struct {
	observer *observe.Observer
	now      atomic.Pointer[inForce]
	learned  llm.Registry // capabilities learned from the endpoints of all models
	breakers fallback.Breakers
	// reloading makes reloads one after another. It is held during I/O, and no other lock is
	// taken before it.
	reloading sync.Mutex
	// reloadTrouble is the reason why the last reload was not fully applied. It is set after
	// the log entry is written, so that the reason is in the log when /readyz reports it.
	reloadTrouble atomic.Pointer[string]
	// probable are the probable mistakes in the configuration in force.
	probable atomic.Pointer[[]config.Warning]
}

// inForce is one state of the configuration.
type inForce struct {
	config *config.Config
	// choice is the model that answers if nothing else is chosen.
	choice config.ModelChoice

	mu     sync.Mutex // guards chosen
	chosen map[[6]string][]fallback.Candidate
}

// maxChosen bounds the selections whose candidates are kept: people can choose any model of a
// provider.
const maxChosen = 100

// candidates returns those of a selection. It keeps them, because every request needs them.
func (f *inForce) candidates(s config.Selection, build func([]config.ModelChoice) []fallback.Candidate) ([]fallback.Candidate, error) {
	const between = "\x00" // no name contains it
	key := [6]string{s.Model, s.Effort, strings.Join(s.Channel.Model, between), s.Channel.Effort, strings.Join(s.Agent.Model, between), s.Agent.Effort}
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.chosen[key]; ok {
		return known, nil
	}
	choices, err := f.config.SelectModels(s)
	if err != nil {
		return nil, err
	}
	if f.chosen == nil || len(f.chosen) >= maxChosen {
		f.chosen = map[[6]string][]fallback.Candidate{}
	}
	f.chosen[key] = build(choices)
	return f.chosen[key], nil
}

// choose puts a configuration into effect, with the model that it names.
func (l *live) choose(cfg *config.Config) error {
	choice, err := cfg.ResolveModel()
	if err != nil {
		return err
	}
	l.now.Store(&inForce{config: cfg, choice: choice})
	return nil
}

// gate returns the gate of the configuration, or nil if it has none.
func (l *live) gate() router.Gate {
	choice, ok, err := l.now.Load().config.ResolveGate()
	if err != nil || !ok { // validation has rejected invalid models
		return nil
	}
	model := l.observer.Model(newModel(choice, &l.learned))
	return router.ModelGate(func() llm.Model { return model })
}

// routerSettings returns the settings of the configuration in force.
func (l *live) routerSettings() router.Settings {
	return router.Settings{Debounce: l.now.Load().config.Router.Debounce.Times(), Gate: l.gate()}
}

// listenModes returns the configured modes of Discord's channels.
func (l *live) listenModes() router.Modes {
	c := l.now.Load().config.Surface.Discord
	modes := router.Modes{Default: router.Mode(c.Mode), Channels: map[string]router.Mode{}}
	for id, channel := range c.Channels {
		modes.Channels[id] = router.Mode(channel.Mode)
	}
	return modes
}

func (l *live) taskLimits() task.Limits { return l.now.Load().config.Tasks.Limits() }

// settings returns the settings that the web page shows.
func (l *live) settings() []httpapi.Setting {
	inForce := l.now.Load().config.InForce()
	out := make([]httpapi.Setting, len(inForce))
	for i, s := range inForce {
		out[i] = httpapi.Setting(s)
	}
	return out
}
