package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/client"
)

// proxied answers as nginx does when it does not pass a request on.
func proxied(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<html>\r\n<head><title>"+http.StatusText(status)+"</title></head>\r\n</html>\r\n")
}

// While Lilac restarts, a proxy in front of it answers, and not with words of Lilac.
func TestAProxyWhoseLilacRestartsIsWaitedFor(t *testing.T) {
	for _, status := range []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		calls := map[string]int{} // one after the other
		keys := map[string]bool{}
		dir, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			calls[r.Method]++
			switch {
			case calls[r.Method] == 1:
				proxied(w, status)
			case r.Method == http.MethodPost:
				_, _ = io.WriteString(w, `{"success":true,"requestId":"web:s:m","messageId":"m"}`)
			default:
				_, _ = io.WriteString(w, "data: {}\n\n")
			}
			keys[r.Header.Get("Idempotency-Key")] = true
		})
		c := connect(t, dir)
		if _, err := c.Prompt(t.Context(), "s", "hi", event.Prompt); err != nil || len(keys) != 1 {
			t.Errorf("a prompt while the proxy answers %d: %v, with %d keys", status, err, len(keys))
		}
		enough := errors.New("enough")
		if err := c.Tail(t.Context(), "env", false, func(event.Event) error { return enough }); !errors.Is(err, enough) {
			t.Errorf("a stream while the proxy answers %d ended with %v", status, err)
		}
	}
}

// What a proxy refuses by itself can be changed only there.
func TestARefusalOfAProxySaysWhatToDoThere(t *testing.T) {
	for status, want := range map[int]struct {
		kind  fault.Kind
		words string
	}{
		http.StatusUnauthorized:          {fault.Unauthenticated, "a login of its own"},
		http.StatusRequestEntityTooLarge: {fault.TooLarge, "client_max_body_size"},
		http.StatusServiceUnavailable:    {fault.Unavailable, "does not reach Lilac (503"},
		http.StatusBadRequest:            {fault.Internal, "not a response of Lilac"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { proxied(w, status) }))
		t.Cleanup(server.Close)
		c, err := client.Connect(client.Options{Addr: server.URL, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = c.Sessions(t.Context(), client.Page{})
		if fault.KindOf(err) != want.kind || !strings.Contains(err.Error(), want.words) {
			t.Errorf("%d gave %v", status, err)
		}
		if _, err := c.Health(t.Context()); fault.KindOf(err) != want.kind {
			t.Errorf("the health, while the proxy answers %d, is %v", status, err)
		}
	}
}

// The server knows where it listens, but not the name and the path of a proxy in front of it.
func TestALoginLinkHasTheAddressThatWasGiven(t *testing.T) {
	dir, server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"url":"http://10.0.0.5:7420/login?code=abc","expiresAt":1}`)
	})
	for addr, want := range map[string]string{
		server.URL + "/lilac/": server.URL + "/lilac/login?code=abc",
		"":                     "http://10.0.0.5:7420/login?code=abc",
		strings.TrimPrefix(server.URL, "http://"): "http://10.0.0.5:7420/login?code=abc",
	} {
		c, err := client.Connect(client.Options{Addr: addr, DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if link, err := c.Login(t.Context()); err != nil || link != want {
			t.Errorf("at %q, the link is %q (%v), want %q", addr, link, err, want)
		}
	}
}
