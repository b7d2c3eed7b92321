package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"lilac/internal/testkit/postgrestest"
)

const (
	// checkWithin bounds the search for an order that explains a history.
	checkWithin = time.Minute
	// lookEvery is the time between two looks at the owner of the database.
	lookEvery = 50 * time.Millisecond
)

// appended is a prompt as its sender saw it.
type appended struct {
	text string
	// called is the time of its first sending, and returned that of its acceptance; zero means never.
	called, returned time.Time
}

// explained reports whether the order of a conversation's prompts agrees with what their sender saw:
// each of them happened once, between the moment in which it was first sent and the one in which it
// was accepted. A prompt that was not accepted may have happened later, or not at all.
func explained(sent []appended, order []string) bool {
	var ops []porcupine.Operation
	last := time.Now()
	for i, a := range sent {
		if a.returned.IsZero() && !slices.Contains(order, a.text) {
			continue
		}
		end := last
		if !a.returned.IsZero() {
			end = a.returned
		}
		ops = append(ops, porcupine.Operation{ClientId: i, Input: a.text, Call: a.called.UnixNano(), Return: end.UnixNano()})
	}
	queue := porcupine.Model{
		Init: func() any { return 0 },
		Step: func(state, input, _ any) (bool, any) {
			n := state.(int)
			return n < len(order) && order[n] == input.(string), n + 1
		},
	}
	return porcupine.CheckOperationsTimeout(queue, ops, checkWithin) == porcupine.Ok
}

// owner is the owner of the database at some moment: a node and its epoch.
type owner struct {
	node  string
	epoch int64
}

// look is one look at the owner, between two moments.
type look struct {
	owner
	called, returned time.Time
}

// owned reports whether the looks agree with one owner at a time: an epoch belongs to one node, and
// none comes back after a later one.
func owned(looks []look) bool {
	var ops []porcupine.Operation
	for i, l := range looks {
		ops = append(ops, porcupine.Operation{ClientId: i, Input: l.owner, Call: l.called.UnixNano(), Return: l.returned.UnixNano()})
	}
	ownership := porcupine.Model{
		Init: func() any { return owner{} },
		Step: func(state, input, _ any) (bool, any) {
			before, now := state.(owner), input.(owner)
			return now.epoch > before.epoch || now == before, now
		},
	}
	return porcupine.CheckOperationsTimeout(ownership, ops, checkWithin) == porcupine.Ok
}

// watcher looks at the owner of the database again and again.
type watcher struct {
	stop context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	server *postgrestest.Server
	looks  []look
}

func watchOwner(ctx context.Context, server *postgrestest.Server) *watcher {
	w := &watcher{server: server}
	ctx, w.stop = context.WithCancel(ctx)
	w.work.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(lookEvery):
				w.look()
			}
		}
	})
	return w
}

// follow looks at another server from now on.
func (w *watcher) follow(server *postgrestest.Server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server = server
}

func (w *watcher) look() {
	w.mu.Lock()
	server := w.server
	w.mu.Unlock()
	called := time.Now()
	rows, err := server.Ask("SELECT node, epoch FROM writers")
	if err != nil || len(rows) != 1 {
		return // the server is down
	}
	epoch, err := strconv.ParseInt(rows[0][1], 10, 64)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks = append(w.looks, look{owner{rows[0][0], epoch}, called, time.Now()})
}

// end stops looking, and returns what was seen.
func (w *watcher) end() []look {
	w.stop()
	w.work.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks
}

// ownersIn counts the owners of the database.
func ownersIn(looks []look) int {
	seen := map[owner]bool{}
	for _, l := range looks {
		seen[l.owner] = true
	}
	return len(seen)
}

// disorder lists the histories that nothing explains.
func (r report) disorder() (out []string) {
	for talk, sent := range r.sent.order {
		if !explained(sent, r.observed.order[talk]) {
			out = append(out, fmt.Sprintf("no order of the prompts of conversation %d explains what its person saw", talk))
		}
	}
	if !owned(r.looks) {
		out = append(out, "the database had two owners at a time")
	}
	return out
}
