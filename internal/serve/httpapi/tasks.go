package httpapi

import (
	"context"
	"math"
	"net/http"

	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/foundation/fault"
)

// Tasks are the background tasks; see [task.Service].
type Tasks interface {
	// Tasks lists the newest first, before the task id or page token before; an
	// empty session means all.
	Tasks(ctx context.Context, sessionID string, limit int, before string) ([]task.Task, error)
	Task(ctx context.Context, id string) (task.Task, error)
	Output(ctx context.Context, t task.Task, offset int64, limit int) (task.OutputPart, error)
	Stop(ctx context.Context, id string, by task.Actor) (task.Task, error)
}

// defaultOutput is the size of a response with a task's output, in bytes.
const defaultOutput = 64 << 10

// tasks serves background tasks.
type tasks struct {
	service Tasks
	people  people
}

// subject returns the conversation of the task in the path.
func (t *tasks) subject() subject {
	return subject{missing: "There is no background task %q.", in: "id", of: func(r *http.Request) (string, error) {
		if err := t.available(); err != nil {
			return "", err
		}
		found, err := t.get(r)
		return found.SessionID, err
	}}
}

func (t *tasks) available() error {
	if t.service == nil {
		return fault.New(fault.Unavailable, "Background tasks are not available on this server.")
	}
	return nil
}

type taskList struct {
	Tasks []task.Task `json:"tasks"`
	Next  string      `json:"next,omitempty"`
}

func (t *tasks) list(r *http.Request) (out taskList, err error) {
	limit, err := limitOf(r)
	if err != nil {
		return out, err
	}
	if err := t.people.named(r, r.URL.Query().Get("session_id")); err != nil {
		return out, err
	}
	found, err := t.service.Tasks(r.Context(), r.URL.Query().Get("session_id"), limit+1, r.URL.Query().Get("before"))
	if err != nil {
		return out, err
	}
	out.Tasks, out.Next = pageOf(found, limit, func(t task.Task) string { return session.PageToken(t.CreatedAt, t.ID) })
	return out, nil
}

func (t *tasks) get(r *http.Request) (task.Task, error) {
	return t.service.Task(r.Context(), r.PathValue("id"))
}

func (t *tasks) output(r *http.Request) (part task.OutputPart, err error) {
	offset, err := numberOf(r, "offset", -defaultOutput, math.MinInt32, math.MaxInt64)
	if err != nil {
		return part, err
	}
	bytes, err := numberOf(r, "bytes", defaultOutput, 1, task.MaxRead)
	if err != nil {
		return part, err
	}
	found, err := t.get(r)
	if err != nil {
		return part, err
	}
	return t.service.Output(r.Context(), found, offset, int(bytes))
}

func (t *tasks) stop(r *http.Request) (task.Task, error) {
	return t.service.Stop(r.Context(), r.PathValue("id"), task.ByPerson)
}
