package discord

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
)

// registerRetry is the wait before a failed registration is retried.
const registerRetry = 5 * time.Minute

// Command types and contexts ("Application Commands", application command types;
// "Receiving and Responding", interaction context types).
const (
	commandTypeSlash   = 1
	commandTypeMessage = 3
	contextGuild       = 0
	contextBotDM       = 1
)

// wireCommand is a command as Discord registers it.
type wireCommand struct {
	Name        string              `json:"name"`
	Description string              `json:"description,omitempty"`
	Type        int                 `json:"type"`
	Contexts    []int               `json:"contexts"`
	Options     []wireCommandOption `json:"options,omitempty"`
}

// wireCommandOption is a parameter of a slash command.
type wireCommandOption struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Type        int    `json:"type"`
	Required    bool   `json:"required,omitempty"`
	// Autocomplete asks for suggestions while a person types the value.
	Autocomplete bool `json:"autocomplete,omitempty"`
}

// plan decides what an interaction does, nil for nothing, and the text to show
// once that is done.
type plan func(ctx context.Context, s *interactions, i interaction, by surface.User, moderator bool) (reply string, action func(*db.Tx) error, err error)

// command is a row of the table of commands.
type command struct {
	name, description string
	// menu puts the command into the menu of messages instead of the list of
	// slash commands.
	menu    bool
	options []wireCommandOption
	plan    plan
}

// commands returns the table of commands, in the order in which they are
// registered.
func commands() []command {
	return []command{
		{name: commandStop, description: "Stop the answer in progress.", plan: planStop},
		{name: "new", description: "Begin a new conversation. The old one is kept.", plan: planNew},
		{name: "reset", description: "Begin a new conversation, like /new.", plan: planNew},
		{name: "queue", description: "Show what is being answered and what waits.", plan: planQueue},
		{
			name: commandModel, description: "Show or choose the model that answers here.", plan: planModel,
			options: []wireCommandOption{{Name: optionModel, Description: "A model from the list that /model shows, or “default”.", Type: optionString, Autocomplete: true}},
		},
		{name: "status", description: "Show the work in progress.", plan: planStatus},
		{name: commandHelp, description: "Show how to use the bot.", plan: planHelp},
		{name: "Ask about this", menu: true, plan: planAsk},
	}
}

// Names of commands that are recognized before their plan is made.
const (
	commandStop  = "stop"
	commandHelp  = "help"
	commandModel = "model"
)

// findCommand returns the command with a name.
func findCommand(name string) (command, bool) {
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == name })
	if i < 0 {
		return command{}, false
	}
	return all[i], true
}

// wireCommands returns the commands as Discord registers them. They work in
// servers and in private conversations with the bot.
func wireCommands() (out []wireCommand) {
	for _, c := range commands() {
		kind := commandTypeSlash
		if c.menu {
			kind = commandTypeMessage
		}
		out = append(out, wireCommand{Name: c.name, Description: c.description, Type: kind, Contexts: []int{contextGuild, contextBotDM}, Options: c.options})
	}
	return out
}

// registrar registers the commands with Discord.
type registrar struct {
	o       Options
	status  *status
	client  *client
	changed signal
}

func newRegistrar(o Options, s *status, c *client) *registrar {
	return &registrar{o: o, status: s, client: c, changed: newSignal()}
}

// run registers the commands whenever they differ from the registered ones. A
// failed registration stops nothing else.
func (r *registrar) run(ctx context.Context) error {
	data, err := json.Marshal(wireCommands())
	if err != nil {
		return fmt.Errorf("encode the commands: %w", err)
	}
	for {
		var again <-chan time.Time
		state := r.status.snapshot()
		sum := sha256.Sum256(append(slices.Clone(data), state.ApplicationID...))
		if hash := hex.EncodeToString(sum[:8]); state.ApplicationID != "" && state.Commands != hash {
			err := r.client.do(ctx, bulkOverwriteGlobalCommands.with(state.ApplicationID), wireCommands(), nil, nil)
			if err == nil {
				err = r.saveHash(ctx, hash)
			}
			if err != nil && ctx.Err() == nil {
				r.o.Logger.WarnContext(ctx, "cannot register the Discord commands", "error", err)
				again = time.After(registerRetry)
			}
		}
		if err := r.changed.wait(ctx, again); err != nil {
			return err
		}
	}
}

func (r *registrar) saveHash(ctx context.Context, hash string) error {
	r.status.setCommands(hash)
	return r.o.DB.Update(ctx, func(tx *db.Tx) error {
		state, err := r.o.Tables.Gateway.Gateway(tx)
		if err != nil {
			return err
		}
		state.Commands = hash
		return r.o.Tables.Gateway.SaveGateway(tx, state)
	})
}
