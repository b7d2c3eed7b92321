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
	// queryTime bounds one jq expression: an event must not hold up those
	// behind it. Expressions take microseconds.
	queryTime = 250 * time.Millisecond
	// maxValue bounds the JSON of what an expression gives.
	maxValue = 64 << 10
	// maxDigits bounds a number that is kept exactly: to read a longer one takes
	// a time that grows with its square, and no deadline ends it.
	maxDigits = 1000
)

// query is a jq expression on an event.
type query struct{ code *gojq.Code }

// compileQuery compiles a jq expression. It sees the event and nothing else:
// no environment, no files and no input.
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
			return nil, fmt.Errorf("the jq expression has a mistake at character %d: %w", p.Offset, err)
		}
		return nil, fmt.Errorf("the jq expression has a mistake: %w", err)
	}
	return parsed, nil
}

func compileParsed(parsed *gojq.Query) (*query, error) {
	code, err := gojq.Compile(parsed)
	if err != nil {
		return nil, fmt.Errorf("the jq expression has a mistake: %w", err)
	}
	return &query{code}, nil
}

// Subject is an event that expressions look at. It is decoded once, when the
// first of them looks.
type Subject struct {
	event event.EnvEvent
	value func() (any, error)
}

// NewSubject is the event as a subject.
func NewSubject(e event.EnvEvent) Subject {
	return Subject{e, sync.OnceValues(func() (any, error) { return eventValue(e) })}
}

// run returns the first thing that the expression gives, null if it gives nothing.
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

// eventValue is the event as jq sees it. Numbers stay as they are written: ids are
// larger than a float can hold.
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

// roundLongNumbers rounds the numbers that are longer than [maxDigits].
func roundLongNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if len(v) > maxDigits {
			rounded, _ := v.Float64() // one that is too large is infinite
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
		return nil, fmt.Errorf("encode what the jq expression gives: %w", err)
	}
	if len(raw) > maxValue {
		return nil, fmt.Errorf("the jq expression gives %d bytes, more than %d", len(raw), maxValue)
	}
	return raw, nil
}

// condition is what jq's select takes for true: all but false and null.
func (q *query) condition(ctx context.Context, s Subject) (bool, error) {
	out, err := q.run(ctx, s)
	return out != nil && out != false, err
}

// template is a text with jq expressions between {{ and }}.
type template []segment

// segment is a text, or a query if that is set.
type segment struct {
	text  string
	query *query
}

// compileTemplate takes a text apart. An expression ends at the first }} that
// makes it one, because jq has }} of its own.
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
				return nil, errors.New("a {{ has no }}")
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

// prompt renders the template for the agent. What comes from the event stands
// in JSON, strings in quotation marks: it cannot end its place and go on as
// the words of the operator.
func (t template) renderPrompt(e event.EnvEvent) (string, error) {
	return t.render(e, func(raw json.RawMessage) (string, error) {
		var s string
		if raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
			return quote(s), nil
		}
		return text.TruncateWith(string(raw), maxQuoted, more), nil
	})
}

// name renders the template for an id: every expression has to give a text or
// a number.
func (t template) renderName(e event.EnvEvent) (string, error) {
	return t.render(e, func(raw json.RawMessage) (string, error) {
		var s string
		if raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
			return s, nil
		}
		if strings.ContainsAny(string(raw[:1]), "-0123456789") {
			return string(raw), nil
		}
		return "", fmt.Errorf("an expression gives %s, no text", text.TruncateWith(string(raw), 100, more))
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
