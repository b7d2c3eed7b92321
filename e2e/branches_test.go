package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// A conversation continues from an earlier message in a branch, in other words or with another
// model. The branch has the earlier messages, works on the same files, and survives a kill; the
// other conversation stays as it is.
func TestAConversationContinuesFromAnEarlierMessage(t *testing.T) {
	t.Parallel()
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		if s := obedient(r); len(s.Calls) > 0 {
			return s
		}
		return llmtest.Say("Heard: " + r.LastText())
	})
	s := e2e.Start(t, modelEnv(model.URL)...)
	session := s.NewSession()
	first := s.Prompt(session, "write mine.txt", event.Prompt)
	s.WaitEnded(first.RequestID, answerWithin)
	second := s.Prompt(session, "red", event.Prompt)
	s.WaitEnded(second.RequestID, answerWithin)
	before := s.Messages(session)

	type made struct{ SessionID, RequestID string }
	branch := func(body map[string]any, want int, header ...string) (out made) {
		t.Helper()
		if code := s.Request("POST", "/sessions/"+session+"/branch", body, &out, header...); code != want {
			t.Fatalf("%v: answered %d, want %d", body, code, want)
		}
		return out
	}
	edit := map[string]any{"before": second.MessageID, "content": "blue"}
	blue := branch(edit, http.StatusCreated, "Idempotency-Key", "k")
	s.Kill() // the accepted branch is answered all the same
	s.Restart()
	if again := branch(edit, http.StatusCreated, "Idempotency-Key", "k"); again != blue {
		t.Errorf("a repeated call branches again: %+v, want %+v", again, blue)
	}
	s.WaitEnded(blue.RequestID, answerWithin)
	texts := func(session string) (out []string) {
		for _, m := range s.Messages(session) {
			out = append(out, m.Text())
		}
		return out
	}
	if got := texts(blue.SessionID); !slices.Contains(got, "write mine.txt") || slices.Contains(got, "red") || got[len(got)-1] != "Heard: blue" {
		t.Errorf("the branch has %q", got)
	}
	asked := model.Requests()
	says := func(text string) func(llmtest.Message) bool {
		return func(m llmtest.Message) bool { return m.Text == text }
	}
	if last := asked[len(asked)-1].Messages; !slices.ContainsFunc(last, says("write mine.txt")) || slices.ContainsFunc(last, says("red")) {
		t.Errorf("in the branch, the model gets %+v", last)
	}
	if got := s.Messages(session); len(got) != len(before) {
		t.Errorf("the first conversation has %d messages, want %d", len(got), len(before))
	}
	if got := told(t, s, blue.SessionID, "read mine.txt"); !strings.Contains(got, "hello") {
		t.Errorf("the branch does not see the file of its conversation: %q", got)
	}

	// With another model, and the same words.
	other := branch(map[string]any{"before": second.MessageID, "model": "openai/other-model"}, http.StatusCreated)
	s.WaitEnded(other.RequestID, answerWithin)
	if got := texts(other.SessionID); got[len(got)-1] != "Heard: red" {
		t.Errorf("the branch has %q", got)
	}
	if asked = model.Requests(); asked[len(asked)-1].Model != "other-model" {
		t.Errorf("the model %q answered", asked[len(asked)-1].Model)
	}
	var of struct {
		Branch   struct{ Of, At string }
		Branches []struct{ ID string }
	}
	s.Request("GET", "/sessions/"+other.SessionID, nil, &of)
	if of.Branch.Of != session || of.Branch.At != second.MessageID {
		t.Errorf("the branch says it is one of %+v", of.Branch)
	}
	s.Request("GET", "/sessions/"+session, nil, &of)
	if len(of.Branches) != 2 || of.Branches[0].ID != other.SessionID {
		t.Errorf("the branches are %+v", of.Branches)
	}

	// The files stay until the last branch is deleted.
	if code := s.Request("DELETE", "/sessions/"+session, nil, nil); code != http.StatusNoContent {
		t.Errorf("the conversation is deleted with %d", code)
	}
	if got := told(t, s, blue.SessionID, "read mine.txt"); !strings.Contains(got, "hello") {
		t.Errorf("without the first conversation, the branch sees %q", got)
	}
	if _, err := os.Stat(filepath.Join(s.Workspace(session), "mine.txt")); err != nil {
		t.Error(err)
	}
	session = blue.SessionID
	answer := s.Messages(session)[1]
	for _, wrong := range []map[string]any{{}, {"before": "nobody"}, {"before": answer.ID}, {"before": second.MessageID, "content": " "}, {"before": second.MessageID, "model": "nothing/x"}} {
		var out made
		if code := s.Request("POST", "/sessions/"+session+"/branch", wrong, &out); code != http.StatusBadRequest && code != http.StatusNotFound {
			t.Errorf("%v: answered %d", wrong, code)
		}
	}
}
