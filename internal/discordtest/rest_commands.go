package discordtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
)

// The limits of commands (Application Commands, "Application Command Object").
const (
	maxCommands    = 100
	maxCommandName = 32
	maxDescription = 100

	commandSlash   = 1
	commandUser    = 2
	commandMessage = 3
)

// slashName is the naming rule of CHAT_INPUT commands, without capitals.
var slashName = regexp.MustCompile(`^[-_'\p{L}\p{N}]{1,32}$`)

func (c *call) ownApplication() bool { return c.path("application") == c.s.world.applicationID }

func (c *call) listCommands() answer {
	if !c.ownApplication() {
		return missingAccess
	}
	return ok(append([]object{}, c.s.world.commands...))
}

func (c *call) listGuildCommands() answer {
	if !c.ownApplication() {
		return missingAccess
	}
	return ok([]object{})
}

// putCommands is "Bulk Overwrite Global Application Commands".
func (c *call) putCommands() answer {
	if !c.ownApplication() {
		return missingAccess
	}
	var list []object
	if json.Unmarshal(c.body, &list) != nil {
		return bodyNotJSON
	}
	if len(list) > maxCommands {
		return refusal(http.StatusBadRequest, 30032, "Maximum number of application commands reached (100)")
	}
	seen := map[string]bool{}
	for i, cmd := range list {
		at := fmt.Sprint(i)
		name, _ := cmd["name"].(string)
		description, _ := cmd["description"].(string)
		kind := commandSlash
		if n, given := cmd["type"].(float64); given {
			kind = int(n)
		}
		switch {
		case name == "" || units(name) > maxCommandName:
			return invalid(at+".name", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 32 in length.")
		case kind == commandSlash && !slashName.MatchString(name):
			return invalid(at+".name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
		case kind == commandSlash && (description == "" || units(description) > maxDescription):
			return invalid(at+".description", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
		case kind != commandSlash && description != "":
			return invalid(at+".description", "APPLICATION_COMMANDS_DESCRIPTION_FORBIDDEN", "Context menu commands cannot have description")
		case kind < commandSlash || kind > commandMessage:
			return invalid(at+".type", "BASE_TYPE_CHOICES", "Value must be one of {1, 2, 3}.")
		case seen[fmt.Sprint(kind, name)]:
			return invalid(at+".name", "APPLICATION_COMMANDS_DUPLICATE_NAME", "Application command names must be unique")
		}
		seen[fmt.Sprint(kind, name)] = true
		cmd["id"], cmd["application_id"], cmd["version"], cmd["type"] = c.s.mintLocked(), c.s.world.applicationID, c.s.mintLocked(), kind
		if _, given := cmd["default_member_permissions"]; !given {
			cmd["default_member_permissions"] = nil
		}
	}
	c.s.world.commands = list
	c.s.world.commandWrites++
	return ok(list)
}
