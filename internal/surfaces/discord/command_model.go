package discord

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

const (
	// optionModel is the parameter of /model, and defaultModel its value for the
	// configured model.
	optionModel  = "name"
	defaultModel = "default"
	// optionString is the type of a text parameter ("Application Commands",
	// application command option types).
	optionString = 3
	// maxListedModels bounds the list of models in a reply, and the suggestions while a
	// person types, which Discord limits to 25 with at most 100 characters each.
	maxListedModels = 25
	maxSuggestion   = 100
)

// planModel shows the models of a channel, or chooses one.
func planModel(ctx context.Context, s *interactions, i interaction, _ surface.User, _ bool) (string, func(*db.Tx) error, error) {
	if s.o.Models == nil {
		return "", nil, fault.New(fault.Unavailable, "There is no model to choose from.")
	}
	current, selectable, err := s.o.Models.Models(ctx, i.ChannelID)
	if err != nil {
		return "", nil, err
	}
	wanted := strings.TrimSpace(i.option(optionModel))
	switch {
	case wanted == "":
		return modelList(current, selectable), nil, nil
	case strings.EqualFold(wanted, defaultModel):
		return "From the next answer on, the configured model answers here.", func(tx *db.Tx) error {
			return s.o.Models.ChooseModel(tx, i.ChannelID, i.ID, "")
		}, nil
	}
	found := matchModels(wanted, selectable)
	if len(found) != 1 {
		return "There is no single model `" + inCode(wanted) + "` to choose.\n" + modelList(current, selectable), nil, nil
	}
	return "From the next answer on, `" + inCode(found[0]) + "` answers here.", func(tx *db.Tx) error {
		return s.o.Models.ChooseModel(tx, i.ChannelID, i.ID, found[0])
	}, nil
}

// matchModels returns the model with a name, or else those whose names contain it.
func matchModels(wanted string, selectable []string) (found []string) {
	if slices.Contains(selectable, wanted) {
		return []string{wanted}
	}
	for _, model := range selectable {
		if strings.Contains(strings.ToLower(model), strings.ToLower(wanted)) {
			found = append(found, model)
		}
	}
	return found
}

func modelList(current string, selectable []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The model here is `%s`. To choose another one, use `/model name:…`:\n", inCode(current))
	for i, model := range selectable {
		if i == maxListedModels {
			fmt.Fprintf(&b, "- and %d more\n", len(selectable)-i)
			break
		}
		fmt.Fprintf(&b, "- `%s`\n", inCode(model))
	}
	return b.String() + "- `default`: the configured model"
}

// inCode removes what would end a code span.
func inCode(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "`", "'")
}

// wireSuggestions answers what a person has typed so far ("Receiving and Responding",
// autocomplete).
type wireSuggestions struct {
	Type int `json:"type"`
	Data struct {
		Choices []wireSuggestion `json:"choices"`
	} `json:"data"`
}

type wireSuggestion struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// suggest answers an autocompletion of /model. Nothing is stored: a person who sees no
// suggestions can type the whole name.
func (s *interactions) suggest(ctx context.Context, i interaction) {
	ctx, cancel := context.WithTimeout(ctx, acknowledgeTimeout)
	defer cancel()
	out := wireSuggestions{Type: suggestions}
	out.Data.Choices = s.suggestedModels(ctx, i)
	if err := s.writer.client.do(ctx, createInteractionResponse.with(i.ID, i.Token), out, nil, nil); err != nil && ctx.Err() == nil {
		s.o.Logger.DebugContext(ctx, "cannot suggest models", "channel_id", i.ChannelID, "error", err)
	}
}

// suggestedModels returns the models of a channel whose names contain what was typed.
func (s *interactions) suggestedModels(ctx context.Context, i interaction) []wireSuggestion {
	out := []wireSuggestion{}
	if s.o.Models == nil || i.Data.Name != commandModel || s.directory.requireWritable(ctx, i.ChannelID) != nil {
		return out
	}
	_, selectable, err := s.o.Models.Models(ctx, i.ChannelID)
	if err != nil {
		return out
	}
	typed := strings.ToLower(strings.TrimSpace(i.option(optionModel)))
	for _, model := range append(slices.Clone(selectable), defaultModel) {
		if len(out) < maxListedModels && utf16Length(model) <= maxSuggestion && strings.Contains(strings.ToLower(model), typed) {
			out = append(out, wireSuggestion{model, model})
		}
	}
	return out
}
