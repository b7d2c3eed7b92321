package session

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lilac/internal/foundation/chat"
)

const (
	// DefaultWait limits the wait of a request for an answer at a limit or to an approval.
	DefaultWait = 24 * time.Hour
	// DefaultQuestionWait limits its wait for the answer to a question of the agent.
	DefaultQuestionWait = 7 * 24 * time.Hour
)

// Budget is an upper bound for each resource. Zero means no limit.
type Budget struct {
	// Steps counts model calls.
	Steps int64
	// Tokens counts input and output tokens.
	Tokens int64
	// CostMicros are millionths of a US dollar.
	CostMicros int64
	// Time is working time; time in the queue or in a pause does not count.
	Time time.Duration
}

// Limits are the budgets that are checked before each model call and, about twice a second,
// during it.
type Limits struct {
	// Request applies to each request, Session to a whole conversation, Day to all
	// conversations together from midnight to midnight.
	Request, Session, Day Budget
	// Zone is the time zone of midnight; nil means UTC.
	Zone *time.Location
	// Wait is how long a paused request waits for an answer; 0 means DefaultWait.
	// QuestionWait is that for questions of the agent; 0 means DefaultQuestionWait.
	Wait, QuestionWait time.Duration
}

func (l Limits) day(t time.Time) string {
	if l.Zone == nil {
		return t.UTC().Format(time.DateOnly)
	}
	return t.In(l.Zone).Format(time.DateOnly)
}

// midnightAfter returns the end of the day of a daily limit. waits is false if the pause ends
// before that, or is not at a daily limit.
func (l Limits) midnightAfter(p Pause) (midnight time.Time, waits bool) {
	zone := l.Zone
	if zone == nil {
		zone = time.UTC
	}
	day, err := time.ParseInLocation(time.DateOnly, p.Day, zone)
	if err != nil {
		return time.Time{}, false
	}
	midnight = time.Date(day.Year(), day.Month(), day.Day()+1, 0, 0, 0, 0, zone)
	return midnight, midnight.UnixMilli() < p.Until
}

func (l Limits) questionWait() time.Duration {
	if l.QuestionWait <= 0 {
		return DefaultQuestionWait
	}
	return l.QuestionWait
}

func (l Limits) wait() time.Duration {
	if l.Wait <= 0 {
		return DefaultWait
	}
	return l.Wait
}

// money reports whether any budget limits the cost.
func (l Limits) money() bool {
	return l.Request.CostMicros > 0 || l.Session.CostMicros > 0 || l.Day.CostMicros > 0
}

// within returns the smaller of both bounds for each resource.
func (b Budget) within(o Budget) Budget {
	return Budget{
		Steps: tighter(b.Steps, o.Steps), Tokens: tighter(b.Tokens, o.Tokens),
		CostMicros: tighter(b.CostMicros, o.CostMicros), Time: tighter(b.Time, o.Time),
	}
}

// tighter returns the smaller of two bounds, of which 0 means none.
func tighter[N ~int64](a, b N) N {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// Spent is an amount of consumption.
type Spent struct {
	Steps int64
	Usage chat.Usage
	Time  time.Duration
}

// Add returns the sum.
func (s Spent) Add(o Spent) Spent {
	return Spent{Steps: s.Steps + o.Steps, Usage: s.Usage.Add(o.Usage), Time: s.Time + o.Time}
}

// of returns the consumption of one resource, by its name in a [Limit].
func (s Spent) of(thing string) int64 {
	switch thing {
	case "steps":
		return s.Steps
	case "tokens":
		return s.Usage.Tokens()
	case "money":
		return s.Usage.CostMicros
	case "time":
		return s.Time.Milliseconds()
	}
	return 0
}

// Used is the consumption of a request, its session and the day.
type Used struct{ Request, Session, Day Spent }

// Limit is the name of a limit, for example "request.steps".
type Limit string

const (
	dayPrefix     = "day."
	sessionPrefix = "session."
	requestPrefix = "request."
)

// Reached describes a limit that is reached. Its amounts are steps, tokens,
// millionths of a US dollar, or milliseconds.
type Reached struct {
	Limit   Limit `json:"limit"`
	Used    int64 `json:"used"`
	Allowed int64 `json:"allowed"`
	// More is the amount that the answer "continue" adds.
	More int64 `json:"more"`
}

// Check returns the first limit that is reached, or nil. raised is by how much
// people have raised limits.
func (l Limits) Check(used Used, raised map[Limit]int64) *Reached {
	for _, scope := range []struct {
		name  string
		limit Budget
		used  Spent
	}{{requestPrefix, l.Request, used.Request}, {sessionPrefix, l.Session, used.Session}, {dayPrefix, l.Day, used.Day}} {
		for _, r := range []Reached{
			{Limit: "steps", More: scope.limit.Steps},
			{Limit: "tokens", More: scope.limit.Tokens},
			{Limit: "money", More: scope.limit.CostMicros},
			{Limit: "time", More: scope.limit.Time.Milliseconds()},
		} {
			r.Used = scope.used.of(string(r.Limit))
			r.Limit = Limit(scope.name) + r.Limit
			r.Allowed = r.More + raised[r.Limit]
			if r.More > 0 && r.Used >= r.Allowed {
				return &r
			}
		}
	}
	return nil
}

// Statement is a sentence for people with the limit and the consumption.
func (r Reached) Statement() string {
	whose := "This request has"
	switch {
	case strings.HasPrefix(string(r.Limit), sessionPrefix):
		whose = "This conversation has"
	case r.ofDay():
		whose = "Today all conversations together have"
	}
	return fmt.Sprintf("%s used %s of the %s allowed.", whose, r.amount(r.Used, false), r.amount(r.Allowed, true))
}

// Question is the question to people: the statement and the possible answers.
func (r Reached) Question() string {
	further := ""
	if r.ofDay() {
		further = " here today"
	}
	return fmt.Sprintf("%s, so I have stopped. Answer \"continue\" to allow %s more%s, or \"stop\" to end this request.",
		strings.TrimSuffix(r.Statement(), "."), r.amount(r.More, true), further)
}

func (r Reached) ofDay() bool { return strings.HasPrefix(string(r.Limit), dayPrefix) }

func (r Reached) amount(n int64, unit bool) string {
	_, thing, _ := strings.Cut(string(r.Limit), ".")
	switch thing {
	case "money":
		return "$" + strconv.FormatFloat(float64(n)/1e6, 'f', -1, 64)
	case "time":
		return (time.Duration(n) * time.Millisecond).Round(time.Second).String()
	}
	if !unit {
		return strconv.FormatInt(n, 10)
	}
	if n == 1 {
		thing = strings.TrimSuffix(thing, "s")
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Pause describes a request that waits for an answer.
type Pause struct {
	// Number is 1 for the first pause of the request.
	Number int       `json:"number"`
	Kind   PauseKind `json:"kind,omitempty"`
	// Reached is the limit, for AtLimit.
	Reached
	// Call is the call that waits, for ForApproval. Approvers are the people who may answer
	// besides the operator.
	Call      *AskedCall `json:"call,omitempty"`
	Approvers []string   `json:"approvers,omitempty"`
	// Choices are suggested answers, for ForReply. ToolCallID is the call that asks, and Form
	// the question of a program instead.
	Choices    []string  `json:"choices,omitempty"`
	ToolCallID string    `json:"toolCallId,omitempty"`
	Form       *CallForm `json:"form,omitempty"`
	Question   string    `json:"question"`
	// Since and Until are Unix milliseconds. At Until a request at a limit fails, and any
	// other continues without an answer.
	Since int64 `json:"since"`
	Until int64 `json:"until"`
	// Day is the day of a daily limit.
	Day string `json:"day,omitempty"`
}

// stoppedText is the detail of a request that was stopped at the limit.
func (p Pause) stoppedText() string {
	return "Stopped at its limit of " + p.amount(p.Allowed, true) + "."
}

// expiredText is the detail of a request whose pause nobody answered.
func (p Pause) expiredText() string {
	waited := (time.Duration(p.Until-p.Since) * time.Millisecond).Round(time.Second)
	return fmt.Sprintf("Nobody answered for %s whether to go on beyond the limit of %s, so the request was ended.", waited, p.amount(p.Allowed, true))
}
