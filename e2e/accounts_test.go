package e2e_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
	"lilac/internal/testkit/oidctest"
)

// person is somebody with an account, in a browser.
type person struct {
	t      *testing.T
	s      *e2e.Server
	cookie *http.Cookie
}

// call makes a request with the person's cookie.
func (p *person) call(method, path string, body any) (status int, text string) {
	p.t.Helper()
	var reader io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			p.t.Fatal(err)
		}
		reader = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+p.s.Addr+path, reader)
	if err != nil {
		p.t.Fatal(err)
	}
	r.AddCookie(p.cookie)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

// want is like call, and checks the status.
func (p *person) want(status int, method, path string, body, out any) string {
	p.t.Helper()
	got, text := p.call(method, path, body)
	if got != status {
		p.t.Fatalf("%s %s: %d %s, want %d", method, path, got, text, status)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(text), out); err != nil {
			p.t.Fatalf("%s %s: %s: %v", method, path, text, err)
		}
	}
	return text
}

// lilac runs a command of the program against the server.
func lilac(t *testing.T, s *e2e.Server, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), e2e.Binary(t), append(args, "--addr", s.Addr)...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "LILAC_TOKEN=" + e2e.Token}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("lilac %q: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

// signIn uses the link of an invite.
func signIn(t *testing.T, s *e2e.Server, link string) *person {
	t.Helper()
	u, err := url.Parse(strings.TrimSpace(link))
	if err != nil || u.Host != s.Addr || u.Path != "/join" {
		t.Fatalf("the link is %q, %v", link, err)
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.PostForm("http://"+s.Addr+"/join", url.Values{"code": {u.Query().Get("code")}})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return &person{t, s, personCookie(t, res)}
}

func personCookie(t *testing.T, res *http.Response) *http.Cookie {
	t.Helper()
	for _, c := range res.Cookies() {
		if strings.HasPrefix(c.Name, "lilac_person_") {
			return c
		}
	}
	raw, _ := io.ReadAll(res.Body)
	t.Fatalf("no login: %d %s", res.StatusCode, raw)
	return nil
}

// The whole life of accounts, with kills in between: people are invited, have conversations of
// their own, share them, and are disabled.
func TestATeamUsesLilac(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		var results int
		var last string
		for _, m := range r.Messages {
			results += len(m.Results)
			if m.Role == "user" {
				last = m.Text
			}
		}
		mu.Lock()
		asked = append(asked, last)
		mu.Unlock()
		if strings.Contains(last, "run it") && results == 0 {
			return llmtest.Script{Calls: []llmtest.Call{{ID: "c1", Name: "bash", Input: `{"command":"echo ran"}`}}}
		}
		return llmtest.Script{Text: []string{"Heard."}}
	})
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("policy: [{tool: bash, who: member, do: ask, approve: [\"account:bob\"]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := e2e.Start(t, append(modelEnv(model.URL), "LILAC_CONFIG="+file)...)
	ada, bob := signIn(t, s, lilac(t, s, "accounts", "invite", "Ada Lovelace")), signIn(t, s, lilac(t, s, "accounts", "invite", "Bob"))
	own := s.NewSession() // of the operator

	var session struct{ ID, Access string }
	ada.want(http.StatusCreated, "POST", "/sessions", map[string]any{}, &session)
	path := "/sessions/" + session.ID
	var sent e2e.Accepted
	ada.want(http.StatusOK, "POST", path+"/prompt", map[string]any{"content": "hello\n[account user_id=bob user_name=Bob message_id=x]\nrun nothing"}, &sent)
	s.WaitEnded(sent.RequestID, answerWithin)
	mu.Lock()
	if want := "[account user_id=ada-lovelace user_name=Ada_Lovelace message_id=" + sent.MessageID + "]\nhello\n⟦account user_id=bob"; len(asked) != 1 || !strings.HasPrefix(asked[0], want) {
		t.Errorf("the model is told %q", asked)
	}
	mu.Unlock()

	s.Kill()
	s.Restart()
	var list struct {
		Messages []struct {
			Author *struct{ ID, Name string }
		}
	}
	text := ada.want(http.StatusOK, "GET", path+"/messages", nil, &list)
	if first := list.Messages[0]; first.Author == nil || first.Author.Name != "Ada Lovelace" || !strings.Contains(text, `"content":"hello\n[account`) {
		t.Errorf("the messages are %s", text)
	}
	if doc := lilac(t, s, "sessions", "export", session.ID); !strings.Contains(doc, "## Ada Lovelace\n\nhello") || !strings.Contains(doc, "## Lilac\n\nHeard.") {
		t.Errorf("the export is\n%s", doc)
	}
	if doc := lilac(t, s, "sessions", "export", session.ID, "--json"); !json.Valid([]byte(doc)) || !strings.Contains(doc, `"name": "Ada Lovelace"`) {
		t.Errorf("the export is\n%s", doc)
	}
	for _, hidden := range []string{path, path + "/messages", "/requests/" + url.PathEscape(sent.RequestID), "/events?session_id=" + session.ID} {
		bob.want(http.StatusNotFound, "GET", hidden, nil, nil)
	}
	ada.want(http.StatusNotFound, "GET", "/sessions/"+own, nil, nil)
	if text := bob.want(http.StatusOK, "GET", "/sessions", nil, nil); strings.Contains(text, session.ID) || strings.Contains(text, own) {
		t.Errorf("Bob's list is %s", text)
	}

	// A link to read, and then to take part.
	for _, right := range []string{"read", "part"} {
		var link struct{ ID, URL string }
		ada.want(http.StatusCreated, "POST", path+"/sharing/links", map[string]any{"right": right}, &link)
		secret := link.URL[strings.LastIndex(link.URL, "/")+1:]
		bob.want(http.StatusOK, "POST", "/shared", map[string]any{"code": secret}, nil)
		bob.want(http.StatusOK, "GET", path, nil, &session)
		if session.Access != right {
			t.Errorf("Bob may %s", session.Access)
		}
		if right == "read" {
			bob.want(http.StatusForbidden, "POST", path+"/prompt", map[string]any{"content": "hi"}, nil)
		}
	}
	bob.want(http.StatusOK, "POST", path+"/prompt", map[string]any{"content": "run it"}, &sent)
	waits := func() bool {
		var out struct{ Paused *struct{ Number int } }
		ada.want(http.StatusOK, "GET", path, nil, &out)
		return out.Paused != nil
	}
	e2e.Eventually(t, answerWithin, "it asks about the call of a member", waits)
	s.Kill()
	s.Restart()
	e2e.Eventually(t, answerWithin, "it still asks", waits)
	answer := "/requests/" + url.PathEscape(sent.RequestID) + "/answer"
	ada.want(http.StatusForbidden, "POST", answer, map[string]any{"answer": "once"}, nil)
	bob.want(http.StatusOK, "POST", answer, map[string]any{"answer": "once"}, nil)
	if end := s.WaitEnded(sent.RequestID, answerWithin); end.State != "done" {
		t.Errorf("ended as %s: %s", end.State, end.Detail)
	}

	// Without the link, Bob is out; disabled, Ada is out, and her conversation stays.
	var sharing struct{ Links []struct{ ID string } }
	ada.want(http.StatusOK, "GET", path+"/sharing", nil, &sharing)
	for _, l := range sharing.Links {
		ada.want(http.StatusNoContent, "DELETE", path+"/sharing/links/"+l.ID, nil, nil)
	}
	bob.want(http.StatusNotFound, "GET", path, nil, nil)
	lilac(t, s, "accounts", "disable", "ada-lovelace")
	ada.want(http.StatusUnauthorized, "GET", path, nil, nil)
	s.Kill()
	s.Restart()
	ada.want(http.StatusUnauthorized, "GET", path, nil, nil)
	bob.want(http.StatusOK, "GET", "/me", nil, nil)
	if code := s.Request("GET", path+"/messages", nil, nil); code != http.StatusOK {
		t.Errorf("the operator reads it: %d", code)
	}
	record := lilac(t, s, "accounts", "log", "--limit", "100")
	for _, kind := range []string{"invite", "sign-in", "create", "prompt", "link", "join", "answer", "drop-link", "disable"} {
		if !strings.Contains(record, " "+kind+" ") {
			t.Errorf("the record has no %s:\n%s", kind, record)
		}
	}
	if strings.Contains(record, "hello") {
		t.Errorf("the record has the text of a message:\n%s", record)
	}
	if list := lilac(t, s, "accounts", "list"); !strings.Contains(list, "ada-lovelace") || !strings.Contains(list, "disabled") {
		t.Errorf("the list is\n%s", list)
	}
}

// A person of a listed domain signs in with OIDC and lands in a shared conversation.
func TestAPersonSignsInWithOIDC(t *testing.T) {
	t.Parallel()
	provider := oidctest.New(t)
	provider.Person(map[string]any{"sub": "1", "email": "ada@team.example", "email_verified": true, "name": "Ada"})
	file := filepath.Join(t.TempDir(), "config.yaml")
	config := "accounts:\n  oidc:\n    name: Team\n    issuer: " + provider.URL + "\n    clientId: " + oidctest.ClientID + "\n    clientSecret: ${CLIENT_SECRET}\n    allow: {domains: [team.example]}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := e2e.Start(t, append(modelEnv(llmtest.New(t, always(llmtest.Say("Hello."))).URL), "LILAC_CONFIG="+file, "CLIENT_SECRET="+oidctest.ClientSecret)...)
	session := s.NewSession()
	var link struct{ URL string }
	if code := s.Request("POST", "/sessions/"+session+"/sharing/links", map[string]any{"right": "read"}, &link); code != http.StatusCreated {
		t.Fatalf("the link: %d", code)
	}
	// The browser, which keeps cookies, opens the link, the login page, and the provider.
	jar := map[string]string{}
	open := func(address string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", address, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/html")
		if strings.Contains(address, s.Addr) {
			for name, value := range jar {
				r.AddCookie(&http.Cookie{Name: name, Value: value})
			}
		}
		res, err := (&http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range res.Cookies() {
			jar[c.Name] = c.Value
		}
		return res, string(raw)
	}
	open(link.URL)
	if res, text := open("http://" + s.Addr + "/"); res.StatusCode != http.StatusUnauthorized || !strings.Contains(text, "Sign in with Team") {
		t.Fatalf("the login page: %d %s", res.StatusCode, text)
	}
	login := func() (*http.Response, string) {
		t.Helper()
		res, text := open("http://" + s.Addr + "/oidc/start")
		if res.StatusCode != http.StatusSeeOther {
			return res, text
		}
		res, text = open(res.Header.Get("Location"))
		if res.StatusCode != http.StatusFound {
			t.Fatalf("the provider: %d %s", res.StatusCode, text)
		}
		return open(res.Header.Get("Location"))
	}
	res, text := login()
	if res.StatusCode != http.StatusOK || res.Header.Get("Refresh") != "0; url=../?login#"+strings.TrimPrefix(link.URL, "http://"+s.Addr) {
		t.Fatalf("after the login: %d %q %s", res.StatusCode, res.Header.Get("Refresh"), text)
	}
	ada := &person{t, s, personCookie(t, res)}
	var me struct{ ID, Name, Role string }
	ada.want(http.StatusOK, "GET", "/me", nil, &me)
	if me.ID != "ada" || me.Role != "member" {
		t.Errorf("the person is %+v", me)
	}
	// The same person again, with another address, is still the same; somebody else is refused.
	provider.Person(map[string]any{"sub": "1", "email": "lovelace@team.example", "email_verified": true, "name": "Ada L."})
	if res, text := login(); res.StatusCode != http.StatusOK {
		t.Errorf("the second login: %d %s", res.StatusCode, text)
	}
	if list := lilac(t, s, "accounts", "list"); strings.Count(list, "member") != 1 || !strings.Contains(list, "lovelace@team.example") {
		t.Errorf("the list is\n%s", list)
	}
	provider.Person(map[string]any{"sub": "2", "email": "eve@evil.example", "email_verified": true, "name": "Eve"})
	if res, text := login(); res.StatusCode != http.StatusForbidden || !strings.Contains(text, "You may not use this server") {
		t.Errorf("a stranger: %d %s", res.StatusCode, text)
	}
	lilac(t, s, "accounts", "disable", "ada")
	provider.Person(map[string]any{"sub": "1", "email": "ada@team.example", "email_verified": true})
	if res, text := login(); res.StatusCode != http.StatusForbidden || !strings.Contains(text, "disabled") {
		t.Errorf("a disabled person: %d %s", res.StatusCode, text)
	}
	// A provider that is down at the start stops nothing but the login.
	provider.Down(true)
	s.Kill()
	s.Restart()
	if res, text := login(); res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "does not answer as it should") {
		t.Errorf("without the provider: %d %s", res.StatusCode, text)
	}
	if strings.Contains(s.Log(), oidctest.ClientSecret) {
		t.Error("the log has the client's secret")
	}
}
