package relay_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"lilac/internal/core/relay"
	"lilac/internal/foundation/event"
)

// The rest of an answer that is too long follows as a file, so that nothing of it is lost.
func TestTheRestOfALongAnswerFollowsAsAFile(t *testing.T) {
	s := settings
	s.MaxFiles, s.MaxFileBytes = 10, 1<<20
	for name, text := range map[string]string{
		"words": strings.Repeat("words ", 20_000) + "the end", // the whole text is rendered
		"more":  strings.Repeat("words ", 50_000) + "the end",
	} {
		t.Run(name, func(t *testing.T) {
			o := relay.Output{Text: text, Final: true}
			if running := relay.Render(o, "5", nil, nil, relay.Made{}, s); len(running[len(running)-1].Files) > 0 {
				t.Error("a running answer has the file")
			}
			views := relay.Render(o, "5", nil, &relay.End{State: event.StateDone}, relay.Made{}, s)
			last, note := views[len(views)-1], views[len(views)-2]
			if len(last.Files) != 1 || last.ReplyToKey != note.Key || !strings.Contains(note.Text, "The rest is in the file below") {
				t.Fatalf("%+v behind %q", last, note.Text)
			}
			rest, err := base64.StdEncoding.DecodeString(last.Files[0].DataBase64)
			if err != nil {
				t.Fatal(err)
			}
			var shown strings.Builder
			for _, v := range views[:len(views)-2] {
				shown.WriteString(v.Text + " ")
			}
			if got := strings.Join(strings.Fields(shown.String()+string(rest)), " "); got != text {
				t.Errorf("messages and file have %d bytes of %d, the file ends with %.20q", len(got), len(text), rest[len(rest)-20:])
			}
		})
	}
}

// Files that are added before any text belong to the first message, which is not that of the tool.
func TestFilesThatComeBeforeTheTextGoWithIt(t *testing.T) {
	file := event.BinaryOutput{BinaryID: "a", Filename: "plan.txt", DataBase64: "YQ=="}
	running := event.ToolCallOutput{ToolCallID: "1", Status: event.ToolStart, Name: "attachment_add", Display: "attachment_add plan.txt"}
	for name, wait := range map[string]time.Duration{"at once": 0, "after a while": 5 * time.Second, "late": time.Minute} {
		t.Run(name, func(t *testing.T) {
			p := &platform{}
			play(t, p, func(s *stage) {
				s.publish(running)
				time.Sleep(min(wait, 5*time.Second))
				s.publish(file)
				time.Sleep(wait)
				s.say("Here is the plan.")
				s.end(event.StateDone, "")
			})
			seen := p.seen()
			if len(seen) != 1 || seen[0].Text != "Here is the plan." || len(seen[0].Files) != 1 {
				t.Errorf("seen: %+v", seen)
			}
		})
	}
}

// A model may think for long before it adds a file.
func TestAFileOfASlowModelGoesWithTheText(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		time.Sleep(15 * time.Second)
		s.publish(event.ToolCallOutput{ToolCallID: "1", Status: event.ToolStart, Name: "attachment_add", Display: "attachment_add plan.txt"})
		time.Sleep(5 * time.Second)
		s.publish(event.BinaryOutput{BinaryID: "a", Filename: "plan.txt", DataBase64: "YQ=="})
		time.Sleep(5 * time.Second)
		s.say("Here is the plan.")
		s.end(event.StateDone, "")
	})
	if seen := p.seen(); len(seen) != 1 || seen[0].Text != "Here is the plan." || len(seen[0].Files) != 1 {
		t.Errorf("seen: %+v", seen)
	}
}

// Control: a tool that runs for long without a file is shown.
func TestALongToolIsShownBeforeTheText(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		s.publish(event.ToolCallOutput{ToolCallID: "1", Status: event.ToolStart, Display: "bash make"})
		time.Sleep(5 * time.Second)
		if seen := p.seen(); len(seen) != 0 {
			t.Errorf("after five seconds: %+v", seen)
		}
		time.Sleep(20 * time.Second)
		if seen := p.seen(); len(seen) != 1 || !strings.Contains(seen[0].Text, "bash make") {
			t.Errorf("after a while: %+v", seen)
		}
		s.say("Done.")
		s.end(event.StateDone, "")
	})
}
