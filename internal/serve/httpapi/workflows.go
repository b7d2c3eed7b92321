package httpapi

import (
	"context"
	"net/http"

	"lilac/internal/core/session"
	"lilac/internal/core/workflow"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Workflows is what waits; see [workflow.Service].
type Workflows interface {
	Get(ctx context.Context, id string) (workflow.Workflow, error)
	// List lists the newest first, older than the one named by before, or its
	// session.PageToken; an empty session means all.
	List(ctx context.Context, sessionID string, waiting bool, limit int, before string) ([]workflow.Workflow, error)
	Submit(ctx context.Context, from workflow.Origin, visible func(workflow.Workflow) bool, payloads ...event.Payload) error
}

var errNoWorkflows = fault.New(fault.Unavailable, "This server keeps no workflows.")

// shownWorkflow is a workflow with when something happens by itself.
type shownWorkflow struct {
	workflow.Workflow
	Due int64 `json:"due,omitempty"`
}

func (a *api) listWorkflows(w http.ResponseWriter, r *http.Request) error {
	if a.Workflows == nil {
		return errNoWorkflows
	}
	if err := onlyQuery(r, "session_id", "waiting", "limit", "before"); err != nil {
		return err
	}
	limit, err := limitOf(r)
	if err != nil {
		return err
	}
	waiting, err := flagOf(r, "waiting")
	if err != nil {
		return err
	}
	query := r.URL.Query()
	all, err := a.Workflows.List(r.Context(), query.Get("session_id"), waiting, limit+1, query.Get("before"))
	if err != nil {
		return err
	}
	all, next := pageOf(all, limit, func(w workflow.Workflow) string { return session.PageToken(w.CreatedAt, w.ID) })
	out := make([]shownWorkflow, len(all))
	for i, found := range all {
		out[i] = shownWorkflow{found, found.Due()}
	}
	return writeJSON(w, http.StatusOK, struct {
		Workflows []shownWorkflow `json:"workflows"`
		Next      string          `json:"next,omitempty"`
	}{out, next})
}

func (a *api) getWorkflow(w http.ResponseWriter, r *http.Request) error {
	if a.Workflows == nil {
		return errNoWorkflows
	}
	found, err := a.Workflows.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, shownWorkflow{found, found.Due()})
}

// cancelWorkflow ends a workflow and answers how it is then; one that has ended
// stays as it is.
func (a *api) cancelWorkflow(w http.ResponseWriter, r *http.Request) error {
	if a.Workflows == nil {
		return errNoWorkflows
	}
	body, err := readBody(w, r, maxBody)
	if err != nil {
		return err
	}
	var in struct {
		Reason string `json:"reason"`
	}
	if err := decode(body, &in, true); err != nil {
		return err
	}
	if len(in.Reason) > maxReason {
		return fault.InvalidField("reason", "A reason has at most %d bytes.", maxReason)
	}
	if err := a.Workflows.Submit(r.Context(), workflow.Origin{}, nil, event.WorkflowCancel{WorkflowID: r.PathValue("id"), Reason: in.Reason}); err != nil {
		return err
	}
	return a.getWorkflow(w, r)
}
