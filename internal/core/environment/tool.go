package environment

import (
	"context"
	_ "embed" // for the text of the tool
	"encoding/json"
	"fmt"
	"strings"

	"lilac/internal/agent/tool"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

//go:embed get_event_info.md
var toolText string

// maxAsked bounds how many events one call shows.
const maxAsked = 10

// Tool returns get_event_info: the agent looks again at events that it was
// told about in the session, and at the rest of a long payload. It changes nothing.
func Tool(database *db.DB, records Records) tool.Tool { return &look{database, records} }

type look struct {
	db      *db.DB
	records Records
}

func (l *look) Spec() tool.Spec {
	return tool.Spec{
		Name: ToolName, Description: toolText, Idempotent: true, ParallelSafe: true,
		Schema: json.RawMessage(`{"type":"object","properties":{
"event_ids":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":10,"description":"The ids of the events."},
"offset":{"type":"integer","minimum":0,"description":"The first byte of the payload to show; 0 when left out."}},
"required":["event_ids"]}`),
	}
}

func (l *look) Run(ctx context.Context, call tool.Call) (tool.Result, error) {
	var in struct {
		IDs    []string `json:"event_ids"`
		Offset int      `json:"offset"`
	}
	if err := json.Unmarshal(call.Input, &in); err != nil {
		return tool.Result{Text: "event_ids has to be a list of ids, and offset a number.", Failed: true, Display: ToolName}, nil
	}
	if len(in.IDs) == 0 || len(in.IDs) > maxAsked || in.Offset < 0 {
		return tool.Result{Text: fmt.Sprintf("Ask for 1 to %d event_ids, from an offset of 0 or more.", maxAsked), Failed: true, Display: ToolName}, nil
	}
	var found []string
	missing := false
	for _, id := range in.IDs {
		var e event.EnvEvent
		err := l.db.Read(ctx, func(q db.Queryer) (err error) {
			e, err = l.records.KeptEvent(q, call.SessionID, id)
			return err
		})
		switch {
		case fault.KindOf(err) == fault.NotFound:
			missing = true
			found = append(found, "No event with the id "+quote(id)+" was told in this conversation.")
			continue
		case err != nil:
			return tool.Result{}, fmt.Errorf("look up event: %w", err)
		}
		text, err := infoOf(e, in.Offset, "")
		if err != nil {
			return tool.Result{}, err
		}
		found = append(found, text)
	}
	return tool.Result{Text: strings.Join(found, "\n"), Failed: missing && len(found) == 1, Display: ToolName}, nil
}
