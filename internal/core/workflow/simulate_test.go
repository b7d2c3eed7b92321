package workflow_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"lilac/internal/core/workflow"
	"lilac/internal/testkit/effort"
)

// simulated is a world in which commands and replies are late, doubled and out
// of order, the clock jumps, and the program loses what it did not keep.
type simulated struct {
	rand  *rand.Rand
	now   time.Time
	flow  workflow.Workflow
	mail  []workflow.Input // what is on its way
	woken []int
	// posts are the messages that were planned; sent are their ids.
	posts map[string]int
	// forgets makes the control: what was decided is carried out and not kept.
	forgets bool
}

// step lets one thing happen.
func (s *simulated) step() {
	switch n := s.rand.IntN(10); {
	case n < 6 && len(s.mail) > 0:
		i := s.rand.IntN(len(s.mail)) // out of order
		in := s.mail[i]
		again := s.rand.IntN(4) == 0
		if s.decide(in) && !again {
			s.mail = slices.Delete(s.mail, i, i+1)
		}
	case n < 9:
		s.now = s.now.Add(time.Duration(s.rand.IntN(int(2 * time.Hour))))
		s.decide(workflow.Tick{})
	default:
		s.now = s.now.Add(-time.Duration(s.rand.IntN(int(time.Hour))))
		s.decide(workflow.Tick{})
	}
}

// decide is one transaction; it is false if a crash left nothing of it.
func (s *simulated) decide(in workflow.Input) bool {
	next, effects := workflow.Decide(s.flow, in, s.now)
	if s.rand.IntN(8) == 0 && !s.forgets {
		return false
	}
	for _, e := range effects {
		switch e := e.(type) {
		case workflow.Wake:
			s.woken = append(s.woken, e.N)
		case workflow.SendMessage:
			s.posts[e.Task.ID]++
			s.mail = append(s.mail, workflow.Sent{TaskID: e.Task.ID, MessageID: "m-" + e.Task.ID})
			s.mail = append(s.mail, workflow.Reply{Platform: "discord", ChannelID: "20", To: "m-" + e.Task.ID, Message: workflow.HumanMessage{MessageID: "r", UserID: "7"}})
		}
	}
	if !s.forgets || s.rand.IntN(8) > 0 {
		s.flow = next
	}
	return true
}

// run lets a workflow of some tasks live until nothing can happen any more, and
// says what is wrong with how it ended.
func run(seed uint64, forgets bool) (wrong string) {
	s := &simulated{rand: rand.New(rand.NewPCG(seed, 1)), now: begin, posts: map[string]int{}, forgets: forgets}
	var tasks []workflow.Spec
	for i := range 1 + s.rand.IntN(4) {
		id := fmt.Sprint("t", i)
		switch s.rand.IntN(3) {
		case 0:
			tasks = append(tasks, question(id))
		case 1:
			tasks = append(tasks, reply(id, "5", ""))
		default:
			tasks = append(tasks, delay(id, time.Duration(1+s.rand.IntN(5))*time.Hour))
		}
	}
	first := s.rand.IntN(len(tasks) + 1)
	s.mail = append(s.mail, create([]workflow.Completion{"all", "any"}[s.rand.IntN(2)], tasks[:first]...))
	for _, t := range tasks[first:] {
		s.mail = append(s.mail, add(t))
	}
	s.mail = append(s.mail, says("10", "5", "7"))
	cancelled := s.rand.IntN(5) == 0
	if cancelled {
		s.mail = append(s.mail, workflow.Cancel{ID: "w", From: asker})
	}
	for range 400 {
		s.step()
	}
	for s.now = s.now.Add(48 * time.Hour); s.flow.Due() > 0 && s.now.Year() < 2030; s.now = s.now.Add(24 * time.Hour) {
		s.decide(workflow.Tick{})
	}
	switch {
	case len(s.woken) > 1 || len(s.woken) == 1 && s.woken[0] != 1:
		return fmt.Sprintf("it woke the agent as %v", s.woken)
	case s.flow.State == workflow.Waiting || s.flow.State == "":
		return fmt.Sprintf("it is still %q: %+v", s.flow.State, s.flow)
	case (s.flow.State == workflow.Resolved) != (len(s.woken) == 1):
		return fmt.Sprintf("it is %s and woke %v", s.flow.State, s.woken)
	case !cancelled && s.flow.State == workflow.Cancelled:
		return "it was cancelled by nobody"
	}
	for id, n := range s.posts {
		if n > 1 {
			return fmt.Sprintf("the message of %s was planned %d times", id, n)
		}
	}
	for _, t := range s.flow.Tasks {
		if t.State == workflow.Waiting || t.Result == nil {
			return fmt.Sprintf("task %s is left as %+v", t.ID, t)
		}
	}
	return ""
}

// X4, X8: whatever comes late, twice, out of order or never, with a clock that
// jumps, every workflow ends, and wakes the agent exactly once if it is resolved.
func TestSimulatedLivesEndOnce(t *testing.T) {
	effort.SkipSlow(t)
	seeds := 1000
	if os.Getenv("LILAC_LONG") != "" {
		seeds = 200_000
	}
	if one := os.Getenv("LILAC_SEED"); one != "" {
		seed, err := strconv.ParseUint(one, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(run(seed, false))
		return
	}
	found := 0
	for seed := range uint64(seeds) {
		if wrong := run(seed, false); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
		if run(seed, true) != "" {
			found++
		}
	}
	if found < seeds/10 {
		t.Errorf("control: of %d lives that forget what they did, only %d are seen to be wrong", seeds, found)
	}
}
