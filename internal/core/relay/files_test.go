package relay_test

import (
	"testing"
	"time"

	"lilac/internal/foundation/event"
)

// The text of an answer is sent without a refused file. The file is named, because
// the text may refer to it.
func TestARefusedFileIsNamedInTheAnswer(t *testing.T) {
	file := event.BinaryOutput{BinaryID: "a", Filename: "plan.txt", DataBase64: "YQ=="}
	for name, script := range map[string]func(s *stage){
		"with the first message": func(s *stage) {
			s.publish(file)
			s.say("Here is ")
			time.Sleep(5 * time.Second)
			s.say("the plan.")
		},
		"behind the answer": func(s *stage) {
			s.say("Here is the plan.")
			time.Sleep(5 * time.Second)
			s.publish(file)
		},
		"through a restart": func(s *stage) {
			s.publish(file)
			s.say("Here is ")
			time.Sleep(5 * time.Second)
			s.restart()
			s.say("the plan.")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &platform{noFiles: true}
			play(t, p, func(s *stage) {
				script(s)
				s.end(event.StateDone, "")
				if got := s.commands(); len(got) != 0 {
					t.Errorf("the runner was told %v", got)
				}
			})
			seen := p.seen()
			if len(seen) != 2 || seen[0].Text != "Here is the plan." || seen[0].ReplyTo != "5" || seen[1].ReplyTo != seen[0].id ||
				seen[1].Text != "-# 📎 plan.txt was not sent: We may not send files there." {
				t.Errorf("seen: %+v", seen)
			}
		})
	}
}

// Control: in a channel that refuses messages, sending without files fails too.
func TestSendingWithoutFilesDoesNotHelpInAClosedChannel(t *testing.T) {
	p := &platform{denied: true}
	play(t, p, func(s *stage) {
		s.publish(event.BinaryOutput{BinaryID: "a", Filename: "plan.txt", DataBase64: "YQ=="})
		s.say("Here is the plan.")
		s.finished()
		if cancels := s.commands(); len(cancels) != 1 || cancels[0].Type != event.CmdRequestCancel {
			t.Errorf("the runner was told %v", cancels)
		}
	})
}
