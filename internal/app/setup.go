package app

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/trial"
	"lilac/internal/operate/config"
	"lilac/internal/operate/setup"
	"lilac/internal/serve/httpapi"
	"lilac/internal/surfaces/discord"
)

// ErrRestart is the error that [Run] returns after a graceful stop that the operator asked for, to start
// again.
var ErrRestart = errors.New("restart")

// The limits of calls during the setup. A person waits for them.
const (
	modelTrialTime   = 2 * time.Minute
	modelListTime    = 15 * time.Second
	discordTrialTime = 30 * time.Second
)

// setupService implements [httpapi.Setup] for the running server.
type setupService struct {
	*base
	web *webServer

	// mu makes changes of the files one after another.
	mu sync.Mutex
}

// setup returns the service, or nil if the program cannot load another configuration.
func (w *webServer) setup() httpapi.Setup {
	if w.LoadProposed == nil {
		return nil
	}
	return &setupService{base: w.base, web: w}
}

func (s *setupService) files() setup.Store {
	return setup.Store{Path: s.Config.Sought, DataDir: s.Config.DataDir}
}

// State implements [httpapi.Setup].
func (s *setupService) State(context.Context) (httpapi.SetupState, error) {
	now := s.now.Load()
	cfg := now.config
	demo := now.choice.Type == config.Demo
	out := httpapi.SetupState{
		Fresh: demo && !cfg.Surface.Discord.Token.Set() && len(cfg.Rules) == 0 && len(cfg.Model) == 0,
		Model: now.choice.String(), Why: now.choice.Why, Demo: demo,
		Discord: cfg.Surface.Discord.Token.Set(), Rules: len(cfg.Rules),
		File: s.Config.Sought, ReadOnly: s.files().ReadOnly(), CanRestart: s.restart != nil,
		Portal: discord.PortalURL,
	}
	_, undo, err := s.files().Previous()
	if err != nil {
		return out, err
	}
	out.Undo = undo && out.ReadOnly == ""
	for _, p := range setup.Providers {
		out.Providers = append(out.Providers, httpapi.SetupProvider{
			Name: p.Name, Title: p.Title, BaseURL: p.BaseURL, Key: p.Key, Model: p.Model, HasKey: cfg.Providers[p.Name].APIKey.Set(),
		})
	}
	for _, t := range setup.Templates {
		out.Templates = append(out.Templates, httpapi.SetupTemplate(t))
	}
	return out, nil
}

// answersOf converts answers, and keeps their secrets out of the log.
func (s *setupService) answersOf(in httpapi.SetupAnswers) (out setup.Answers) {
	if m := in.Model; m != nil {
		out.Model = &setup.Model{Provider: m.Provider, Name: m.Model, Key: config.Secret(m.Key), BaseURL: m.BaseURL, Headers: config.Secret(m.Headers)}
		s.Secrets.Add(m.Key)
	}
	if d := in.Discord; d != nil {
		out.Discord = &setup.Discord{Token: config.Secret(d.Token), Servers: d.Servers, Channels: d.Channels}
		s.Secrets.Add(d.Token)
	}
	if r := in.Rule; r != nil {
		out.Rule = &setup.Rule{
			Template: r.Template, Conversation: r.Conversation, Prompt: r.Prompt, Time: r.Time, Directory: r.Directory, Secret: config.Secret(r.Secret),
		}
		s.Secrets.Add(r.Secret)
	}
	if len(in.Settings) > 0 {
		known := map[string]string{}
		for _, setting := range s.now.Load().config.InForce() {
			known[setting.Key] = setting.Kind
		}
		for _, setting := range in.Settings {
			out.Settings = append(out.Settings, setup.Setting{Key: setting.Key, Kind: known[setting.Key], Value: setting.Value, Reset: setting.Reset})
		}
	}
	return out
}

// proposed returns the files before and after the answers, and the configuration that they make.
func (s *setupService) proposed(a setup.Answers) (before, after setup.Files, cfg *config.Config, warnings []config.Warning, err error) {
	if before, err = s.files().Read(); err != nil {
		return before, after, nil, nil, err
	}
	if after, err = a.Apply(before); err != nil {
		return before, after, nil, nil, err
	}
	if cfg, warnings, err = s.check(after); err == nil {
		s.Secrets.Add(cfg.Secrets()...)
	}
	return before, after, cfg, warnings, err
}

// check loads the files as if they were written.
func (s *setupService) check(files setup.Files) (*config.Config, []config.Warning, error) {
	proposal, err := files.Proposal()
	if err != nil {
		return nil, nil, err
	}
	return s.LoadProposed(proposal)
}

// Models implements [httpapi.Setup].
func (s *setupService) Models(ctx context.Context, m httpapi.SetupModel) ([]string, error) {
	m.Model = cmp.Or(m.Model, "any") // the answers need a name
	_, _, cfg, _, err := s.proposed(s.answersOf(httpapi.SetupAnswers{Model: &m}))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, modelListTime)
	defer cancel()
	found, err := ListModels(ctx, cfg, m.Provider)
	var names []string
	for _, model := range found {
		names = append(names, model.ID)
	}
	return names, err
}

// TryModel implements [httpapi.Setup].
func (s *setupService) TryModel(ctx context.Context, m httpapi.SetupModel) (httpapi.SetupModelTrial, error) {
	answers := s.answersOf(httpapi.SetupAnswers{Model: &m})
	_, _, cfg, _, err := s.proposed(answers)
	if err != nil {
		return httpapi.SetupModelTrial{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, modelTrialTime)
	defer cancel()
	return TryModel(ctx, cfg, answers.Model.Ref())
}

// TryModel makes a small real call of a model with a tool.
func TryModel(ctx context.Context, cfg *config.Config, ref string) (httpapi.SetupModelTrial, error) {
	choice, err := cfg.LookupModel(ref)
	if err != nil {
		return httpapi.SetupModelTrial{}, err
	}
	out := httpapi.SetupModelTrial{Model: choice.String(), OK: true, Checks: []httpapi.SetupCheck{}}
	if choice.Type == config.Demo {
		out.Checks = append(out.Checks, httpapi.SetupCheck{Status: "ok", Text: "the demo model is built in and needs no test"})
		return out, nil
	}
	report := trial.Run(ctx, NewModel(choice), time.Now)
	out.OK, out.CostMicros = report.OK(), report.Usage.CostMicros
	for _, c := range report.Checks {
		out.Checks = append(out.Checks, httpapi.SetupCheck{Status: string(c.Status), Text: c.Detail})
	}
	return out, nil
}

// TryDiscord implements [httpapi.Setup].
func (s *setupService) TryDiscord(ctx context.Context, d httpapi.SetupDiscord) (httpapi.SetupDiscordTrial, error) {
	s.Secrets.Add(d.Token)
	cfg := s.now.Load().config
	if before, err := s.files().Read(); err == nil {
		if saved, _, err := s.check(before); err == nil {
			cfg = saved // a saved token takes effect at the next start, but can be tested now
		}
	}
	return TryDiscord(ctx, cfg, d.Token)
}

// TryDiscord asks Discord what a token gives access to; "" means the configured one.
func TryDiscord(ctx context.Context, cfg *config.Config, token string) (httpapi.SetupDiscordTrial, error) {
	c := cfg.Surface.Discord
	token = cmp.Or(strings.TrimSpace(strings.TrimPrefix(token, "Bot ")), c.Token.Reveal())
	if token == "" {
		return httpapi.SetupDiscordTrial{}, fault.InvalidField("token", "Enter the bot's token.")
	}
	ctx, cancel := context.WithTimeout(ctx, discordTrialTime)
	defer cancel()
	found, err := discord.InspectBot(ctx, discord.Options{Config: discord.Config{Token: token, APIURL: c.APIURL}})
	if err != nil {
		if fault.KindOf(err) == fault.Unauthenticated { // it is Discord that does not accept a token, not Lilac
			return httpapi.SetupDiscordTrial{}, fault.InvalidField("token", "%s", fault.ToWire(err).Message)
		}
		return httpapi.SetupDiscordTrial{}, err
	}
	out := httpapi.SetupDiscordTrial{Bot: found.Bot, Invite: found.Invite, More: found.More, Servers: []httpapi.SetupServer{}, Checks: []httpapi.SetupCheck{}}
	for _, f := range found.Findings {
		check := httpapi.SetupCheck{Status: "ok", Text: f.What, Do: f.Do}
		if !f.OK {
			check.Status = "failed"
		}
		out.Checks = append(out.Checks, check)
	}
	for _, server := range found.Servers {
		shown := httpapi.SetupServer{ID: server.ID, Name: server.Name, Listens: slices.Contains(c.AllowedGuildIDs, server.ID), Channels: []httpapi.SetupChannel{}}
		for _, ch := range server.Channels {
			shown.Channels = append(shown.Channels, httpapi.SetupChannel{ID: ch.ID, Name: ch.Name, Missing: ch.Missing, Listens: slices.Contains(c.AllowedChannelIDs, ch.ID)})
		}
		out.Servers = append(out.Servers, shown)
	}
	return out, nil
}

// TryRule implements [httpapi.Setup].
func (s *setupService) TryRule(_ context.Context, r httpapi.SetupRule) (environment.Trial, error) {
	answers := s.answersOf(httpapi.SetupAnswers{Rule: &r})
	before, _, cfg, _, err := s.proposed(answers)
	if err != nil {
		return environment.Trial{}, err
	}
	return TryRule(cfg, answers.Rule, before)
}

// TryRule reports what the example event of a rule would cause. The configuration has the rule; the
// files are those from before it.
func TryRule(cfg *config.Config, r *setup.Rule, before setup.Files) (environment.Trial, error) {
	e, err := r.Example(before, time.Now())
	if err != nil {
		return environment.Trial{}, err
	}
	rules, err := cfg.EnvironmentRules()
	if err != nil {
		return environment.Trial{}, err
	}
	return environment.Try(append(rules, cfg.BuiltinRules(environment.DefaultRules(environment.DefaultsOptions{}))...), e, cfg.SourceTools), nil
}

// Change implements [httpapi.Setup].
func (s *setupService) Change(ctx context.Context, in httpapi.SetupAnswers, save bool) (httpapi.SetupChange, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, after, cfg, warnings, err := s.proposed(s.answersOf(in))
	if err != nil {
		return httpapi.SetupChange{}, err
	}
	out := s.describe(before, after, cfg, warnings)
	if !save {
		return out, nil
	}
	return out, s.write(ctx, &out, before, after)
}

// Undo implements [httpapi.Setup].
func (s *setupService) Undo(ctx context.Context) (httpapi.SetupChange, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := s.files().Read()
	if err != nil {
		return httpapi.SetupChange{}, err
	}
	old, ok, err := s.files().Previous()
	if err != nil {
		return httpapi.SetupChange{}, err
	}
	if !ok {
		return httpapi.SetupChange{}, fault.New(fault.NotFound, "There is no earlier configuration to restore.")
	}
	after := setup.Files{Config: old, Secrets: before.Secrets}
	cfg, warnings, err := s.check(after)
	if err != nil {
		return httpapi.SetupChange{}, err
	}
	out := s.describe(before, after, cfg, warnings)
	return out, s.write(ctx, &out, before, after)
}

// write writes the files and applies them.
func (s *setupService) write(ctx context.Context, out *httpapi.SetupChange, before, after setup.Files) error {
	if err := s.files().Write(before, after); err != nil {
		return err
	}
	s.Logger.InfoContext(ctx, "the operator changed the configuration", "file", s.Config.Sought, "secrets", out.Secrets)
	reloader{base: s.base, hosts: s.web.hosts}.reload("the setup")
	out.Saved = true
	return nil
}

// describe compares the files.
func (s *setupService) describe(before, after setup.Files, next *config.Config, warnings []config.Warning) httpapi.SetupChange {
	_, change := s.Config.Adopt(next)
	out := httpapi.SetupChange{Diff: []httpapi.SetupLine{}, Secrets: setup.ChangedSecrets(before, after), Restart: append([]string{}, change.Restart...), Warnings: []string{}}
	for _, line := range setup.Diff(before.Config, after.Config) {
		out.Diff = append(out.Diff, httpapi.SetupLine(line))
	}
	for _, w := range warnings {
		out.Warnings = append(out.Warnings, w.String())
	}
	out.Warnings = append(out.Warnings, setup.Overridden(next, before, after)...)
	return out
}

// Restart implements [httpapi.Setup].
func (s *setupService) Restart(ctx context.Context) error {
	if s.restart == nil {
		return fault.New(fault.Unavailable, "Lilac cannot restart itself here. Stop it, and start it again.")
	}
	s.Logger.InfoContext(ctx, "restarting: the operator asked for it")
	s.restart(ErrRestart)
	return nil
}

// unlessRestarted returns ErrRestart if the program stopped gracefully for a restart.
func unlessRestarted(ctx context.Context, err error) error {
	if err == nil && errors.Is(context.Cause(ctx), ErrRestart) {
		return ErrRestart
	}
	return err
}
