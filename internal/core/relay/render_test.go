package relay_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/relay"
	"lilac/internal/foundation/event"
)

var settings = relay.Settings{MaxText: 2000, MaxFiles: 10, MaxFileBytes: 100, Size: func(b event.BinaryOutput) int64 { return int64(len(b.DataBase64)) }}

func output(events ...event.Payload) (o relay.Output) {
	for range 2 { // every event may come twice
		for _, e := range events {
			o.Apply(e)
		}
	}
	return o
}

func delta(offset int64, text string) event.Payload {
	return event.TextDelta{Delta: text, Offset: offset}
}

func file(id string) event.BinaryOutput { return event.BinaryOutput{BinaryID: id, Filename: id} }

func TestRenderShowsTheOutput(t *testing.T) {
	done := &relay.End{State: event.StateDone}
	no := false
	many := func(n int) (out []event.Payload) {
		for i := range n {
			out = append(out, file(string(rune('a'+i))))
		}
		return out
	}
	for name, c := range map[string]struct {
		output relay.Output
		cuts   []relay.Cut
		end    *relay.End
		made   relay.Made
		want   []relay.View
	}{
		"nothing yet": {},
		"a running answer can be stopped": {
			output: output(delta(0, "Hel"), delta(3, "lo")),
			want:   []relay.View{{Key: "0.0", Text: "Hello", ReplyTo: "5", Stop: true}},
		},
		"a tool is shown before there is text": {
			output: output(event.ToolCallOutput{ToolCallID: "1", Status: event.ToolStart, Display: "bash: `ls` @everyone"}),
			want:   []relay.View{{Key: "0.0", Text: "-# ⏳ bash: ls @\u200beveryone", ReplyTo: "5", Stop: true}},
		},
		"tools stand under the text": {
			output: output(delta(0, "Hello"),
				event.ToolCallOutput{ToolCallID: "1", Status: event.ToolStart, Display: "read"},
				event.ToolCallOutput{ToolCallID: "1", Status: event.ToolEnd, OK: &no},
				event.ToolCallOutput{ToolCallID: "2", Status: event.ToolStart, Display: "bash"}),
			want: []relay.View{{Key: "0.0", Text: "Hello\n\n-# ❌ read\n-# ⏳ bash", ReplyTo: "5", Stop: true}},
		},
		"the end is the text": {
			output: output(delta(0, "Hel"), event.ToolCallOutput{ToolCallID: "1", Status: event.ToolStart, Display: "read"}, event.FinalText{FinalText: "Hello"}),
			end:    done,
			want:   []relay.View{{Key: "0.0", Text: "Hello", ReplyTo: "5"}},
		},
		"a reset takes back": {
			output: func() relay.Output {
				var o relay.Output
				for _, e := range []event.Payload{delta(0, "Hello wrong"), event.TextReset{Offset: 6}, delta(6, "right")} {
					o.Apply(e)
				}
				return o
			}(),
			want: []relay.View{{Key: "0.0", Text: "Hello right", ReplyTo: "5", Stop: true}},
		},
		"a steer moves the answer under it": {
			output: output(delta(0, "before after"), event.OutputAnchor{MessageID: "7", Offset: 7}),
			cuts:   []relay.Cut{{MessageID: "7", Offset: -1, ReplyTo: "7"}},
			want:   []relay.View{{Key: "0.0", Text: "before", ReplyTo: "5"}, {Key: "1.0", Text: "after", ReplyTo: "7", Stop: true}},
		},
		"a steer that was not applied moves nothing": {
			output: output(delta(0, "before after")),
			cuts:   []relay.Cut{{MessageID: "7", Offset: -1, ReplyTo: "7"}},
			want:   []relay.View{{Key: "0.0", Text: "before after", ReplyTo: "5", Stop: true}},
		},
		"an inheriting one stays a reply": {
			output: output(delta(0, "before after"), event.OutputAnchor{MessageID: "7", Offset: 7}),
			cuts:   []relay.Cut{{MessageID: "7", Offset: -1, Inherit: true}},
			want:   []relay.View{{Key: "0.0", Text: "before", ReplyTo: "5"}, {Key: "1.0", Text: "after", ReplyTo: "7", Stop: true}},
		},
		"a cut at nothing said shows nothing there yet": {
			output: output(delta(0, "before"), event.OutputAnchor{MessageID: "7", Offset: 6}),
			cuts:   []relay.Cut{{MessageID: "7", Offset: -1, ReplyTo: "7"}},
			want:   []relay.View{{Key: "0.0", Text: "before", ReplyTo: "5", Stop: true}},
		},
		"a cut behind what was taken back is at the end": {
			output: output(delta(0, "be")),
			cuts:   []relay.Cut{{Offset: 6, ReplyTo: "7"}},
			want:   []relay.View{{Key: "0.0", Text: "be", ReplyTo: "5", Stop: true}},
		},
		"what may become no reply is not shown": {output: output(delta(0, "NO_RE"))},
		"no reply leaves no trace":              {output: output(delta(0, "NO_REPLY"), event.FinalText{FinalText: "NO_REPLY", Delivery: "skip"}), end: done},
		"a stop that needs no words leaves no trace": {
			output: output(event.FinalText{Delivery: "skip"}), end: &relay.End{State: event.StateCancelled, Detail: "The rule ci does nothing more here today."},
		},
		"no reply to what was said meanwhile leaves none either": {
			output: output(event.FinalText{FinalText: "Hello\n\nNO_REPLY"}), end: done,
			want: []relay.View{{Key: "0.0", Text: "Hello", ReplyTo: "5"}},
		},
		"nor before more is said": {
			output: output(event.FinalText{FinalText: " NO_REPLY\n\n\nHello\n\nNO_REPLY\n\nagain"}), end: done,
			want: []relay.View{{Key: "0.0", Text: "Hello\n\nagain", ReplyTo: "5"}},
		},
		"nor where the answer was to go on": {
			output: output(event.OutputAnchor{MessageID: "7", Offset: 5}, event.FinalText{FinalText: "Hello\n\nNO_REPLY"}),
			cuts:   []relay.Cut{{MessageID: "7", Offset: -1, ReplyTo: "7"}}, end: done,
			want: []relay.View{{Key: "0.0", Text: "Hello", ReplyTo: "5"}},
		},
		"what may become none is not shown behind others": {
			output: output(delta(0, "Hello\n\nNO_RE")),
			want:   []relay.View{{Key: "0.0", Text: "Hello", ReplyTo: "5", Stop: true}},
		},
		"nothing is shown of several that are none": {output: output(delta(0, "NO_REPLY\n\nNO"))},
		"it is shown in code": {
			output: output(event.FinalText{FinalText: "```\nx\n\nNO_REPLY\n\ny\n```"}), end: done,
			want: []relay.View{{Key: "0.0", Text: "```\nx\n\nNO_REPLY\n\ny\n```", ReplyTo: "5"}},
		},
		"and within a sentence": {
			output: output(event.FinalText{FinalText: "Hello\n\nNO_REPLY is a word."}), end: done,
			want: []relay.View{{Key: "0.0", Text: "Hello\n\nNO_REPLY is a word.", ReplyTo: "5"}},
		},
		"what begins like it is shown": {
			output: output(delta(0, "NO_RESULTS")),
			want:   []relay.View{{Key: "0.0", Text: "NO_RESULTS", ReplyTo: "5", Stop: true}},
		},
		"a failure is said": {
			output: output(delta(0, "half"), event.FinalText{FinalText: "half"}), end: &relay.End{State: event.StateFailed, Detail: "The model is overloaded."},
			want: []relay.View{{Key: "0.0", Text: "half\n\n⚠️ The model is overloaded.", ReplyTo: "5"}},
		},
		"a stop inside code is said behind it": {
			output: output(event.FinalText{FinalText: "```go\nfunc main() {\n"}), end: &relay.End{State: event.StateCancelled, Detail: "Stopped by @ada."},
			want: []relay.View{{Key: "0.0", Text: "```go\nfunc main() {\n```\n\n⏹️ Stopped by @ada.", ReplyTo: "5"}},
		},
		"a tool inside code, too": {
			output: output(delta(0, "```go\nfunc main() {\n"), event.ToolCallOutput{ToolCallID: "1", Status: event.ToolStart, Display: "read"}),
			want:   []relay.View{{Key: "0.0", Text: "```go\nfunc main() {\n```\n\n-# ⏳ read", ReplyTo: "5", Stop: true}},
		},
		"a stop without text is said": {
			end:  &relay.End{State: event.StateCancelled},
			want: []relay.View{{Key: "0.0", Text: "⏹️ Stopped.", ReplyTo: "5"}},
		},
		"an empty answer is said": {
			output: output(event.FinalText{}), end: done,
			want: []relay.View{{Key: "0.0", Text: "*(no answer)*", ReplyTo: "5"}},
		},
		"early files go with the first message": {
			output: output(file("a"), delta(0, "look")),
			want:   []relay.View{{Key: "0.0", Text: "look", ReplyTo: "5", Stop: true, Files: []event.BinaryOutput{file("a")}}},
		},
		"late files wait for the end": {
			output: output(delta(0, "look"), file("a")), made: relay.Made{Messages: map[string]bool{"0.0": true}},
			want: []relay.View{{Key: "0.0", Text: "look", ReplyTo: "5", Stop: true}},
		},
		"late files follow at the end, ten on a message": {
			output: output(append(many(12), event.FinalText{FinalText: "look"})...), end: done,
			made: relay.Made{Messages: map[string]bool{"0.0": true}, Files: map[string]string{"a": "0.0"}},
			want: []relay.View{
				{Key: "0.0", Text: "look", ReplyTo: "5", Files: []event.BinaryOutput{file("a")}},
				{Key: "files.b", ReplyToKey: "0.0", Files: []event.BinaryOutput{file("b"), file("c"), file("d"), file("e"), file("f"), file("g"), file("h"), file("i"), file("j"), file("k")}},
				{Key: "files.l", ReplyToKey: "0.0", Files: []event.BinaryOutput{file("l")}},
			},
		},
		"a message that showed a tool only stays for its file": {
			output: output(file("a"), event.ToolCallOutput{ToolCallID: "1", Status: event.ToolStart, Display: "bash"}, event.FinalText{FinalText: "NO_REPLY", Delivery: "skip"}),
			end:    done, made: relay.Made{Messages: map[string]bool{"0.0": true}, Files: map[string]string{"a": "0.0"}},
			want: []relay.View{{Key: "0.0", Files: []event.BinaryOutput{file("a")}, Bare: true}},
		},
		"and so does one before a steer at nothing said": {
			output: output(file("a"), event.OutputAnchor{MessageID: "7", Offset: 0}, event.FinalText{FinalText: "new way"}),
			cuts:   []relay.Cut{{MessageID: "7", Offset: -1, ReplyTo: "7"}}, end: done,
			made: relay.Made{Messages: map[string]bool{"0.0": true}, Files: map[string]string{"a": "0.0"}},
			want: []relay.View{{Key: "1.0", Text: "new way", ReplyTo: "7"}, {Key: "0.0", Files: []event.BinaryOutput{file("a")}, Bare: true}},
		},
		"a file that is too large is named": {
			output: output(event.BinaryOutput{BinaryID: "a", Filename: "big.bin", DataBase64: strings.Repeat("x", 2048)}, event.FinalText{FinalText: "look"}), end: done,
			want: []relay.View{
				{Key: "0.0", Text: "look", ReplyTo: "5"},
				{Key: "large.0", Text: "-# 📎 big.bin was not sent: 2.0 KiB, the limit is 100 bytes.", ReplyToKey: "0.0"},
			},
		},
		"a table is drawn": {
			output: output(event.FinalText{FinalText: "a\n| x | long |\n|---|:-:|\n| 1 | 2 |\nb"}), end: done,
			want: []relay.View{{Key: "0.0", Text: "a\n```\nx  long\n─  ────\n1  2\n```\nb", ReplyTo: "5"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := relay.Render(c.output, "5", c.cuts, c.end, c.made, settings)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestTheAnswerBeginsWithAMention(t *testing.T) {
	s := settings
	s.Mention = "7"
	s.Rewrite = func(text string) (string, []string) { return strings.ReplaceAll(text, "@ann", "<@1>"), []string{"1"} }
	done := &relay.End{State: event.StateDone}
	for name, c := range map[string]struct {
		output relay.Output
		cuts   []relay.Cut
		end    *relay.End
		want   []relay.View
	}{
		"nothing yet": {},
		"no answer":   {output: output(event.FinalText{FinalText: "NO_REPLY", Delivery: "skip"}), end: done},
		"a tool is shown before there is text": {
			output: output(event.ToolCallOutput{ToolCallID: "1", Status: event.ToolStart, Display: "bash"}),
			want:   []relay.View{{Key: "0.0", Text: "<@7>\n\n-# ⏳ bash", Users: []string{"7"}, Stop: true}},
		},
		"a text":          {output: output(event.FinalText{FinalText: "Ask @ann."}), end: done, want: []relay.View{{Key: "0.0", Text: "<@7> Ask <@1>.", Users: []string{"1", "7"}}}},
		"a block of code": {output: output(event.FinalText{FinalText: "```\nx\n```"}), end: done, want: []relay.View{{Key: "0.0", Text: "<@7>\n```\nx\n```", Users: []string{"7"}}}},
		"only the first message": {
			output: output(delta(0, "one two"), event.FinalText{FinalText: "one two"}), cuts: []relay.Cut{{Offset: 4, ReplyTo: "9"}}, end: done,
			want: []relay.View{{Key: "0.0", Text: "<@7> one", Users: []string{"7"}}, {Key: "1.0", Text: "two", ReplyTo: "9"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, relay.Render(c.output, "", c.cuts, c.end, relay.Made{}, s)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestNamesAreRewrittenInWholeTexts(t *testing.T) {
	s := settings
	s.Rewrite = func(text string) (string, []string) {
		return strings.ReplaceAll(text, "@ann", "<@1>"), []string{"1"}
	}
	long := strings.Repeat("word ", 360) // the second message has the mention
	got := relay.Render(output(event.FinalText{FinalText: long + "@ann"}), "", nil, &relay.End{State: event.StateDone}, relay.Made{}, s)
	if len(got) != 2 || len(got[0].Users) != 0 || !cmp.Equal(got[1].Users, []string{"1"}) || !strings.HasSuffix(got[1].Text, "<@1>") {
		t.Errorf("shown %+v", got)
	}
}

func TestAGrowingTextIsCutAtTheSamePlaces(t *testing.T) {
	text := strings.Repeat("Some words of a sentence. ", 300)
	final := relay.Render(output(event.FinalText{FinalText: text}), "", nil, &relay.End{State: event.StateDone}, relay.Made{}, settings)
	for n := 100; n < len(text); n += 777 {
		views := relay.Render(output(delta(0, text[:n])), "", nil, nil, relay.Made{}, settings)
		for i, v := range views[:len(views)-1] {
			if v.Text != final[i].Text {
				t.Fatalf("with %d bytes message %d shows %q, at the end %q", n, i, v.Text, final[i].Text)
			}
		}
	}
}

// Files that are small enough individually may be too large for one message.
func TestTheFilesOfAMessageRespectItsSizeLimit(t *testing.T) {
	s := settings
	s.MaxMessageBytes = 150
	sized := func(id string) event.BinaryOutput {
		return event.BinaryOutput{BinaryID: id, Filename: id, DataBase64: strings.Repeat("x", 60)}
	}
	o := relay.Output{Text: "look", Binaries: []event.BinaryOutput{sized("a"), sized("b"), sized("c"), sized("d"), sized("e")}, Final: true}
	got := map[string]int{}
	for _, v := range relay.Render(o, "5", nil, &relay.End{State: event.StateDone}, relay.Made{}, s) {
		got[v.Key] = len(v.Files)
	}
	if diff := cmp.Diff(map[string]int{"0.0": 2, "files.c": 2, "files.e": 1}, got); diff != "" {
		t.Error(diff)
	}
}

// Whatever is said while whatever tools run, and wherever it is steered: no
// message is too long or empty, and in the end the messages hold the text.
func FuzzWhatIsShownHoldsWhatWasSaid(f *testing.F) {
	f.Add("Hello. "+strings.Repeat("word ", 900), "bash: ls", uint16(700), true)
	f.Add("```go\n"+strings.Repeat("x := 1\n", 600)+"```\nend", strings.Repeat("😀", 80), uint16(30), false)
	f.Add(strings.Repeat("@", 500)+strings.Repeat("\u202e\u05d0", 1200), strings.Repeat("@", 80), uint16(1), true)
	f.Add(strings.Repeat("x", 1750), strings.Repeat("😀", 80), uint16(1750), false) // fits only beside lines that are measured
	f.Fuzz(func(t *testing.T, text, tool string, at uint16, mention bool) {
		text, tool = strings.ToValidUTF8(text, "?"), strings.ToValidUTF8(tool, "?")
		if strings.Contains(text, "|") || strings.HasPrefix("NO_REPLY", strings.TrimSpace(text)) || strings.Contains(text, "NO_REPLY") {
			t.Skip() // tables are drawn, and nothing is said of nothing
		}
		s := settings
		if mention {
			s.Mention = "12345678901234567890"
		}
		cut := min(int(at), len(text))
		for cut > 0 && cut < len(text) && !utf8.RuneStart(text[cut]) {
			cut--
		}
		var o relay.Output
		check := func(views []relay.View) (joined string) {
			for _, v := range views {
				if n := len(utf16.Encode([]rune(v.Text))); n > s.MaxText {
					t.Fatalf("message %s has %d units", v.Key, n)
				}
				if strings.TrimSpace(v.Text) == "" {
					t.Fatalf("message %s shows nothing", v.Key)
				}
				joined += v.Text
			}
			return joined
		}
		for i := range 4 {
			o.Apply(event.ToolCallOutput{ToolCallID: fmt.Sprint(i), Status: event.ToolStart, Display: tool})
		}
		o.Apply(event.TextDelta{Delta: text[:cut]})
		check(relay.Render(o, "5", nil, nil, relay.Made{}, s))
		o.Apply(event.OutputAnchor{MessageID: "7", Offset: int64(cut)})
		o.Apply(event.TextDelta{Delta: text[cut:], Offset: int64(cut)})
		cuts := []relay.Cut{{MessageID: "7", Offset: -1, ReplyTo: "7"}}
		check(relay.Render(o, "5", cuts, nil, relay.Made{}, s))
		o.Apply(event.FinalText{FinalText: text})
		joined := check(relay.Render(o, "5", cuts, &relay.End{State: event.StateDone}, relay.Made{}, s))
		for _, word := range strings.Fields(text) { // where code is cut its fence comes in between
			if len(word) < 100 && !strings.ContainsAny(word, "`~") && !strings.Contains(text[max(0, cut-len(word)):min(len(text), cut+len(word))], word) && strings.Count(joined, word) < strings.Count(text, word) {
				t.Fatalf("%q is said %d times and shown %d times", word, strings.Count(text, word), strings.Count(joined, word))
			}
		}
	})
}
