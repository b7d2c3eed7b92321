package httpapi

import (
	"net/http"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	// maxEvent bounds an event of a client; larger data belongs in a file.
	maxEvent = 1 << 20
	// lastRuns is how many of the last matches of each rule are told.
	lastRuns = 10
)

// Rules are the rules of environment events, for the routes that tell of them.
type Rules struct {
	InForce func() []environment.Rule
	Records RuleRecords
}

// RuleRecords tell what rules did; see [environment.Runs].
type RuleRecords interface {
	LastRuns(q db.Queryer, rule string, limit int) ([]environment.Run, error)
	CountsOf(q db.Queryer, rule string, since time.Time) (map[string]int64, environment.Budget, error)
}

var errNoRules = fault.New(fault.Unavailable, "This server has no rules.")

// shownRule is a rule with what it did today.
type shownRule struct {
	Name     string             `json:"name"`
	Types    []string           `json:"types"`
	Session  string             `json:"session,omitempty"`
	Enabled  bool               `json:"enabled"`
	Priority int                `json:"priority"`
	Does     string             `json:"does"`
	Debounce string             `json:"debounce,omitempty"`
	Rate     string             `json:"rate,omitempty"`
	Budget   environment.Budget `json:"budget"`
	DryRun   bool               `json:"dryRun,omitempty"`
	// Today counts what happened since midnight UTC, by outcome.
	Today map[string]int64   `json:"today"`
	Used  environment.Budget `json:"used"`
	// Last are the newest runs.
	Last []environment.Run `json:"last"`
}

func (a *api) listRules(w http.ResponseWriter, r *http.Request) error {
	if a.Rules == nil {
		return errNoRules
	}
	day := a.Now().UTC().Truncate(24 * time.Hour)
	out := []shownRule{}
	for _, rule := range a.Rules.InForce() {
		s := shownRule{
			Name: rule.Name, Types: rule.Types, Session: rule.Session, Enabled: rule.Enabled, Priority: rule.Priority,
			Does: rule.ActionName(), Rate: rule.Rate.String(), Budget: rule.Budget, DryRun: rule.DryRun, Last: []environment.Run{},
		}
		if rule.Debounce > 0 {
			s.Debounce = rule.Debounce.String()
		}
		err := a.DB.Read(r.Context(), func(q db.Queryer) (err error) {
			if s.Today, s.Used, err = a.Rules.Records.CountsOf(q, rule.Name, day); err != nil {
				return err
			}
			last, err := a.Rules.Records.LastRuns(q, rule.Name, lastRuns)
			s.Last = append(s.Last, last...)
			return err
		})
		if err != nil {
			return err
		}
		out = append(out, s)
	}
	return writeJSON(w, http.StatusOK, map[string]any{"rules": out})
}

func (a *api) testRules(w http.ResponseWriter, r *http.Request) error {
	if a.Rules == nil {
		return errNoRules
	}
	e, err := a.readEvent(w, r)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, environment.Try(a.Rules.InForce(), e))
}

// readEvent reads an event of a client and gives it what it may leave out: its
// id, its time and its source.
func (a *api) readEvent(w http.ResponseWriter, r *http.Request) (event.EnvEvent, error) {
	var e event.EnvEvent
	raw, err := readBody(w, r, maxEvent)
	if err != nil {
		return e, err
	}
	if err := decode(raw, &e, false); err != nil {
		return e, err
	}
	if e.ID == "" {
		e.ID = newID()
	}
	if e.Timestamp == 0 {
		e.Timestamp = a.Now().UnixMilli()
	}
	if e.Metadata.Source == "" {
		e.Metadata.Source = "api"
	}
	return e, e.Validate()
}

// published is the answer to an event.
type published struct {
	Success bool   `json:"success"`
	ID      string `json:"id"`
	// Duplicate says that an event of this id was there already.
	Duplicate bool `json:"duplicate"`
}

// publishEvent takes an event of a client. It is durable before the answer, and
// once for its id.
func (a *api) publishEvent(w http.ResponseWriter, r *http.Request) error {
	if err := a.needSessions(); err != nil {
		return err
	}
	e, err := a.readEvent(w, r)
	if err != nil {
		return err
	}
	if environment.Ours(e.Type) {
		return fault.InvalidField("type", "Events of the type %s are made by the server itself. To say something in a session use POST /sessions/{id}/prompt.", e.Type)
	}
	answer := published{Success: true, ID: e.ID}
	err = a.DB.Update(r.Context(), func(tx *db.Tx) error {
		if id := e.Metadata.TriggerSessionID; id != "" {
			if _, err := a.Store.Session(tx, id); err != nil {
				return err
			}
		}
		fresh, err := environment.PublishTraced(tx, a.Store, e, event.TraceParent(r.Context()))
		answer.Duplicate = !fresh
		return err
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, answer)
}
