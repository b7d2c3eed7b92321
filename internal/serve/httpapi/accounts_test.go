package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"lilac/internal/core/account"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/effort"
)

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
	effort.SkipSlow(t)
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

func TestTheEventStreamShowsWhatThePersonMaySee(t *testing.T) {
	effort.SkipSlow(t)
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
	effort.SkipSlow(t)
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
