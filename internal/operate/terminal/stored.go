package terminal

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
	"lilac/internal/serve/httpapi"
)

// modelItems returns the models, those of the configuration first.
func modelItems(list httpapi.ModelList) []Item {
	items := []Item{{Value: "default", Label: list.Default, Detail: "as configured"}}
	for _, configured := range []bool{true, false} {
		for _, m := range list.Models {
			if m.Configured != configured || m.Model == list.Default {
				continue
			}
			var facts []string
			if m.Name != "" && m.Name != m.Model {
				facts = append(facts, m.Name)
			}
			if m.ContextTokens > 0 {
				facts = append(facts, fmt.Sprintf("%dk context", m.ContextTokens/1000))
			}
			if m.Images {
				facts = append(facts, "pictures")
			}
			items = append(items, Item{Value: m.Model, Label: m.Model, Detail: strings.Join(facts, " · ")})
		}
	}
	return items
}

// rules lists the rules, the operator's own first.
func (s *service) rules() (string, error) {
	var answer struct {
		Rules []struct {
			Name    string             `json:"name"`
			Types   []string           `json:"types"`
			Enabled bool               `json:"enabled"`
			Does    string             `json:"does"`
			Today   map[string]int64   `json:"today"`
			Used    environment.Budget `json:"used"`
		} `json:"rules"`
	}
	if err := s.o.Server.Call(s.ctx, "GET", "/rules", nil, &answer); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("Rules (\"lilac rules show NAME\" prints what a rule did)\n")
	for _, r := range answer.Rules {
		state := ""
		if !r.Enabled {
			state = "  (off)"
		}
		events := int64(0)
		for _, n := range r.Today {
			events += n
		}
		fmt.Fprintf(&b, "  %-24s %s → %s · %s today%s\n", text.SingleLine(r.Name), text.SingleLine(strings.Join(r.Types, ", ")), text.SingleLine(r.Does), text.Count(events, "event"), state)
	}
	return strings.TrimRight(b.String(), "\n"), nil
}

// tasks lists the newest background tasks of a conversation, or of all without one.
func (s *service) tasks(sessionID string) (string, error) {
	list, _, err := s.o.Server.Tasks(s.ctx, sessionID, client.Page{Limit: 20})
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "No background tasks. Say for example: run the tests in the background", nil
	}
	var b strings.Builder
	b.WriteString("Background tasks (\"lilac tasks output ID\" prints what a task wrote)\n")
	for _, t := range list {
		fmt.Fprintf(&b, "  %-10s %s · %s · %s\n", t.State, text.SingleLine(cmp.Or(t.Description, t.Command)), age(time.Since(time.UnixMilli(t.CreatedAt))), t.ID)
	}
	return strings.TrimRight(b.String(), "\n"), nil
}
