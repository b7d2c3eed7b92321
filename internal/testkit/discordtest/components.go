package discordtest

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Limits of components, component types and button styles.
const (
	maxRows     = 5   // Component Reference, "Legacy Message Component Behavior"
	maxButtons  = 5   // "Action Row"
	maxCustomID = 100 // "Button"
	maxLabel    = 80  // "Button"

	componentRow    = 1
	componentButton = 2
	styleLink       = 5
	stylePremium    = 6
)

type component struct {
	Type       int         `json:"type"`
	Components []component `json:"components"`
	Style      int         `json:"style"`
	Label      string      `json:"label"`
	CustomID   string      `json:"custom_id"`
	URL        string      `json:"url"`
	Disabled   bool        `json:"disabled"`
	Emoji      any         `json:"emoji"`
}

// readComponents decodes and validates action rows of buttons. Lilac sends no other
// components.
func (p *payload) readComponents() (answer, bool) {
	var rows []component
	if json.Unmarshal(*p.Components, &rows) != nil {
		return invalid("components", "LIST_TYPE_CONVERT", "Only iterables may be used in a ListType"), false
	}
	if len(rows) > maxRows {
		return invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length."), false
	}
	seen := map[string]bool{}
	for i, row := range rows {
		at := "components." + strconv.Itoa(i)
		if row.Type != componentRow {
			return invalid(at+".type", "UNION_TYPE_CHOICES", "Value of field \"type\" must be one of (1,)."), false
		}
		if len(row.Components) == 0 || len(row.Components) > maxButtons {
			return invalid(at+".components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length."), false
		}
		for j, b := range row.Components {
			if a, fine := b.validate(at+".components."+strconv.Itoa(j), seen); !fine {
				return a, false
			}
			if b.CustomID != "" {
				p.buttons = append(p.buttons, Button{ID: b.CustomID, Label: b.Label, Style: b.Style, Disabled: b.Disabled})
			}
		}
	}
	return answer{}, true
}

func (b component) validate(at string, seen map[string]bool) (answer, bool) {
	switch {
	case b.Type != componentButton:
		return invalid(at+".type", "UNION_TYPE_CHOICES", "The fake Discord knows buttons only."), false
	case b.Style < 1 || b.Style > stylePremium:
		return invalid(at+".style", "BASE_TYPE_CHOICES", "Value must be one of {1, 2, 3, 4, 5, 6}."), false
	case b.Style == styleLink && (b.URL == "" || b.CustomID != ""):
		return invalid(at+".url", "BUTTON_COMPONENT_INVALID_URL", "A url is required, and no custom id."), false
	case b.Style < styleLink && b.CustomID == "":
		return invalid(at+".custom_id", "BUTTON_COMPONENT_CUSTOM_ID_REQUIRED", "A custom id is required"), false
	case units(b.CustomID) > maxCustomID:
		return invalid(at+".custom_id", "BASE_TYPE_MAX_LENGTH", "Must be 100 or fewer in length."), false
	case units(b.Label) > maxLabel:
		return invalid(at+".label", "BASE_TYPE_MAX_LENGTH", "Must be 80 or fewer in length."), false
	case strings.TrimSpace(b.Label) == "" && b.Emoji == nil:
		return invalid(at+".label", "BUTTON_COMPONENT_LABEL_REQUIRED", "A label or an emoji is required"), false
	case b.CustomID != "" && seen[b.CustomID]:
		return invalid(at+".custom_id", "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated"), false
	}
	seen[b.CustomID] = true
	return answer{}, true
}

// withIDs assigns sequential IDs to components, as Discord does for components without
// one.
func withIDs(raw json.RawMessage) []object {
	var rows []object
	if json.Unmarshal(raw, &rows) != nil {
		return nil // readComponents has already rejected it
	}
	next := 0
	var number func(list []object)
	number = func(list []object) {
		for _, c := range list {
			next++
			c["id"] = next
			nested, _ := c["components"].([]any)
			var inner []object
			for _, n := range nested {
				if o, ok := n.(map[string]any); ok {
					inner = append(inner, o)
				}
			}
			number(inner)
		}
	}
	number(rows)
	return rows
}
