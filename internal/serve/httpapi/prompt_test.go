package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"lilac/internal/core/session"
	"lilac/internal/engine/bus"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/telemetry/health"
)

// queries returns the user_query events on the bus.
func (w *world) queries() (out []event.EnvEvent) {
	w.t.Helper()
	found, err := w.bus.Fetch(context.Background(), event.TopicEnv, "", 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range found {
		if d.Type != event.UserQuery {
			continue
		}
		p, err := event.Decode(d.Event)
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, p.(event.EnvEvent))
	}
	return out
}

func (w *world) prompt(session, body string, headers ...string) (int, accepted, string) {
	w.t.Helper()
	code, raw := w.call("POST", "/sessions/"+session+"/prompt", body, headers...)
	var a accepted
	_ = json.Unmarshal([]byte(raw), &a)
	return code, a, raw
}

func TestPromptRoute(t *testing.T) {
	w := newWorld(t)
	s := w.newSession()
	code, a, raw := w.prompt(s, `{"content":"hello"}`)
	t.Run("prompt_route_returns_success", func(t *testing.T) {
		if code != http.StatusOK || !a.Success || a.SessionID != s || a.Message != "Processing started" || a.RequestID != "web:"+s+":"+a.MessageID {
			t.Errorf("%d %s", code, raw)
		}
	})
	t.Run("prompt_route_creates_event, prompt_route_includes_payload, prompt_route_includes_metadata", func(t *testing.T) {
		q := w.queries()
		if len(q) != 1 || q[0].Metadata.TriggerSessionID != s || q[0].Metadata.Source != "user" {
			t.Fatalf("got %+v", q)
		}
		want := fmt.Sprintf(`{"sessionId":%q,"content":"hello","requestId":%q,"messageId":%q,"queue":"prompt","client":"web"}`, s, a.RequestID, a.MessageID)
		if string(q[0].Payload) != want {
			t.Errorf("payload %s, want %s", q[0].Payload, want)
		}
	})
	t.Run("prompt_route_no_session_support", func(t *testing.T) {
		bare := newWorld(t)
		bare.close()
		bare.opt.Tables = nil
		bare.open()
		for _, path := range []string{"/sessions/x/prompt", "/sessions", "/sessions/x/cancel"} {
			if code, body := bare.call("POST", path, `{"content":"x"}`); code != http.StatusServiceUnavailable {
				t.Errorf("%s: %d %s", path, code, body)
			}
		}
	})
	t.Run("a message for what runs names it, and has another id in reserve", func(t *testing.T) {
		busy := w.newSession()
		w.tables.setRunning(busy, "web:"+busy+":old", event.StateRunning)
		before := len(w.queries())
		for _, queue := range []string{"steer", "followUp", "interrupt"} {
			_, a, raw := w.prompt(busy, `{"content":"x","queue":"`+queue+`"}`)
			if a.RequestID != "web:"+busy+":old" {
				t.Errorf("%s: %s", queue, raw)
			}
			if _, idle, raw := w.prompt(s, `{"content":"x","queue":"`+queue+`"}`); idle.RequestID != "web:"+s+":"+idle.MessageID {
				t.Errorf("%s while idle: %s", queue, raw)
			}
		}
		for _, q := range w.queries()[before:] {
			var p event.UserQueryPayload
			if err := json.Unmarshal(q.Payload, &p); err != nil || !strings.HasSuffix(p.ElseRequestID, ":"+p.MessageID) {
				t.Errorf("%s, %v", q.Payload, err)
			}
		}
	})
}

func TestBadPromptsNameTheField(t *testing.T) {
	w := newWorld(t)
	s := w.newSession()
	file := func(rest string) string { return `{"content":"x","attachments":[` + rest + `]}` }
	big := base64.StdEncoding.EncodeToString(make([]byte, maxFile+1))
	for name, c := range map[string]struct {
		body  string
		code  int
		field string
	}{
		"prompt_route_missing_content":   {`{}`, 400, "content"},
		"blank content":                  {`{"content":" \n"}`, 400, "content"},
		"content of another type":        {`{"content":5}`, 400, "content"},
		"content too long":               {`{"content":"` + strings.Repeat("x", maxContent+1) + `"}`, 413, "content"},
		"unknown field":                  {`{"content":"x","contnt":1}`, 400, "contnt"},
		"unknown queue":                  {`{"content":"x","queue":"later"}`, 400, "queue"},
		"queue of another type":          {`{"content":"x","queue":1}`, 400, "queue"},
		"attachments of another type":    {`{"content":"x","attachments":{}}`, 400, "attachments"},
		"attachment without a name":      {file(`{"text":"x"}`), 400, "attachments[0].filename"},
		"attachment with a path":         {file(`{"filename":"../x","text":"x"}`), 400, "attachments[0].filename"},
		"attachment without data":        {file(`{"filename":"a"}`), 400, "attachments[0]"},
		"attachment with both":           {file(`{"filename":"a","text":"x","dataBase64":"eA=="}`), 400, "attachments[0]"},
		"attachment that is not base64":  {file(`{"filename":"a","text":"x"},{"filename":"b","dataBase64":"%%"}`), 400, "attachments[1].dataBase64"},
		"attachment with a bad type":     {file(`{"filename":"a","text":"x","mimeType":"no type"}`), 400, "attachments[0].mimeType"},
		"attachment with unknown field":  {file(`{"filename":"a","text":"x","path":"y"}`), 400, "path"},
		"attachment too large":           {file(`{"filename":"a","dataBase64":"` + big + `"}`), 413, "attachments[0].dataBase64"},
		"too many attachments":           {file(strings.TrimSuffix(strings.Repeat(`{"filename":"a","text":"x"},`, maxAttachments+1), ",")), 400, "attachments"},
		"not JSON":                       {`{"content":`, 400, ""},
		"not an object":                  {`["content"]`, 400, ""},
		"empty":                          {``, 400, ""},
		"more behind the object":         {`{"content":"x"} {}`, 400, ""},
		"body too large":                 {`{"content":"` + strings.Repeat("x", maxPromptBody) + `"}`, 413, ""},
		"deeply nested":                  {`{"content":` + strings.Repeat("[", 20000), 400, ""},
		"content in another letter case": {`{"content":"x","queue":"STEER"}`, 400, "queue"},
	} {
		t.Run(name, func(t *testing.T) {
			code, body := w.call("POST", "/sessions/"+s+"/prompt", c.body)
			var e struct {
				Error struct{ Kind, Code, Message, Field string }
			}
			if err := json.Unmarshal([]byte(body), &e); err != nil {
				t.Fatalf("%q: %v", body, err)
			}
			if code != c.code || e.Error.Field != c.field || e.Error.Kind == "" || e.Error.Code == "" || e.Error.Message == "" {
				t.Errorf("%d %.300s; want %d and the field %q", code, body, c.code, c.field)
			}
		})
	}
	if code, _ := w.call("POST", "/sessions/none/prompt", `{"content":"x"}`); code != http.StatusNotFound {
		t.Errorf("a prompt for no session: %d", code)
	}
	if got := w.queries(); len(got) > 0 {
		t.Errorf("%d of the bad prompts were accepted", len(got))
	}
}

func TestPromptFilesRespectTheConfiguredLimits(t *testing.T) {
	w := newWorld(t)
	s := w.newSession()
	file := func(n int) string {
		return `{"filename":"a","dataBase64":"` + base64.StdEncoding.EncodeToString(make([]byte, n)) + `"}`
	}
	w.opt.FileBytes, w.opt.TotalBytes = 10, 25
	w.restart()
	for _, c := range []struct {
		files string
		code  int
	}{
		{file(10) + "," + file(10), 200},
		{file(11), 413},
		{file(10) + "," + file(10) + "," + file(6), 413},
	} {
		if code, body := w.call("POST", "/sessions/"+s+"/prompt", `{"content":"x","attachments":[`+c.files+`]}`); code != c.code {
			t.Errorf("%s: %d %s", c.files, code, body)
		}
	}
	w.opt.FileBytes, w.opt.TotalBytes = 1<<40, 1<<40 // more than a model accepts
	w.restart()
	if code, _ := w.call("POST", "/sessions/"+s+"/prompt", `{"content":"x","attachments":[`+file(maxFile+1)+`]}`); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a file that no model takes: %d", code)
	}
}

func TestIdempotencyKeyMakesARepeatedPromptOne(t *testing.T) {
	w := newWorld(t)
	s, other := w.newSession(), w.newSession()
	_, first, _ := w.prompt(s, `{"content":"a"}`, "Idempotency-Key", "k")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if code, again, raw := w.prompt(s, `{"content":"a"}`, "Idempotency-Key", "k"); code != 200 || again != first {
				t.Errorf("%d %s, want %+v", code, raw, first)
			}
		})
	}
	wg.Wait()
	w.restart()
	if code, again, raw := w.prompt(s, `{"content":"a"}`, "Idempotency-Key", "k"); code != 200 || again != first {
		t.Errorf("after a restart: %d %s", code, raw)
	}
	if n := len(w.queries()); n != 1 {
		t.Errorf("%d requests came of one key", n)
	}
	if got := slices.Compact(w.tables.accepted); len(got) != 1 || got[0] != s+" "+first.MessageID {
		t.Errorf("the session is promised %q", got)
	}
	if code, _, raw := w.prompt(s, `{"content":"b"}`, "Idempotency-Key", "k"); code != http.StatusConflict {
		t.Errorf("another body: %d %s", code, raw)
	}
	if code, a, raw := w.prompt(other, `{"content":"b"}`, "Idempotency-Key", "k"); code != 200 || a.SessionID != other {
		t.Errorf("another session: %d %s", code, raw)
	}
	// Control: without a key, the same body creates another request.
	before := len(w.queries())
	w.prompt(s, `{"content":"a"}`)
	w.prompt(s, `{"content":"a"}`)
	if n := len(w.queries()) - before; n != 2 {
		t.Errorf("control: two prompts without a key made %d requests", n)
	}
}

func TestAttachmentsBecomeFileParts(t *testing.T) {
	w := newWorld(t)
	s := w.newSession()
	code, _, raw := w.prompt(s, `{"content":"look","attachments":[
		{"filename":"a.txt","text":"plain"},
		{"filename":"b.png","dataBase64":"aGk="},
		{"filename":"c","dataBase64":"JVBERi0xLjQK"},
		{"filename":"d.bin","mimeType":"application/x-mine","dataBase64":"aGk="}]}`)
	if code != 200 {
		t.Fatalf("%d %s", code, raw)
	}
	var p event.UserQueryPayload
	if err := json.Unmarshal(w.queries()[0].Payload, &p); err != nil {
		t.Fatal(err)
	}
	want := `[{"type":"file","data":"blob:sha256:00","filename":"a.txt","mediaType":"text/plain"},` +
		`{"type":"file","data":"blob:sha256:00","filename":"b.png","mediaType":"image/png"},` +
		`{"type":"file","data":"blob:sha256:00","filename":"c","mediaType":"application/pdf"},` +
		`{"type":"file","data":"blob:sha256:00","filename":"d.bin","mediaType":"application/x-mine"}]`
	if string(p.Attachments) != want {
		t.Errorf("got  %s\nwant %s", p.Attachments, want)
	}
}

func TestSessions(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Platforms = []string{"chat"} })
	code, body := w.call("POST", "/sessions", `{"title":" A talk ","client":"terminal"}`)
	var s session.Session
	if err := json.Unmarshal([]byte(body), &s); err != nil || code != 201 || s.Title != "A talk" || s.Client != "terminal" || s.State != "idle" || s.CreatedAt == 0 {
		t.Fatalf("%d %s", code, body)
	}
	for in, field := range map[string]string{
		`{"title":5}`: "title",
		`{"title":"` + strings.Repeat("é", 201) + `"}`: "title",
		`{"client":"a:b"}`: "client",
		`{"client":""}`:    "client",
		// Messages of such a session would be shown nowhere, or in another session.
		`{"client":"chat"}`: "client",
		`{"client":"sub"}`:  "client",
		`{"client":"wf"}`:   "client",
		`{"client":"env"}`:  "client",
		`{"name":"x"}`:      "name",
	} {
		if code, body := w.call("POST", "/sessions", in); code != 400 || !strings.Contains(body, `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", in, code, body)
		}
	}
	if code, body := w.call("GET", "/sessions", ""); code != 200 || !strings.Contains(body, s.ID) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := w.call("GET", "/sessions/"+s.ID, ""); code != 200 || !strings.Contains(body, s.ID) {
		t.Errorf("%d %s", code, body)
	}
	damaged := session.HistoryMessage{ID: "m0", RequestID: "r1", Damaged: true, Message: chat.Text(chat.System, "why")}
	w.tables.messages = append(w.tables.messages, damaged, message("m1", "r1", "**hi**"))
	_, body = w.call("GET", "/sessions/"+s.ID+"/messages?html=1", "")
	if want := `{"role":"assistant","content":"**hi**","createdAt":5,"html":"<p><strong>hi</strong></p>\n","id":"m1","requestId":"r1"}`; !strings.Contains(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(body), want) {
		t.Errorf("got %s, want %s", body, want)
	}
	if want := `{"role":"system","content":"why","createdAt":0,"damaged":true,"id":"m0","requestId":"r1"}`; !strings.Contains(body, want) {
		t.Errorf("got %s, want %s", body, want)
	}
	w.tables.setRunning(s.ID, "terminal:"+s.ID+":1", event.StateRunning)
	if code, body := w.call("DELETE", "/sessions/"+s.ID, ""); code != 409 {
		t.Errorf("deleting what runs: %d %s", code, body)
	}
	w.tables.setRunning(s.ID, "terminal:"+s.ID+":1", event.StateDone)
	if code, body := w.call("DELETE", "/sessions/"+s.ID, ""); code != 204 {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := w.call("GET", "/sessions/"+s.ID, ""); code != 404 {
		t.Errorf("a deleted session: %d", code)
	}
	_, body = w.call("GET", "/bus/env", "")
	if !strings.Contains(body, `"session.created"`) || !strings.Contains(body, `"session.deleted"`) {
		t.Errorf("the environment did not hear of it: %s", body)
	}
}

func TestOperations(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/requests", "/dlq", "/openapi.json"} {
		if code, body := w.call("GET", path, ""); code != 200 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	w.close()
	w.opt.Health = func() health.Report {
		return health.Report{Parts: []health.Part{{Name: "writer", Status: health.OK}, {Name: "disk", Status: health.Failed, Message: "it is full"}}}
	}
	w.open()
	if code, body := w.call("GET", "/readyz", ""); code != 503 || !strings.Contains(body, `"name":"writer","status":"ok"`) || !strings.Contains(body, "Not ready: disk: it is full.") {
		t.Errorf("%d %s", code, body)
	}
	if code, body := w.call("GET", "/healthz", ""); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	if code, body := w.call("POST", "/render", `{"text":"# A"}`); code != 200 || !strings.Contains(body, "h1") {
		t.Errorf("%d %s", code, body)
	}
	code, body := w.call("POST", "/login-codes", "")
	if code != 201 || !strings.Contains(body, "/login?code=") {
		t.Errorf("%d %s", code, body)
	}
}

func FuzzPromptBody(f *testing.F) {
	f.Add(`{"content":"x","attachments":[{"filename":"a","text":"b"}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		var in promptBody
		if decode([]byte(body), &in, false) != nil || in.check() != nil {
			return
		}
		for i, a := range in.Attachments {
			if data, err := a.bytes(fmt.Sprint(i), maxFile); err == nil {
				_ = a.mediaType(data)
			}
		}
	})
}

func TestAnswerReachesThePausedRequest(t *testing.T) {
	w := newWorld(t)
	s := w.newSession()
	id := "web:" + s + ":r"
	commands := func() []bus.Delivery {
		found, err := w.bus.Fetch(context.Background(), event.TopicCmdRequest, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	w.tables.setRunning(s, id, event.StateRunning)
	if code, raw := w.call("POST", "/requests/"+id+"/continue", ""); code != 409 || !strings.Contains(raw, "not_paused") || len(commands()) != 0 {
		t.Errorf("not paused: %d %s", code, raw)
	}
	w.tables.pause(s, session.Pause{Number: 2, Question: "Go on?"})
	if _, raw := w.call("GET", "/sessions/"+s, ""); !strings.Contains(raw, `"question":"Go on?"`) {
		t.Errorf("the session does not show the question: %s", raw)
	}
	for content, want := range map[string]string{"Go on.": id, "something else": ""} {
		_, got, _ := w.prompt(s, `{"content":"`+content+`"}`)
		if want == "" {
			want = "web:" + s + ":" + got.MessageID
		}
		if got.RequestID != want {
			t.Errorf("%q goes to %s, want %s", content, got.RequestID, want)
		}
	}
	for _, answer := range []string{"continue", "continue", "stop"} {
		if code, raw := w.call("POST", "/requests/"+id+"/"+answer, ""); code != 200 || !strings.Contains(raw, `"pause":2`) {
			t.Errorf("%s: %d %s", answer, code, raw)
		}
	}
	got := commands()
	if len(got) != 1 {
		t.Fatalf("%d commands, want one: the first answer counts", len(got))
	}
	p, err := event.Decode(got[0].Event)
	m, ok := p.(event.RequestMessage)
	if err != nil || !ok || m.AnswersPause != 2 || got[0].Key != id || session.AnswerOf(m.Messages) != session.Continue {
		t.Errorf("%+v, %v", p, err)
	}
	if code, _ := w.call("POST", "/requests/none/stop", ""); code != 404 {
		t.Errorf("an unknown request gave %d", code)
	}
}

// The server answers every accepted prompt, so it rejects prompts when the queue is full. A prompt that
// was accepted earlier stays accepted, however often the client repeats it.
func TestPromptsAreRefusedWhenTheQueueIsFull(t *testing.T) {
	w := newWorld(t)
	path := "/sessions/" + w.newSession() + "/prompt"
	if code, body := w.call("POST", path, `{"content":"x"}`, "Idempotency-Key", "k"); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	w.tables.mu.Lock()
	w.tables.state.Queue = []session.QueuedRequest{{Messages: make([]session.PendingMessage, session.MaxWaiting)}}
	w.tables.mu.Unlock()
	if code, body := w.call("POST", path, `{"content":"y"}`, "Idempotency-Key", "k2"); code != 429 || !strings.Contains(body, `"too_many_waiting"`) {
		t.Errorf("one too many: %d %s", code, body)
	}
	if code, body := w.call("POST", path, `{"content":"x"}`, "Idempotency-Key", "k"); code != 200 {
		t.Errorf("one that was accepted before: %d %s", code, body)
	}
	w.tables.mu.Lock()
	w.tables.state.Queue[0].Messages = w.tables.state.Queue[0].Messages[1:]
	w.tables.mu.Unlock()
	if code, body := w.call("POST", path, `{"content":"y"}`, "Idempotency-Key", "k2"); code != 200 {
		t.Errorf("the same one when there is room: %d %s", code, body)
	}
}

func TestUnsupportedMethodNamesTheSupportedOnes(t *testing.T) {
	w := newWorld(t)
	for call, allow := range map[string]string{
		"DELETE /events":            "GET",
		"PUT /sessions":             "POST or GET",
		"GET /sessions/none/prompt": "POST",
		"PATCH /requests":           "GET",
		"GET /dlq/5/replay":         "POST",
		"POST /bus/env/tail":        "GET",
		"POST /healthz":             "GET",
	} {
		method, path, _ := strings.Cut(call, " ")
		code, body := w.call(method, path, "")
		if code != http.StatusMethodNotAllowed || !strings.Contains(body, allow) || !strings.Contains(body, `"method_not_allowed"`) {
			t.Errorf("%s: %d %s", call, code, body)
		}
	}
	for _, call := range []string{"GET /nothing", "POST /nothing", "PUT /"} {
		method, path, _ := strings.Cut(call, " ")
		if code, body := w.call(method, path, ""); code != http.StatusNotFound || !strings.Contains(body, `"not_found"`) {
			t.Errorf("%s: %d %s", call, code, body)
		}
	}
}

// Text in another encoding is rejected, because decoding it as UTF-8 would lose characters.
func TestInvalidUTF8IsRefused(t *testing.T) {
	w := newWorld(t)
	code, _, body := w.prompt(w.newSession(), "{\"content\":\"gr\xfc\xdfe\"}")
	if code != 400 || !strings.Contains(body, "not valid UTF-8") || len(w.queries()) > 0 {
		t.Errorf("%d %s", code, body)
	}
}
