package callables_test

import (
	"encoding/json"
	"strings"
	"testing"

	"lilac/internal/core/surface"
	"lilac/internal/serve/callables"
	"lilac/internal/serve/toolserver"
	"lilac/internal/testkit/effort"
)

// What each caller is answered. A want that begins with ! must not be there.
func TestWhoMayDoWhatWhere(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name, id, input string
		who             toolserver.Grant
		want            []string
	}{
		{"sessions of a channel", "surface.sessions.list", `{}`, inOps, []string{`"channelId":"10"`, `"guildId":"1"`, `"token":"Ops"`, `"kind":"channel"`, `!"12"`, `!"20"`, `!w1`}},
		{"sessions of a private one", "surface.sessions.list", `{}`, inDM, []string{`"20"`, `"kind":"dm"`, `"10"`, `!w1`}},
		{"sessions of the page", "surface.sessions.list", `{}`, onWeb, []string{`"w1"`, `"title":"of w1"`, `!w2`, `!"20"`}},
		{"its own", "surface.messages.list", `{}`, inOps, []string{`"messageId":"100"`, "the release @ann", `"replyToMessageId":"100"`, `"self":true`}},
		{"by the alias", "surface.messages.list", `{"sessionId":"#OPS"}`, onWeb, []string{`"100"`}},
		{"by the alias without #", "surface.messages.list", `{"session-id":"ops"}`, onWeb, []string{`"100"`}},
		{"by the mention", "surface.messages.list", `{"sessionId":"<#10>"}`, onWeb, []string{`"100"`}},
		{"by the id as a number", "surface.messages.list", `{"sessionId":10,"limit":"1"}`, onWeb, []string{`"messageId":"101"`, `!"messageId":"100"`}},
		{"older ones", "surface.messages.list", `{"before":"101"}`, inOps, []string{`"100"`, `!"101"`}},
		{"an alias of nobody", "surface.messages.list", `{"sessionId":"#opps"}`, inOps, []string{"not_found", "Did you mean #ops"}},
		{"a channel that is closed", "surface.messages.list", `{"sessionId":"#secret"}`, inOps, []string{"denied", "allowedChannelIds"}},
		{"a private one of others", "surface.messages.list", `{"sessionId":"20"}`, inOps, []string{"denied", "private"}},
		{"a private one itself", "surface.messages.list", `{}`, inDM, []string{"a private release"}},
		{"a channel nobody has heard of", "surface.messages.list", `{"sessionId":"11"}`, inOps, []string{"not_found", "Nothing is known"}},
		{"a conversation of the page", "surface.messages.list", `{}`, onWeb, []string{"on the page of w1", `"role":"user"`}},
		{"a conversation of the terminal", "surface.messages.list", `{}`, inTerminal, []string{"on the page of w2"}},
		{"sessions of the terminal", "surface.sessions.list", `{}`, inTerminal, []string{`"w2"`, `"client":"terminal"`, `!w1`}},
		{"another one of the page", "surface.messages.list", `{"sessionId":"w2"}`, onWeb, []string{"denied"}},
		{"the page from a channel", "surface.messages.list", `{"sessionId":"w1"}`, inOps, []string{"denied"}},
		{"one message", "surface.messages.read", `{"messageId":"100"}`, inOps, []string{"the release @ann", `"authorName":"Ann"`}},
		{"one message of the page", "surface.messages.read", `{"messageId":"m-w1"}`, onWeb, []string{"on the page of w1"}},
		{"one of another page", "surface.messages.read", `{"messageId":"m-w2","sessionId":"w2"}`, onWeb, []string{"denied"}},
		{"one that is not there", "surface.messages.read", `{"messageId":"999"}`, inOps, []string{"not_found"}},
		{"without an id", "surface.messages.read", `{}`, inOps, []string{"invalid: \"messageId\" is missing: it must be a string of 1 to 128 characters"}},
		{"everywhere", "surface.messages.search", `{"query":"release"}`, inOps, []string{`"100"`, `!secret`, `!private`, `!page`}},
		{"everywhere from the page", "surface.messages.search", `{"query":"release"}`, onWeb, []string{`"100"`, "page of w1", `!w2`, `!private`}},
		{"in one", "surface.messages.search", `{"query":"release","sessionId":"w1"}`, onWeb, []string{"page of w1", `!"100"`}},
		{"in a closed one", "surface.messages.search", `{"query":"release","sessionId":"12"}`, onWeb, []string{"denied"}},

		{"to a closed one", "surface.messages.send", `{"sessionId":"12","text":"x"}`, inOps, []string{"denied"}},
		{"to an unknown one", "surface.messages.send", `{"sessionId":"#nowhere","text":"x"}`, inOps, []string{"not_found"}},
		{"to a private one of others", "surface.messages.send", `{"sessionId":"20","text":"x"}`, inOps, []string{"denied", "private"}},
		{"to one that is not cached", "surface.messages.send", `{"sessionId":"21","text":"x"}`, inOps, []string{"denied", "private"}},
		{"to the page", "surface.messages.send", `{"text":"x"}`, onWeb, []string{"denied", "shown there by itself"}},
		{"nothing", "surface.messages.send", `{"text":"  "}`, inOps, []string{"invalid"}},
		{"too much", "surface.messages.send", `{"text":"` + strings.Repeat("x", 2001) + `"}`, inOps, []string{"too_large", "2000"}},
		{"edit of a foreign one", "surface.messages.edit", `{"messageId":"100","text":"x"}`, inOps, []string{"denied", "not ours"}},
		{"edit in a closed one", "surface.messages.edit", `{"sessionId":"12","messageId":"120","text":"x"}`, inOps, []string{"denied"}},
		{"deletion of a foreign one", "surface.messages.delete", `{"messageId":"100"}`, inOps, []string{"denied", "not ours"}},
		{"reactions", "surface.reactions.list", `{"messageId":"100"}`, inOps, []string{`"emoji":"👍"`, `"count":2`}},
		{"reactions in a closed one", "surface.reactions.add", `{"sessionId":"12","messageId":"120","emoji":"x"}`, inOps, []string{"denied"}},
		{"reactions on the page", "surface.reactions.list", `{"messageId":"m-w1"}`, onWeb, []string{"denied"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := text(w.call(c.who, c.id, c.input))
			for _, want := range c.want {
				if not, is := strings.CutPrefix(want, "!"); is == strings.Contains(got, strings.TrimPrefix(want, "!")) {
					t.Errorf("%s %s: %q in %s", c.id, c.input, not+want, got)
				}
			}
		})
	}
	if len(w.platform.sent)+len(w.platform.edited)+len(w.platform.deleted)+len(w.platform.reacted) > 0 {
		t.Errorf("what was refused was done: %+v", w.platform)
	}
}

func TestAnOperatorSeesAllAndHasNoSessionOfItsOwn(t *testing.T) {
	w := newWorld(t)
	token, err := w.operators.Create(t.Context(), "laptop", []string{"surface.*", "events.publish"}, "")
	if err != nil {
		t.Fatal(err)
	}
	for input, want := range map[string]string{
		`{"sessionId":"20"}`: "a private release",
		`{"sessionId":"w2"}`: "page of w2",
		`{"sessionId":"12"}`: "denied",
		`{}`:                 "invalid: sessionId is missing",
	} {
		if got := text(w.with(token, "surface.messages.list", input)); !strings.Contains(got, want) {
			t.Errorf("%s: %s", input, got)
		}
	}
	if got := text(w.with(token, "surface.sessions.list", `{}`)); !strings.Contains(got, `"w1"`) || !strings.Contains(got, `"20"`) {
		t.Error(got)
	}
	// It says the same twice when it is told to, unless a key makes it one act.
	for _, input := range []string{`{"sessionId":"10","text":"tick"}`, `{"sessionId":"10","text":"tick"}`, `{"sessionId":"10","text":"a","key":"k"}`, `{"sessionId":"10","text":"b","key":"k"}`} {
		if got := w.with(token, "surface.messages.send", input); got.Error != nil {
			t.Error(text(got))
		}
	}
	if n := len(w.platform.sent); n != 3 {
		t.Errorf("%d messages were sent", n)
	}
	calls, err := w.operators.Calls(t.Context(), 100, 0)
	if err != nil || len(calls) != 13 || calls[0].Operator != "laptop" || calls[0].SessionID != "10" || calls[0].Outcome != "ok" || len(w.records) != 0 {
		t.Errorf("%v, %d records elsewhere: %+v", err, len(w.records), calls)
	}
}

func TestASendIsMadeOnceAndPingsOnlyWhomItNamed(t *testing.T) {
	w := newWorld(t)
	const input = `{"sessionId":"#ops","text":"@ann: see #release-room, <@6> and @everyone","replyToMessageId":"100"}`
	first := w.call(inOps, "surface.messages.send", input)
	again := w.call(inOps, "surface.messages.send", input)
	var one, two callables.Sent
	_ = json.Unmarshal(first.Value, &one)
	_ = json.Unmarshal(again.Value, &two)
	if one.MessageID != "901" || one.SessionID != "10" || two.MessageID != "901" || one.Repeated || !two.Repeated || len(w.platform.sent) != 1 {
		t.Fatalf("%s, %s, %d sent", text(first), text(again), len(w.platform.sent))
	}
	s := w.platform.sent[0]
	if s.Text != "<@5>: see <#11>, <@6> and @everyone" || len(s.PingUsers) != 1 || s.PingUsers[0] != "5" || s.ReplyTo != "100" || s.Nonce == "" {
		t.Errorf("%+v", s)
	}
	// Another key, text, session or request is another act.
	other := inOps
	other.RequestID = "discord:10:2"
	w.call(inOps, "surface.messages.send", `{"text":"one more"}`)
	w.call(inOps, "surface.messages.send", `{"text":"one more","key":"2"}`)
	w.call(inOps, "surface.messages.send", `{"text":"one more","sessionId":"11"}`)
	w.call(other, "surface.messages.send", `{"text":"one more"}`)
	if n := len(w.platform.sent); n != 5 {
		t.Errorf("%d messages were sent", n)
	}
	if got := text(w.call(inOps, "surface.messages.read", `{"messageId":"901"}`)); !strings.Contains(got, "@ann: see #release-room") || !strings.Contains(got, `"self":true`) {
		t.Errorf("what was sent is not known: %s", got)
	}
	if r := w.records[0]; r.SessionID != "#ops" || r.Outcome != toolserver.Started {
		t.Errorf("%+v", r)
	}
	if r := w.records[1]; r.SessionID != "10" || r.Outcome != "ok" || r.Caller.RequestID != "discord:10:1" {
		t.Errorf("%+v", r)
	}
}

func TestASendWithAnUnknownOutcomeIsFoundAndNotRepeated(t *testing.T) {
	effort.SkipSlow(t)
	w := newWorld(t)
	w.platform.unclear = 1
	if got := text(w.call(inOps, "surface.messages.send", `{"text":"once"}`)); !strings.Contains(got, `"messageId":"901"`) || len(w.platform.sent) != 1 {
		t.Errorf("%s, %d sent", got, len(w.platform.sent))
	}
}

func TestOurOwnMessagesAreEditedAndDeleted(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"101", "77"} { // cached, and only on the platform
		if got := w.call(inOps, "surface.messages.edit", `{"messageId":"`+id+`","text":"for @ann"}`); got.Error != nil {
			t.Error(text(got))
		}
	}
	if len(w.platform.edited) != 2 || w.platform.edited[0].Text != "for <@5>" || len(w.platform.edited[0].PingUsers) != 1 {
		t.Errorf("%+v", w.platform.edited)
	}
	if got := text(w.call(inOps, "surface.messages.read", `{"messageId":"101"}`)); !strings.Contains(got, "for @ann") {
		t.Error(got)
	}
	if got := w.call(inOps, "surface.messages.delete", `{"messageId":"101"}`); got.Error != nil || len(w.platform.deleted) != 1 {
		t.Error(text(got))
	}
	if got := text(w.call(inOps, "surface.messages.read", `{"messageId":"101"}`)); !strings.Contains(got, "not_found") {
		t.Error(got)
	}
	w.call(inOps, "surface.reactions.add", `{"messageId":"100","emoji":"👍"}`)
	w.call(inOps, "surface.reactions.remove", `{"messageId":"100","emoji":"👍"}`)
	if got := strings.Join(w.platform.reacted, " "); got != "100👍 -100👍" {
		t.Error(got)
	}
	more := newWorld(t, func(p *callables.Platform) { p.DeleteOthers = true })
	if got := text(more.call(inOps, "surface.messages.edit", `{"messageId":"100","text":"x"}`)); !strings.Contains(got, "denied") {
		t.Error(got)
	}
	if got := more.call(inOps, "surface.messages.delete", `{"messageId":"100"}`); got.Error != nil || len(more.platform.deleted) != 1 {
		t.Error(text(got))
	}
}

func TestWhatAPlatformCannotDoIsSaid(t *testing.T) {
	w := newWorld(t)
	w.platform.can = surface.Capabilities{}
	for id, input := range map[string]string{
		"surface.messages.edit": `{"messageId":"101","text":"x"}`, "surface.messages.delete": `{"messageId":"101"}`,
		"surface.reactions.add": `{"messageId":"101","emoji":"x"}`, "surface.reactions.list": `{"messageId":"101"}`,
		"surface.messages.send": `{"text":"x","replyToMessageId":"101"}`,
	} {
		if got := text(w.call(inOps, id, input)); !strings.Contains(got, "denied: On discord") {
			t.Errorf("%s: %s", id, got)
		}
	}
}

func TestTheAgentPublishesOnlyCustomEventsOfItsOwnSession(t *testing.T) {
	w := newWorld(t)
	token, err := w.operators.Create(t.Context(), "laptop", []string{"*"}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		operator    bool
		input, want string
	}{
		{false, `{"type":"custom.build","payload":{"ok":true},"id":"1"}`, `"duplicate":false`},
		{false, `{"type":"custom.build","payload":{"ok":true},"id":"1"}`, `"duplicate":true`},
		{false, `{"type":"custom.build","sessionId":"10"}`, `"duplicate":false`},
		{false, `{"type":"build"}`, "denied"},
		{false, `{"type":"customs"}`, "denied"},
		{false, `{"type":"user_query"}`, "denied"},
		{false, `{"type":"custom.Build"}`, "invalid"},
		{false, `{"type":"custom.build","sessionId":"w1"}`, "denied"},
		{true, `{"type":"build.done","sessionId":"w2","id":"1"}`, `"duplicate":false`},
		{true, `{"type":"build.done"}`, `"duplicate":false`},
		{true, `{"type":"user_query"}`, "invalid"},
		{true, `{"type":"cmd.request.message"}`, "invalid"},
	} {
		got := ""
		if c.operator {
			got = text(w.with(token, "events.publish", c.input))
		} else {
			got = text(w.call(inOps, "events.publish", c.input))
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.input, got)
		}
	}
	e := w.published[0]
	if e.Metadata.Source != "tool" || e.Metadata.TriggerSessionID != "10" || string(e.Metadata.Extra["request_id"]) != `"discord:10:1"` || string(e.Payload) != `{"ok":true}` {
		t.Errorf("%+v", e)
	}
	if o := w.published[3]; o.Metadata.TriggerSessionID != "w2" || o.ID == e.ID || len(o.Metadata.Extra) != 0 {
		t.Errorf("%+v", o)
	}
}
