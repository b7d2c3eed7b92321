package discord_test

import (
	"bytes"
	"net/http"
	"testing"

	"lilac/internal/discordtest"
	"lilac/internal/fault"
	"lilac/internal/surface"
)

func sendFile(w *world, text string, f discordtest.File) surface.Attachment {
	w.t.Helper()
	w.server.Say(w.channel, w.ann, text, discordtest.SayOptions{Files: []discordtest.File{f}})
	_, facts := w.hears(text)
	if len(facts.Attachments) != 1 {
		w.t.Fatalf("attachments: %+v", facts.Attachments)
	}
	return facts.Attachments[0]
}

func TestAnAddressThatHasExpiredIsRenewedOnce(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	a, _ := w.connected(w.options())
	file := sendFile(w, "look", discordtest.File{Name: "a.pdf", ContentType: "application/pdf", Data: []byte("%PDF-1.7")})
	if got, err := a.FetchFile(t.Context(), file, 100); err != nil || string(got.Data) != "%PDF-1.7" || got.MimeType != "application/pdf" {
		t.Errorf("%q, %v", got, err)
	}
	refreshed := func() (n int) {
		for _, r := range w.server.Requests() {
			if r.Route == "POST /attachments/refresh-urls" {
				n++
			}
		}
		return n
	}
	if refreshed() != 0 {
		t.Error("an address that works was renewed")
	}
	w.server.ExpireFiles()
	if got, err := a.FetchFile(t.Context(), file, 100); err != nil || string(got.Data) != "%PDF-1.7" {
		t.Errorf("after it expired: %q, %v", got.Data, err)
	}
	if n := refreshed(); n != 1 {
		t.Errorf("renewed %d times", n)
	}
	w.server.Fail("GET /cdn", discordtest.Fault{Status: http.StatusNotFound}, 2)
	if _, err := a.FetchFile(t.Context(), file, 100); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a file that is gone: %v", err)
	}
	if n := refreshed(); n != 2 {
		t.Errorf("for a file that is gone the address was renewed %d times, want once more", n-1)
	}
	w.server.ExpireFiles()
	w.server.FailNext("POST /attachments/refresh-urls", discordtest.Fault{Status: http.StatusForbidden})
	if _, err := a.FetchFile(t.Context(), file, 100); err == nil {
		t.Error("it was had without a good address")
	}
}

func TestOnlyFilesOfTheListedHostsAndSizesAreKept(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	o := w.options()
	o.AttachmentBytes = 1000
	_, stop := w.connected(o)
	if f := sendFile(w, "fits", discordtest.File{Name: "a", Data: bytes.Repeat([]byte("a"), 1000)}); f.Blob == "" {
		t.Error("a file of the largest size is not kept")
	}
	if f := sendFile(w, "too large", discordtest.File{Name: "a", Data: bytes.Repeat([]byte("a"), 1001)}); f.Blob != "" {
		t.Error("a file that is too large is kept")
	}
	stop()
	o = w.options()
	o.AttachmentHosts = []string{"cdn.discordapp.com"}
	w.connected(o)
	if f := sendFile(w, "elsewhere", discordtest.File{Name: "a", Data: []byte("a")}); f.Blob != "" {
		t.Error("a file of a host that is not listed is kept")
	}
}
