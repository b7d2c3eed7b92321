package httpapi

import (
	"net/http"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
)

// lastRuns is how many of the newest runs of each rule are listed.
const lastRuns = 10

// Rules are the rules for environment events.
type Rules struct {
	InForce func() []environment.Rule
	Records RuleRecords
	// SourceTools returns what requests of a source may use, and Place what requests in a
	// session may use, which is an ID or title: and a title. Both may be nil.
	SourceTools environment.SourceTools
	Place       func(q db.Queryer, session string) (grant.Grant, error)
}

// RuleRecords stores what rules did; see [environment.Runs].
type RuleRecords interface {
	LastRuns(q db.Queryer, rule string, limit int) ([]environment.Run, error)
	CountsOf(q db.Queryer, rule string, since time.Time) (map[string]int64, environment.Budget, error)
}

// rules serves the rules for environment events.
type rules struct {
	db     *db.DB
	rules  *Rules
	events *envEvents
	now    func() time.Time
}

func (s *rules) available() error {
	if s.rules == nil {
		return fault.New(fault.Unavailable, "Rules are not available on this server.")
	}
	return nil
}

// ruleStatus is a rule with its activity today.
type ruleStatus struct {
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
	Tools    grant.Tools        `json:"tools,omitzero"`
	// Today counts the events since midnight UTC, by outcome.
	Today map[string]int64   `json:"today"`
	Used  environment.Budget `json:"used"`
	// Last are the newest runs.
	Last []environment.Run `json:"last"`
}

type ruleList struct {
	Rules []ruleStatus `json:"rules"`
}

func (s *rules) list(r *http.Request) (out ruleList, err error) {
	day := s.now().UTC().Truncate(24 * time.Hour)
	out.Rules = []ruleStatus{}
	for _, rule := range s.rules.InForce() {
		status := ruleStatus{
			Name: rule.Name, Types: rule.Types, Session: rule.Session, Enabled: rule.Enabled, Priority: rule.Priority,
			Does: rule.ActionName(), Rate: rule.Rate.String(), Budget: rule.Budget, DryRun: rule.DryRun, Tools: rule.Tools, Last: []environment.Run{},
		}
		if rule.Debounce > 0 {
			status.Debounce = rule.Debounce.String()
		}
		err := s.db.Read(r.Context(), func(q db.Queryer) (err error) {
			if status.Today, status.Used, err = s.rules.Records.CountsOf(q, rule.Name, day); err != nil {
				return err
			}
			last, err := s.rules.Records.LastRuns(q, rule.Name, lastRuns)
			status.Last = append(status.Last, last...)
			return err
		})
		if err != nil {
			return out, err
		}
		out.Rules = append(out.Rules, status)
	}
	return out, nil
}

// test reports which rule would handle an event, without running the rule.
func (s *rules) test(r *http.Request, in newEvent) (environment.Trial, error) {
	e, err := s.events.complete(in)
	if err != nil {
		return environment.Trial{}, err
	}
	trial := environment.Try(s.rules.InForce(), e, s.rules.SourceTools)
	if trial.Prompt == "" || s.rules.Place == nil {
		return trial, nil
	}
	err = s.db.Read(r.Context(), func(q db.Queryer) error {
		place, err := s.rules.Place(q, trial.Session)
		trial.Tools = trial.Tools.And(place)
		return err
	})
	return trial, err
}
