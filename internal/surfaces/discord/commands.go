package discord

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/rest"

	"lilac/internal/engine/db"
)

// The names of the commands.
const (
	commandStop   = "stop"
	commandStatus = "status"
	commandHelp   = "help"
	menuAsk       = "Ask about this"
)

// registerEvery is the wait before commands are told to Discord again when
// that did not work.
const registerEvery = 5 * time.Minute

// ourCommands are what people can use, in servers and private conversations.
func ourCommands() []discord.ApplicationCommandCreate {
	where := []discord.InteractionContextType{discord.InteractionContextTypeGuild, discord.InteractionContextTypeBotDM}
	return []discord.ApplicationCommandCreate{
		discord.SlashCommandCreate{Name: commandStop, Description: "Stop what is being worked on here.", Contexts: where},
		discord.SlashCommandCreate{Name: commandStatus, Description: "What is being worked on here.", Contexts: where},
		discord.SlashCommandCreate{Name: commandHelp, Description: "How to talk to me.", Contexts: where},
		discord.MessageCommandCreate{Name: menuAsk, Contexts: where},
	}
}

// tellCommands tells Discord of the commands whenever they differ from what it
// was last told, until ctx ends. That they cannot be told stops nothing else.
func (a *Adapter) tellCommands(ctx context.Context) error {
	data, err := json.Marshal(ourCommands())
	if err != nil {
		return fmt.Errorf("encode the commands: %w", err)
	}
	for {
		var again <-chan time.Time
		a.mu.Lock()
		application, told := a.state.ApplicationID, a.state.Commands
		a.mu.Unlock()
		sum := sha256.Sum256(append(slices.Clone(data), application...))
		if hash := hex.EncodeToString(sum[:8]); application != "" && told != hash {
			err := a.api.do(ctx, rest.SetGlobalCommands.Compile(nil, application), ourCommands(), nil)
			if err == nil {
				err = a.commandsTold(ctx, hash)
			}
			if err != nil && ctx.Err() == nil {
				a.o.Logger.WarnContext(ctx, "Discord was not told of the commands", "error", err)
				again = time.After(registerEvery)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.met:
		case <-again:
		}
	}
}

func (a *Adapter) commandsTold(ctx context.Context, hash string) error {
	a.mu.Lock()
	a.state.Commands = hash
	a.mu.Unlock()
	return a.o.DB.Update(ctx, func(tx *db.Tx) error {
		state, err := a.o.Tables.Gateway.Gateway(tx)
		if err != nil {
			return err
		}
		state.Commands = hash
		return a.o.Tables.Gateway.SaveGateway(tx, state)
	})
}
