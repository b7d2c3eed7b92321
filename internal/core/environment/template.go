package environment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/itchyny/gojq"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/text"
)

const (
	// queryTime bounds the run of a jq expression, because the events after it wait. Most
	// expressions take microseconds.
	queryTime = 250 * time.Millisecond
	// maxValue bounds the result of an expression, in bytes of JSON.
	maxValue = 64 << 10
	// maxDigits bounds the numbers that stay exact: parsing takes quadratic time, which no
	// deadline ends.
	maxDigits = 1000
)

// query is a jq expression on an event.
type query struct{ code *gojq.Code }

// compileQuery compiles a jq expression. It can access the event, but no environment, no
// files, and no input.
func compileQuery(text string) (*query, error) {
	parsed, err := parseQuery(text)
	if err != nil {
		return nil, err
	}
	return compileParsed(parsed)
}

func parseQuery(text string) (*gojq.Query, error) {
	parsed, err := gojq.Parse(text)
	if err != nil {
		var p *gojq.ParseError
		if errors.As(err, &p) {
			return nil, fmt.Errorf("the jq expression has an error at character %d: %w", p.Offset, err)
		}
		return nil, fmt.Errorf("the jq expression has an error: %w", err)
	}
	return parsed, nil
}

func compileParsed(parsed *gojq.Query) (*query, error) {
	code, err := gojq.Compile(parsed)
	if err != nil {
		return nil, fmt.Errorf("the jq expression has an error: %w", err)
	}
	return &query{code}, nil
}

// Subject is an event for expressions. It is decoded once, for the first expression.
type Subject struct {
	event event.EnvEvent
	value func() (any, error)
}

// NewSubject returns a Subject for an event.
func NewSubject(e event.EnvEvent) Subject {
	return Subject{e, sync.OnceValues(func() (any, error) { return eventValue(e) })}
}

// run returns the first result of the expression, or nil if there is none.
func (q *query) run(ctx context.Context, s Subject) (any, error) {
	in, err := s.value()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	out, ok := q.code.RunWithContext(ctx, in).Next()
	if !ok {
		return nil, nil
	}
	if err, failed := out.(error); failed {
		return nil, fmt.Errorf("run the jq expression: %w", err)
	}
	return out, nil
}

// eventValue returns the event as a value for jq. Numbers stay exact, because ids can be
// larger than a float can represent.
func eventValue(e event.EnvEvent) (any, error) {
	raw, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("decode event: %w", err)
	}
	return roundLongNumbers(v), nil
}

// roundLongNumbers rounds numbers with more than [maxDigits] digits.
func roundLongNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if len(v) > maxDigits {
			rounded, _ := v.Float64() // a number that is too large becomes infinite
			return rounded
		}
	case []any:
		for i := range v {
			v[i] = roundLongNumbers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = roundLongNumbers(v[key])
		}
	}
	return v
}

func (q *query) json(s Subject) (json.RawMessage, error) {
	out, err := q.run(context.Background(), s)
	if err != nil {
		return nil, err
	}
	raw, err := gojq.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode the result of the jq expression: %w", err)
	}
	if len(raw) > maxValue {
		return nil, fmt.Errorf("the result of the jq expression has %d bytes, more than %d", len(raw), maxValue)
	}
	return raw, nil
}

// condition reports whether the result is true, like jq's select: all but false and null.
func (q *query) condition(ctx context.Context, s Subject) (bool, error) {
	out, err := q.run(ctx, s)
	return out != nil && out != false, err
}

// template is a text with jq expressions in {{ and }}.
type template []segment

// segment is a query, or a text if query is nil.
type segment struct {
	text  string
	query *query
}

// compileTemplate compiles a template. An expression ends at the first }} that makes it
// valid, because jq expressions can contain }}.
func compileTemplate(text string) (template, error) {
	var out template
	for {
		before, rest, found := strings.Cut(text, "{{")
		if before != "" {
			out = append(out, segment{text: before})
		}
		if !found {
			return out, nil
		}
		var q *query
		var mistake error
		end := 0
		for q == nil {
			at := strings.Index(rest[end:], "}}")
			switch {
			case at < 0 && mistake != nil:
				return nil, mistake
			case at < 0:
				return nil, errors.New("a {{ has no matching }}")
			}
			end += at + 2
			var err error
			if q, err = compileQuery(rest[:end-2]); err != nil {
				if mistake == nil {
					mistake = err
				}
				end-- // the next }} may overlap this one
			}
		}
		out = append(out, segment{query: q})
		text = rest[end:]
	}
}

// renderPrompt renders the template for the agent. Values of the event are JSON, with
// strings in quotation marks, so that they cannot pose as text of the operator.
func (t template) renderPrompt(e event.EnvEvent) (string, error) {
	return t.render(e, func(raw json.RawMessage) (string, error) {
		var s string
		if raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
			return quote(s), nil
		}
		return text.TruncateWith(string(raw), maxQuoted, more), nil
	})
}

// renderName renders the template for an id. Every result must be a string or a number.
func (t template) renderName(e event.EnvEvent) (string, error) {
	return t.render(e, func(raw json.RawMessage) (string, error) {
		var s string
		if raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
			return s, nil
		}
		if strings.ContainsAny(string(raw[:1]), "-0123456789") {
			return string(raw), nil
		}
		return "", fmt.Errorf("the result of an expression is %s, not a string or a number", text.TruncateWith(string(raw), 100, more))
	})
}

func (t template) render(e event.EnvEvent, show func(json.RawMessage) (string, error)) (string, error) {
	about := NewSubject(e)
	var b strings.Builder
	for _, p := range t {
		if p.query == nil {
			b.WriteString(p.text)
			continue
		}
		raw, err := p.query.json(about)
		if err != nil {
			return "", err
		}
		text, err := show(raw)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}
