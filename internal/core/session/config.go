package session

import (
	"errors"
	"math"
	"time"

	"lilac/internal/agent"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/setting"
)

// LimitsConfig is the section "limits" of the configuration. The limits are checked before and
// during each model call; a request that reaches one asks in its conversation whether to continue.
type LimitsConfig struct {
	Request  BudgetConfig     `json:"request,omitempty" jsonschema:"Limits of one request."`
	Session  BudgetConfig     `json:"session,omitempty" jsonschema:"Limits of one conversation, over its lifetime."`
	Day      BudgetConfig     `json:"day,omitempty" jsonschema:"Limits of all conversations together, per day."`
	TimeZone string           `json:"timeZone,omitempty" jsonschema:"The time zone in which a day begins: a name such as Europe/Berlin, UTC, or Local for the machine's zone."`
	Wait     setting.Duration `json:"wait,omitempty" jsonschema:"How long a request waits for an answer: at a limit, before it ends; about a call that needs an approval, before it continues without the call."`
	Question setting.Duration `json:"question,omitempty" jsonschema:"How long a request waits for the answer to a question of the agent before it continues without one."`
	Tool     setting.Duration `json:"tool,omitempty" jsonschema:"Time limit for one tool call. Tools have smaller limits of their own."`
	Answer   AnswerConfig     `json:"answer,omitempty" jsonschema:"Maximum sizes in one answer of the model, from 1KiB to 4MiB. A longer answer is stopped, and what was written until then is kept."`
	Repeats  int              `json:"repeats,omitempty" jsonschema:"How often in a row the model may repeat the same sentences in an answer, or the same tool calls with the same arguments, before the request ends. Zero means no limit."`
}

// AnswerConfig bounds one answer of the model.
type AnswerConfig struct {
	Text      setting.Size `json:"text,omitempty" jsonschema:"Maximum size of the text."`
	Thinking  setting.Size `json:"thinking,omitempty" jsonschema:"Maximum size of the thinking."`
	Arguments setting.Size `json:"arguments,omitempty" jsonschema:"Maximum size of the arguments of one tool call, such as the content of a file to write. All calls of an answer together may have twice as much."`
}

// minAnswerSize and maxAnswerSize bound the sizes of an answer: each of them is kept in memory
// several times.
const (
	minAnswerSize = setting.Size(1 << 10)
	maxAnswerSize = setting.Size(4 << 20)
)

// A BudgetConfig bounds the usage of each resource. Zero means no limit.
type BudgetConfig struct {
	Steps  int64            `json:"steps,omitempty" jsonschema:"Maximum number of model calls. Zero means no limit."`
	Tokens int64            `json:"tokens,omitempty" jsonschema:"Maximum number of input and output tokens. Zero means no limit. If the provider does not report usage, Lilac uses an estimate."`
	Money  float64          `json:"money,omitempty" jsonschema:"Maximum cost in US dollars. Zero means no limit. Requires a model with a known price."`
	Time   setting.Duration `json:"time,omitempty" jsonschema:"Maximum working time, for example 30m. Zero means no limit. Time in a queue or waiting for an answer does not count."`
}

// DefaultLimitsConfig returns the defaults.
func DefaultLimitsConfig() LimitsConfig {
	return LimitsConfig{
		// A healthy request needs far less than this; the limit stops a model that loops.
		Request: BudgetConfig{Steps: 50, Tokens: 5_000_000, Time: setting.Duration(time.Hour)},
		// This limit stops runaway activity that no person notices, such as events that
		// trigger each other.
		Day:      BudgetConfig{Tokens: 100_000_000},
		TimeZone: "Local",
		Wait:     setting.Duration(DefaultWait),
		Question: setting.Duration(DefaultQuestionWait),
		Tool:     setting.Duration(30 * time.Minute),
		// A book has a text of 500 KiB; few models can write as much at once.
		Answer: AnswerConfig{Text: 512 << 10, Thinking: 512 << 10, Arguments: 512 << 10},
		// Few sentences are worth repeating, but a tool may be asked a few times whether
		// something has changed.
		Repeats: 25,
	}
}

// Zone returns the location that TimeZone names.
func (c LimitsConfig) Zone() (*time.Location, error) { return time.LoadLocation(c.TimeZone) }

// HasMoney reports whether any budget limits money.
func (c LimitsConfig) HasMoney() bool {
	return c.Request.Money != 0 || c.Session.Money != 0 || c.Day.Money != 0
}

// Check rejects limits that could not be kept.
func (c LimitsConfig) Check() error {
	var found []error
	found = append(found, c.Request.Check("limits.request"), c.Session.Check("limits.session"), c.Day.Check("limits.day"))
	if _, err := c.Zone(); err != nil {
		f := fault.InvalidField("limits.timeZone", "The time zone %q is unknown; use a name such as Europe/Berlin, UTC or Local.", c.TimeZone)
		f.Err = err
		found = append(found, f)
	}
	if c.Wait <= 0 {
		found = append(found, fault.InvalidField("limits.wait", "limits.wait has to be longer than nothing, for example 24h."))
	}
	if c.Question <= 0 {
		found = append(found, fault.InvalidField("limits.question", "limits.question has to be longer than nothing, for example 168h."))
	}
	if c.Tool <= 0 {
		found = append(found, fault.InvalidField("limits.tool", "limits.tool has to be longer than nothing, for example 30m."))
	}
	for _, l := range []struct {
		name string
		size setting.Size
	}{{"text", c.Answer.Text}, {"thinking", c.Answer.Thinking}, {"arguments", c.Answer.Arguments}} {
		if field := "limits.answer." + l.name; l.size < minAnswerSize || l.size > maxAnswerSize {
			found = append(found, fault.InvalidField(field, "%s is %s; it has to be from %s to %s.", field, l.size, minAnswerSize, maxAnswerSize))
		}
	}
	if c.Repeats < 0 {
		found = append(found, fault.InvalidField("limits.repeats", "limits.repeats is negative; use 0 for no limit."))
	}
	return errors.Join(found...)
}

// Limits returns the limits of the service. The configuration must be valid.
func (c LimitsConfig) Limits() Limits {
	zone, err := c.Zone()
	if err != nil {
		zone = time.UTC
	}
	return Limits{
		Request: c.Request.Budget(), Session: c.Session.Budget(), Day: c.Day.Budget(),
		Zone: zone, Wait: time.Duration(c.Wait), QuestionWait: time.Duration(c.Question),
	}
}

// Bounds returns the bounds of one answer.
func (c LimitsConfig) Bounds() agent.Bounds {
	return agent.Bounds{Text: int(c.Answer.Text), Thinking: int(c.Answer.Thinking), Arguments: int(c.Answer.Arguments), Repeats: c.Repeats}
}

// Check rejects limits that could not be kept; field is the key of the setting.
func (c BudgetConfig) Check(field string) error {
	var found []error
	for _, l := range []struct {
		name string
		low  bool
	}{{"steps", c.Steps < 0}, {"tokens", c.Tokens < 0}, {"money", c.Money < 0}, {"time", c.Time < 0}} {
		if at := field + "." + l.name; l.low {
			found = append(found, fault.InvalidField(at, "%s is negative; use 0 for no limit.", at))
		}
	}
	return errors.Join(found...)
}

// Budget returns the bounds.
func (c BudgetConfig) Budget() Budget {
	return Budget{Steps: c.Steps, Tokens: c.Tokens, CostMicros: micros(c.Money), Time: time.Duration(c.Time)}
}

// micros converts dollars to millionths, rounded up so that a limit never becomes 0,
// which means none.
func micros(dollars float64) int64 { return int64(math.Ceil(dollars * 1e6)) }
