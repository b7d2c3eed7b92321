package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// Conversations are pinned, archived, and put in folders; the lists say so, also after a restart.
func TestConversationsAreFiled(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, modelEnv(llmtest.New(t, always(llmtest.Say("Hello."))).URL)...)
	pinned, archived, plain := s.NewSession(), s.NewSession(), s.NewSession()
	for id, change := range map[string]map[string]any{pinned: {"pinned": true, "folder": " Work \n"}, archived: {"archived": true}} {
		if code := s.Request("PATCH", "/sessions/"+id, change, nil); code != http.StatusOK {
			t.Fatalf("%v: answered %d", change, code)
		}
	}
	for _, wrong := range []map[string]any{{"folder": strings.Repeat("x", 61)}, {"pinned": "yes"}} {
		if code := s.Request("PATCH", "/sessions/"+plain, wrong, nil); code != http.StatusBadRequest {
			t.Errorf("%v: answered %d, want 400", wrong, code)
		}
	}
	s.Kill()
	s.Restart()
	for filter, want := range map[string][]string{"": {plain, pinned}, "?filter=pinned": {pinned}, "?filter=archived": {archived}} {
		var list struct {
			Sessions []struct {
				ID, Folder       string
				Pinned, Archived bool
			}
		}
		s.Request("GET", "/sessions"+filter, nil, &list)
		var got []string
		for _, one := range list.Sessions {
			got = append(got, one.ID)
			if one.Pinned != (one.ID == pinned) || one.Archived != (one.ID == archived) || (one.Folder == "Work") != (one.ID == pinned) {
				t.Errorf("the list has %+v", one)
			}
		}
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%q lists %q, want %q", filter, got, want)
		}
	}
	if code := s.Request("GET", "/sessions?filter=all", nil, nil); code != http.StatusBadRequest {
		t.Errorf("an unknown filter is answered %d", code)
	}
}
