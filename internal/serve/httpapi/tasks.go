package httpapi

import (
	"context"
	"math"
	"net/http"
	"strconv"

	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/foundation/fault"
)

// Tasks is what runs in the background; see [task.Service].
type Tasks interface {
	// Tasks lists the newest first, older than the one named by before, or its
	// session.PageToken; an empty session means all.
	Tasks(ctx context.Context, sessionID string, limit int, before string) ([]task.Task, error)
	Task(ctx context.Context, id string) (task.Task, error)
	Output(ctx context.Context, t task.Task, offset int64, limit int) (task.Part, error)
	Stop(ctx context.Context, id string, by task.By) (task.Task, error)
}

var errNoTasks = fault.New(fault.Unavailable, "This server runs no background tasks.")

// defaultOutput is how many bytes of an output are answered to who does not say.
const defaultOutput = 64 << 10

func (a *api) listTasks(w http.ResponseWriter, r *http.Request) error {
	if a.Tasks == nil {
		return errNoTasks
	}
	if err := onlyQuery(r, "session_id", "limit", "before"); err != nil {
		return err
	}
	limit, err := limitOf(r)
	if err != nil {
		return err
	}
	tasks, err := a.Tasks.Tasks(r.Context(), r.URL.Query().Get("session_id"), limit+1, r.URL.Query().Get("before"))
	if err != nil {
		return err
	}
	tasks, next := pageOf(tasks, limit, func(t task.Task) string { return session.PageToken(t.CreatedAt, t.ID) })
	return writeJSON(w, http.StatusOK, struct {
		Tasks []task.Task `json:"tasks"`
		Next  string      `json:"next,omitempty"`
	}{tasks, next})
}

func (a *api) getTask(w http.ResponseWriter, r *http.Request) error {
	if a.Tasks == nil {
		return errNoTasks
	}
	t, err := a.Tasks.Task(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, t)
}

func (a *api) getTaskOutput(w http.ResponseWriter, r *http.Request) error {
	if a.Tasks == nil {
		return errNoTasks
	}
	if err := onlyQuery(r, "offset", "bytes"); err != nil {
		return err
	}
	offset, err := numberOf(r, "offset", -defaultOutput, math.MinInt32, math.MaxInt64)
	if err != nil {
		return err
	}
	bytes, err := numberOf(r, "bytes", defaultOutput, 1, task.MaxRead)
	if err != nil {
		return err
	}
	t, err := a.Tasks.Task(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	part, err := a.Tasks.Output(r.Context(), t, offset, int(bytes))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, part)
}

func (a *api) stopTask(w http.ResponseWriter, r *http.Request) error {
	if a.Tasks == nil {
		return errNoTasks
	}
	t, err := a.Tasks.Stop(r.Context(), r.PathValue("id"), task.ByPerson)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, t)
}

// numberOf reads a whole number of the query.
func numberOf(r *http.Request, name string, def, low, high int64) (int64, error) {
	given := r.URL.Query().Get(name)
	if given == "" {
		return def, nil
	}
	n, err := strconv.ParseInt(given, 10, 64)
	if err != nil || n < low || n > high {
		return 0, fault.InvalidField(name, "%s has to be a whole number from %d to %d.", name, low, high)
	}
	return n, nil
}
