package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"lilac/internal/core/webhook"
	"lilac/internal/testkit/effort"
)

// forgedHead is the beginning of a webhook that looks signed and never sends its body.
const forgedHead = "POST /webhooks/ci HTTP/1.1\r\nHost: hooks.example.com\r\nX-GitHub-Delivery: d\r\nContent-Length: 100\r\n"

var looksSigned = "X-Hub-Signature-256: sha256=" + strings.Repeat("0", 64) + "\r\n"

// hold opens connections that send the head of a webhook and then nothing.
func hold(t *testing.T, addr, head string, n int) (conns []net.Conn) {
	t.Helper()
	for range n {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	return conns
}

// crowded sends signed deliveries while twice as many silent connections as there are places
// stay open, and returns how many were accepted.
func crowded(t *testing.T, o Options, deliveries int) (accepted int) {
	t.Helper()
	w := newHookedWith(t, o, webhook.Spec{Name: "ci"})
	api := w.api
	arrived := make(chan struct{}, 4*maxBodyReaders)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		api.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	const silent = 2 * maxBodyReaders
	hold(t, server.Listener.Addr().String(), forgedHead+looksSigned, silent)
	for range silent {
		<-arrived
	}
	for i := range deliveries {
		r := delivery("/webhooks/ci", fmt.Sprint("d", i), `{"n":1}`)
		sent, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+r.URL.Path, bytes.NewReader([]byte(`{"n":1}`)))
		if err != nil {
			t.Fatal(err)
		}
		sent.Header = r.Header
		res, err := http.DefaultClient.Do(sent)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode == http.StatusAccepted {
			accepted++
		}
	}
	return accepted
}

func TestSilentConnectionsDoNotCrowdOutSignedWebhooks(t *testing.T) {
	if n := crowded(t, Options{}, 16); n != 16 {
		t.Errorf("%d of 16 signed deliveries were accepted", n)
	}
}

// Control: if the newest sender gives way, the silent ones keep all places.
func TestSilentConnectionsDoNotCrowdOutSignedWebhooksControl(t *testing.T) {
	if n := crowded(t, Options{refuseNewest: true}, 16); n == 16 {
		t.Error("all deliveries are accepted although the silent connections keep their places: the test shows nothing")
	}
}

// The answer to a webhook without a signature does not wait for its body, and its connection
// closes. The control looks signed, so the server waits for its body.
func TestUnsignedWebhookIsRefusedBeforeItsBody(t *testing.T) {
	effort.SkipSlow(t)
	w := newHooked(t, webhook.Spec{Name: "ci"})
	server := httptest.NewServer(w.api)
	t.Cleanup(server.Close)
	addr := server.Listener.Addr().String()
	unsigned := hold(t, addr, forgedHead, 1)[0]
	_ = unsigned.SetReadDeadline(time.Now().Add(webhookBodyLimit - time.Second))
	answer, err := io.ReadAll(unsigned) // until the server closes the connection
	if err != nil && !errors.Is(err, syscall.ECONNRESET) || !strings.HasPrefix(string(answer), "HTTP/1.1 401 ") {
		t.Errorf("%q, %v", answer, err)
	}
	signed := hold(t, addr, forgedHead+looksSigned, 1)[0]
	_ = signed.SetReadDeadline(time.Now().Add(2 * refusalLimit))
	if answer, err := io.ReadAll(signed); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("control: the body of a webhook with a signature is not awaited: %q, %v", answer, err)
	}
}

func TestTheSlowestReaderMakesRoom(t *testing.T) {
	now := time.Now()
	reader := func(age time.Duration, got int64) *bodyReader {
		b := &bodyReader{since: now.Add(-age), stop: func() {}}
		b.got.Store(got)
		return b
	}
	for name, c := range map[string]struct{ keeps, leaves *bodyReader }{
		"the slower of two":         {reader(time.Second, 1000), reader(time.Second, 10)},
		"a trickle, not the newest": {reader(0, 0), reader(3*time.Second, 300)},
		"the older of two silent":   {reader(time.Second, 0), reader(2*time.Second, 0)},
		"the older of two new ones": {reader(0, 0), reader(10*time.Millisecond, 0)},
		"by speed, not by bytes":    {reader(time.Second, 1000), reader(4*time.Second, 2000)},
	} {
		p := newBodyReaders(false)
		p.active[c.keeps], p.active[c.leaves] = struct{}{}, struct{}{}
		if p.slowestLocked(now) != c.leaves {
			t.Errorf("%s: the other one made room", name)
		}
	}
}

// Slack checks an address before it sends events there.
func TestSlackAddressIsConfirmed(t *testing.T) {
	w := newHooked(t, webhook.Spec{Name: "slack", Form: webhook.Slack})
	h, err := webhook.New(webhook.Spec{Name: "slack", Form: webhook.Slack, Secret: hookSecret})
	if err != nil {
		t.Fatal(err)
	}
	body := `{"type":"url_verification","challenge":"abc123"}`
	r := httptest.NewRequest("POST", "/webhooks/slack", strings.NewReader(body))
	r.Header = h.Sign(webhook.Delivery{Body: []byte(body)}, time.Now())
	r.Header.Set("Content-Type", "application/json")
	if code, answer := w.send(r); code != http.StatusOK || strings.TrimSpace(answer) != `{"challenge":"abc123"}` {
		t.Errorf("%d %s", code, answer)
	}
	if all := w.environmentEvents(); len(all) != 0 {
		t.Errorf("published %+v", all)
	}
	r = httptest.NewRequest("POST", "/webhooks/slack", strings.NewReader(body))
	r.Header.Set("X-Slack-Signature", "v0="+strings.Repeat("0", 64))
	if code, _ := w.send(r); code != http.StatusUnauthorized {
		t.Errorf("an unsigned check is answered with %d", code)
	}
}
