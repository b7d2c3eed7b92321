package openaiapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// responseRequest has the fields of a response that change what the client gets.
type responseRequest struct {
	Model        string            `json:"model"`
	Input        input             `json:"input"`
	Instructions *string           `json:"instructions"`
	Previous     *string           `json:"previous_response_id"`
	Conversation json.RawMessage   `json:"conversation"`
	Stream       bool              `json:"stream"`
	Background   bool              `json:"background"`
	Metadata     map[string]string `json:"metadata"`
	Text         struct {
		Format *format `json:"format"`
	} `json:"text"`
	offer
}

// input is a text or a list of messages.
type input []message

// UnmarshalJSON implements [json.Unmarshaler].
func (in *input) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte(`"`)) {
		m := message{Role: "user"}
		err := json.Unmarshal(data, &m.Content)
		*in = input{m}
		return err
	}
	return json.Unmarshal(data, (*[]message)(in))
}

type responseUsage struct {
	InputTokens  int64 `json:"input_tokens"`
	InputDetails struct {
		CachedTokens     int64 `json:"cached_tokens"`
		CacheWriteTokens int64 `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens  int64 `json:"output_tokens"`
	OutputDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int64 `json:"total_tokens"`
}

func responseUsageOf(u chat.Usage) *responseUsage {
	out := &responseUsage{InputTokens: promptTokens(u), OutputTokens: u.OutputTokens}
	out.InputDetails.CachedTokens, out.InputDetails.CacheWriteTokens = u.CacheReadTokens, u.CacheWriteTokens
	out.TotalTokens = out.InputTokens + out.OutputTokens
	return out
}

type outputText struct {
	Type        string     `json:"type"`
	Text        string     `json:"text"`
	Annotations []struct{} `json:"annotations"`
	Logprobs    []struct{} `json:"logprobs"`
}

type outputMessage struct {
	ID      string       `json:"id"`
	Type    string       `json:"type"`
	Status  string       `json:"status"`
	Role    string       `json:"role"`
	Content []outputText `json:"content"`
}

type response struct {
	ID                string             `json:"id"`
	Object            string             `json:"object"`
	CreatedAt         int64              `json:"created_at"`
	CompletedAt       *int64             `json:"completed_at"`
	Status            string             `json:"status"`
	Error             *responseError     `json:"error"`
	IncompleteDetails *struct{}          `json:"incomplete_details"`
	Instructions      *string            `json:"instructions"`
	MaxOutputTokens   *int               `json:"max_output_tokens"`
	Model             string             `json:"model"`
	Output            []outputMessage    `json:"output"`
	OutputText        string             `json:"output_text"`
	ParallelToolCalls bool               `json:"parallel_tool_calls"`
	Previous          *string            `json:"previous_response_id"`
	Reasoning         map[string]*string `json:"reasoning"`
	Store             bool               `json:"store"`
	Temperature       float64            `json:"temperature"`
	Text              map[string]*format `json:"text"`
	ToolChoice        string             `json:"tool_choice"`
	Tools             []struct{}         `json:"tools"`
	TopP              float64            `json:"top_p"`
	Truncation        string             `json:"truncation"`
	Usage             *responseUsage     `json:"usage,omitempty"`
	Metadata          map[string]string  `json:"metadata"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// responses serves responses. They are kept as conversations: previous_response_id, or the
// conversation, continues one.
func (h *Handler) responses(w http.ResponseWriter, r *http.Request, client Client) error {
	var in responseRequest
	hash, err := readBody(w, r, &in)
	if err != nil {
		return err
	}
	switch {
	case in.Background:
		return fault.InvalidField("background", "background is not supported. The work goes on if the client disconnects; repeat the call with the same Idempotency-Key to get its answer.")
	case len(in.Conversation) > 0 && !bytes.Equal(in.Conversation, []byte("null")):
		return fault.InvalidField("conversation", "Conversations of OpenAI are not supported. Use previous_response_id, or the header %s.", sessionHeader)
	}
	c, err := h.submit(w, r, client, hash, &question{
		model: in.Model, offer: in.offer, messages: in.Input, field: "input", instructions: text(in.Instructions), previous: text(in.Previous),
		format: in.Text.Format, formatField: "text.format",
	})
	if err != nil {
		return err
	}
	defer h.settle(r.Context(), c)
	answer := newResponse(c.run, in.Model, h.o.Now().Unix())
	answer.Instructions, answer.Previous = in.Instructions, in.Previous
	if in.Text.Format != nil {
		answer.Text["format"] = in.Text.Format
	}
	if in.Metadata != nil {
		answer.Metadata = in.Metadata
	}
	if in.Stream {
		return h.streamResponse(w, r, c, answer)
	}
	out, err := h.answer(r.Context(), c, silent)
	if err != nil {
		return c.failed(w, err, nil)
	}
	answer.finish(out, h.o.Now().Unix(), itemID(c.run))
	writeJSON(w, http.StatusOK, answer)
	c.delivered(w, r)
	return nil
}

// newResponse returns a response that has not ended.
func newResponse(r run, model string, createdAt int64) *response {
	return &response{
		ID: responseID(r.SessionID, r.MessageID), Object: "response", CreatedAt: createdAt, Status: "in_progress",
		Model: model, Output: []outputMessage{}, ParallelToolCalls: true,
		Reasoning: map[string]*string{"effort": nil, "summary": nil}, Store: true, Temperature: 1, Text: map[string]*format{"format": {Type: "text"}},
		ToolChoice: "auto", Tools: []struct{}{}, TopP: 1, Truncation: "disabled", Metadata: map[string]string{},
	}
}

// retrieve serves a response again, as far as it is known now.
func (h *Handler) retrieve(w http.ResponseWriter, r *http.Request, client Client) error {
	id := r.PathValue("id")
	sessionID, _ := sessionOf(id, "resp_")
	c := &call{surface: ClientOf(client.Name), run: run{SessionID: sessionID, MessageID: id[strings.LastIndexByte(id, '_')+1:]}}
	c.RequestID = event.RequestID{Surface: c.surface, Session: sessionID, Specific: c.MessageID}.String()
	answer := newResponse(c.run, h.o.Models()[0].ID, 0)
	var noRequest error
	err := h.o.DB.Read(r.Context(), func(q db.Queryer) error {
		s, _, err := h.session(q, c, selector{id: sessionID}, "")
		answer.CreatedAt = s.CreatedAt / 1000
		_, noRequest = h.o.Requests.Request(q, c.RequestID)
		return err
	})
	if err != nil {
		return err
	}
	out, err := h.follow(r.Context(), c.run, sink{text: silent.text})
	switch {
	case err == nil:
		answer.finish(out, h.o.Now().Unix(), itemID(c.run))
	case errors.Is(err, errNoMessage) && noRequest == nil: // it is queued
	case !errors.Is(err, errUnfinished):
		return err
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// finish adds the outcome to the answer.
func (a *response) finish(out outcome, now int64, messageID string) {
	a.Status, a.CompletedAt, a.Usage = "completed", &now, responseUsageOf(out.usage)
	if out.text != "" || out.err == nil {
		a.Output, a.OutputText = []outputMessage{messageOf(messageID, "completed", out.text)}, out.text
	}
	switch {
	case out.err != nil:
		_, body := errorOf(out.err)
		a.Status, a.CompletedAt, a.Error = "failed", nil, &responseError{Code: "server_error", Message: body.Error.Message}
		if fault.KindOf(out.err) == fault.RateLimited {
			a.Error.Code = "rate_limit_exceeded"
		}
	case out.cancelled:
		a.Status, a.CompletedAt = "cancelled", nil
	}
}

// messageOf is the message of an answer.
func messageOf(id, status, text string) outputMessage {
	return outputMessage{ID: id, Type: "message", Status: status, Role: "assistant", Content: []outputText{textOf(text)}}
}

func textOf(text string) outputText {
	return outputText{Type: "output_text", Text: text, Annotations: []struct{}{}, Logprobs: []struct{}{}}
}

// responseEvent is an event of a streamed response.
type responseEvent struct {
	Type         string         `json:"type"`
	Sequence     int            `json:"sequence_number"`
	Response     *response      `json:"response,omitempty"`
	ItemID       string         `json:"item_id,omitempty"`
	OutputIndex  *int           `json:"output_index,omitempty"`
	ContentIndex *int           `json:"content_index,omitempty"`
	Item         *outputMessage `json:"item,omitempty"`
	Part         *outputText    `json:"part,omitempty"`
	Delta        *string        `json:"delta,omitempty"`
	Text         *string        `json:"text,omitempty"`
	Logprobs     *[]struct{}    `json:"logprobs,omitempty"`
}

// responseStream writes the events of one response.
type responseStream struct {
	*stream
	answer    *response
	messageID string
	next      int
	opened    bool
	sent      []byte
}

func (s *responseStream) event(e *responseEvent) error {
	e.Sequence = s.next
	s.next++
	return s.data(e.Type, e)
}

var zero int

// open begins the message of the answer.
func (s *responseStream) open() error {
	if s.opened {
		return nil
	}
	s.opened = true
	item := messageOf(s.messageID, "in_progress", "")
	item.Content = []outputText{}
	part := textOf("")
	return cmp.Or(
		s.event(&responseEvent{Type: "response.output_item.added", OutputIndex: &zero, Item: &item}),
		s.event(&responseEvent{Type: "response.content_part.added", ItemID: s.messageID, OutputIndex: &zero, ContentIndex: &zero, Part: &part}),
	)
}

func (s *responseStream) text(piece string) error {
	if err := s.open(); err != nil {
		return err
	}
	s.sent = append(s.sent, piece...)
	return s.event(&responseEvent{Type: "response.output_text.delta", ItemID: s.messageID, OutputIndex: &zero, ContentIndex: &zero, Delta: &piece, Logprobs: &[]struct{}{}})
}

// end completes the message and the response.
func (s *responseStream) end(out outcome, now int64) error {
	if out.err == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	if s.opened { // the message consists of what was sent
		out.text = string(s.sent)
		item, part := messageOf(s.messageID, "completed", out.text), textOf(out.text)
		err := cmp.Or(
			s.event(&responseEvent{Type: "response.output_text.done", ItemID: s.messageID, OutputIndex: &zero, ContentIndex: &zero, Text: &out.text, Logprobs: &[]struct{}{}}),
			s.event(&responseEvent{Type: "response.content_part.done", ItemID: s.messageID, OutputIndex: &zero, ContentIndex: &zero, Part: &part}),
			s.event(&responseEvent{Type: "response.output_item.done", OutputIndex: &zero, Item: &item}),
		)
		if err != nil {
			return err
		}
	}
	s.answer.finish(out, now, s.messageID)
	kind := "response.completed"
	switch {
	case out.err != nil:
		kind = "response.failed"
	case out.cancelled:
		kind = "response.incomplete"
		s.answer.Status = "incomplete"
	}
	return s.event(&responseEvent{Type: kind, Response: s.answer})
}

// streamResponse streams a response as events.
func (h *Handler) streamResponse(w http.ResponseWriter, r *http.Request, c *call, answer *response) error {
	s := &responseStream{stream: newStream(w), answer: answer, messageID: itemID(c.run)}
	err := cmp.Or(
		s.event(&responseEvent{Type: "response.created", Response: answer}),
		s.event(&responseEvent{Type: "response.in_progress", Response: answer}),
	)
	if err != nil {
		return nil // the client is gone
	}
	out, err := h.answer(r.Context(), c, sink{text: s.text, idle: s.comment})
	if err != nil {
		out.err = err
	}
	if s.end(out, h.o.Now().Unix()) == nil && err == nil {
		c.delivered(w, r)
	}
	return nil // a client that is gone needs no error
}
