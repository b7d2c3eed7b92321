package workflow_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/store"
	"lilac/internal/testkit/effort"
)

// forgetful knows whose reply it is only for waits of its own process: the
// control.
type forgetful struct {
	workflow.Table
	workflow.Waits
	ours map[string]bool
}

func (f forgetful) SaveWorkflow(tx *db.Tx, w workflow.Workflow) error {
	f.ours[w.ID] = true
	return f.Table.SaveWorkflow(tx, w)
}

func (f forgetful) WhoseReply(q db.Queryer, platform, channelID, messageID string) (out []string, err error) {
	ids, err := f.Waits.WhoseReply(q, platform, channelID, messageID)
	for _, id := range ids {
		if f.ours[id] {
			out = append(out, id)
		}
	}
	return out, err
}

// X8: many waits, many restarts, and replies and moments that come while
// nothing runs: each wakes the agent once, and no reply is left for others.
func TestWaitsSurviveRestartsAndWakeOnce(t *testing.T) {
	effort.SkipSlow(t)
	waits, restarts := 60, 5
	if os.Getenv("LILAC_LONG") != "" {
		waits, restarts = 1000, 50
	}
	w := newWorld(t)
	missed := endure(w, waits, restarts)
	if missed > 0 {
		t.Errorf("%d replies were nobody's", missed)
	}
	woken := map[string]int{}
	found, err := w.bus.Fetch(t.Context(), event.TopicCmdRequest, "", 10*waits)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		woken[d.Headers.RequestID()]++
	}
	for i := range waits {
		id := fmt.Sprint("w", i)
		if got := w.get(id); got.State != workflow.Resolved || woken["wf:"+id+":1"] != 1 || got.Resumes != 1 {
			t.Errorf("%s is %s and woke the agent %d times", id, got.State, woken["wf:"+id+":1"])
		}
	}
	if len(woken) != waits {
		t.Errorf("%d requests for %d waits", len(woken), waits)
	}
	control := newWorld(t)
	control.weaken = func() (workflow.Table, workflow.Waits) {
		f := forgetful{store.Workflows{}, store.WorkflowWaits{}, map[string]bool{}}
		return f, f
	}
	control.restart()
	if missed := endure(control, 20, 2); missed == 0 {
		t.Error("control: waits that the process alone remembers are not seen to be lost")
	}
}

// endure makes waits, half of them for replies, and lets the program die and
// start while they come. It returns how many replies were nobody's.
func endure(w *world, waits, restarts int) (missed int) {
	w.t.Helper()
	soon := time.Now().UnixMilli()
	for i := range waits {
		from := workflow.Origin{RequestID: fmt.Sprintf("web:s%d:1", i%20), SessionID: fmt.Sprint("s", i%20), Client: "web"}
		wait := spec("a", workflow.KindMoment, workflow.TaskInput{At: soon + int64(i)*5})
		if i%2 == 0 {
			wait = reply("a", fmt.Sprint(1000+i), "")
		}
		if err := w.svc.Submit(w.t.Context(), from, nil, definition(fmt.Sprint("w", i), "", wait)); err != nil {
			w.t.Fatal(err)
		}
	}
	per := (waits + restarts - 1) / restarts
	for round := range restarts {
		w.restart() // what follows was said while nothing ran
		w.start()
		for i := round * per; i < min((round+1)*per, waits); i++ {
			if i%2 > 0 {
				continue
			}
			m := w.message(fmt.Sprint(5000+i), fmt.Sprint(1000+i))
			for range 2 { // a bus may bring it again
				if !w.takes(m) {
					missed++
				}
			}
		}
	}
	for i := range waits {
		if i%2 > 0 {
			w.becomes(fmt.Sprint("w", i), workflow.Resolved)
		}
	}
	return missed
}
