package httpapi

import (
	"net/http"

	"lilac/internal/core/session"
	"lilac/internal/foundation/fault"
)

// Models knows the models that people can choose.
type Models interface {
	// Check reports why an agent, a model, or an effort cannot be chosen.
	Check(c session.Choice) error
	// List returns the models to suggest, and the one that answers if nothing is
	// chosen.
	List() ModelList
}

// A ModelList is what people can choose from. A model that is not in the list can be
// chosen as well, if its provider is configured.
type ModelList struct {
	Default string      `json:"default"`
	Models  []ModelInfo `json:"models"`
	Efforts []string    `json:"efforts"`
	// Agents are the named agents of the configuration.
	Agents []AgentInfo `json:"agents,omitempty"`
}

// AgentInfo describes a named agent.
type AgentInfo struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// ModelInfo has the known facts about a model; zero means unknown.
type ModelInfo struct {
	Model         string `json:"model"`
	Name          string `json:"name,omitempty"`
	ContextTokens int    `json:"contextTokens,omitempty"`
	Images        bool   `json:"images"`
	Thinking      bool   `json:"thinking"`
	Tools         bool   `json:"tools"`
	// Configured means that the configuration names the model.
	Configured bool `json:"configured"`
}

type modelRoutes struct{ models Models }

func (m modelRoutes) available() error {
	if m.models == nil {
		return &fault.Error{Kind: fault.Unavailable, Code: "no_models", Message: "This server has no models to choose from."}
	}
	return nil
}

func (m modelRoutes) list(*http.Request) (ModelList, error) { return m.models.List(), nil }
