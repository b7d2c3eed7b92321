package cli

import (
	"context"
	"fmt"
	"strings"

	"lilac/internal/foundation/fault"
)

// model handles the line "/model [NAME [EFFORT]]": it shows or chooses the model of the
// conversation. "default" follows the configuration again.
func (t *talk) model(ctx context.Context, args []string) {
	if len(args) == 0 {
		t.showModels(ctx)
		return
	}
	change := map[string]string{"model": args[0], "effort": ""}
	if args[0] == "default" {
		change["model"] = ""
	}
	if len(args) > 1 {
		change["effort"] = args[1]
	}
	s, err := t.server.Choose(ctx, t.session, change)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		t.note(fault.Plain(err))
	case s.Model == "":
		t.note("from the next answer on, the configured model answers")
	default:
		t.note("from the next answer on, " + strings.TrimSpace(s.Model+" "+s.Effort) + " answers")
	}
	t.prompt()
}

func (t *talk) showModels(ctx context.Context) {
	defer t.prompt()
	list, err := t.server.Models(ctx)
	if err == nil {
		s, failed := t.server.Session(ctx, t.session)
		err = failed
		if current := s.Model; current != "" {
			list.Default = strings.TrimSpace(current + " " + s.Effort)
		}
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		t.note(fault.Plain(err))
		return
	}
	t.note(fmt.Sprintf("the model is %s. To choose another one: /model NAME [EFFORT], or /model default", list.Default))
	for _, m := range list.Models {
		if m.Configured {
			t.note(m.Model)
		}
	}
}
