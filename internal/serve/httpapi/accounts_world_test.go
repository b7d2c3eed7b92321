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
	"lilac/internal/testkit/dbtest"
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
	if w.db, err = db.Open(t.Context(), dbtest.Options(db.Options{Dir: w.dir, Migrations: slices.Concat(sqlitebus.Migrations, store.Migrations)})); err != nil {
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
