package app

import (
	"context"
	"slices"
	"strings"

	"lilac/internal/agent/skills"
	"lilac/internal/core/task"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

// opening returns what a conversation that begins now knows besides its instructions.
func (r runnerPorts) opening(ctx context.Context, client, sessionID string) string {
	cfg := r.now.Load().config
	catalog, err := cfg.SkillLibrary().Catalog()
	if err != nil {
		r.Logger.WarnContext(ctx, "cannot list the skills", "error", fault.ToWire(err).Message)
	}
	index, err := remembered(r).index(ctx, client, sessionID)
	if err != nil && ctx.Err() == nil {
		r.Logger.WarnContext(ctx, "cannot read the memory", "session_id", sessionID, "error", err)
	}
	parts := []string{catalog, index}
	if !task.IsChild(sessionID) { // a sub-agent starts no tasks
		parts = append(parts, cfg.Agents.Catalog())
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "\n\n")
}

// readSkill reads a trusted skill.
func (b *base) readSkill(name, file string) (string, error) {
	return b.now.Load().config.SkillLibrary().Read(name, file)
}

// lasting returns the skills that the conversation has read: a summary would lose what they
// say. They are read again, so that a text that only looks like a skill gains nothing.
func (r runnerPorts) lasting(removed []chat.Message, size int) string {
	var texts []string
	for _, m := range removed {
		for _, p := range m.Parts {
			switch p.Type {
			case chat.TypeText:
				texts = append(texts, p.Text)
			case chat.TypeToolResult:
				text, _ := p.OutputText()
				texts = append(texts, text)
			}
		}
	}
	var out []string
	for _, name := range skills.Names(strings.Join(texts, "\n")) {
		text, err := r.readSkill(name, "")
		switch {
		case err != nil: // it is gone, or waits for the operator
			continue
		case len(text) > size:
			text = "The skill " + name + " was read before. Read it again before you continue with its work."
		}
		size -= len(text)
		out = append(out, text)
	}
	if len(out) == 0 {
		return ""
	}
	return "Skills that were read before:\n\n" + strings.Join(out, "\n\n")
}
