package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	sdk "github.com/coder/acp-go-sdk"

	"lilac/internal/core/session"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/client"
	"lilac/internal/operate/transcript"
)

// maxEnded limits the ends of requests that are kept for prompts whose request ends before
// the server's answer names it.
const maxEnded = 64

// conversation is one conversation that is followed.
type conversation struct {
	agent *Agent
	id    sdk.SessionId
	stop  context.CancelFunc
	// done is closed when its goroutines have ended.
	done chan struct{}

	mu    sync.Mutex
	state State
	ended []End
	// changed is closed, and replaced, when a request ends, asks, or is to be cancelled.
	changed chan struct{}
	// cancels counts the calls of cancelPrompts.
	cancels int
	// failed is why the conversation is not followed any more.
	failed error
	// withdraw ends the editor's dialog of the open question.
	withdraw context.CancelFunc
}

// follow opens a conversation, also one that is open. It calls history, if it is not nil, with the
// stored messages before the first update. The open question is read after the cursor of the stream,
// which has the later questions.
func (a *Agent) follow(ctx context.Context, id sdk.SessionId, history func([]transcript.Entry)) (stored session.Session, err error) {
	cursor, err := a.o.Server.Now(ctx, string(id), func(why error) { a.o.Logger.Warn("waiting for the server", "error", why) })
	if err != nil {
		return stored, err
	}
	var page client.History
	if history != nil {
		if page, err = a.o.Server.Messages(ctx, string(id), client.Page{Limit: historyPage}); err != nil {
			return stored, err
		}
		cursor = page.Cursor
	}
	if stored, err = a.o.Server.Session(ctx, string(id)); err != nil {
		return stored, err
	}
	open, err := openQuestion(stored)
	if err != nil {
		return stored, err
	}
	a.leave(id)
	if history != nil {
		history(transcript.Of(page, true))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.open) >= maxOpen {
		return stored, fault.New(fault.RateLimited, "%d conversations are open. Close one first.", maxOpen)
	}
	c := &conversation{agent: a, id: id, done: make(chan struct{}), changed: make(chan struct{}), withdraw: func() {}}
	c.state.Question = open
	var run context.Context
	run, c.stop = context.WithCancel(a.ctx)
	a.open[c.id] = c
	a.wg.Go(func() {
		defer close(c.done)
		if open != nil {
			c.carryOut(Ask{*open})
		}
		err := a.o.Server.Events(run, string(id), cursor, func(f client.Frame) error {
			c.apply(f.Event)
			return nil
		})
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.failed = err; err == nil {
			c.failed = fault.New(fault.Cancelled, "The conversation was closed.")
		}
		c.withdraw()
		c.announce()
	})
	return stored, nil
}

// leave follows a conversation no longer.
func (a *Agent) leave(id sdk.SessionId) {
	a.mu.Lock()
	c := a.open[id]
	delete(a.open, id)
	a.mu.Unlock()
	if c != nil {
		c.stop()
		<-c.done
	}
}

// opened returns a conversation that is followed. It follows it again if that had ended,
// for example because the server was away for long.
func (a *Agent) opened(ctx context.Context, id sdk.SessionId) (*conversation, error) {
	a.mu.Lock()
	c := a.open[id]
	a.mu.Unlock()
	if c != nil && c.alive() {
		return c, nil
	}
	if _, err := a.follow(ctx, id, nil); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c = a.open[id]; c == nil {
		return nil, fault.New(fault.Cancelled, "The conversation was closed.")
	}
	return c, nil
}

func (c *conversation) alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed == nil
}

// announce wakes the prompts that wait. The caller holds the lock.
func (c *conversation) announce() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// apply carries out what an event means for the editor.
func (c *conversation) apply(e event.EnvEvent) {
	c.mu.Lock()
	next, effects := Decide(c.state, e)
	c.state = next
	c.mu.Unlock()
	for _, effect := range effects {
		c.carryOut(effect)
	}
}

func (c *conversation) carryOut(effect Effect) {
	switch effect := effect.(type) {
	case Show:
		c.agent.show(c.id, effect.Update)
	case Ask:
		if len(effect.Question.Options) > 0 {
			c.ask(effect.Question)
			return
		}
		c.agent.show(c.id, sdk.UpdateAgentMessageText("\n\n"+effect.Question.Text+"\n\n"))
		c.mu.Lock()
		defer c.mu.Unlock()
		c.announce()
	case Answered:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.withdraw()
	case End:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended = append(c.ended[max(0, len(c.ended)-maxEnded+1):], effect)
		c.announce()
	}
}

// ask shows a question with its answers in a dialog of the editor, until somebody answers it.
// A dialog that is closed leaves the question open for other clients.
func (c *conversation) ask(q Question) {
	ctx, withdraw := context.WithCancel(c.agent.ctx)
	c.mu.Lock()
	c.withdraw()
	c.withdraw = withdraw
	c.mu.Unlock()
	params := sdk.RequestPermissionRequest{
		SessionId: c.id,
		ToolCall: sdk.ToolCallUpdate{
			ToolCallId: sdk.ToolCallId(q.Request + "/question"), Title: sdk.Ptr(q.Text),
			Kind: sdk.Ptr(sdk.ToolKindOther), Status: sdk.Ptr(sdk.ToolCallStatusPending),
		},
	}
	if q.Call != "" {
		params.ToolCall.Content = []sdk.ToolCallContent{sdk.ToolContent(sdk.TextBlock(q.Call))}
	}
	ids := map[sdk.PermissionOptionId]Option{}
	for _, o := range q.Options {
		id := sdk.PermissionOptionId(string(o.Answer) + ":" + o.Reply)
		ids[id] = o
		params.Options = append(params.Options, sdk.PermissionOption{Kind: o.Kind, Name: o.Name, OptionId: id})
	}
	c.agent.wg.Go(func() {
		defer withdraw()
		said, err := c.agent.connection().RequestPermission(ctx, params)
		if ctx.Err() != nil || said.Outcome.Selected == nil {
			if err != nil && ctx.Err() == nil {
				c.agent.o.Logger.Warn("the editor cannot ask; the question stays open", "request_id", q.Request, "error", err)
			}
			return
		}
		o, ok := ids[said.Outcome.Selected.OptionId]
		if !ok {
			c.agent.o.Logger.Warn("the editor chose an answer that does not exist; the question stays open", "request_id", q.Request)
			return
		}
		if err := c.agent.answer(&q, o.Answer, o.Reply); err != nil && c.agent.ctx.Err() == nil {
			c.agent.show(c.id, sdk.UpdateAgentMessageText("\n\n*"+fault.ToWire(err).Message+"*\n\n"))
		}
	})
}

// openQuestion returns the question that a conversation waits with, or nil.
func openQuestion(s session.Session) (*Question, error) {
	if s.Paused == nil {
		return nil, nil
	}
	var p transcript.Payload
	raw, err := json.Marshal(s.Paused)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		return nil, fmt.Errorf("read the open question: %w", err)
	}
	return asked(s.ActiveRequest, s.Paused.Number, p), nil
}

func (c *conversation) question() *Question {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Question
}

// answered forgets the open question before the server confirms its answer, so that the next
// prompt does not answer it again.
func (c *conversation) answered(q *Question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Question == q {
		c.state.Question = nil
	}
}

// cancelPrompts makes the prompts that wait stop their requests.
func (c *conversation) cancelPrompts() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancels++
	c.announce()
}

// cancelCount returns the number of calls of cancelPrompts so far.
func (c *conversation) cancelCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancels
}

// wait returns the end of a request. When its prompt is cancelled, after the count before, it
// calls cancel once. If the request asks what only a message can answer, the turn ends there.
func (c *conversation) wait(ctx context.Context, request string, before int, cancel func() error) (End, error) {
	for stopping := false; ; {
		c.mu.Lock()
		changed, failed, cancelled, q := c.changed, c.failed, c.cancels > before, c.state.Question
		i := slices.IndexFunc(c.ended, func(e End) bool { return e.Request == request })
		var end End
		if i >= 0 {
			end = c.ended[i]
		}
		c.mu.Unlock()
		switch {
		case i >= 0:
			return end, nil
		case failed != nil:
			return End{}, failed
		case cancelled && !stopping:
			stopping = true
			if err := cancel(); err != nil && fault.KindOf(err) != fault.NotFound && fault.KindOf(err) != fault.Conflict {
				return End{}, err
			}
			continue
		case q != nil && q.Request == request && len(q.Options) == 0:
			return End{Request: request, Reason: sdk.StopReasonEndTurn}, nil
		}
		select {
		case <-ctx.Done():
			return End{}, ctx.Err()
		case <-changed:
		}
	}
}
