package mcpclient

import (
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/setting"
)

// loggedIn returns servers with one that has a login, and the function that calls its tool.
func loggedIn(t *testing.T, a *authority) (s *Servers, call func() error) {
	t.Helper()
	entry, vault := a.entry(t), newVault(t)
	login, err := LogIn(t.Context(), entry, LoginOptions{Show: browse(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := vault.Save("tickets", login); err != nil {
		t.Fatal(err)
	}
	o := Options{Logins: vault}
	o.limits.backoff = func(int, time.Duration) (int, time.Duration) { return 1, time.Hour }
	s = serve(t, o, map[string]ServerConfig{"tickets": entry})
	eventually(t, "the server works", func() bool { return s.Status()[0].State == Ready })
	return s, func() error {
		_, err := s.Call(t.Context(), "tickets", "echo", input(t, map[string]any{"text": "hi"}), People{})
		return err
	}
}

// revoke makes the server refuse all tokens that it gave.
func (a *authority) revoke() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.accepted)
}

// A token may end before the time that was said, or there was none. The login has not ended.
func TestATokenThatTheServerRefusesIsRenewed(t *testing.T) {
	a := newAuthority(t)
	s, call := loggedIn(t, a)
	a.revoke()
	if err := call(); err != nil {
		t.Errorf("after the token was revoked: %v", err)
	}
	a.revoke()
	if err := call(); fault.KindOf(err) != fault.Unauthenticated || !strings.Contains(err.Error(), "lilac mcp login tickets") {
		t.Errorf("a server that refuses every token: %v", err)
	}
	eventually(t, "the list says that the server needs a login", func() bool {
		got := s.Status()[0]
		return got.State == Waiting && strings.Contains(got.Trouble, "lilac mcp login tickets")
	})
}

// Another login with the same scopes would be refused again.
func TestAServerThatWantsMoreScopesNamesThem(t *testing.T) {
	a := newAuthority(t)
	_, call := loggedIn(t, a)
	for header, want := range map[string]string{
		`Bearer error="insufficient_scope", scope="read admin", resource_metadata="` + a.URL + `"`: `scopes "read admin": add them to mcpServers.tickets.oauth.scopes`,
		`Bearer`: "does not allow this call",
	} {
		a.mu.Lock()
		a.forbids = header
		a.mu.Unlock()
		if err := call(); fault.KindOf(err) != fault.Denied || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", header, err)
		}
	}
}

func TestAServerThatNeedsATokenSaysWhereToSetIt(t *testing.T) {
	a := newAuthority(t)
	o := Options{Logins: newVault(t)}
	o.limits.backoff = func(int, time.Duration) (int, time.Duration) { return 1, time.Hour }
	s := serve(t, o, map[string]ServerConfig{"tickets": {URL: a.URL + "/mcp"}})
	if got := s.Status()[0]; got.State != Waiting || !strings.Contains(got.Trouble, "mcpServers.tickets.headers") || !strings.Contains(got.Trouble, "lilac mcp login tickets") {
		t.Errorf("the server is %+v", got)
	}
	s = serve(t, o, map[string]ServerConfig{"tickets": {URL: a.URL + "/mcp", Headers: map[string]setting.Secret{"authorization": "Bearer wrong"}}})
	if got := s.Status()[0]; got.State != Waiting || !strings.Contains(got.Trouble, "check the token in mcpServers.tickets.headers") {
		t.Errorf("the server with a wrong token is %+v", got)
	}
}
