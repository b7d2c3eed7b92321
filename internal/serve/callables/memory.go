package callables

import (
	"context"

	"lilac/internal/core/memory"
	"lilac/internal/core/session"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/toolserver"
)

// Memory offers what the agent remembers between conversations. Which notes a caller reaches
// is up to Places alone: no input names a place.
type Memory struct {
	Store *memory.Store
	// Places returns the places that a conversation reads, its own first, and whether it may
	// write for everyone.
	Places func(ctx context.Context, client, sessionID string) (places []memory.Place, common bool, err error)
	// Search finds messages of the conversations that have one of the places.
	Search func(ctx context.Context, places []memory.Place, query string, limit int) ([]session.SearchResult, error)
	// Record notes a change in the journal of its request.
	Record func(ctx context.Context, c memory.Change) error
}

type (
	rememberInput struct {
		Name string `json:"name" min:"1" max:"100" jsonschema:"A short name for the note, such as home-town. An earlier note with the name is replaced."`
		Text string `json:"text" min:"1" max:"16384" jsonschema:"The note. Its first line is the summary that later conversations see."`
		For  string `json:"for,omitempty" enum:"here,everyone" jsonschema:"here (the default): the person of a private conversation, or the channel. everyone: all conversations, if the operator allows it."`
	}
	noteInput struct {
		Name string `json:"name" min:"1" max:"100" jsonschema:"The note, as the list names it."`
	}
	forgetInput struct {
		Name string `json:"name" min:"1" max:"100" jsonschema:"The note, as the list names it."`
		For  string `json:"for,omitempty" enum:"here,everyone" jsonschema:"As for memory.remember."`
	}
	searchMemoryInput struct {
		Query string `json:"query" min:"1" max:"200" jsonschema:"Words that a message must contain."`
		Limit int    `json:"limit,omitempty" min:"1" max:"50" jsonschema:"The maximum number of messages; default 20."`
	}
)

// memoryChange is the result of a change.
type memoryChange struct {
	// ChangeID identifies the change for lilac memory undo.
	ChangeID string `json:"changeId"`
	Name     string `json:"name"`
	Place    string `json:"place"`
}

// Callables returns the callables memory.*.
func (m Memory) Callables() []toolserver.Callable {
	return []toolserver.Callable{
		toolserver.NewCallable(toolserver.Callable{
			ID: "memory.remember", Summary: "Remembers something for later conversations", Changes: true, Repeatable: true,
			Description: "In a private conversation, the note is about the person and stays with the person; in a channel, it stays in the channel. Remember what people want remembered and what will be useful, one subject in one note. Never remember secrets such as passwords.",
			Examples:    []string{`tools memory.remember --name=home-town --text="Lives in Kyoto."`},
		}, func(ctx context.Context, caller toolserver.Caller, in rememberInput) (any, error) {
			return m.change(ctx, caller, in.For, func(by memory.Author, p memory.Place) (memory.Change, error) {
				return m.Store.Remember(by, p, in.Name, in.Text)
			})
		}),
		toolserver.NewCallable(toolserver.Callable{
			ID: "memory.forget", Summary: "Removes a note from the memory", Changes: true,
			Examples: []string{"tools memory.forget --name=home-town"},
		}, func(ctx context.Context, caller toolserver.Caller, in forgetInput) (any, error) {
			return m.change(ctx, caller, in.For, func(by memory.Author, p memory.Place) (memory.Change, error) {
				return m.Store.Forget(by, p, in.Name)
			})
		}),
		toolserver.NewCallable(toolserver.Callable{
			ID: "memory.recall", Summary: "Reads a note from the memory",
			Examples: []string{"tools memory.recall --name=home-town"},
		}, func(ctx context.Context, caller toolserver.Caller, in noteInput) (any, error) {
			places, _, err := m.places(ctx, caller)
			if err != nil {
				return nil, err
			}
			return m.Store.Recall(in.Name, append(places, memory.Common)...)
		}),
		toolserver.NewCallable(toolserver.Callable{
			ID: "memory.list", Summary: "Lists the notes in the memory",
			Examples: []string{"tools memory.list --output=json"},
		}, func(ctx context.Context, caller toolserver.Caller, _ noInput) (any, error) {
			places, _, err := m.places(ctx, caller)
			if err != nil {
				return nil, err
			}
			list, err := m.Store.List(append(places, memory.Common)...)
			return append([]memory.Note{}, list...), err
		}),
		toolserver.NewCallable(toolserver.Callable{
			ID: "memory.search", Summary: "Finds messages of earlier conversations with the same person, or in the same channel",
			Examples: []string{`tools memory.search --query="flight tokyo"`},
		}, func(ctx context.Context, caller toolserver.Caller, in searchMemoryInput) (any, error) {
			places, _, err := m.places(ctx, caller)
			if err != nil {
				return nil, err
			}
			if in.Limit == 0 {
				in.Limit = 20
			}
			found, err := m.Search(ctx, places, in.Query, in.Limit)
			return append([]session.SearchResult{}, found...), err
		}),
	}
}

// places returns the places of the caller's conversation.
func (m Memory) places(ctx context.Context, caller toolserver.Caller) ([]memory.Place, bool, error) {
	if caller.SessionID == "" {
		return nil, false, fault.New(fault.Denied, "The memory belongs to conversations, and this token has none. The operator uses the files, or lilac memory.")
	}
	return m.Places(ctx, caller.Client, caller.SessionID)
}

// change makes a change in the place of the caller, or for everyone.
func (m Memory) change(ctx context.Context, caller toolserver.Caller, where string, do func(memory.Author, memory.Place) (memory.Change, error)) (any, error) {
	places, common, err := m.places(ctx, caller)
	if err != nil {
		return nil, err
	}
	place := places[0]
	if where == string(memory.Everyone) {
		if !common {
			return nil, fault.New(fault.Denied, "What everyone reads cannot be changed from this conversation. The operator can edit it, or allow it with memory.everyone.")
		}
		place = memory.Common
	}
	c, err := do(memory.Author{RequestID: caller.RequestID, SessionID: caller.SessionID}, place)
	if err != nil {
		return nil, err
	}
	return memoryChange{c.ID, c.Name, place.String()}, m.Record(ctx, c)
}
