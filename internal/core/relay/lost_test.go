package relay_test

import (
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
)

// If the bus loses an output, the rest of the answer comes from the journal. A
// visible part stays.
func TestALostOutputIsRestoredFromTheJournal(t *testing.T) {
	said, aFile := paragraphs(), event.BinaryOutput{BinaryID: "f", Filename: "a.txt", MimeType: "text/plain", DataBase64: "YQ=="}
	for name, c := range map[string]struct {
		// seen is how much people saw before.
		seen     int
		recalled []event.Payload
		// ended says that the end of the output was heard, and only that.
		ended bool
		files int
		want  string
	}{
		"nothing was seen":   {recalled: []event.Payload{event.FinalText{FinalText: said}}, want: said},
		"half of it was":     {seen: len(said) / 2, recalled: []event.Payload{event.FinalText{FinalText: said}}, want: said},
		"with a file":        {recalled: []event.Payload{aFile, event.FinalText{FinalText: said}}, files: 1, want: said},
		"but for its end":    {recalled: []event.Payload{aFile, event.FinalText{FinalText: said}}, ended: true, files: 1, want: said},
		"nothing is to be":   {recalled: []event.Payload{event.FinalText{FinalText: "NO_REPLY", Delivery: "skip"}}, want: ""},
		"control: forgotten": {want: "*(no answer)*"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &platform{maxText: 400}
			play(t, p, func(s *stage) {
				if c.seen > 0 {
					s.say(said[:c.seen])
					time.Sleep(20 * time.Second)
				}
				s.stop()
				s.lost.Store(!c.ended)
				if c.ended {
					s.publish(event.FinalText{FinalText: said})
				}
				s.recalled = c.recalled
				s.publish(event.RequestLifecycle{State: event.StateDone})
				s.start()
				s.finished()
			})
			if got := strings.TrimSpace(whole(p)); got != c.want {
				t.Errorf("seen: %q", got)
			}
			files := 0
			for _, m := range p.seen() {
				files += len(m.Files)
			}
			if files != c.files {
				t.Errorf("%d files were sent, want %d", files, c.files)
			}
		})
	}
}
