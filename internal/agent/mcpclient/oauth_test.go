package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/freeport"
)

// authority is an authorization server and the MCP server that it protects, on one address.
type authority struct {
	*httptest.Server
	// resource is what the MCP server says it is; "" means itself.
	resource string

	mu        sync.Mutex
	asked     []url.Values // the requests for tokens
	tokens    int
	accepted  map[string]bool
	lifetime  int
	refreshes bool
	// registers lets clients register themselves, and clients are those that did, with their secrets.
	registers bool
	clients   map[string]string
	// forbids is the WWW-Authenticate header with which calls of tools are refused; "" allows them.
	forbids string
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{accepted: map[string]bool{}, clients: map[string]string{}, lifetime: 3600, refreshes: true}
	server := fake("good")
	protected := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		ok, forbids := a.accepted[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")], a.forbids
		a.mu.Unlock()
		if ok && forbids != "" {
			w.Header().Set("WWW-Authenticate", forbids)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if !ok {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+a.URL+`/.well-known/oauth-protected-resource/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		protected.ServeHTTP(w, r)
	})
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		resource := a.resource
		if resource == "" {
			resource = a.URL + "/mcp"
		}
		answer(w, map[string]any{"resource": resource, "authorization_servers": []string{a.URL}, "scopes_supported": []string{"read"}})
	})
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		about := map[string]any{
			"issuer": a.URL, "authorization_endpoint": a.URL + "/authorize", "token_endpoint": a.URL + "/token", "response_types_supported": []string{"code"},
			"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
		}
		if a.registers {
			about["registration_endpoint"] = a.URL + "/register"
		}
		answer(w, about)
	})
	// Some servers give a public client a secret all the same, and expect it.
	mux.HandleFunc("/register", func(w http.ResponseWriter, r *http.Request) {
		var client map[string]any
		_ = json.NewDecoder(r.Body).Decode(&client)
		a.mu.Lock()
		defer a.mu.Unlock()
		id := fmt.Sprint("client-", len(a.clients)+1)
		a.clients[id] = "canary-secret-" + id
		client["client_id"], client["client_secret"], client["token_endpoint_auth_method"] = id, a.clients[id], "client_secret_post"
		w.WriteHeader(http.StatusCreated)
		answer(w, client)
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?code=the-code&state="+url.QueryEscape(q.Get("state")), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked = append(a.asked, r.PostForm)
		if r.PostForm.Get("grant_type") == "refresh_token" && !a.refreshes {
			w.WriteHeader(http.StatusBadRequest)
			answer(w, map[string]any{"error": "invalid_grant"})
			return
		}
		if a.registers && a.clients[r.PostForm.Get("client_id")] != r.PostForm.Get("client_secret") {
			w.WriteHeader(http.StatusUnauthorized)
			answer(w, map[string]any{"error": "invalid_client"})
			return
		}
		a.tokens++
		token := fmt.Sprint("canary-token-", a.tokens)
		a.accepted[token] = true
		answer(w, map[string]any{"access_token": token, "refresh_token": fmt.Sprint("canary-refresh-", a.tokens), "token_type": "Bearer", "expires_in": a.lifetime})
	})
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.CloseClientConnections)
	t.Cleanup(a.Close)
	return a
}

func (a *authority) requests() []url.Values {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// entry is the configuration of the protected server.
func (a *authority) entry(t testing.TB) ServerConfig {
	_, port, _ := strings.Cut(freeport.Loopback(t), ":")
	n := 0
	_, _ = fmt.Sscan(port, &n)
	return ServerConfig{URL: a.URL + "/mcp", OAuth: &OAuthConfig{ClientID: "lilac-test", CallbackPort: n}}
}

// browse opens an address as a browser of a person who agrees.
func browse(t testing.TB) func(string) {
	return func(address string) {
		go func() {
			if r, err := http.Get(address); err == nil {
				_ = r.Body.Close()
			}
		}()
	}
}

func newVault(t testing.TB) *Vault {
	dir := filepath.Join(t.TempDir(), "data")
	return &Vault{File: filepath.Join(dir, "logins.json"), KeyFile: filepath.Join(dir, "logins.key")}
}

// A person logs in, the server works with the token, also after it has expired, and the
// tokens are for this server only and encrypted on the disk.
func TestAServerThatNeedsALogin(t *testing.T) {
	a, vault := newAuthority(t), newVault(t)
	entry := a.entry(t)
	o := Options{Logins: vault}
	o.limits.backoff = func(int, time.Duration) (int, time.Duration) { return 1, time.Hour } // only Retry starts it again
	s := serve(t, o, map[string]ServerConfig{"my server": entry})
	if got := s.Status()[0]; got.State != Waiting || !strings.Contains(got.Trouble, "lilac mcp login my server") {
		t.Fatalf("without a login, the server is %+v", got)
	}
	a.mu.Lock()
	a.lifetime = 5 // shorter than the time before its end at which a token is refreshed
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	login, err := LogIn(ctx, entry, LoginOptions{Show: browse(t)})
	if err != nil {
		t.Fatal(err)
	}
	if login.Resource != entry.URL || login.AccessToken != "canary-token-1" {
		t.Errorf("the login is %+v", login)
	}
	if err := vault.Save("my server", login); err != nil {
		t.Fatal(err)
	}
	if err := s.Retry("my server"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server works", func() bool { return s.Status()[0].State == Ready })
	if got, err := s.Call(t.Context(), "my-server", "echo", input(t, map[string]any{"text": "hi"}), People{}); err != nil || got.texts() != "hi0" {
		t.Errorf("a call: %v, %v", got, err)
	}
	asked := a.requests()
	if len(asked) < 2 || asked[0].Get("code_verifier") == "" {
		t.Fatalf("the tokens were asked for with %v", asked)
	}
	for _, form := range asked {
		if form.Get("resource") != entry.URL || form.Get("grant_type") == "refresh_token" && form.Get("client_id") != "lilac-test" {
			t.Errorf("a token was asked for with %v", form)
		}
	}
	for _, file := range []string{vault.File, vault.KeyFile} {
		data, err := os.ReadFile(file)
		info, _ := os.Stat(file)
		if err != nil || strings.Contains(string(data), "canary") || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is readable: %v, %s", filepath.Base(file), err, info.Mode())
		}
	}
	// The tokens must not reach another address of the same name.
	moved := entry
	moved.URL = a.URL + "/other"
	h := &loginHandler{name: "my server", config: moved, logins: vault}
	if _, err := (tokenSource{t.Context(), h}).Token(); fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("another address gets a token: %v", err)
	}
	a.mu.Lock()
	a.refreshes = false
	a.mu.Unlock()
	if _, err := s.Call(t.Context(), "my-server", "echo", nil, People{}); err == nil {
		t.Error("a call works after the end of the login")
	}
}

// A server that asks for a token for another server, or leads to other addresses, gets
// nothing.
func TestALoginForAnotherServerIsRefused(t *testing.T) {
	for resource, ok := range map[string]bool{
		"https://mcp.example.org/mcp": true, "https://mcp.example.org": true, "https://mcp.example.org/": true,
		"https://bank.example.com/mcp": false, "http://mcp.example.org/mcp": false, "https://mcp.example.org/mcp/other": false, "https://mcp.example.org/m": false, "": false,
	} {
		endpoint, _ := url.Parse("https://mcp.example.org/mcp")
		_, err := ownResource("https://id.example.org/authorize?resource="+url.QueryEscape(resource), endpoint)
		if (err == nil) != ok {
			t.Errorf("a token for %q: %v", resource, err)
		}
	}
	a := newAuthority(t)
	a.resource = "https://bank.example.com/mcp"
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	login, err := LogIn(ctx, a.entry(t), LoginOptions{Show: browse(t)})
	for _, form := range a.requests() {
		if form.Get("resource") != a.URL+"/mcp" {
			t.Errorf("a token was asked for with %v", form)
		}
	}
	if err == nil && login.Resource != a.URL+"/mcp" {
		t.Errorf("the login is for %s", login.Resource)
	}

	public, _ := url.Parse("https://mcp.example.org/mcp")
	d := discovery{server: public}
	for address, ok := range map[string]bool{
		"https://mcp.example.org/x": true, "https://id.example.com/token": true, "http://id.example.com/token": false,
		"https://127.0.0.1/token": false, "https://localhost:8080/": false, "http://169.254.169.254/latest/meta-data": false, "https://[::1]/": false,
	} {
		u, _ := url.Parse(address)
		if err := d.check(u); (err == nil) != ok {
			t.Errorf("%s is reached: %v", address, err)
		}
	}
	if err := (OAuthConfig{ClientID: "x", ClientSecret: "secret"}).check("oauth"); err == nil {
		t.Error("a secret without an issuer is accepted")
	}
}

// A server that only lets clients register themselves works without a registration in the
// configuration. Its secret goes to its own token endpoint, and is refreshed with.
func TestALoginRegistersLilac(t *testing.T) {
	a, vault := newAuthority(t), newVault(t)
	entry := a.entry(t)
	port := entry.OAuth.CallbackPort
	for name, registration := range map[string]*OAuthConfig{"nothing": nil, "scopes": {Scopes: []string{"read"}}, "document": {ClientID: "https://lilac.example/client.json"}} {
		entry.OAuth = registration
		by := entry
		by.OAuth = &OAuthConfig{CallbackPort: port} // tests need a free port
		if registration != nil {
			registration.CallbackPort = port
			by.OAuth = registration
		}
		a.registers = false
		if _, err := LogIn(t.Context(), by, LoginOptions{Show: browse(t)}); fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("%s: a login without a way to register: %v", name, err)
		}
		a.registers = true
		login, err := LogIn(t.Context(), by, LoginOptions{Show: browse(t)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := vault.Save(name, login); err != nil {
			t.Fatal(err)
		}
		o := Options{Logins: vault}
		o.limits.backoff = func(int, time.Duration) (int, time.Duration) { return 1, time.Hour }
		s := serve(t, o, map[string]ServerConfig{name: entry})
		call := func() error {
			_, err := s.Call(t.Context(), name, "echo", input(t, map[string]any{"text": "hi"}), People{})
			return err
		}
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		a.revoke()
		if err := call(); err != nil {
			t.Errorf("%s: after a refresh: %v", name, err)
		}
		h := &loginHandler{name: name, config: entry, logins: vault, client: func(*url.URL) *http.Client { return a.Client() }}
		a.mu.Lock()
		clear(a.clients)
		a.clients["another"] = "canary"
		a.mu.Unlock()
		if _, err := h.refresh(t.Context(), login); fault.KindOf(err) != fault.Unauthenticated || !strings.Contains(err.Error(), "lilac mcp login") {
			t.Errorf("%s: after the authorization server has forgotten Lilac: %v", name, err)
		}
	}
	// Without oauth, a server that needs no login must work, and get no token of another address.
	h := &loginHandler{name: "nothing", config: ServerConfig{URL: a.URL + "/other"}, logins: vault}
	if source, err := h.TokenSource(t.Context()); source != nil || err != nil {
		t.Errorf("another address gets %v, %v", source, err)
	}
	if err := (OAuthConfig{ClientSecret: "secret", Issuer: "https://id.example"}).check("oauth"); err == nil {
		t.Error("a secret without a client is accepted")
	}
}

// Servers show people a list of all clients.
func TestALoginUsesTheRegistrationOfAnEarlierOne(t *testing.T) {
	a := newAuthority(t)
	a.registers = true
	entry := a.entry(t)
	entry.OAuth.ClientID = ""
	first, err := LogIn(t.Context(), entry, LoginOptions{Show: browse(t)})
	if err != nil {
		t.Fatal(err)
	}
	second, err := LogIn(t.Context(), entry, LoginOptions{Show: browse(t), Registration: first.Registration})
	if err != nil || second.ClientID != first.ClientID || second.ClientSecret != first.ClientSecret || len(a.clients) != 1 {
		t.Errorf("the second login is of %q, with %d registrations: %v", second.ClientID, len(a.clients), err)
	}
	// Other scopes are part of a registration.
	entry.OAuth.Scopes = []string{"write"}
	third, err := LogIn(t.Context(), entry, LoginOptions{Show: browse(t), Registration: second.Registration})
	if err != nil || third.ClientID == first.ClientID {
		t.Errorf("a login for other scopes is of %q: %v", third.ClientID, err)
	}
	a.mu.Lock()
	clear(a.clients)
	a.clients["another"] = "canary"
	a.mu.Unlock()
	if _, err := LogIn(t.Context(), entry, LoginOptions{Show: browse(t), Registration: third.Registration}); err == nil {
		t.Error("a registration that the server has forgotten works")
	}
}

func TestADamagedVaultIsNoLogin(t *testing.T) {
	vault := newVault(t)
	if _, ok, err := vault.Load("a"); ok || err != nil {
		t.Errorf("an empty vault: %v, %v", ok, err)
	}
	if err := vault.Save("a", Login{AccessToken: "x"}); err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(vault.File)
	if err := os.WriteFile(vault.File, []byte(strings.Replace(string(data), `"a"`, `"b"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, ok, err := vault.Load("b"); ok || err == nil {
		t.Errorf("the login of another server is used: %+v, %v", l, err)
	}
	if had, err := vault.Remove("b"); !had || err != nil {
		t.Errorf("remove: %v, %v", had, err)
	}
}
