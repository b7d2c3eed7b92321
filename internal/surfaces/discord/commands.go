package discord

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"lilac/internal/engine/db"
)

// Names of the commands.
const (
	commandStop   = "stop"
	commandStatus = "status"
	commandHelp   = "help"
	menuAsk       = "Ask about this"
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
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Type        int    `json:"type"`
	Contexts    []int  `json:"contexts"`
}

// allCommands returns the commands, which work in servers and in private
// conversations with the bot.
func allCommands() []wireCommand {
	contexts := []int{contextGuild, contextBotDM}
	return []wireCommand{
		{Name: commandStop, Description: "Stop the answer in progress.", Type: commandTypeSlash, Contexts: contexts},
		{Name: commandStatus, Description: "Show the work in progress.", Type: commandTypeSlash, Contexts: contexts},
		{Name: commandHelp, Description: "Show how to use the bot.", Type: commandTypeSlash, Contexts: contexts},
		{Name: menuAsk, Type: commandTypeMessage, Contexts: contexts},
	}
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
	data, err := json.Marshal(allCommands())
	if err != nil {
		return fmt.Errorf("encode the commands: %w", err)
	}
	for {
		var again <-chan time.Time
		state := r.status.snapshot()
		sum := sha256.Sum256(append(slices.Clone(data), state.ApplicationID...))
		if hash := hex.EncodeToString(sum[:8]); state.ApplicationID != "" && state.Commands != hash {
			err := r.client.do(ctx, bulkOverwriteGlobalCommands.with(state.ApplicationID), allCommands(), nil, nil)
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
