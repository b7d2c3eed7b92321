package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/core/account"
	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
)

// team is a server with the real tables, and people with accounts.
type team struct {
	*world
	accounts *account.Service
	store    *store.Store
	// secret is a conversation of the operator with a request, a message, a task, and a workflow.
	secret string
}

// The ids of what belongs to the secret conversation, and the word in it.
const (
	secretTask, secretWorkflow = "task-1", "wf-1"
	secretWord                 = "xyzzy"
)

func newTeam(t *testing.T) *team {
	w := &world{t: t, dir: t.TempDir(), tables: &tables{}}
	out := &team{world: w}
	var err error
	if w.db, err = db.Open(t.Context(), db.Options{Dir: w.dir, Migrations: slices.Concat(sqlitebus.Migrations, store.Migrations)}); err != nil {
		t.Fatal(err)
	}
	if w.bus, err = sqlitebus.New(w.db, sqlitebus.Options{}); err != nil {
		t.Fatal(err)
	}
	out.accounts = account.New(account.Options{DB: w.db, Tables: store.AccountTables(), Payer: store.Tasks{}.PayerOf})
	if err := out.accounts.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	out.store = store.New(w.db)
	w.opt = Options{
		DB: w.db, Bus: w.bus, Token: token, Blobs: &fakeBlobs{}, Accounts: out.accounts, Tasks: secretTasks{out}, Workflows: secretWorkflows{out},
		Tables: &Tables{
			Inbox: out.store.Inbox, Sessions: out.store.Sessions, Branches: store.Branches{}, Accepted: store.AcceptedMessages{}, History: out.store.History,
			Requests: out.store.Requests, Files: out.store.Files, Seen: store.Seen{},
		},
	}
	w.opt.Stopping, w.drain = context.WithCancel(context.Background())
	w.srv = httptest.NewServer(New(w.opt))
	t.Cleanup(w.close)
	out.secret = w.newSession()
	out.furnish(out.secret, secretWord)
	return out
}

// furnish gives a conversation a title, a request, and a message with a word.
func (w *team) furnish(sessionID, word string) {
	w.t.Helper()
	err := w.db.Update(context.Background(), func(tx *db.Tx) error {
		if err := w.store.Sessions.SetTitle(tx, sessionID, "about "+word); err != nil {
			return err
		}
		if err := w.store.Requests.CreateRequest(tx, session.Request{ID: requestIn(sessionID), SessionID: sessionID, Client: "web", State: event.StateRunning, CreatedAt: 5}); err != nil {
			return err
		}
		_, err := w.store.History.AppendHistory(tx, sessionID, session.HistoryMessage{ID: "m1", RequestID: requestIn(sessionID), CreatedAt: 5, Message: chat.Text(chat.User, "the word is "+word)})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func requestIn(sessionID string) string { return "web:" + sessionID + ":r1" }

// secretTasks and secretWorkflows have one entry, of the secret conversation.
type (
	secretTasks     struct{ *team }
	secretWorkflows struct{ *team }
)

func (w secretTasks) Tasks(_ context.Context, sessionID string, _ int, _ string) ([]task.Task, error) {
	if sessionID != "" && sessionID != w.secret {
		return nil, nil
	}
	return []task.Task{{ID: secretTask, SessionID: w.secret}}, nil
}

func (w secretTasks) Task(_ context.Context, id string) (task.Task, error) {
	if id != secretTask {
		return task.Task{}, fault.New(fault.NotFound, "There is no background task %q.", id)
	}
	return task.Task{ID: id, SessionID: w.secret}, nil
}

func (secretTasks) Output(context.Context, task.Task, int64, int) (task.OutputPart, error) {
	return task.OutputPart{}, nil
}

func (w secretTasks) Stop(ctx context.Context, id string, _ task.Actor) (task.Task, error) {
	return w.Task(ctx, id)
}

func (w secretWorkflows) Get(_ context.Context, id string) (workflow.Workflow, error) {
	if id != secretWorkflow {
		return workflow.Workflow{}, fault.New(fault.NotFound, "There is no workflow %s.", id)
	}
	return workflow.Workflow{ID: id, Origin: workflow.Origin{SessionID: w.secret}}, nil
}

func (w secretWorkflows) List(context.Context, string, bool, int, string) ([]workflow.Workflow, error) {
	return []workflow.Workflow{{ID: secretWorkflow, Origin: workflow.Origin{SessionID: w.secret}}}, nil
}

func (secretWorkflows) Submit(context.Context, workflow.Origin, func(workflow.Workflow) bool, ...event.Payload) error {
	return nil
}

// person is somebody who is signed in; nil is nobody.
type person struct {
	*team
	cookie *http.Cookie
	id     string
}

// join signs in a new person through the pages, as a browser does.
func (w *team) join(name string, role account.Role) *person {
	w.t.Helper()
	status, body := w.call("POST", "/accounts/invites", `{"name":"`+name+`","role":"`+string(role)+`"}`)
	var made createdInvite
	if err := json.Unmarshal([]byte(body), &made); err != nil || status != http.StatusCreated {
		w.t.Fatalf("invite: %d %s", status, body)
	}
	return w.accept(made.URL)
}

// use sends the form of an invite and returns the response.
func (w *team) use(link string) *http.Response {
	w.t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.PostForm(w.srv.URL+"/join", url.Values{"code": {u.Query().Get("code")}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { res.Body.Close() })
	return res
}

func (w *team) accept(link string) *person {
	w.t.Helper()
	res := w.use(link)
	p := &person{team: w}
	for _, c := range res.Cookies() {
		if strings.HasPrefix(c.Name, "lilac_person_") && c.HttpOnly && c.SameSite == http.SameSiteStrictMode {
			p.cookie = c
		}
	}
	if p.cookie == nil || res.StatusCode != http.StatusSeeOther {
		w.t.Fatalf("the invite gives %d and the cookies %v", res.StatusCode, res.Cookies())
	}
	var who me
	if status, body := p.do("GET", "/me", ""); json.Unmarshal([]byte(body), &who) != nil || !who.Account {
		w.t.Fatalf("/me: %d %s", status, body)
	}
	p.id = who.ID
	return p
}

func (p *person) do(method, path, body string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequest(method, p.srv.URL+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if p.cookie != nil {
		r.AddCookie(p.cookie)
	}
	if strings.HasSuffix(path, "tail") || strings.HasPrefix(path, "/events") && method == "GET" {
		ctx, cancel := context.WithCancel(p.t.Context())
		defer cancel()
		r = r.WithContext(ctx)
	}
	res, err := p.srv.Client().Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return res.StatusCode, ""
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

func (p *person) want(status int, method, path, body string) string {
	p.t.Helper()
	got, text := p.do(method, path, body)
	if got != status {
		p.t.Errorf("%s %s: %d %s, want %d", method, path, got, text, status)
	}
	return text
}

// pathOf fills in the path of a route with ids of a conversation.
func (w *team) pathOf(rt route, sessionID, requestID, taskID, workflowID string) string {
	id := sessionID
	switch {
	case strings.HasPrefix(rt.path, "/requests/"):
		id = url.PathEscape(requestID)
	case strings.HasPrefix(rt.path, "/tasks/"):
		id = taskID
	case strings.HasPrefix(rt.path, "/workflows/"):
		id = workflowID
	}
	path := strings.NewReplacer("{id}", id, "{file}", "00", "{person}", "somebody", "{invite}", "i", "{link}", "l", "{code}", "c", "{name}", "n", "{topic}", "env", "{group}", "g").Replace(rt.path)
	if path == "/search" {
		path += "?q=" + secretWord
	}
	return path
}

func (w *team) routes() []route {
	o := w.opt
	o.setDefaults()
	return newAPI(o).routes()
}

// forEverybody lists the routes that people with accounts may call without a conversation. Each
// one needs a look at what its answer has, before it is added here.
var forEverybody = []string{
	"GET /me", "POST /me/sign-out", "GET /accounts/colleagues", "POST /shared", "POST /sessions", "GET /sessions", "GET /search", "GET /models",
	"GET /events", "GET /requests", "GET /tasks", "GET /workflows", "POST /render", "GET /openapi.json",
}

// Every route refuses somebody who is not signed in, and a member who was not let in. A member
// cannot tell what is hidden from what does not exist.
func TestEveryRouteIsClosedToMembersWhoWereNotLetIn(t *testing.T) {
	w := newTeam(t)
	ada, nobody := w.join("Ada", account.Member), &person{team: w}
	olga := w.join("Olga", account.Operator)
	for _, rt := range w.routes() {
		switch rt.class {
		case public, signed, loginLink, entrance:
			continue
		case needsToken, needsMetricsToken:
		}
		name := rt.pattern()
		if name == "POST /me/sign-out" || name == "POST /restart" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			path := w.pathOf(rt, w.secret, requestIn(w.secret), secretTask, secretWorkflow)
			if status, _ := nobody.do(rt.method, path, `{}`); status != http.StatusUnauthorized {
				t.Errorf("nobody gets %d", status)
			}
			status, body := ada.do(rt.method, path, `{}`)
			if strings.Contains(body, "about "+secretWord) || strings.Contains(body, w.secret) && !strings.Contains(path, w.secret) {
				t.Errorf("a member reads %s", body)
			}
			switch rt.op {
			case account.Operate:
				if status != http.StatusForbidden || !strings.Contains(body, "operators_only") {
					t.Errorf("a member gets %d %s", status, body)
				}
			case account.See, account.TakePart, account.Manage:
				missing := w.pathOf(rt, "nothere", "web:nothere:r1", "nothere", "nothere")
				_, like := ada.do(rt.method, missing, `{}`)
				hidden := strings.NewReplacer(w.secret, "nothere", secretTask, "nothere", secretWorkflow, "nothere").Replace(body)
				if status != http.StatusNotFound || hidden != like {
					t.Errorf("a member gets %d %s, and for what does not exist %s", status, body, like)
				}
			case account.Use:
				if !slices.Contains(forEverybody, name) {
					t.Errorf("the route is open to everybody with an account, but not listed")
				}
				if status == http.StatusForbidden || status == http.StatusUnauthorized {
					t.Errorf("a member gets %d %s", status, body)
				}
			}
			// The control: an operator with an account gets past the door.
			if rt.method == "GET" {
				if status, body := olga.do(rt.method, path, ``); status == http.StatusForbidden || status == http.StatusUnauthorized || strings.Contains(body, "There is no session") {
					t.Errorf("an operator gets %d %s", status, body)
				}
			}
		})
	}
	if status, _ := ada.do("GET", "/nothing", ""); status != http.StatusNotFound {
		t.Errorf("another path: %d", status)
	}
	if status, _ := nobody.do("GET", "/", ""); status != http.StatusUnauthorized {
		t.Errorf("the page without a login: %d", status)
	}
}

// The control of the test above: with a share, the same routes open, as far as the share says.
func TestASharedConversationIsOpenAsFarAsItIsShared(t *testing.T) {
	w := newTeam(t)
	ada := w.join("Ada", account.Member)
	for _, c := range []struct {
		right account.Right
		open  []account.Operation
	}{{account.Read, []account.Operation{account.See}}, {account.Part, []account.Operation{account.See, account.TakePart}}} {
		if status, body := w.call("POST", "/sessions/"+w.secret+"/sharing/people", `{"personId":"`+ada.id+`","right":"`+string(c.right)+`"}`); status != http.StatusOK {
			t.Fatalf("share: %d %s", status, body)
		}
		for _, rt := range w.routes() {
			if !rt.op.InConversation() || rt.method == "DELETE" && rt.op == account.Manage && c.right != account.Read {
				continue
			}
			status, body := ada.do(rt.method, w.pathOf(rt, w.secret, requestIn(w.secret), secretTask, secretWorkflow), `{}`)
			refused := status == http.StatusForbidden && strings.Contains(body, "not_shared")
			if open := slices.Contains(c.open, rt.op); open == refused || strings.Contains(body, "There is no session") {
				t.Errorf("%s with %s: %d %s", rt.pattern(), c.right, status, body)
			}
		}
	}
	if body := ada.want(http.StatusOK, "GET", "/search?q="+secretWord, ""); !strings.Contains(body, "about "+secretWord) {
		t.Errorf("the search does not find it: %s", body)
	}
	if body := ada.want(http.StatusOK, "GET", "/sessions/"+w.secret, ""); !strings.Contains(body, `"access":"part"`) {
		t.Errorf("the session: %s", body)
	}
	if status, body := w.call("DELETE", "/sessions/"+w.secret+"/sharing/people/"+ada.id, ""); status != http.StatusNoContent {
		t.Fatalf("unshare: %d %s", status, body)
	}
	ada.want(http.StatusNotFound, "GET", "/sessions/"+w.secret, "")
}

func TestPeopleSeeTheirOwnConversations(t *testing.T) {
	w := newTeam(t)
	ada, bob, olga := w.join("Ada", account.Member), w.join("Bob", account.Member), w.join("Olga", account.Operator)
	var own session.Session
	if err := json.Unmarshal([]byte(ada.want(http.StatusCreated, "POST", "/sessions", `{"title":"plans of ada"}`)), &own); err != nil {
		t.Fatal(err)
	}
	w.furnish(own.ID, "plugh")
	for _, path := range []string{"/sessions", "/requests", "/search?q=plugh"} {
		for _, c := range []struct {
			who      *person
			own, all bool
		}{{ada, true, false}, {bob, false, false}, {olga, true, true}} {
			body := c.who.want(http.StatusOK, "GET", path, "")
			if got := strings.Contains(body, own.ID); got != c.own {
				t.Errorf("%s of %s: %s", path, c.who.id, body)
			}
			if got := strings.Contains(body, w.secret); got && !c.all {
				t.Errorf("%s of %s has the secret: %s", path, c.who.id, body)
			}
		}
	}
	bob.want(http.StatusNotFound, "GET", "/sessions?before="+own.ID, "")
	bob.want(http.StatusNotFound, "GET", "/requests?before="+url.QueryEscape(requestIn(own.ID)), "")
	bob.want(http.StatusNotFound, "GET", "/tasks?session_id="+own.ID, "")
	bob.want(http.StatusBadRequest, "GET", "/tasks", "")
	ada.want(http.StatusForbidden, "PATCH", "/sessions/"+own.ID, `{"workspace":"shared"}`)
	ada.want(http.StatusForbidden, "POST", "/sessions", `{"client":"terminal"}`)
	ada.want(http.StatusOK, "PATCH", "/sessions/"+own.ID, `{"title":"ours"}`)
	// What a program with the token does stays as it was: no owner, no author.
	body := ada.want(http.StatusOK, "POST", "/sessions/"+own.ID+"/prompt", `{"content":"hello"}`)
	if !strings.Contains(body, `"success":true`) {
		t.Errorf("the prompt: %s", body)
	}
	found, err := w.bus.Fetch(t.Context(), event.TopicEnv, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var author *event.Author
	for _, d := range found {
		if d.Type == event.UserQuery {
			var e event.EnvEvent
			var q event.UserQueryPayload
			if json.Unmarshal(d.Data, &e) != nil || json.Unmarshal(e.Payload, &q) != nil {
				t.Fatal("the event cannot be read")
			}
			author = q.Author
		}
	}
	if author == nil || *author != (event.Author{ID: "ada", Name: "Ada", Role: "member"}) {
		t.Errorf("the author is %v", author)
	}
}

func TestAnInviteWorksOnce(t *testing.T) {
	w := newTeam(t)
	status, body := w.call("POST", "/accounts/invites", `{"name":"Ada"}`)
	var made createdInvite
	if err := json.Unmarshal([]byte(body), &made); err != nil || status != http.StatusCreated || made.Role != account.Member {
		t.Fatalf("%d %s", status, body)
	}
	// Programs that preview links do not use it.
	for range 2 {
		res, err := http.Get(w.srv.URL + made.URL[strings.Index(made.URL, "/join"):])
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("the page of the invite: %v %v", res, err)
		}
		res.Body.Close()
	}
	ada := w.accept(made.URL)
	if res := w.use(made.URL); res.StatusCode != http.StatusUnauthorized || len(res.Cookies()) > 0 {
		t.Errorf("the second time: %d", res.StatusCode)
	}
	if _, body := w.call("GET", "/accounts", ""); strings.Contains(body, made.ID) || !strings.Contains(body, `"id":"ada"`) {
		t.Errorf("the list: %s", body)
	}
	// A dropped one does not work.
	_, body = w.call("POST", "/accounts/invites", `{"name":"Bob"}`)
	if err := json.Unmarshal([]byte(body), &made); err != nil {
		t.Fatal(err)
	}
	if status, _ := w.call("DELETE", "/accounts/invites/"+made.ID, ""); status != http.StatusNoContent {
		t.Errorf("drop: %d", status)
	}
	if res := w.use(made.URL); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a dropped invite: %d", res.StatusCode)
	}
	// A new login of the same person.
	_, body = w.call("POST", "/accounts/invites", `{"personId":"ada"}`)
	if err := json.Unmarshal([]byte(body), &made); err != nil {
		t.Fatal(err)
	}
	if again := w.accept(made.URL); again.id != "ada" || again.cookie.Value == ada.cookie.Value {
		t.Errorf("the new login is of %s", again.id)
	}
	ada.want(http.StatusNoContent, "POST", "/me/sign-out", "")
	ada.want(http.StatusUnauthorized, "GET", "/me", "")
}

func TestADisabledPersonIsOutAtOnce(t *testing.T) {
	w := newTeam(t)
	ada, olga := w.join("Ada", account.Member), w.join("Olga", account.Operator)
	olga.want(http.StatusForbidden, "PATCH", "/accounts/olga", `{"disabled":true}`)
	olga.want(http.StatusOK, "PATCH", "/accounts/ada", `{"role":"operator"}`)
	ada.want(http.StatusOK, "GET", "/accounts", "")
	olga.want(http.StatusOK, "PATCH", "/accounts/ada", `{"role":"member"}`)
	ada.want(http.StatusForbidden, "GET", "/accounts", "")
	stream := ada.follow("")
	olga.want(http.StatusOK, "PATCH", "/accounts/ada", `{"disabled":true}`)
	ada.want(http.StatusUnauthorized, "GET", "/sessions", "")
	stream.ends()
	olga.want(http.StatusOK, "PATCH", "/accounts/ada", `{"disabled":false}`)
	ada.want(http.StatusUnauthorized, "GET", "/sessions", "")
	olga.want(http.StatusBadRequest, "PATCH", "/accounts/ada", `{"role":"king"}`)
	olga.want(http.StatusNotFound, "PATCH", "/accounts/eve", `{"role":"member"}`)
	body := olga.want(http.StatusOK, "GET", "/accounts/log", "")
	for _, kind := range []string{"invite", "sign-in", "role", "disable", "enable"} {
		if !strings.Contains(body, `"kind":"`+kind+`"`) {
			t.Errorf("the record has no %s: %s", kind, body)
		}
	}
}

// follower reads the event stream of a person.
type follower struct {
	t     *testing.T
	text  string
	chunk chan string
}

func (p *person) follow(query string) *follower {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", p.srv.URL+"/events?"+query, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r.AddCookie(p.cookie)
	res, err := p.srv.Client().Do(r)
	if err != nil || res.StatusCode != http.StatusOK {
		p.t.Fatalf("follow: %v %v", res, err)
	}
	f := &follower{t: p.t.(*testing.T), chunk: make(chan string, 1000)}
	go func() {
		defer res.Body.Close()
		defer close(f.chunk)
		buf := make([]byte, 32<<10)
		for {
			n, err := res.Body.Read(buf)
			f.chunk <- string(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	return f
}

// until reads until the stream has had a word, or until its end for "".
func (f *follower) until(word string) string {
	f.t.Helper()
	deadline := time.After(time.Minute)
	for word == "" || !strings.Contains(f.text, word) {
		select {
		case chunk, more := <-f.chunk:
			f.text += chunk
			if !more && word != "" {
				f.t.Fatalf("the stream ended before %q:\n%s", word, f.text)
			}
			if !more {
				return f.text
			}
		case <-deadline:
			f.t.Fatalf("the stream goes on without %q:\n%s", word, f.text)
		}
	}
	return f.text
}

// ends waits until the server ends the stream, and returns what it had.
func (f *follower) ends() string {
	f.t.Helper()
	return f.until("")
}

func TestTheEventStreamShowsWhatThePersonMaySee(t *testing.T) {
	w := newTeam(t)
	ada, olga := w.join("Ada", account.Member), w.join("Olga", account.Operator)
	var own session.Session
	if err := json.Unmarshal([]byte(ada.want(http.StatusCreated, "POST", "/sessions", `{}`)), &own); err != nil {
		t.Fatal(err)
	}
	request := func(id string) string { return "web:" + id + ":live" }
	start := func(id string) {
		err := w.db.Update(context.Background(), func(tx *db.Tx) error {
			return w.store.Requests.CreateRequest(tx, session.Request{ID: request(id), SessionID: id, Client: "web", State: event.StateRunning, CreatedAt: 6})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	start(own.ID)
	start(w.secret)
	// A made-up cursor that follows the secret request, as if it belonged to the own conversation.
	forged := cursor{Epoch: w.db.StoreID(), Runs: []runCursor{{Request: request(w.secret), Session: own.ID}, {Request: request(own.ID), Session: own.ID}}}
	streams := []*follower{ada.follow("cursor=" + forged.String()), ada.follow("from=begin"), ada.follow("session_id=" + own.ID + "&cursor=" + forged.String()), ada.follow("")}
	all := olga.follow("from=begin")
	for _, id := range []string{w.secret, own.ID} {
		word := map[string]string{w.secret: "secretdelta", own.ID: "owndelta"}[id]
		w.publish(id, request(id), event.RequestLifecycle{State: event.StateRunning}, event.TextDelta{Delta: word})
		w.end(id, request(id), word)
	}
	ada.want(http.StatusNotFound, "GET", "/events?session_id="+w.secret, "")
	for _, s := range append(streams, all) {
		s.until("owndelta")
	}
	// The streams end when their people are signed out, or have another role.
	w.call("PATCH", "/accounts/ada", `{"disabled":true}`)
	w.call("PATCH", "/accounts/olga", `{"role":"member"}`)
	for i, s := range streams {
		text := s.ends()
		if strings.Contains(text, "secretdelta") || strings.Contains(text, w.secret) || strings.Contains(text, secretWord) {
			t.Errorf("stream %d shows the secret:\n%s", i, text)
		}
	}
	if text := all.ends(); !strings.Contains(text, "secretdelta") || !strings.Contains(text, "owndelta") {
		t.Errorf("an operator does not see everything:\n%s", text)
	}
}

func TestAStreamEndsWhenAConversationIsNotSharedAnyMore(t *testing.T) {
	w := newTeam(t)
	ada := w.join("Ada", account.Member)
	_, body := w.call("POST", "/sessions/"+w.secret+"/sharing/links", `{"right":"part"}`)
	var link createdLink
	if err := json.Unmarshal([]byte(body), &link); err != nil || link.ID == "" {
		t.Fatalf("link: %s", body)
	}
	secret := link.URL[strings.LastIndex(link.URL, "/")+1:]
	ada.want(http.StatusNotFound, "POST", "/shared", `{"code":"wrong"}`)
	if body := ada.want(http.StatusOK, "POST", "/shared", `{"code":"`+secret+`"}`); !strings.Contains(body, w.secret) {
		t.Errorf("joined: %s", body)
	}
	ada.want(http.StatusOK, "GET", "/sessions/"+w.secret+"/messages", "")
	ada.want(http.StatusForbidden, "DELETE", "/sessions/"+w.secret, "")
	stream := ada.follow("session_id=" + w.secret)
	if status, body := w.call("DELETE", "/sessions/"+w.secret+"/sharing/links/"+link.ID, ""); status != http.StatusNoContent {
		t.Fatalf("revoke: %d %s", status, body)
	}
	ada.want(http.StatusNotFound, "GET", "/sessions/"+w.secret+"/messages", "")
	ada.want(http.StatusNotFound, "POST", "/shared", `{"code":"`+secret+`"}`)
	stream.ends()
}
