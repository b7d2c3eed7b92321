package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"lilac/internal/core/session"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
)

const onePixel = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"

// get requests a file with additional headers.
func (w *world) get(path string, headers ...string) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.srv.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := w.srv.Client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestFilesAreServedWithoutRunningTheirContent(t *testing.T) {
	w := newWorld(t)
	blobs := &fakeBlobs{files: map[string][]byte{}}
	w.opt.Blobs = blobs
	w.restart()
	id := w.newSession()
	for name, c := range map[string]struct{ data, said, kind, disposition string }{
		"a.png":                    {onePixel, "image/png", "image/png", "inline; filename=a.png"},
		"b.jpg":                    {onePixel, "image/jpeg", "image/png", "inline; filename=b.jpg"},
		"lie.png":                  {"<script>alert(1)</script>", "image/png", "application/octet-stream", "attachment; filename=lie.png"},
		"page.html":                {"<!DOCTYPE html><script>alert(1)</script>", "text/html", "application/octet-stream", "attachment; filename=page.html"},
		"draw.svg":                 {`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`, "image/svg+xml", "application/octet-stream", "attachment; filename=draw.svg"},
		"x.xhtml":                  {`<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"/>`, "application/xhtml+xml", "application/octet-stream", "attachment; filename=x.xhtml"},
		"run.js":                   {"alert(1)", "text/javascript", "application/octet-stream", "attachment; filename=run.js"},
		"a.pdf":                    {"%PDF-1.7", "application/pdf", "application/pdf", "attachment; filename=a.pdf"},
		"t.txt":                    {"<b>", "text/plain", "text/plain; charset=utf-8", "attachment; filename=t.txt"},
		"":                         {"?", "", "application/octet-stream", "attachment; filename=file"},
		"ü \"x\"\r\nSet-Cookie: a": {"?", "a/b\r\nX: y", "application/octet-stream", "attachment; filename*=utf-8''%C3%BC%20%22x%22%0D%0ASet-Cookie%3A%20a"},
	} {
		ref := blobPrefix + "f" + base64.RawURLEncoding.EncodeToString([]byte(name))
		blobs.files[ref] = []byte(c.data)
		w.tables.had[[2]string{id, ref}] = [2]string{name, c.said}
		resp := w.get(fileURL(id, ref))
		body, err := io.ReadAll(resp.Body)
		h := resp.Header
		if err != nil || resp.StatusCode != http.StatusOK || string(body) != c.data || h.Get("Content-Type") != c.kind || h.Get("Content-Disposition") != c.disposition {
			t.Errorf("%q: %d %q as %q, %q, %v", name, resp.StatusCode, body, h.Get("Content-Type"), h.Get("Content-Disposition"), err)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") || strings.Contains(h.Get("Content-Security-Policy"), "script-src") ||
			h.Get("Cross-Origin-Resource-Policy") != "same-origin" || h.Get("Set-Cookie") != "" || h.Get("X") != "" {
			t.Errorf("%q: headers %v", name, h)
		}
	}
}

func TestOnlyFilesOfTheSessionAreServedAndOnlyWithTheToken(t *testing.T) {
	w := newWorld(t)
	ref := blobPrefix + strings.Repeat("a", 64)
	w.opt.Blobs = &fakeBlobs{files: map[string][]byte{ref: []byte("x"), blobPrefix + "b": []byte("y")}}
	w.restart()
	mine, other := w.newSession(), w.newSession()
	w.tables.had[[2]string{mine, ref}] = [2]string{"a", ""}
	w.tables.had[[2]string{mine, blobPrefix + "gone"}] = [2]string{"a", ""}
	for path, want := range map[string]int{
		fileURL(mine, ref):                             http.StatusOK,
		fileURL(other, ref):                            http.StatusNotFound,
		fileURL("nobody", ref):                         http.StatusNotFound,
		fileURL(mine, blobPrefix+"b"):                  http.StatusNotFound,
		fileURL(mine, blobPrefix+"gone"):               http.StatusNotFound,
		"/sessions/" + mine + "/files/..%2f..%2ftoken": http.StatusNotFound,
	} {
		if got := w.get(path).StatusCode; got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	for name, headers := range map[string][]string{
		"without a token": {"Authorization", ""}, "with another": {"Authorization", "Bearer nope"},
		"for another site's page": {"Origin", "https://evil.example"},
	} {
		if got := w.get(fileURL(mine, ref), headers...).StatusCode; got != http.StatusUnauthorized && got != http.StatusForbidden {
			t.Errorf("%s: %d", name, got)
		}
	}
}

func TestStreamAnnouncesFilesWithoutTheirBytes(t *testing.T) {
	r := newReader(t, cursor{})
	r.state(req, event.StateRunning, "")
	r.output(req, event.BinaryOutput{BinaryID: "c/0", MimeType: "image/png", Filename: "a.png", Blob: blobPrefix + "ab", Bytes: 3, Path: "/w/a.png"})
	r.output(req, event.BinaryOutput{BinaryID: "c/1", MimeType: "a/b", Filename: "b", DataBase64: "c2VjcmV0"})
	var got []event.StreamFilePayload
	for _, f := range r.frames() {
		if f.Event != string(event.StreamFile) {
			continue
		}
		var e event.EnvEvent
		var p event.StreamFilePayload
		if err := json.Unmarshal([]byte(f.Data), &e); err != nil || e.Metadata.TriggerSessionID != sess {
			t.Fatalf("%v: %s", err, f.Data)
		}
		if err := json.Unmarshal(e.Payload, &p); err != nil || strings.Contains(f.Data, "c2VjcmV0") {
			t.Fatalf("%v: %s", err, f.Data)
		}
		got = append(got, p)
	}
	want := []event.StreamFilePayload{
		{RequestID: req, FileID: "c/0", Filename: "a.png", MimeType: "image/png", Bytes: 3, URL: "/sessions/" + sess + "/files/ab", Path: "/w/a.png"},
		{RequestID: req, FileID: "c/1", Filename: "b", MimeType: "a/b"},
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v", got)
	}
}

func TestFilesAreListedWithTheMessagesOfTheirRequests(t *testing.T) {
	w := newWorld(t)
	id := w.newSession()
	w.tables.messages = []session.HistoryMessage{{ID: "m1", RequestID: "web:s:1", Message: chat.Text(chat.User, "hi")}}
	w.tables.files = []session.File{{RequestID: "web:s:1", ID: "c/0", Filename: "a.png", MimeType: "image/png", Bytes: 3, Blob: blobPrefix + "ab"}, {RequestID: "web:s:2", ID: "c/1"}}
	_, body := w.call("GET", "/sessions/"+id+"/messages", "")
	var got struct{ Files []map[string]any }
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Files) != 1 || got.Files[0]["url"] != "/sessions/"+id+"/files/ab" || got.Files[0]["requestId"] != "web:s:1" || got.Files[0]["fileId"] != "c/0" || got.Files[0]["bytes"] != 3.0 {
		t.Errorf("%s", body)
	}
}

func TestFilesOfAPromptBelongToTheSessionWhenItIsAccepted(t *testing.T) {
	w := newWorld(t)
	id := w.newSession()
	status, _, body := w.prompt(id, `{"content":"look","attachments":[{"filename":"a.png","mimeType":"image/png","text":"x"}]}`)
	if status != http.StatusOK {
		t.Fatal(status, body)
	}
	if got := w.tables.had[[2]string{id, "blob:sha256:00"}]; got != [2]string{"a.png", "image/png"} {
		t.Errorf("it has %v", w.tables.had)
	}
}
