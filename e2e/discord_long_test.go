package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// Parts of a long answer that Discord displays differently, or that must not be split.
const (
	saidNames  = "Ask @bob in #lounge, but not `@ada`."
	saidTable  = "| x | long |\n|---|:-:|\n| 1 | 2 |"
	shownTable = "x  long\n─  ────\n1  2"
	wholeLink  = "[what it says](https://example.org/a/page/with/an/address/that/is/rather/long?and=more)"
	lastWords  = "These are the last words."
)

// longText returns an answer that needs several messages: prose, links, mentions, a table, and a
// code block that is larger than a message.
func longText() string {
	var b strings.Builder
	prose := func(from, to int) {
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "This is the sentence number-%d of it. ", i)
			if i%9 == 8 {
				b.WriteString("See " + wholeLink + ".\n\n")
			}
		}
		b.WriteString("\n\n")
	}
	prose(0, 50)
	b.WriteString(saidNames + "\n\n" + saidTable + "\n\n```go\n")
	for i := range 140 {
		fmt.Fprintf(&b, "line_%d := %d\n", i, i)
	}
	b.WriteString("```\n\n")
	prose(50, 70)
	b.WriteString(lastWords)
	return b.String()
}

// withoutFences returns the words of a text without code fences, because splitting a code block
// adds fences.
func withoutFences(text string) []string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "```") {
			kept = append(kept, line)
		}
	}
	return strings.Fields(strings.Join(kept, ""))
}

// The program is killed when some messages of a long answer were sent. In the end, the answer is
// complete, in order, and there once, and the last message contains its end. A part that is too
// large for a message is named.
func TestALongAnswerIsWholeAfterAKill(t *testing.T) {
	effort.SkipDetail(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
			if len(r.Messages[len(r.Messages)-1].Results) == 0 {
				return llmtest.Script{Calls: []llmtest.Call{{ID: "call-1", Name: "attachment_add", Input: `{"path":"big.bin"}`}}}
			}
			// The message that mentions Bob must mention him when it is sent, however slow the
			// model is, because edits do not notify anyone.
			before, after, _ := strings.Cut(longText(), saidTable)
			return llmtest.Script{Text: append([]string{before}, llmtest.Words(saidTable+after)...), Delay: time.Millisecond}
		})
		s, d := onDiscord(t, bus, model.URL)
		if err := os.WriteFile(filepath.Join(s.Workspace(d.General), "big.bin"), make([]byte, 11<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		d.Say(d.General, d.Bob, "hello", discordtest.SayOptions{}) // the bot learns his name from this message
		asked := d.MentionUs(d.General, d.Ada, "tell me everything")
		e2e.Eventually(t, answerWithin, "a few messages are there", func() bool { return len(d.Ours(d.General)) >= 2 })
		d.Kill(s)
		s.Restart()
		if story := s.WaitEnded(e2e.RequestID(d.General, asked), answerWithin); story.State != string(event.StateDone) {
			t.Errorf("ended as %s: %s", story.State, story.Detail)
		}
		e2e.Eventually(t, answerWithin, "everything is shown", func() bool { return leftOver(s) == 0 })

		ours := d.Ours(d.General)
		note := ours[len(ours)-1]
		if !strings.Contains(note.Content, "big.bin was not sent: 11.0 MiB, the limit is 10.0 MiB") {
			t.Errorf("the last message says %q", note.Content)
		}
		ours = ours[:len(ours)-1]
		shown, links, pinged := "", 0, []string(nil)
		for i, m := range ours {
			shown += m.Content + "\n"
			links += strings.Count(m.Content, wholeLink)
			pinged = append(pinged, m.Pings...)
			if len(m.Buttons) > 0 || (m.ReplyTo == asked) != (i == 0) {
				t.Errorf("message %d replies to %q and has %d buttons", i, m.ReplyTo, len(m.Buttons))
			}
		}
		said := strings.Replace(longText(), saidTable, shownTable, 1)
		said = strings.Replace(said, saidNames, "Ask "+d.Bob.Mention()+" in <#"+d.Lounge+">, but not `@ada`.", 1)
		if got, want := withoutFences(shown), withoutFences(said); !slices.Equal(got, want) {
			t.Errorf("%d messages show\n%s\nwant\n%s", len(ours), shown, said)
		}
		if last := ours[len(ours)-1].Content; !strings.HasSuffix(last, lastWords) || len(ours) < 4 {
			t.Errorf("the last of %d messages is %q", len(ours), last)
		}
		if want := strings.Count(said, wholeLink); links != want || !slices.Equal(pinged, []string{d.Bob.ID}) {
			t.Errorf("%d of %d links are whole; it notified %v", links, want, pinged)
		}
	})
}
