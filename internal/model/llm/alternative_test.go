package llm_test

import (
	"context"
	"iter"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// oneAPI is a model behind one of OpenAI's two APIs.
type oneAPI struct {
	refusal error // nil answers
	calls   int
}

func (o *oneAPI) Info() llm.Info { return llm.Info{} }

func (o *oneAPI) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		o.calls++
		if o.refusal != nil {
			yield(llm.Chunk{}, o.refusal)
			return
		}
		yield(llm.Chunk{Kind: llm.ChunkDone, Message: chat.Text(chat.Assistant, "Yes.")}, nil)
	}
}

func TestTheOtherAPIIsLearnedFromARefusal(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		other  bool
	}{
		{404, `{"detail":"Not Found"}`, true},
		{404, `<html>Cannot POST /v1/responses</html>`, true},
		{404, `{"error":{"message":"Invalid URL (POST /v1/responses)","type":"invalid_request_error"}}`, true},
		{405, `{"error":"Method Not Allowed"}`, true},
		{501, ``, true},
		{400, `{"error":{"message":"This model is only supported in v1/responses and not in v1/chat/completions.","param":"model"}}`, true},
		{400, `{"error":{"message":"Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. Please use /v1/responses instead.","param":"reasoning_effort"}}`, true},
		{400, `{"error":{"message":"This provider does not support the Responses API"}}`, true},
		{400, `{"error":{"message":"Unsupported endpoint"}}`, true},
		{422, `{"detail":[{"loc":["body","messages"],"msg":"Field required"}]}`, true},
		{400, `{"error":{"message":"Missing required parameter: 'input'."}}`, true},
		{404, `{"error":{"message":"The model gpt-9 does not exist","code":"model_not_found"}}`, false},
		{400, `{"error":{"message":"messages.1.content: Field required"}}`, false},
		{401, `{"error":{"message":"bad key"}}`, false},
		{429, `{"error":{"message":"slow down"}}`, false},
		{500, `{"error":{"message":"oops"}}`, false},
	} {
		f := classify(t, c.status, nil, c.body)
		first, second, learned := &oneAPI{refusal: f}, &oneAPI{}, &llm.Learned{}
		m := llm.Alternative(first, second, learned)
		for range 2 {
			for _, err := range m.Stream(t.Context(), llm.Request{}) {
				if (err == nil) != c.other {
					t.Errorf("status %d: %v: %s", c.status, err, c.body)
				}
			}
		}
		calls := 2 // also the second time
		if c.other {
			calls = 1
		}
		if first.calls != calls || learned.Facts().OtherAPI != c.other {
			t.Errorf("status %d: the first API was called %d times, learned %v: %s", c.status, first.calls, learned.Facts().OtherAPI, c.body)
		}
		// A change of the configuration or of the endpoint may make the other API the wrong one.
		other := &llm.Learned{}
		for range llm.Alternative(&oneAPI{refusal: fault.Wrap(fault.NotFound, &llm.ProviderError{Status: 404}, "no")}, &oneAPI{}, other).Stream(t.Context(), llm.Request{}) {
		}
		first, second = &oneAPI{}, &oneAPI{refusal: f}
		for _, err := range llm.Alternative(first, second, other).Stream(t.Context(), llm.Request{}) {
			if (err == nil) != c.other || other.Facts().OtherAPI == c.other {
				t.Errorf("status %d, the other API first: %v, learned %v: %s", c.status, err, other.Facts().OtherAPI, c.body)
			}
		}
		// If the second one has the API and refuses something else, people see that.
		for _, kind := range []fault.Kind{fault.Unauthenticated, fault.Denied, fault.RateLimited} {
			want := fault.New(kind, "no")
			for _, err := range llm.Alternative(&oneAPI{refusal: f}, &oneAPI{refusal: want}, &llm.Learned{}).Stream(t.Context(), llm.Request{}) {
				if (err == error(want)) != c.other {
					t.Errorf("status %d, then %s: %v", c.status, kind, err)
				}
			}
		}
		// If both refuse, people see the refusal of the API that was chosen.
		both := llm.Alternative(&oneAPI{refusal: f}, &oneAPI{refusal: fault.New(fault.NotFound, "no such route")}, &llm.Learned{})
		for _, err := range both.Stream(t.Context(), llm.Request{}) {
			if err != error(f) {
				t.Errorf("status %d: if both refuse, the error is %v", c.status, err)
			}
		}
	}
}
