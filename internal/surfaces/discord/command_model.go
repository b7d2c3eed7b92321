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
	// maxListedModels bounds the list of models in a reply.
	maxListedModels = 25
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
