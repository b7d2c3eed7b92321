package llmtest_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
	"lilac/internal/testkit/llmtest"
)

// secondRequestBody returns the body of the request that follows an answer and a tool
// result. The answer is stored as JSON in between.
func secondRequestBody(t *testing.T, b build, script llmtest.Script) map[string]any {
	t.Helper()
	r := start(t, b, 0, 0, script, llmtest.Say("ok"))
	h := collect(t.Context(), r.model, prompt)
	if h.err != nil {
		t.Fatal(h.err)
	}
	stored, err := json.Marshal(h.done.Message)
	if err != nil {
		t.Fatal(err)
	}
	var back chat.Message
	if err := json.Unmarshal(stored, &back); err != nil {
		t.Fatal(err)
	}
	results := chat.Message{Role: chat.Tool}
	for _, c := range back.ToolCalls() {
		results.Parts = append(results.Parts, chat.ToolResult(c.ToolCallID, c.ToolName, "no such file", true))
	}
	req := prompt
	req.Messages = append(req.Messages[:1:1], back, results, chat.Text(chat.User, "look again"))
	if h := collect(t.Context(), r.model, req); h.err != nil {
		t.Fatal(h.err)
	}
	var body map[string]any
	if err := json.Unmarshal(r.server.Requests()[1].Body, &body); err != nil {
		t.Fatal(err)
	}
	return body
}

func parse(t *testing.T, s string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAnthropicProviderDataIsSentBack(t *testing.T) {
	body := secondRequestBody(t, adapters["anthropic"], llmtest.Script{
		Reasoning: []string{"hm", "m"}, Signature: "EqQB<&>==", Redacted: "Enc1", Text: []string{"Look:"},
		Fields: map[string]json.RawMessage{"type": json.RawMessage(`"tomorrow"`), "x": json.RawMessage(`{"y":[1,null]}`)},
		Calls:  []llmtest.Call{{ID: "toolu_1", Name: "read", Input: `{"path":"a"}`, Fields: map[string]json.RawMessage{"caller": json.RawMessage(`{"type":"direct"}`)}}},
	})
	want := parse(t, `[
	 {"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]},
	 {"role":"assistant","content":[
	  {"type":"thinking","thinking":"hmm","signature":"EqQB<&>=="},
	  {"type":"redacted_thinking","data":"Enc1"},
	  {"type":"tomorrow","x":{"y":[1,null]}},
	  {"type":"text","text":"Look:"},
	  {"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a"},"caller":{"type":"direct"}}]},
	 {"role":"user","content":[
	  {"type":"tool_result","tool_use_id":"toolu_1","content":"no such file","is_error":true},
	  {"type":"text","text":"look again","cache_control":{"type":"ephemeral"}}]}]`)
	if diff := cmp.Diff(want, body["messages"]); diff != "" {
		t.Error(diff)
	}
	system := parse(t, `[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}]`)
	if diff := cmp.Diff(system, body["system"]); diff != "" {
		t.Error(diff)
	}
}

func TestOpenAIProviderDataIsSentBack(t *testing.T) {
	body := secondRequestBody(t, adapters["openai"], llmtest.Script{
		Reasoning: []string{"hm", "m"}, Text: []string{"Look:"},
		Fields: map[string]json.RawMessage{"reasoning_details": json.RawMessage(`[{"type":"reasoning.text","index":0,"text":"hmm","signature":"s=="}]`)},
		Calls:  []llmtest.Call{{ID: "call_1", Name: "read", Input: `{"path":"a"}`, Fields: map[string]json.RawMessage{"extra_content": json.RawMessage(`{"google":{"thought_signature":"abc"}}`)}}},
	})
	want := parse(t, `[
	 {"role":"system","content":"Be brief."},
	 {"role":"user","content":"hi"},
	 {"role":"assistant","content":"Look:","reasoning_content":"hmm",
	  "reasoning_details":[{"type":"reasoning.text","index":0,"text":"hmm","signature":"s=="}],
	  "tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"},"extra_content":{"google":{"thought_signature":"abc"}}}]},
	 {"role":"tool","tool_call_id":"call_1","content":"Error: no such file"},
	 {"role":"user","content":"look again"}]`)
	if diff := cmp.Diff(want, body["messages"]); diff != "" {
		t.Error(diff)
	}
}

func TestResponsesProviderDataIsSentBack(t *testing.T) {
	body := secondRequestBody(t, adapters["responses"], llmtest.Script{
		Reasoning: []string{"hm", "m"}, Signature: "enc==", Text: []string{"Look:"},
		Calls: []llmtest.Call{{ID: "call_1", Name: "read", Input: `{"path":"a"}`}},
	})
	want := parse(t, `[
	 {"role":"user","content":[{"type":"input_text","text":"hi"}]},
	 {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hmm"}],"encrypted_content":"enc=="},
	 {"type":"message","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"Look:"}]},
	 {"type":"function_call","call_id":"call_1","name":"read","arguments":"{\"path\":\"a\"}"},
	 {"type":"function_call_output","call_id":"call_1","output":"Error: no such file"},
	 {"role":"user","content":[{"type":"input_text","text":"look again"}]}]`)
	if diff := cmp.Diff(want, body["input"]); diff != "" {
		t.Error(diff)
	}
	if body["store"] != false || body["instructions"] != "Be brief." {
		t.Errorf("store is %v, instructions are %v", body["store"], body["instructions"])
	}
}

func TestGeneratedToolCallIDsAreDeterministic(t *testing.T) {
	ids := func() []string {
		r := start(t, adapters["openai"], 0, 0, llmtest.Script{Calls: []llmtest.Call{{Name: "a", Input: "{}"}, {Name: "a", Input: "{}"}}})
		h := collect(t.Context(), r.model, prompt)
		if h.err != nil {
			t.Fatal(h.err)
		}
		return h.starts
	}
	first, again := ids(), ids()
	if diff := cmp.Diff(first, again); diff != "" || first[0] == first[1] {
		t.Errorf("ids are %v and %v", first, again)
	}
}

func TestImagesAndFiles(t *testing.T) {
	str := func(s string) json.RawMessage { out, _ := json.Marshal(s); return out }
	msg := chat.Message{Role: chat.User, Parts: []chat.Part{
		{Type: chat.TypeImage, Data: str("https://example.com/a.png")},
		{Type: chat.TypeImage, Data: str("iVBORw0KGgo=")},
		{Type: chat.TypeFile, Data: str("data:image/jpeg;base64,/9j/4A=="), MediaType: "image/jpeg"},
		{Type: chat.TypeFile, Data: str("aGVsbG8="), MediaType: "text/plain", Filename: "n.txt"},
		{Type: chat.TypeFile, Data: str("JVBERi0xLg=="), MediaType: "application/pdf", Filename: "d.pdf"},
		{Type: chat.TypeFile, Data: str("blob:7"), MediaType: "video/mp4", Filename: "v.mp4"},
	}}
	want := map[string]string{
		"anthropic": `[
		 {"type":"image","source":{"type":"url","url":"https://example.com/a.png"}},
		 {"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}},
		 {"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"/9j/4A=="}},
		 {"type":"text","text":"[File n.txt]\nhello"},
		 {"type":"document","title":"d.pdf","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0xLg=="}},
		 {"type":"text","text":"[A file that you cannot see here: v.mp4 (video/mp4)]","cache_control":{"type":"ephemeral"}}]`,
		"responses": `[
		 {"type":"input_image","image_url":"https://example.com/a.png"},
		 {"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo="},
		 {"type":"input_image","image_url":"data:image/jpeg;base64,/9j/4A=="},
		 {"type":"input_text","text":"[File n.txt]\nhello"},
		 {"type":"input_file","filename":"d.pdf","file_data":"data:application/pdf;base64,JVBERi0xLg=="},
		 {"type":"input_text","text":"[A file that you cannot see here: v.mp4 (video/mp4)]"}]`,
		"openai": `[
		 {"type":"image_url","image_url":{"url":"https://example.com/a.png"}},
		 {"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}},
		 {"type":"image_url","image_url":{"url":"data:image/jpeg;base64,/9j/4A=="}},
		 {"type":"text","text":"[File n.txt]\nhello"},
		 {"type":"file","file":{"filename":"d.pdf","file_data":"data:application/pdf;base64,JVBERi0xLg=="}},
		 {"type":"text","text":"[A file that you cannot see here: v.mp4 (video/mp4)]"}]`,
	}
	forEachAdapter(t, func(t *testing.T, name string, b build) {
		r := start(t, b, 0, 0, llmtest.Say("seen"))
		if h := collect(t.Context(), r.model, llm.Request{Messages: []chat.Message{msg}}); h.err != nil {
			t.Fatal(h.err)
		}
		var body struct {
			Messages, Input []struct{ Content any }
		}
		if err := json.Unmarshal(r.server.Requests()[0].Body, &body); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(parse(t, want[name]), append(body.Messages, body.Input...)[0].Content); diff != "" {
			t.Error(diff)
		}
	})
}
