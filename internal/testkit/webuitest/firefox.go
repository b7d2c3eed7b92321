package webuitest

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// Firefox is a tab of Firefox, whose engine has nothing in common with Chromium's. It has its own
// process and storage, and is driven with WebDriver BiDi (https://w3c.github.io/webdriver-bidi/).
type Firefox struct {
	t    *testing.T
	conn *websocket.Conn
	tab  string
	last int
}

// OpenFirefox opens the page in a window of the given size. An uncaught error of the page, or one
// in its console, fails the test. The preferences have the form `"name", value`.
func OpenFirefox(t *testing.T, url string, width, height int, preferences ...string) *Firefox {
	t.Helper()
	p := &Firefox{t: t}
	conn, _, err := websocket.DefaultDialer.DialContext(t.Context(), startFirefox(t, preferences)+"/session", nil)
	if err != nil {
		t.Fatalf("connect to Firefox: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	p.conn = conn
	p.call("session.new", object{"capabilities": object{}}, nil)
	p.call("session.subscribe", object{"events": []string{"log.entryAdded"}}, nil)
	var made struct{ Context string }
	p.call("browsingContext.create", object{"type": "tab"}, &made)
	p.tab = made.Context
	p.call("browsingContext.setViewport", object{"context": p.tab, "viewport": object{"width": width, "height": height}}, nil)
	p.call("browsingContext.navigate", object{"context": p.tab, "url": url, "wait": "complete"}, nil)
	return p
}

type object = map[string]any

// startFirefox starts a Firefox, and returns the address at which it is driven. The test ends it.
func startFirefox(t *testing.T, preferences []string) (address string) {
	t.Helper()
	program := installed(t, []string{"firefox-esr", "firefox"}, "Firefox is needed to test the page there, too: apt-get install firefox-esr")
	profile, err := os.MkdirTemp("", "lilac-firefox-")
	if err != nil {
		t.Fatal(err)
	}
	var set strings.Builder
	for _, p := range preferences {
		fmt.Fprintf(&set, "user_pref(%s);\n", p)
	}
	if err := os.WriteFile(filepath.Join(profile, "user.js"), []byte(set.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0")
	cmd.Env = append(os.Environ(), "HOME="+profile, "MOZ_CRASHREPORTER_DISABLE=1", "LANG=en_US.UTF-8")
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start Firefox: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		removeProfile(profile)
	})
	// A browser that does not start ends, or is ended, and so ends its output.
	giveUp := time.AfterFunc(within, func() { _ = cmd.Process.Kill() })
	defer giveUp.Stop()
	log := ""
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "WebDriver BiDi listening on "); ok {
			go func() { _, _ = io.Copy(io.Discard, said) }() // ends with the process
			return address
		}
		log += lines.Text() + "\n"
	}
	t.Fatalf("Firefox did not start: %v\n%s", lines.Err(), log)
	return ""
}

// call makes a call and decodes its result, unless into is nil.
func (p *Firefox) call(method string, params object, into any) {
	p.t.Helper()
	p.last++
	_ = p.conn.SetWriteDeadline(time.Now().Add(within))
	if err := p.conn.WriteJSON(object{"id": p.last, "method": method, "params": params}); err != nil {
		p.t.Fatalf("%s: %v", method, err)
	}
	for {
		var m struct {
			ID                           int
			Type, Method, Error, Message string
			Result                       json.RawMessage
			Params                       struct{ Level, Text string }
		}
		_ = p.conn.SetReadDeadline(time.Now().Add(within))
		if err := p.conn.ReadJSON(&m); err != nil {
			p.t.Fatalf("%s: %v", method, err)
		}
		switch {
		case m.Type == "event" && m.Method == "log.entryAdded" && m.Params.Level == "error":
			p.t.Errorf("the page reports an error: %s", m.Params.Text)
		case m.Type == "event" || m.ID != p.last:
		case m.Type == "error":
			p.t.Fatalf("%s: %s: %s", method, m.Error, m.Message)
		case into != nil:
			if err := json.Unmarshal(m.Result, into); err != nil {
				p.t.Fatalf("%s: decode the result: %v", method, err)
			}
			return
		default:
			return
		}
	}
}

// Text evaluates JavaScript in the page, and returns the result as a string.
func (p *Firefox) Text(js string) string {
	p.t.Helper()
	var out struct {
		Type             string
		Result           struct{ Value string }
		ExceptionDetails struct{ Text string }
	}
	p.call("script.evaluate", object{"expression": "String(" + js + ")", "target": object{"context": p.tab}, "awaitPromise": true}, &out)
	if out.Type != "success" {
		p.t.Fatalf("%s: %s", js, out.ExceptionDetails.Text)
	}
	return out.Result.Value
}

// Until waits until a JavaScript condition is true in the page.
func (p *Firefox) Until(what, js string) {
	p.t.Helper()
	for deadline := time.Now().Add(within); p.Text("Boolean("+js+")") != "true"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("not within %s: %s\nthe page says:\n%s", within, what, p.Text("document.body.innerText"))
		}
	}
}

// Say types a message and sends it with Enter.
func (p *Firefox) Say(text string) {
	p.t.Helper()
	p.Text("document.getElementById('text').focus()")
	const enter = "\uE006"
	var keys []object
	for _, key := range text + enter {
		keys = append(keys, object{"type": "keyDown", "value": string(key)}, object{"type": "keyUp", "value": string(key)})
	}
	p.call("input.performActions", object{"context": p.tab, "actions": []object{{"type": "key", "id": "keyboard", "actions": keys}}}, nil)
}

// Click clicks the element that matches the selector; see [Tab.Click].
func (p *Firefox) Click(selector string) {
	p.t.Helper()
	last := ""
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		place := p.Text("JSON.stringify((" + aimJS + ")(" + quote(selector) + "))")
		if place == "null" || place != last {
			last = place
			continue
		}
		var at struct{ X, Y float64 }
		if err := json.Unmarshal([]byte(place), &at); err != nil {
			p.t.Fatalf("find %s: %v", selector, err)
		}
		p.call("input.performActions", object{"context": p.tab, "actions": []object{{"type": "pointer", "id": "mouse", "actions": []object{
			{"type": "pointerMove", "x": int(at.X), "y": int(at.Y)}, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0},
		}}}}, nil)
		if p.clicked() {
			return
		}
		last = ""
	}
	p.t.Fatalf("not within %s: a click on %s\nthe page says:\n%s", within, selector, p.Text("document.body.innerText"))
}

// clicked reports whether the last click reached its target.
func (p *Firefox) clicked() bool {
	p.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if reached := p.Text("window.aimed.reached"); reached != "null" {
			return reached == "true"
		}
	}
	return false
}

// Reload loads the page again.
func (p *Firefox) Reload() {
	p.t.Helper()
	p.call("browsingContext.reload", object{"context": p.tab, "wait": "complete"}, nil)
}

// Picture saves a screenshot in the directory LILAC_SHOTS.
func (p *Firefox) Picture(name string) {
	p.t.Helper()
	dir := os.Getenv("LILAC_SHOTS")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	p.call("browsingContext.captureScreenshot", object{"context": p.tab}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("firefox-%s.png", name)), png, 0o644)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
