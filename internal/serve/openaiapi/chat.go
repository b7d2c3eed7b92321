package openaiapi

import (
	"cmp"
	"net/http"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

// chatRequest has the fields of a chat completion that change what the client gets.
type chatRequest struct {
	Model         string    `json:"model"`
	Messages      []message `json:"messages"`
	Stream        bool      `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	N              *int    `json:"n"`
	ResponseFormat *format `json:"response_format"`
	offer
}

type chatUsage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
	Details          struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// chatUsageOf translates a usage; tokens of the cache are part of OpenAI's prompt.
func chatUsageOf(u chat.Usage) *chatUsage {
	out := &chatUsage{PromptTokens: promptTokens(u), CompletionTokens: u.OutputTokens}
	out.TotalTokens = out.PromptTokens + out.CompletionTokens
	out.Details.CachedTokens = u.CacheReadTokens
	return out
}

func promptTokens(u chat.Usage) int64 { return u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens }

type chatMessage struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content"`
	Refusal *string `json:"refusal"`
}

type chatChoice struct {
	Index        int          `json:"index"`
	Message      *chatMessage `json:"message,omitempty"`
	Delta        *chatDelta   `json:"delta,omitempty"`
	Logprobs     *struct{}    `json:"logprobs"`
	FinishReason *string      `json:"finish_reason"`
}

type chatDelta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type chatAnswer struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *chatUsage   `json:"usage,omitempty"`
}

var finished = "stop"

// chat serves chat completions. A client repeats the whole conversation with each call; if
// the call continues a conversation, only the newest words are used.
func (h *Handler) chat(w http.ResponseWriter, r *http.Request, client Client) error {
	var in chatRequest
	hash, err := readBody(w, r, &in)
	if err != nil {
		return err
	}
	if in.N != nil && *in.N != 1 {
		return fault.InvalidField("n", "There is one answer; n must be 1.")
	}
	c, err := h.submit(w, r, client, hash, &question{
		model: in.Model, offer: in.offer, messages: in.Messages, field: "messages", format: in.ResponseFormat, formatField: "response_format",
	})
	if err != nil {
		return err
	}
	defer h.settle(r.Context(), c)
	answer := chatAnswer{ID: "chatcmpl-" + c.MessageID, Object: "chat.completion", Created: h.o.Now().Unix(), Model: in.Model}
	if in.Stream {
		answer.Object += ".chunk"
		return h.streamChat(w, r, c, answer, in.StreamOptions != nil && in.StreamOptions.IncludeUsage)
	}
	out, err := h.answer(r.Context(), c, silent)
	if err != nil || out.err != nil {
		return c.failed(w, err, out.err)
	}
	answer.Choices = []chatChoice{{Message: &chatMessage{Role: "assistant", Content: &out.text}, FinishReason: &finished}}
	answer.Usage = chatUsageOf(out.usage)
	writeJSON(w, http.StatusOK, answer)
	c.delivered(w, r)
	return nil
}

// streamChat streams an answer as chunks.
func (h *Handler) streamChat(w http.ResponseWriter, r *http.Request, c *call, answer chatAnswer, usage bool) error {
	s := newStream(w)
	chunk := func(choice chatChoice) error {
		answer.Choices = []chatChoice{choice}
		return s.data("", answer)
	}
	role := "assistant"
	out, err := h.answer(r.Context(), c, sink{idle: s.comment, text: func(piece string) error {
		delta := chatDelta{Role: role, Content: &piece}
		role = ""
		return chunk(chatChoice{Delta: &delta})
	}})
	if failure := cmp.Or(err, out.err); failure != nil {
		if !s.begun {
			return c.failed(w, err, out.err)
		}
		_, body := errorOf(failure)
		if s.data("", body) == nil && err == nil {
			c.delivered(w, r)
		}
		return nil // a client that is gone needs no error
	}
	if err := chunk(chatChoice{Delta: &chatDelta{Role: role}, FinishReason: &finished}); err != nil {
		return nil // the client is gone
	}
	if usage {
		answer.Choices, answer.Usage = []chatChoice{}, chatUsageOf(out.usage)
		if err := s.data("", answer); err != nil {
			return nil
		}
	}
	if s.write("data: [DONE]\n\n") == nil {
		c.delivered(w, r)
	}
	return nil
}
