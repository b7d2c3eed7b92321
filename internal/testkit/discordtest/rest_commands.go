package discordtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Limits of commands, and command types (Application Commands, "Application Command
// Types").
const (
	maxSlash       = 100 // maximum number of global commands: "Registering a Command"
	maxMenu        = 15  // the same, for each of the other types
	maxCreates     = 200 // the same, creations per day
	maxCommandName = 32  // "Application Command Structure"
	maxDescription = 100 // "Application Command Structure"

	commandSlash   = 1
	commandUser    = 2
	commandMessage = 3
)

// slashName matches valid names of CHAT_INPUT commands (Application Commands,
// "Application Command Naming"). Names must also be lower case, which is checked
// separately.
var slashName = regexp.MustCompile(`^[-_'\p{L}\p{N}\p{Devanagari}\p{Thai}]{1,32}$`)

func (c *call) ownApplication() bool { return c.path("application") == c.s.world.applicationID }

func listCommands(c *call) answer {
	if !c.ownApplication() {
		return missingAccess
	}
	return ok(append([]object{}, c.s.world.commands...))
}

func listGuildCommands(c *call) answer {
	if !c.ownApplication() {
		return missingAccess
	}
	return ok([]object{})
}

// putCommands implements "Bulk Overwrite Global Application Commands".
func putCommands(c *call) answer {
	if !c.ownApplication() {
		return missingAccess
	}
	var list []object
	if json.Unmarshal(c.body, &list) != nil {
		return bodyNotJSON
	}
	seen, ofKind, now := map[string]bool{}, map[int]int{}, c.s.o.Now()
	creates := slices.DeleteFunc(slices.Clone(c.s.world.creates), func(at time.Time) bool { return now.Sub(at) >= 24*time.Hour })
	for i, cmd := range list {
		at := fmt.Sprint(i)
		name, _ := cmd["name"].(string)
		description, _ := cmd["description"].(string)
		kind := commandSlash
		if n, given := cmd["type"].(float64); given {
			kind = int(n)
		}
		most := maxMenu
		if kind == commandSlash {
			most = maxSlash
		}
		ofKind[kind]++
		switch {
		case ofKind[kind] > most:
			return refusal(http.StatusBadRequest, 30032, "Maximum number of application commands reached")
		case name == "" || units(name) > maxCommandName:
			return invalid(at+".name", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 32 in length.")
		case kind == commandSlash && (!slashName.MatchString(name) || name != strings.ToLower(name)):
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
		if !slices.ContainsFunc(c.s.world.commands, func(old object) bool { return old["name"] == name && old["type"] == kind }) {
			creates = append(creates, now)
		}
		cmd["id"], cmd["application_id"], cmd["version"], cmd["type"] = c.s.mintLocked(), c.s.world.applicationID, c.s.mintLocked(), kind
		cmd["description"] = description
		if _, given := cmd["default_member_permissions"]; !given {
			cmd["default_member_permissions"] = nil
		}
	}
	if len(creates) > maxCreates {
		return refusal(http.StatusBadRequest, 30034, "Maximum number of daily application command creates has been reached (200)")
	}
	c.s.world.commands, c.s.world.creates = list, creates
	c.s.world.commandWrites++
	return ok(list)
}
