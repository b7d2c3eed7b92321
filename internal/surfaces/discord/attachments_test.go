package discord_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/discordtest"
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

// Discord drops the characters of a file name that are not ASCII, and keeps them as the title (reported
// as hermes-agent#46060 and discord.js#11302).
func TestAFileKeepsItsName(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.connected(w.options())
	for _, name := range []string{"Bericht.pdf", "月次報告.pdf", "Отчёт за июль.v2.pdf", "a\u202egnp.pdf"} {
		want := strings.ReplaceAll(name, "\u202e", "_")
		if got := sendFile(w, "look at "+name, discordtest.File{Name: name, Data: []byte("%PDF-1.7")}).Filename; got != want {
			t.Errorf("%q is called %q, want %q", name, got, want)
		}
	}
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

// Slow file downloads must not delay anything else: other messages arrive promptly, in servers and in
// direct messages, and a command is acknowledged at once. The files can follow later.
func TestSlowFilesHoldNothingUp(t *testing.T) {
	for _, slow := range []time.Duration{0, time.Minute} {
		t.Run(fmt.Sprint("each takes ", slow), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, discordtest.Options{Memory: true})
				other := w.server.Channel(w.guild, "other")
				o := w.options()
				o.Interactions = &desk{}
				a, _ := w.connected(o)
				w.knowsCommands()
				w.caughtUp()
				w.server.Fail("GET /cdn", discordtest.Fault{Delay: slow}, 100)
				said := time.Now()
				for i := range 20 {
					w.server.Say(w.channel, w.bob, fmt.Sprint("look ", i), discordtest.SayOptions{Files: []discordtest.File{{Name: "a.txt", Data: []byte("a")}, {Name: "b.txt", Data: []byte("b")}}})
				}
				w.server.Say(other, w.ann, "hello", discordtest.SayOptions{})
				w.answered(w.server.Slash(w.channel, w.ann.ID, "help", nil))
				if took := time.Since(said); took > time.Second {
					t.Errorf("a command was answered after %s", took)
				}
				w.hears("hello")
				if took := time.Since(said); took > 6*time.Second {
					t.Errorf("what was said elsewhere was heard after %s", took)
				}
				_, facts := w.hears("look 19")
				if len(facts.Attachments) != 2 || (facts.Attachments[1].Blob == "") != (slow > 0) {
					t.Fatalf("the last message came with %+v", facts.Attachments)
				}
				w.server.ClearFaults()
				w.server.ExpireFiles()
				if got, err := a.FetchFile(t.Context(), facts.Attachments[1], 100); err != nil || string(got.Data) != "b" {
					t.Errorf("later it is %q (%v)", got.Data, err)
				}
			})
		})
	}
}
