package llm_test

import (
	"testing"

	"lilac/internal/model/llm"
)

// What one process learned reaches the next one, also for models that were chosen before.
func TestLearnedFactsOutliveTheProcess(t *testing.T) {
	saved := map[string]llm.Facts{}
	var first llm.Registry
	model := first.Get("http://localhost/v1", "m", "chat")
	first.Keep(nil, func(key string, f llm.Facts) { saved[key] = f })
	model.SetContext(8192, 0)
	model.Learn(llm.ProviderError{Status: 400, Message: "Unknown parameter: 'stream_options'."}, llm.Sent{Fields: []string{"stream_options"}})
	first.Get("http://localhost/v1", "other", "chat").SetContext(0, 100)
	if len(saved) != 2 {
		t.Fatalf("%d models were saved", len(saved))
	}

	var second llm.Registry
	before := second.Get("http://localhost/v1", "m", "chat")
	second.Keep(saved, func(string, llm.Facts) { t.Error("nothing has changed, but facts were saved") })
	before.SetContext(8192, 0)
	if f := before.Facts(); f.ContextTokens != 8192 || !f.Omit["stream_options"] {
		t.Errorf("facts are %+v", f)
	}
	if f := second.Get("http://localhost/v1", "other", "chat").Facts(); f.MaxOutputTokens != 100 || f.ContextTokens != 0 {
		t.Errorf("facts of the other model are %+v", f)
	}
	if f := second.Get("http://localhost/v1", "m", "responses").Facts(); f.ContextTokens != 0 || len(f.Omit) > 0 {
		t.Errorf("facts of the other API are %+v", f)
	}
	if f := second.Get("http://localhost/v1", "unknown", "chat").Facts(); f.ContextTokens != 0 {
		t.Errorf("facts of an unknown model are %+v", f)
	}
}
