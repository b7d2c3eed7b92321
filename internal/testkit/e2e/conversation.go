package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
)

// Accepted is the response to a prompt.
type Accepted struct {
	RequestID string `json:"requestId"`
	MessageID string `json:"messageId"`
}

// Said is a message of a session's history as the API returns it.
type Said struct {
	ID        string          `json:"id"`
	RequestID string          `json:"requestId"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
}

// Text returns the content if it is a string, or else its text parts.
func (m Said) Text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct{ Type, Text string }
	_ = json.Unmarshal(m.Content, &parts)
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "text" {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// ToolTexts returns the tool results in the message.
func (m Said) ToolTexts() (all []string) {
	var parts []struct {
		Output struct {
			Value json.RawMessage `json:"value"`
		} `json:"output"`
	}
	if m.Role != "tool" || json.Unmarshal(m.Content, &parts) != nil {
		return nil
	}
	for _, p := range parts {
		var text string
		if json.Unmarshal(p.Output.Value, &text) == nil {
			all = append(all, text)
		}
	}
	return all
}

// RequestInfo holds the fields of a request that tests use.
type RequestInfo struct {
	ID         string  `json:"id"`
	State      string  `json:"state"`
	Detail     string  `json:"detail"`
	Steps      int     `json:"steps"`
	Recoveries int     `json:"recoveries"`
	Entries    []Entry `json:"entries"`
}

// Entry is an entry of a request's journal.
type Entry struct {
	Kind string          `json:"kind"`
	Step int             `json:"step"`
	Data json.RawMessage `json:"data"`
}

// NewSession creates a web conversation.
func (s *Server) NewSession() string {
	s.t.Helper()
	var out struct{ ID string }
	if code := s.Request("POST", "/sessions", map[string]any{}, &out); code != http.StatusCreated {
		s.t.Fatalf("POST /sessions answered %d", code)
	}
	return out.ID
}

// Prompt sends a message to a session. It fails the test if the server rejects the message.
func (s *Server) Prompt(session, content string, queue event.Queue) Accepted {
	s.t.Helper()
	a, code := s.TryPrompt(session, content, queue, "")
	if code != http.StatusOK {
		s.t.Fatalf("the prompt %q was answered with %d", content, code)
	}
	return a
}

// TryPrompt sends a message. A non-empty key is its Idempotency-Key.
func (s *Server) TryPrompt(session, content string, queue event.Queue, key string) (Accepted, int) {
	s.t.Helper()
	var header []string
	if key != "" {
		header = []string{"Idempotency-Key", key}
	}
	var a Accepted
	code := s.Request("POST", "/sessions/"+session+"/prompt",
		map[string]any{"content": content, "queue": queue}, &a, header...)
	return a, code
}

// Cancel cancels the running request of a session.
func (s *Server) Cancel(session string) {
	s.t.Helper()
	if code := s.Request("POST", "/sessions/"+session+"/cancel", map[string]any{}, nil); code >= 300 {
		s.t.Fatalf("cancel answered %d", code)
	}
}

// Story returns a request; its ID is empty if the server does not have the request yet.
func (s *Server) Story(requestID string) RequestInfo {
	s.t.Helper()
	var info RequestInfo
	s.Request("GET", "/requests/"+requestID, nil, &info)
	return info
}

// WaitEnded waits until a request has reached a final state.
func (s *Server) WaitEnded(requestID string, within time.Duration) RequestInfo {
	s.t.Helper()
	var info RequestInfo
	Eventually(s.t, within, "request "+requestID+" has ended", func() bool {
		info = s.Story(requestID)
		return event.RequestState(info.State).Ended()
	})
	return info
}

// Messages returns a session's history.
func (s *Server) Messages(session string) []Said {
	s.t.Helper()
	var out struct{ Messages []Said }
	s.read("/sessions/"+session+"/messages?limit=1000", &out)
	return out.Messages
}

// read makes a GET request and retries it while the program reports that it cannot read.
func (s *Server) read(path string, out any) {
	s.t.Helper()
	Eventually(s.t, startWithin, "GET "+path+" is answered", func() bool {
		code := s.Request("GET", path, nil, out)
		if code != http.StatusOK && code != http.StatusServiceUnavailable {
			s.t.Fatalf("GET %s answered %d", path, code)
		}
		return code == http.StatusOK
	})
}

// Output returns every event of a request's output topic.
func (s *Server) Output(requestID string) []event.Event {
	s.t.Helper()
	return s.Topic(string(event.OutputTopic(requestID)))
}

// WholeOutput returns the events of a request's output topic once they include the final text, or
// the events so far after a timeout.
func (s *Server) WholeOutput(requestID string, within time.Duration) []event.Event {
	s.t.Helper()
	var all []event.Event
	Poll(within, func() bool {
		all = s.Output(requestID)
		return slices.ContainsFunc(all, func(e event.Event) bool { return e.Type == event.OutputResponseText })
	})
	return all
}

// Backlog returns the number of events that a consumer group has not handled yet, or -1 if the
// server does not tell. An accepted message has no request as long as its event is one of them, so
// ask first for the backlog and then for requests that have not ended.
func (s *Server) Backlog() (events int64) {
	var out struct {
		Groups []struct{ Pending, Backlog int64 }
	}
	if s.Request("GET", "/bus/groups", nil, &out) != http.StatusOK {
		return -1
	}
	for _, g := range out.Groups {
		events += g.Pending + g.Backlog
	}
	return events
}

// Topic returns every event that a topic holds.
func (s *Server) Topic(topic string) []event.Event {
	s.t.Helper()
	var all []event.Event
	after := ""
	for {
		var page struct {
			Events []struct {
				event.Event
				Position string `json:"position"`
			} `json:"events"`
		}
		s.read("/bus/"+topic+"?limit=1000&after="+after, &page)
		if len(page.Events) == 0 {
			return all
		}
		for _, e := range page.Events {
			all = append(all, e.Event)
			after = e.Position
		}
	}
}

// OutputText builds the text of a request from its output events. It also reports problems: gaps,
// duplicates, and a final text that differs from the streamed text.
func OutputText(t testing.TB, events []event.Event) (text string, wrong []string) {
	t.Helper()
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	finals := 0
	for _, e := range events {
		p, err := event.Decode(e)
		if err != nil {
			t.Fatal(err)
		}
		if finals > 0 {
			add("%s came after the final text", e.Type)
		}
		switch p := p.(type) {
		case event.TextDelta:
			if p.Offset != int64(len(text)) {
				add("a delta at offset %d, but the text has %d bytes", p.Offset, len(text))
			}
			text += p.Delta
		case event.TextReset:
			if p.Offset > int64(len(text)) {
				add("a reset to %d, but the text has %d bytes", p.Offset, len(text))
				continue
			}
			text = text[:p.Offset]
		case event.FinalText:
			finals++
			if p.FinalText != text {
				add("the final text is %q, but the deltas give %q", p.FinalText, text)
			}
		}
	}
	if finals != 1 {
		add("the output has %d final texts, want one", finals)
	}
	return text, wrong
}

// A Frame is one frame of the event stream.
type Frame struct {
	ID    string
	Event string
	Data  event.EnvEvent
}

// Stream reads the event stream until ctx ends or the connection breaks, and calls fn for each
// frame. cursor is the Last-Event-ID; "" starts with new events.
func (s *Server) Stream(ctx context.Context, query, cursor string, fn func(Frame)) error {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.Addr+"/events?"+query, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+Token)
	if cursor != "" {
		req.Header.Set("Last-Event-ID", cursor)
	}
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var f Frame
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(make([]byte, 64<<10), 8<<20)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case line == "":
			if f.Event != "" {
				fn(f)
			}
			f = Frame{}
		case strings.HasPrefix(line, "id: "):
			f.ID = line[4:]
		case strings.HasPrefix(line, "event: "):
			f.Event = line[7:]
		case strings.HasPrefix(line, "data: "):
			if err := json.Unmarshal([]byte(line[6:]), &f.Data); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}
