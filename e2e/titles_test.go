package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"lilac/internal/core/session"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// A small model names conversations after their first answer. Those that people have named keep
// their names, and so do all if the model fails.
func TestASmallModelNamesConversations(t *testing.T) {
	t.Parallel()
	big := llmtest.New(t, always(llmtest.Say("In meadows.")))
	small := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		if strings.Contains(r.LastText(), "fail") {
			return llmtest.Script{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: "No."}
		}
		named := llmtest.Say("\"Dandelion habitats.\"")
		named.Usage = llmtest.Usage{Input: 30, Output: 5}
		return named
	})
	s := e2e.Start(t, append(modelEnv(big.URL), e2e.Configured(t, fmt.Sprintf(
		"titles: {model: small/tiny}\nproviders: {small: {type: openai, baseURL: %q, apiKey: k}}\n", small.URL+"/v1"))...)...)
	title := func(id string) string {
		var out struct{ Title string }
		s.Request("GET", "/sessions/"+id, nil, &out)
		return out.Title
	}
	ask := func(id, text string) {
		s.WaitEnded(s.Prompt(id, text, event.Prompt).RequestID, answerWithin)
	}
	first := s.NewSession()
	ask(first, "Where do dandelions grow?")
	e2e.Eventually(t, answerWithin, "it is named", func() bool { return title(first) == "Dandelion habitats" })
	ask(first, "And in winter?")

	var named struct{ ID string }
	s.Request("POST", "/sessions", map[string]any{"title": "Mine"}, &named)
	ask(named.ID, "Where do they grow?")
	failing := s.NewSession()
	ask(failing, "Please fail")
	last := s.NewSession() // they are named one after the other
	ask(last, "And roses?")
	e2e.Eventually(t, answerWithin, "the last one is named", func() bool { return title(last) == "Dandelion habitats" })
	if title(named.ID) != "Mine" || title(failing) != "Please fail" || title(first) != "Dandelion habitats" {
		t.Errorf("the titles are %q, %q, %q", title(named.ID), title(failing), title(first))
	}
	if n := small.Count(); n != 3 {
		t.Errorf("the small model was asked %d times, want 3: once for each conversation without a name", n)
	}
	// What it used is a part of the sums, and is no request.
	var used session.Consumption
	s.Request("GET", "/usage?days=2", nil, &used)
	models := map[string]int{}
	for _, m := range used.Models {
		models[m.Name] = m.Requests
	}
	if len(used.Purposes) != 1 || used.Purposes[0].Name != session.PurposeTitle || used.Purposes[0].Requests != 2 || used.Purposes[0].Usage.InputTokens != 60 {
		t.Errorf("titles: %+v", used.Purposes)
	}
	if n, ok := models["small/tiny"]; !ok || n != 0 || len(used.Models) != 2 || len(used.Channels) != 4 || used.Channels[0].Latency == nil || len(used.Rules) != 1 || used.Rules[0].Name != "" {
		t.Errorf("the sums are %+v", used)
	}
}
