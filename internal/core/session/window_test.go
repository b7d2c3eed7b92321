package session_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
	"lilac/internal/testkit/effort"
)

// timedJournal notes when a finished model call is on disk.
type timedJournal struct {
	session.JournalTable
	done func()
}

func (j timedJournal) Record(tx *db.Tx, requestID string, e session.Entry) error {
	if e.Kind == "model" {
		tx.AfterCommit(j.done)
	}
	return j.JournalTable.Record(tx, requestID, e)
}

// A crash between the last byte of an answer and its commit costs the call. This measures that
// time; docs/performance.md has the result.
func TestAnAnswerIsJournaledAtOnce(t *testing.T) {
	effort.SkipSlow(t)
	const rounds = 200
	var mu sync.Mutex
	var answered time.Time
	var took []time.Duration
	r := newRig(t, rigOptions{
		do: func(context.Context, llm.Request, func(string)) (chat.Message, error) {
			mu.Lock()
			defer mu.Unlock()
			answered = time.Now()
			return chat.Text(chat.Assistant, "done"), nil
		},
		change: func(o *session.Options) {
			o.Tables.Journal = timedJournal{o.Tables.Journal, func() {
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(answered))
			}}
		},
	})
	for i := range rounds {
		id := fmt.Sprintf("web:s1:r%d", i)
		r.send(id, fmt.Sprint("m", i), event.Prompt, "go")
		r.waitForEnd(id)
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(took)
	t.Logf("p50 %s, p99 %s, longest %s", took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	if len(took) != rounds || took[len(took)/2] > 50*time.Millisecond {
		t.Errorf("%d answers, half of them in the journal after %s", len(took), took[len(took)/2])
	}
}

// What a failed call has used is in the books before the next call begins.
func TestWhatAFailedCallUsedIsRecordedBeforeTheNext(t *testing.T) {
	var r *rig
	var between session.Request
	calls := 0
	r = newRig(t, rigOptions{do: func(_ context.Context, _ llm.Request, say func(string)) (chat.Message, error) {
		if calls++; calls == 1 {
			say("this is the beginning of an answer that breaks off")
			return chat.Message{}, fault.New(fault.Unavailable, "broken")
		}
		between = r.request("web:s1:r1")
		return chat.Text(chat.Assistant, "done"), nil
	}})
	r.send("web:s1:r1", "m1", event.Prompt, "go")
	req := r.waitForEnd("web:s1:r1")
	if between.Usage.OutputTokens == 0 || between.Usage.InputTokens == 0 {
		t.Errorf("before the next call, the usage is %+v", between.Usage)
	}
	if want := between.Usage.Add(chat.Usage{InputTokens: 10, OutputTokens: 5}); req.Usage != want {
		t.Errorf("in the end it is %+v, want %+v", req.Usage, want)
	}
}
