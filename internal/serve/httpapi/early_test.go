package httpapi

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"lilac/internal/core/session"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
)

// A client may ask for the request at once, before the runner has the prompt. The control is a
// request that nobody sent.
func TestARequestIsKnownRightAfterItsPrompt(t *testing.T) {
	w := newWorld(t)
	s := w.newSession()
	_, body := w.call("POST", "/sessions/"+s+"/prompt", `{"content":"hello"}`)
	var asked accepted
	if err := json.Unmarshal([]byte(body), &asked); err != nil {
		t.Fatal(err)
	}
	code, body := w.call("GET", "/requests/"+asked.RequestID, "")
	var story session.Story
	if err := json.Unmarshal([]byte(body), &story); err != nil || code != 200 || story.State != event.StateQueued || story.SessionID != s || story.CreatedAt == 0 {
		t.Errorf("%d %s, %v", code, body, err)
	}
	for _, id := range []string{"web:" + s + ":nobody", "nonsense"} {
		if code, body := w.call("GET", "/requests/"+id, ""); code != 404 {
			t.Errorf("control: %s is answered with %d %s", id, code, body)
		}
	}
}

func TestInterruptIsCancel(t *testing.T) {
	w := newWorld(t)
	s := w.newSession()
	w.tables.setRunning(s, "web:"+s+":r", event.StateRunning)
	if code, body := w.call("POST", "/sessions/"+s+"/interrupt", ""); code != 200 || !strings.Contains(body, `"requestId":"web:`+s+`:r"`) {
		t.Errorf("%d %s", code, body)
	}
}

func TestARequestThatBeginsWhileMessagesAreLoadedCountsAsRunning(t *testing.T) {
	w := newWorld(t)
	s := w.newSession()
	before, ended, begun := "web:"+s+":m1", "web:"+s+":m2", "web:"+s+":m3"
	ask := func(r string) {
		w.tables.messages = append(w.tables.messages, session.HistoryMessage{ID: r, RequestID: r, Message: chat.Text(chat.User, "hello")})
		w.begin(s, r)
		w.publish(s, r, delta(0))
	}
	ask(before)
	w.end(s, before, "")
	w.tables.beforeMessages = func() {
		ask(ended)
		w.end(s, ended, "")
		ask(begun)
	}
	_, body := w.call("GET", "/sessions/"+s+"/messages?replay=1", "")
	var page struct {
		Cursor   string
		Messages []any
		Running  []string
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Messages) != 3 || !slices.Equal(page.Running, []string{ended, begun}) {
		t.Fatalf("got %s, %v; want 3 messages, and the two requests as running whose output the stream brings", body, err)
	}
	w.end(s, begun, "")
	l := w.listen("session_id="+s+"&cursor="+page.Cursor, "")
	for _, r := range page.Running {
		if got := textOf(t, l.until("stream.completed")); got != "0000 " {
			t.Errorf("the stream after the messages has %q of %s, want its whole output", got, r)
		}
	}
}

func TestMessagesOfASpanOfTime(t *testing.T) {
	w := newWorld(t)
	s := w.newSession()
	for i, id := range []string{"m1", "m2", "m3"} {
		w.tables.messages = append(w.tables.messages, session.HistoryMessage{ID: id, CreatedAt: int64(10 * (i + 1)), Message: chat.Text(chat.User, "hi")})
	}
	for query, want := range map[string]string{
		"": "m1 m2 m3", "?startTime=20": "m2 m3", "?endTime=20": "m1 m2", "?startTime=15&endTime=25": "m2", "?startTime=31": "",
	} {
		_, body := w.call("GET", "/sessions/"+s+"/messages"+query, "")
		var list struct{ Messages []struct{ ID string } }
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range list.Messages {
			got = append(got, m.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q lists %v, want %q", query, got, want)
		}
	}
	if code, _ := w.call("GET", "/sessions/"+s+"/messages?startTime=yesterday", ""); code != 400 {
		t.Errorf("a time that is none is answered with %d", code)
	}
}
