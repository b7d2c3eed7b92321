package discord_test

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/surfaces/discord"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/effort"
)

func say(w *world, text, nonce string) surface.Send {
	return surface.Send{ChannelID: w.channel, Content: surface.Content{Text: text}, Nonce: nonce}
}

func TestWhatIsSentIsThereOnceAsItWasMeant(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	a, _ := w.connected(w.options())
	asked := w.server.Say(w.channel, w.ann, "hello", discordtest.SayOptions{})
	s := say(w, "hi", "act-1")
	s.ReplyTo, s.Buttons = asked, []surface.Button{{ID: "stop:r", Label: "Stop", Danger: true}}
	s.Files = []surface.File{{Name: "a\".txt", Data: []byte("x")}}
	first, err := a.Send(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := a.Send(t.Context(), s)
	if err != nil || again.ID != first.ID {
		t.Errorf("sent again: %v, %v", again.ID, err)
	}
	ours := w.server.Ours(w.channel)
	if len(ours) != 1 || ours[0].ReplyTo != asked || len(ours[0].Buttons) != 1 || len(ours[0].Attachments) != 1 || len(ours[0].Pings) != 0 {
		t.Fatalf("there is %+v", ours)
	}
	if err := a.Edit(t.Context(), first.Ref(), surface.Content{Text: "hi, Ann"}); err != nil {
		t.Fatal(err)
	}
	if m, _ := w.server.Message(w.channel, first.ID); m.Content != "hi, Ann" || len(m.Buttons) != 0 || !m.NoPreviews {
		t.Errorf("after the edit: %+v", m)
	}
	large := say(w, "", "act-3") // each file is small enough, but the total exceeds the limit of one file
	large.Files = []surface.File{{Name: "a.bin", Data: make([]byte, 6<<20)}, {Name: "b.bin", Data: make([]byte, 6<<20)}}
	if _, err := a.Send(t.Context(), large); err != nil {
		t.Errorf("two large files: %v", err)
	}
	gone := say(w, "to nobody", "act-2")
	gone.ReplyTo = "1234567890"
	if _, err := a.Send(t.Context(), gone); err != nil {
		t.Errorf("a reply to a message that is gone: %v", err)
	}
	if err := a.Delete(t.Context(), first.Ref()); err != nil {
		t.Fatal(err)
	}
	if err := a.Typing(t.Context(), w.channel); err != nil {
		t.Error(err)
	}
	if err := a.React(t.Context(), event.MessageRef{ChannelID: w.channel, MessageID: asked}, "👍"); err != nil {
		t.Error(err)
	}
	if got, err := a.Reactions(t.Context(), event.MessageRef{ChannelID: w.channel, MessageID: asked}); err != nil || len(got) != 1 || !got[0].Mine {
		t.Errorf("reactions: %v, %v", got, err)
	}
}

func TestWhatDiscordRefusesHasAKind(t *testing.T) {
	synctest.Test(t, refusals)
}

func refusals(t *testing.T) {
	w := newWorld(t, discordtest.Options{Memory: true})
	a, _ := w.connected(w.options())
	sent, err := a.Send(t.Context(), say(w, "hi", ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		fault discordtest.Fault
		send  fault.Kind
		edit  fault.Kind
	}{
		{discordtest.MissingAccess, fault.Denied, fault.Denied},
		{discordtest.MissingPermissions, fault.Denied, fault.Denied},
		{discordtest.UnknownChannel, fault.NotFound, fault.NotFound},
		{discordtest.UnknownMessage, fault.NotFound, fault.NotFound},
		{discordtest.OldEdits, fault.Conflict, fault.Conflict},
		{discordtest.Fault{Status: http.StatusServiceUnavailable}, fault.Unavailable, fault.Unavailable},
		// A proxy answers for a server that is starting. That does not mean that the message is gone, or
		// that the bot may not write.
		{discordtest.Fault{Status: http.StatusNotFound, Page: "404 page not found"}, fault.Unavailable, fault.Unavailable},
		{discordtest.Fault{Status: http.StatusNotFound, Message: "404: Not Found"}, fault.Unavailable, fault.Unavailable},
		{discordtest.Fault{Status: http.StatusForbidden, Page: "<html>Access denied</html>"}, fault.Unavailable, fault.Unavailable},
		// So does the network in front of Discord, also as JSON (reported as discord-api-docs#6473).
		{discordtest.Fault{Status: http.StatusForbidden, Page: `{"message": "internal network error", "code": 40333}`}, fault.Unavailable, fault.Unavailable},
		{discordtest.BadGateway, fault.Timeout, fault.Timeout},
		{discordtest.CutAfter, fault.Timeout, fault.Timeout},
	} {
		w.server.FailNext("POST /channels/{channel}/messages", c.fault)
		if _, err := a.Send(t.Context(), say(w, "more", "")); fault.KindOf(err) != c.send {
			t.Errorf("sending into %+v: %v", c.fault, err)
		}
		w.server.FailNext("PATCH", c.fault)
		if err := a.Edit(t.Context(), sent.Ref(), surface.Content{Text: "edited"}); fault.KindOf(err) != c.edit {
			t.Errorf("editing into %+v: %v", c.fault, err)
		}
		w.server.ClearFaults()
		time.Sleep(5 * time.Minute) // by then, the adapter retries what was refused
	}
	for _, f := range []discordtest.Fault{{RetryAfter: time.Second}, {RetryAfter: time.Second, Global: true}, {RetryAfter: time.Second, Shared: true}} {
		w.server.FailNext("PATCH", f)
		if err := a.Edit(t.Context(), sent.Ref(), surface.Content{Text: "after a pause"}); err != nil {
			t.Errorf("a 429 that passes, %+v: %v", f, err)
		}
	}
	// Messages in an archived thread cannot be edited. A new message unarchives the thread.
	thread := w.server.Thread(w.channel, "thread")
	inThread := say(w, "hi", "")
	inThread.ChannelID = thread
	old, err := a.Send(t.Context(), inThread)
	if err != nil {
		t.Fatal(err)
	}
	w.server.Archive(thread)
	if err := a.Edit(t.Context(), old.Ref(), surface.Content{Text: "edited"}); fault.KindOf(err) != fault.Conflict {
		t.Errorf("editing in an archived thread: %v", err)
	}
	if _, err := a.Send(t.Context(), inThread); err != nil {
		t.Errorf("writing into an archived thread: %v", err)
	}
	if err := a.Edit(t.Context(), old.Ref(), surface.Content{Text: "edited"}); err != nil {
		t.Errorf("editing in a thread that is active again: %v", err)
	}
	w.server.Deny(w.channel, w.server.Self().ID, discordtest.ReadMessageHistory)
	reply := say(w, "x", "")
	reply.ReplyTo = sent.ID
	if m, err := a.Send(t.Context(), reply); err != nil || m.Text != "x" || m.ReplyTo != "" {
		t.Errorf("a reply without Read Message History must be sent without the reference: %+v, %v", m, err)
	}
	w.server.Permit(w.channel, w.server.Self().ID, discordtest.ReadMessageHistory)
	time.Sleep(5 * time.Minute)
	// Somebody asks about a system message, to which nobody can reply.
	reply.ReplyTo = w.server.Say(w.channel, w.ann, "", discordtest.SayOptions{Rich: discordtest.Rich{System: 7}})
	if m, err := a.Send(t.Context(), reply); err != nil || m.Text != "x" || m.ReplyTo != "" {
		t.Errorf("a reply to a system message must be sent without the reference: %+v, %v", m, err)
	}
	for name, s := range map[string]surface.Send{
		"too long":     say(w, strings.Repeat("😀", 1001), ""),
		"empty":        say(w, " \n", ""),
		"a long nonce": say(w, "x", strings.Repeat("n", 26)),
	} {
		if _, err := a.Send(t.Context(), s); fault.KindOf(err) != fault.TooLarge && fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	elsewhere := say(w, "x", "")
	elsewhere.ChannelID = w.server.Channel(w.server.Guild("elsewhere"), "general")
	if _, err := a.Send(t.Context(), elsewhere); fault.KindOf(err) != fault.Denied {
		t.Errorf("into a channel that is not allowed: %v", err)
	}
}

func TestAMessageIsFoundByItsNonce(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	a, stop := w.connected(w.options())
	w.server.FailNext("POST /channels/{channel}/messages", discordtest.CutAfter)
	if _, err := a.Send(t.Context(), say(w, "hi", "act-1")); fault.KindOf(err) != fault.Timeout {
		t.Fatal(err)
	}
	w.hears("hi")
	stop()
	a, _ = w.connected(w.options()) // the sent message survives a restart
	m, found, err := a.FindNonce(t.Context(), w.channel, "act-1", time.Now().Add(-time.Minute))
	if err != nil || !found || m.Text != "hi" || !m.FromSelf {
		t.Errorf("found %+v, %v, %v", m, found, err)
	}
	if _, found, err := a.FindNonce(t.Context(), w.channel, "act-2", time.Now().Add(-time.Minute)); err != nil || found {
		t.Errorf("what was never sent: %v, %v", found, err)
	}
}

// planned is a table with one message that is about to be sent.
type planned struct {
	discord.SendTable
	send *surface.Send
}

func (p *planned) PlannedSend(q db.Queryer, channelID, nonce string) (surface.Send, error) {
	if p.send == nil {
		return p.SendTable.PlannedSend(q, channelID, nonce)
	}
	return *p.send, nil
}

func TestAMessageThatNobodyToldOfIsFoundInTheHistory(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	o := w.options()
	plan := &planned{SendTable: o.Tables.Sends}
	o.Tables.Sends = plan
	a, stop := w.connected(o)
	stop() // so that the gateway does not deliver the message
	s := say(w, "hi there", "act-1")
	w.server.FailNext("POST /channels/{channel}/messages", discordtest.CutAfter)
	if _, err := a.Send(t.Context(), s); fault.KindOf(err) != fault.Timeout {
		t.Fatal(err)
	}
	find := func() bool {
		m, found, err := a.FindNonce(t.Context(), w.channel, "act-1", time.Now().Add(-time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return found && m.Text == "hi there"
	}
	if find() {
		t.Error("it was found without its nonce and without a plan: the test shows nothing")
	}
	plan.send = &s
	if !find() {
		t.Error("what was planned is not found in the history")
	}
}

func TestASecondProgramOnTheSameTokenIsWarnedOf(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	a, _ := w.connected(w.options())
	if _, err := a.Send(t.Context(), say(w, "ours", "act-1")); err != nil {
		t.Fatal(err)
	}
	w.hears("ours")
	if got := w.log.String(); strings.Contains(got, "another program") {
		t.Fatalf("our own message: %s", got)
	}
	w.server.Say(w.channel, w.server.Self(), "theirs", discordtest.SayOptions{})
	w.hears("theirs")
	if got := w.log.String(); !strings.Contains(got, "another program uses the same Discord token") {
		t.Errorf("it logged %q", got)
	}
}

// streams edits 60 messages in 20 channels for some seconds of fake time. It returns the number of
// 429 responses and the number of edits.
func streams(t *testing.T, edit func(w *world, a *discord.Adapter) func(ref event.MessageRef, text string)) (refused, edits int) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, discordtest.Options{Memory: true})
		a, _ := w.connected(w.options())
		do := edit(w, a)
		var messages []event.MessageRef
		for i := range 20 {
			channel := w.server.Channel(w.guild, fmt.Sprintf("c%d", i))
			for range 3 {
				m, err := a.Send(t.Context(), surface.Send{ChannelID: channel, Content: surface.Content{Text: "…"}})
				if err != nil {
					t.Fatal(err)
				}
				messages = append(messages, m.Ref())
			}
		}
		var all sync.WaitGroup
		lasts := 8 * time.Second
		if long() {
			lasts = time.Minute
		}
		end := time.Now().Add(lasts)
		for i, ref := range messages {
			all.Go(func() {
				for n := 0; time.Now().Before(end); n++ {
					do(ref, fmt.Sprintf("%d %d", i, n))
					time.Sleep(1200 * time.Millisecond)
				}
			})
		}
		all.Wait()
		perSecond := map[int64]int{}
		for _, r := range w.server.Requests() {
			perSecond[r.At.Unix()]++
			switch {
			case r.Status == http.StatusTooManyRequests:
				refused++
			case strings.HasPrefix(r.Route, "PATCH"):
				edits++
			}
		}
		for second, n := range perSecond {
			if n > 50 && refused == 0 {
				t.Errorf("%d requests in the second %d", n, second)
			}
		}
		if refused > 0 {
			w.server.TakeViolations()
		}
	})
	return refused, edits
}

func TestSixtyStreamsKeepDiscordsLimits(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel() // it waits most of the time
	refused, edits := streams(t, func(w *world, a *discord.Adapter) func(event.MessageRef, string) {
		return func(ref event.MessageRef, text string) {
			if err := a.Edit(w.t.Context(), ref, surface.Content{Text: text}); err != nil {
				w.t.Error(err)
			}
		}
	})
	if refused != 0 || edits < 100 {
		t.Errorf("%d of %d edits were refused", refused, edits)
	}
	// The same edits by a client without a rate limiter.
	refused, _ = streams(t, func(w *world, _ *discord.Adapter) func(event.MessageRef, string) {
		client := w.options().HTTP
		return func(ref event.MessageRef, text string) {
			r, err := http.NewRequest(http.MethodPatch, w.server.APIURL+"/channels/"+ref.ChannelID+"/messages/"+ref.MessageID,
				strings.NewReader(fmt.Sprintf(`{"content":%q,"allowed_mentions":{"parse":[]}}`, text)))
			if err != nil {
				w.t.Error(err)
				return
			}
			r.Header.Set("Authorization", "Bot "+discordtest.DefaultToken)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("User-Agent", "DiscordBot (https://example.org, 1)")
			response, err := client.Do(r)
			if err != nil {
				w.t.Error(err)
				return
			}
			_ = response.Body.Close()
		}
	})
	if refused == 0 {
		t.Error("without a limiter nothing was refused: the test shows nothing")
	}
}

// payload is the part of a message that says whom it may notify.
type payload struct {
	Content  string
	Mentions *struct {
		Parse []string `json:"parse"`
		Users []string `json:"users"`
		Roles []string `json:"roles"`
		Reply bool     `json:"replied_user"`
	} `json:"allowed_mentions"`
}

// decodePayload decodes a message body in any of the formats that the adapter sends.
func decodePayload(r *http.Request) (p payload, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return p, err
	}
	if kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "multipart/form-data" {
		part, err := multipart.NewReader(strings.NewReader(string(body)), params["boundary"]).NextPart()
		if err != nil {
			return p, err
		}
		if body, err = io.ReadAll(part); err != nil {
			return p, err
		}
	}
	return p, json.Unmarshal(body, &p)
}

func FuzzNothingThatGoesOutCanPingWhomItShouldNot(f *testing.F) {
	f.Add("hello @everyone <@&1> <@2> @here", "2", "file")
	f.Add("secret <@!3>", "everyone", "")
	f.Add("", "", "\";x=\"\r\n")
	f.Fuzz(func(t *testing.T, text, ping, file string) {
		var got []payload
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			p, err := decodePayload(r)
			if err != nil {
				t.Errorf("a body that cannot be read: %v", err)
			}
			got = append(got, p)
			fmt.Fprint(rw, `{"id":"9","channel_id":"7"}`)
		}))
		defer server.Close()
		a := discord.New(discord.Options{
			Config: discord.Config{Token: "t", APIURL: server.URL, Allowed: discord.Allowed{AllowedChannelIDs: []string{"7"}}},
			Scrub:  func(s string) string { return strings.ReplaceAll(s, "secret", "***") },
		})
		s := surface.Send{ChannelID: "7", Content: surface.Content{Text: text, PingUsers: []string{ping}}}
		if file != "" {
			s.Files = []surface.File{{Name: file, Data: []byte("x")}}
		}
		_, _ = a.Send(t.Context(), s)                                                        // a refusal is fine
		_ = a.Edit(t.Context(), event.MessageRef{ChannelID: "7", MessageID: "9"}, s.Content) // a refusal is fine
		for _, p := range got {
			if p.Mentions == nil || p.Mentions.Parse == nil || len(p.Mentions.Parse) != 0 || len(p.Mentions.Roles) != 0 || p.Mentions.Reply {
				t.Fatalf("it may ping: %+v", p)
			}
			if slices.ContainsFunc(p.Mentions.Users, func(u string) bool { return u != ping }) {
				t.Fatalf("it may ping %v", p.Mentions.Users)
			}
			if strings.Contains(p.Content, "secret") {
				t.Fatalf("a secret went out: %q", p.Content)
			}
		}
	})
}

func TestAMessageOfTheFakeThatMayPingIsAViolation(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	r, err := http.NewRequest(http.MethodPost, w.server.APIURL+"/channels/"+w.channel+"/messages", strings.NewReader(`{"content":"@everyone"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bot "+discordtest.DefaultToken)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "DiscordBot (https://example.org, 1)")
	response, err := w.options().HTTP.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if len(w.server.TakeViolations()) == 0 {
		t.Error("a message without allowed_mentions is no violation: the tests of writing show nothing")
	}
}

// Previews of the links in an answer are shown only where the operator wants them.
func TestLinkPreviewsAreASetting(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	o := w.options()
	o.LinkPreviews = func() bool { return true }
	a, _ := w.connected(o)
	m, err := a.Send(t.Context(), say(w, "https://example.org", "act-1"))
	if err != nil {
		t.Fatal(err)
	}
	if shown, _ := w.server.Message(w.channel, m.ID); shown.NoPreviews {
		t.Error("the previews are suppressed")
	}
}
