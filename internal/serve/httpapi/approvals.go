package httpapi

import (
	"context"
	"net/http"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// Approvals ends the approvals that hold for all calls of a tool in a session.
type Approvals interface {
	// Revoke ends those of a tool; "" means all tools.
	Revoke(ctx context.Context, sessionID, tool string) error
}

// approvals serves the approvals that hold in a session.
type approvals struct {
	db       *db.DB
	table    AcceptedTable
	sessions *sessions
	service  Approvals
}

func (s *approvals) available() error {
	if s.service == nil {
		return fault.New(fault.Unavailable, "This server has no approvals.")
	}
	return s.sessions.available()
}

type approvalList struct {
	Approvals []session.Standing `json:"approvals"`
}

func (s *approvals) list(r *http.Request) (out approvalList, err error) {
	out.Approvals = []session.Standing{}
	err = s.db.Read(r.Context(), func(q db.Queryer) error {
		if _, err := s.sessions.table.Session(q, r.PathValue("id")); err != nil {
			return err
		}
		state, err := s.table.State(q, r.PathValue("id"))
		out.Approvals = append(out.Approvals, state.Standing...)
		return err
	})
	return out, err
}

func (s *approvals) revoke(r *http.Request) error {
	if _, err := s.list(r); err != nil {
		return err
	}
	return s.service.Revoke(r.Context(), r.PathValue("id"), r.URL.Query().Get("tool"))
}
