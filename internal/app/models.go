package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/catalog"
	"lilac/internal/model/fallback"
	"lilac/internal/model/llm"
	"lilac/internal/operate/config"
	"lilac/internal/serve/httpapi"
	"lilac/internal/store"
)

// maxSuggested bounds the models that the page suggests.
const maxSuggested = 500

// models chooses the model of each request, and implements [httpapi.Models].
type models struct{ *base }

// of returns the model of a session's next request: what people chose there, else that of
// its channel, else the configured one.
func (m models) of(ctx context.Context, s session.Session) (llm.Model, error) {
	now := m.now.Load()
	cfg := now.config
	selection := config.Selection{Model: s.Model, Effort: s.Effort, Agent: cfg.Agents[s.Agent]}
	if len(cfg.Channels) > 0 {
		err := m.db.Read(ctx, func(q db.Queryer) error {
			selection.Channel = m.channel(q, cfg, s)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	candidates, err := now.candidates(selection, m.candidates)
	if err != nil && selection.Model != "" {
		// The operator removed the provider. The next one answers, and the log says why.
		m.Logger.WarnContext(ctx, "the model that was chosen for a conversation is not available any more", "session_id", s.ID, "model", s.Model, "error", fault.ToWire(err).Message)
		selection.Model = ""
		candidates, err = now.candidates(selection, m.candidates)
	}
	if err != nil {
		return nil, err
	}
	return fallback.New(candidates, &m.breakers, time.Now), nil
}

// candidates returns the models of the choices. Each key of a provider is a candidate of its own.
func (m models) candidates(choices []config.ModelChoice) []fallback.Candidate {
	var candidates []fallback.Candidate
	for _, choice := range choices {
		for _, key := range choice.Keys() {
			one := choice
			one.APIKey = key
			candidates = append(candidates, fallback.Candidate{
				Model: m.observer.Model(newModel(one, &m.learned)), Name: choice.String(), Key: breakerKey(one),
			})
		}
	}
	return candidates
}

// breakerKey names the endpoint, the model, and the key of a choice. It is a hash, because it is
// stored, and an address may contain a password.
func breakerKey(c config.ModelChoice) string {
	sum := sha256.Sum256([]byte(c.BaseURL + "\x00" + c.String() + "\x00" + c.APIKey.Reveal()))
	return hex.EncodeToString(sum[:16])
}

// channel returns the settings of a session's channel.
func (m models) channel(q db.Queryer, cfg *config.Config, s session.Session) config.Channel {
	ids := []string{s.ID}
	if m.isPlatform(s.Client) {
		if known, err := (store.SurfaceCache{}).Session(q, s.Client, s.ID); err == nil { // else it is not cached yet
			ids = append(ids, known.ParentChannelID)
		}
	}
	return cfg.Channel(s.Client, ids...)
}

// instructions returns those of a session's agent and channel.
func (m models) instructions(q db.Queryer, s session.Session) string {
	cfg := m.now.Load().config
	agent := cfg.Agents[s.Agent].Instructions
	if len(cfg.Channels) == 0 {
		return agent
	}
	return strings.TrimSpace(agent + "\n\n" + m.channel(q, cfg, s).Instructions)
}

// agent returns the named agent of a session's channel.
func (m models) agent(q db.Queryer, s session.Session) string {
	cfg := m.now.Load().config
	if len(cfg.Agents) == 0 || len(cfg.Channels) == 0 {
		return ""
	}
	return m.channel(q, cfg, s).Agent
}

// terms returns the terms of a named agent.
func (m models) terms(name string) session.AgentTerms {
	return m.now.Load().config.Agents.Terms(name)
}

// checkAgent reports why no work can be given to a named agent.
func (b *base) checkAgent(name string) error { return b.now.Load().config.Agents.Check(name) }

// name returns the name of the model that answers next in a session.
func (m models) name(q db.Queryer, client, sessionID string) string {
	cfg := m.now.Load().config
	s, err := m.store.Sessions.Session(q, sessionID)
	if err != nil {
		s = session.Session{ID: sessionID, Client: client}
	}
	channel := m.channel(q, cfg, s)
	choices, err := cfg.SelectModels(config.Selection{Model: s.Model, Channel: channel, Agent: cfg.Agents[cmp.Or(s.Agent, channel.Agent)]})
	if err != nil {
		return m.now.Load().choice.String()
	}
	return choices[0].String()
}

// selectable returns the models that people on a platform can choose: those that the
// operator mentions. Any other one could cost more than the operator expects.
func (m models) selectable() []string { return m.now.Load().config.Selectable() }

// choose makes a model that of a session on a platform; "" follows the configuration again.
func (m models) choose(tx *db.Tx, client, sessionID, eventID, model string) error {
	if model != "" && !slices.Contains(m.selectable(), model) {
		return fault.InvalidField("model", "The model %s is not one that can be chosen here.", model)
	}
	if err := m.now.Load().config.CheckSelection("", model, ""); err != nil {
		return err
	}
	return m.runner.Choose(tx, client, sessionID, eventID, func(c *session.Choice) { c.Model = model })
}

// Check implements [httpapi.Models].
func (m models) Check(c session.Choice) error {
	return m.now.Load().config.CheckSelection(c.Agent, c.Model, c.Effort)
}

// List implements [httpapi.Models].
func (m models) List() httpapi.ModelList {
	now := m.now.Load()
	out := httpapi.ModelList{Default: now.choice.String(), Efforts: config.Efforts(), Models: []httpapi.ModelInfo{}}
	for _, name := range slices.Sorted(maps.Keys(now.config.Agents)) {
		out.Agents = append(out.Agents, httpapi.AgentInfo{Name: name, Description: now.config.Agents[name].Description})
	}
	seen := map[string]bool{}
	add := func(ref string, configured bool) {
		choice, err := now.config.LookupModel(ref)
		if err != nil || seen[choice.String()] || len(out.Models) >= maxSuggested {
			return
		}
		seen[choice.String()] = true
		out.Models = append(out.Models, httpapi.ModelInfo{
			Model: choice.String(), Name: choice.Facts.Name, ContextTokens: choice.ContextTokens, Images: choice.Images,
			Thinking: choice.Facts.Thinking, Tools: choice.Facts.Tools, Configured: configured,
		})
	}
	for _, ref := range now.config.Selectable() {
		add(ref, true)
	}
	for _, provider := range now.config.OnlineProviders() {
		p := now.config.Providers[provider]
		for _, known := range now.config.Facts().Offers(catalog.Query{Provider: provider, BaseURL: p.BaseURL}) {
			add(provider+"/"+known.ID, false)
		}
	}
	return out
}

// shows reports whether any model that may answer gets attachments of a media type: as they
// are, or recordings as a transcript. A model that accepts no such media gets a note instead.
func (m models) shows(mediaType string) bool {
	now := m.now.Load()
	var accepts func(config.ModelChoice) bool
	switch {
	case strings.HasPrefix(mediaType, "image/"):
		accepts = func(c config.ModelChoice) bool { return c.Images }
	case mediaType == "application/pdf":
		accepts = func(c config.ModelChoice) bool { return c.Facts.PDFs }
	case strings.HasPrefix(mediaType, "audio/"):
		accepts = func(c config.ModelChoice) bool {
			return now.config.Transcription.URL != "" || newModel(c, &m.learned).Info().Audio
		}
	default:
		return false
	}
	return accepts(now.choice) || slices.ContainsFunc(now.config.Selectable(), func(ref string) bool {
		choice, err := now.config.LookupModel(ref)
		return err == nil && accepts(choice)
	})
}
