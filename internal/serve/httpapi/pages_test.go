package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"

	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/foundation/event"
)

// behind returns one page of a list that is sorted newest first, as a store would.
func behind[T any](all []T, limit int, before string, place func(T) string) []T {
	if before != "" {
		all = all[slices.IndexFunc(all, func(one T) bool { return place(one) == before })+1:]
	}
	return all[:min(limit, len(all))]
}

type otherTasks interface{ Tasks }

type fewTasks struct {
	otherTasks
	all []task.Task
}

func (f fewTasks) Tasks(_ context.Context, _ string, limit int, before string) ([]task.Task, error) {
	return behind(f.all, limit, before, func(t task.Task) string { return session.PageToken(t.CreatedAt, t.ID) }), nil
}

type fewWorkflows struct {
	Workflows
	all []workflow.Workflow
}

func (f fewWorkflows) List(_ context.Context, _ string, _ bool, limit int, before string) ([]workflow.Workflow, error) {
	return behind(f.all, limit, before, func(w workflow.Workflow) string { return session.PageToken(w.CreatedAt, w.ID) }), nil
}

// A list contains a page token if and only if more entries follow.
func TestListReturnsAPageTokenIfMoreFollows(t *testing.T) {
	var tasks fewTasks
	var flows fewWorkflows
	for i := int64(4); i > 0; i-- {
		tasks.all = append(tasks.all, task.Task{ID: fmt.Sprint("t", i), Kind: task.Command, State: task.Running, CreatedAt: i})
		flows.all = append(flows.all, workflow.Workflow{ID: fmt.Sprint("w", i), State: workflow.Waiting, Completion: workflow.All, CreatedAt: i})
	}
	w := newWorld(t, func(o *Options) { o.Tasks, o.Workflows = tasks, flows })
	for i := int64(4); i > 0; i-- {
		w.tables.sessions = append(w.tables.sessions, session.Session{ID: fmt.Sprint("s", i), State: "idle", UpdatedAt: i})
		w.tables.requests = append(w.tables.requests, session.Request{ID: fmt.Sprint("web:s:", i), State: event.StateDone, CreatedAt: i})
	}
	for _, list := range []string{"sessions", "requests", "tasks", "workflows"} {
		for limit, want := range map[int]string{1: "[1 1 1 1]", 2: "[2 2]", 3: "[3 1]", 4: "[4]", 9: "[4]"} {
			var pages []int
			for next := "start"; next != ""; {
				query := url.Values{"limit": {strconv.Itoa(limit)}}
				if len(pages) > 0 {
					query.Set("before", next)
				}
				code, body := w.call("GET", "/"+list+"?"+query.Encode(), "")
				var page map[string]json.RawMessage
				var rows []json.RawMessage
				next = ""
				if err := json.Unmarshal([]byte(body), &page); err != nil || code != http.StatusOK {
					t.Fatalf("%s: %d %s", list, code, body)
				}
				if err := json.Unmarshal(page[list], &rows); err != nil {
					t.Fatal(err)
				}
				if raw, is := page["next"]; is {
					if err := json.Unmarshal(raw, &next); err != nil {
						t.Fatal(err)
					}
				}
				if pages = append(pages, len(rows)); len(pages) > 9 {
					t.Fatalf("%s goes on for ever", list)
				}
			}
			if got := fmt.Sprint(pages); got != want {
				t.Errorf("%s of four by %d come in pages of %s, want %s", list, limit, got, want)
			}
		}
	}
}
