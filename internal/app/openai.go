package app

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
	"lilac/internal/serve/openaiapi"
	"lilac/internal/serve/prompting"
	"lilac/internal/store"
)

// agentModel is the model of /v1 that stands for the agent without a profile, and plainModel that for a
// model without the agent.
const (
	agentModel = "lilac"
	plainModel = "lilac-plain"
)

// openAI returns the API for clients of OpenAI's API. It is off while the configuration has
// no tokens for it.
func (w *webServer) openAI(stopping context.Context) http.Handler {
	return openaiapi.New(openaiapi.Options{
		DB: w.db, Bus: w.bus, Blobs: w.blobs, Sessions: w.store.Sessions, Requests: w.store.Requests, Attempts: w.store.Inbox, Plain: w.plain,
		Tables:      prompting.Tables{Inbox: w.store.Inbox, Accepted: store.AcceptedMessages{}, Files: w.store.Files},
		FinalOutput: w.runner.FinalOutput, Clients: w.v1Clients, Models: w.v1Models,
		Stopping: stopping, Now: time.Now, Logger: w.Logger,
	})
}

func (w *webServer) v1Clients() (out []openaiapi.Client) {
	tokens := w.now.Load().config.V1.Tokens
	for _, name := range slices.Sorted(maps.Keys(tokens)) {
		out = append(out, openaiapi.Client{Name: name, Token: tokens[name].Token.Reveal(), IgnoreTools: tokens[name].IgnoreTools})
	}
	return out
}

// v1Models lists the agent, the named agents, and a profile for the settings of each channel.
func (w *webServer) v1Models() []openaiapi.Model {
	out := []openaiapi.Model{{ID: agentModel}}
	cfg := w.now.Load().config
	for _, name := range slices.Sorted(maps.Keys(cfg.Agents)) {
		out = append(out, openaiapi.Model{ID: agentModel + "/agents/" + name, Choice: session.Choice{Agent: name}})
	}
	channels := cfg.Channels
	for _, name := range slices.Sorted(maps.Keys(channels)) {
		c := channels[name]
		choice := session.Choice{Agent: c.Agent, Effort: c.Effort, Instructions: c.Instructions}
		if len(c.Model) > 0 {
			choice.Model = c.Model[0]
		}
		out = append(out, openaiapi.Model{ID: agentModel + "/" + name, Choice: choice})
	}
	return append(out, openaiapi.Model{ID: plainModel, Plain: true})
}

// plain answers a prompt with one call of the model of titles.model, or else of the default model. Chat
// programs ask for titles, tags, and suggestions that way.
func (w *webServer) plain(ctx context.Context, client, instructions, prompt string) (answer string, used chat.Usage, err error) {
	budget, started := gateBudget{w.base}, time.Now()
	m, name, err := w.smallModel()
	if err == nil {
		err = w.db.Read(ctx, func(q db.Queryer) error {
			exhausted, err := budget.Exhausted(q, "") // only the day has limits for it
			if exhausted != "" {
				err = fault.New(fault.LimitReached, "%s", exhausted)
			}
			return err
		})
	}
	if err == nil {
		answer, used, err = llm.Ask(ctx, m, instructions, prompt, 0)
	}
	if err == nil {
		err = w.db.Update(context.WithoutCancel(ctx), func(tx *db.Tx) error {
			return budget.spend(tx, session.PurposeProgram, client, name, used, time.Since(started))
		})
	}
	return answer, used, err
}
