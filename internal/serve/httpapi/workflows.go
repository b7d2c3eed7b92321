package httpapi

import (
	"context"
	"net/http"

	"lilac/internal/core/session"
	"lilac/internal/core/workflow"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Workflows are the durable waits of the agent; see [workflow.Service].
type Workflows interface {
	Get(ctx context.Context, id string) (workflow.Workflow, error)
	// List lists the newest first, before the workflow id or page token before; an
	// empty session means all.
	List(ctx context.Context, sessionID string, waiting bool, limit int, before string) ([]workflow.Workflow, error)
	Submit(ctx context.Context, from workflow.Origin, visible func(workflow.Workflow) bool, payloads ...event.Payload) error
}

// workflows serves workflows.
type workflows struct {
	service Workflows
	people  people
}

// subject returns the conversation of the workflow in the path.
func (s *workflows) subject() subject {
	return subject{missing: "There is no workflow %s.", in: "id", of: func(r *http.Request) (string, error) {
		if err := s.available(); err != nil {
			return "", err
		}
		found, err := s.get(r)
		return found.Origin.SessionID, err
	}}
}

func (s *workflows) available() error {
	if s.service == nil {
		return fault.New(fault.Unavailable, "Workflows are not available on this server.")
	}
	return nil
}

// dueWorkflow is a workflow with the time of its next timer.
type dueWorkflow struct {
	workflow.Workflow
	Due int64 `json:"due,omitempty"`
}

type workflowList struct {
	Workflows []dueWorkflow `json:"workflows"`
	Next      string        `json:"next,omitempty"`
}

func (s *workflows) list(r *http.Request) (out workflowList, err error) {
	limit, err := limitOf(r)
	if err != nil {
		return out, err
	}
	waiting, err := flagOf(r, "waiting")
	if err != nil {
		return out, err
	}
	query := r.URL.Query()
	if err := s.people.named(r, query.Get("session_id")); err != nil {
		return out, err
	}
	all, err := s.service.List(r.Context(), query.Get("session_id"), waiting, limit+1, query.Get("before"))
	if err != nil {
		return out, err
	}
	all, out.Next = pageOf(all, limit, func(w workflow.Workflow) string { return session.PageToken(w.CreatedAt, w.ID) })
	out.Workflows = make([]dueWorkflow, len(all))
	for i, w := range all {
		out.Workflows[i] = dueWorkflow{w, w.Due()}
	}
	return out, nil
}

func (s *workflows) get(r *http.Request) (out dueWorkflow, err error) {
	found, err := s.service.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return out, err
	}
	return dueWorkflow{found, found.Due()}, nil
}

type cancelWorkflow struct {
	Reason string `json:"reason,omitempty"`
}

// cancel cancels a workflow and returns its new state. A workflow that has ended
// is not changed.
func (s *workflows) cancel(r *http.Request, in cancelWorkflow) (out dueWorkflow, err error) {
	if len(in.Reason) > maxReason {
		return out, fault.InvalidField("reason", "A reason has at most %d bytes.", maxReason)
	}
	if err := s.service.Submit(r.Context(), workflow.Origin{}, nil, event.WorkflowCancel{WorkflowID: r.PathValue("id"), Reason: in.Reason}); err != nil {
		return out, err
	}
	return s.get(r)
}
