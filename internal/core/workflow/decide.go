package workflow

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
)

// Input is a fact that concerns a workflow.
type Input interface{ incoming() }

// Create creates a workflow. Cause describes what led to the request. InSession and
// InAll count the workflows that wait already.
type Create struct {
	ID               string
	From             Origin
	Cause            Cause
	Definition       Definition
	InSession, InAll int
}

// Add adds a task to a workflow.
type Add struct {
	ID    string
	From  Origin
	Cause Cause
	Spec  Spec
}

// Cancel ends a workflow without a result.
type Cancel struct {
	ID     string
	From   Origin
	Reason string
}

// Reply is a reply to a message on a platform. Program reports that no person wrote
// it.
type Reply struct {
	Platform, ChannelID, To string
	Program                 bool
	Message                 HumanMessage
}

// MessagePosted is a message of a person in a conversation that has no replies.
type MessagePosted struct {
	SessionID string
	Message   HumanMessage
}

// Occurred is an environment event that some tasks wait for. Depth is its position in
// its chain of causes.
type Occurred struct {
	TaskIDs []string
	Event   event.EnvEvent
	Depth   int
	// Grant is what requests that the event causes may use.
	Grant grant.Grant
}

// Sent reports the id of the message of a task, or the reason why it was not sent.
type Sent struct {
	TaskID, MessageID, Reason string
}

// Tick reports that the workflow may be due. Queued reports that its last request has
// not begun.
type Tick struct{ Queued bool }

func (Create) incoming()        {}
func (Add) incoming()           {}
func (Cancel) incoming()        {}
func (Reply) incoming()         {}
func (MessagePosted) incoming() {}
func (Occurred) incoming()      {}
func (Sent) incoming()          {}
func (Tick) incoming()          {}

// Effect is one thing to do in the transaction of a decision.
type Effect interface{ effect() }

// Publish publishes an event. Key identifies it within the workflow.
type Publish struct {
	Key     string
	Payload event.Payload
}

// SendMessage sends the message whose reply a task waits for.
type SendMessage struct{ Task Task }

// WithdrawMessage withdraws the message of a task that ended before it was sent.
type WithdrawMessage struct{ TaskID string }

// Wake wakes the agent with request N of the workflow, which the task caused.
type Wake struct {
	N      int
	TaskID string
}

// Abandon reports that the agent cannot be woken, because the session is gone.
type Abandon struct{}

// EndChain records that a chain of events that caused each other ends with the
// workflow, which wakes nobody.
type EndChain struct{ Depth int }

// Refuse returns the reason why a command was refused to the caller.
type Refuse struct{ Err error }

func (Publish) effect()         {}
func (SendMessage) effect()     {}
func (WithdrawMessage) effect() {}
func (Wake) effect()            {}
func (Abandon) effect()         {}
func (EndChain) effect()        {}
func (Refuse) effect()          {}

// The details of a workflow that ended by itself.
const (
	detailNeverCreated = "It was never created."
	detailNoTask       = "It has no task to wait for."
	detailOver         = "The workflow has ended."
	detailCancelled    = "Cancelled."
	detailGone         = "Its conversation is gone."
	detailTooDeep      = "Too many events caused each other and no person was asked, so it wakes nobody."
	stateSent          = "sent"
	stateRun           = "run"
)

// Decide decides what an input means for a workflow; see [State] for the
// transitions. It is pure, and does not modify its arguments.
func Decide(w Workflow, in Input, now time.Time) (Workflow, []Effect) {
	d := decision{Workflow: w, now: now}
	d.Tasks = slices.Clone(w.Tasks)
	switch in := in.(type) {
	case Create:
		d.create(in)
	case Add:
		d.add(in)
	case Cancel:
		d.cancelled(in)
	case Reply:
		d.settle(func(t Task) *Result {
			wait := t.Wait
			if in.Program || wait.Kind != ForReply || wait.MessageID == "" || wait.MessageID != in.To ||
				wait.Platform != in.Platform || wait.ChannelID != in.ChannelID || wait.UserID != "" && wait.UserID != in.Message.UserID {
				return nil
			}
			return &Result{Outcome: Replied, Message: &in.Message}
		})
	case MessagePosted:
		d.settle(func(t Task) *Result {
			if t.Wait.Kind != ForMessage || t.Wait.ChannelID != in.SessionID {
				return nil
			}
			return &Result{Outcome: Replied, Message: &in.Message}
		})
	case Occurred:
		d.settle(func(t Task) *Result {
			if t.Wait.Kind != ForEvent || !slices.Contains(in.TaskIDs, t.ID) {
				return nil
			}
			return &Result{Outcome: Happened, Event: &in.Event, Depth: in.Depth, Grant: in.Grant}
		})
	case Sent:
		d.sent(in)
	case Tick:
		d.tick(in)
	case ClockSetBack:
		d.clockSetBack(in)
	}
	d.failUnsendable()
	if d.abandoned && d.State == Waiting {
		d.end(Cancelled, detailGone) // a schedule would go on
	}
	return d.Workflow, d.effects
}

type decision struct {
	Workflow
	now     time.Time
	effects []Effect
	// unsendable are tasks that wait for a reply to a message which cannot be
	// sent.
	unsendable []string
	// abandoned reports that there is no session to wake the agent in.
	abandoned bool
}

// failUnsendable ends the tasks whose message cannot be sent. That may end the
// workflow: then the messages of its other tasks are not sent, either.
func (d *decision) failUnsendable() {
	for _, id := range d.unsendable {
		t, _ := d.Task(id)
		d.sent(Sent{TaskID: id, Reason: "Lilac is not connected to " + t.Wait.Platform + "."})
	}
	if len(d.unsendable) == 0 || d.State == Waiting {
		return
	}
	unsent := slices.Clone(d.unsendable)
	for _, e := range d.effects {
		if p, is := e.(SendMessage); is {
			unsent = append(unsent, p.Task.ID)
		}
	}
	for i, t := range d.Tasks {
		d.Tasks[i].Sending = t.Sending && !slices.Contains(unsent, t.ID)
	}
	d.effects = slices.DeleteFunc(d.effects, func(e Effect) bool {
		w, withdraws := e.(WithdrawMessage)
		_, posts := e.(SendMessage)
		return posts || withdraws && slices.Contains(unsent, w.TaskID)
	})
}

func (d *decision) emit(e Effect) { d.effects = append(d.effects, e) }

func (d *decision) publishState(state State, detail string) {
	d.emit(Publish{"state:" + string(state), event.WorkflowLifecycleChanged{WorkflowID: d.ID, State: string(state), Detail: detail, TS: d.now.UnixMilli()}})
}

func (d *decision) publishTask(id, act, state, detail string) {
	d.emit(Publish{"task:" + id + ":" + act, event.WorkflowTaskLifecycleChanged{WorkflowID: d.ID, TaskID: id, State: state, Detail: detail, TS: d.now.UnixMilli()}})
}

func (d *decision) create(in Create) {
	if d.State != "" {
		return // a repeated command
	}
	made, err := newWorkflow(in.ID, in.From, in.Cause, in.Definition, d.now)
	switch {
	case err != nil:
	case in.InSession >= MaxWaitingSession:
		err = fault.New(fault.LimitReached, "%d workflows wait for this conversation already, the maximum. Cancel some that are no longer needed.", in.InSession)
	case in.InAll >= MaxWaiting:
		err = fault.New(fault.LimitReached, "%d workflows wait already, the maximum. Try again when some have ended.", in.InAll)
	}
	if err != nil {
		d.ID, d.Origin = in.ID, in.From
		d.emit(Refuse{err})
		if validID().MatchString(in.ID) {
			d.publishState(Failed, fault.ToWire(err).Message)
		}
		return
	}
	early, before := d.Early, d.Workflow
	d.Workflow = made
	d.Facts = before.Facts
	d.publishState(Waiting, "")
	if early {
		d.end(Cancelled, before.Detail)
		return
	}
	for i := range d.Tasks {
		d.begin(i)
	}
	for _, t := range before.Tasks { // describeResult before the workflow
		if _, twice := d.Task(t.ID); !twice {
			d.accept(t)
		}
	}
}

func (d *decision) add(in Add) {
	if _, twice := d.Task(in.Spec.TaskID); twice {
		return // a repeated command
	}
	if d.State == "" && d.ID == "" {
		d.ID, d.Origin, d.CreatedAt = in.ID, in.From, d.now.UnixMilli()
	}
	d.Grant = d.Grant.And(in.Cause.Grant)
	t, err := newTask(in.Spec, in.Cause.Depth, d.now)
	switch {
	case err != nil:
		d.refuseTask(in.Spec.TaskID, err)
	case d.State.Ended():
		d.refuseTask(t.ID, fault.New(fault.Gone, detailOver))
	case d.State == Waiting:
		d.accept(t)
	case len(d.Tasks) < MaxTasks:
		d.Tasks = append(d.Tasks, t)
	}
}

func (d *decision) refuseTask(id string, err error) {
	d.emit(Refuse{err})
	if validID().MatchString(id) {
		d.publishTask(id, string(Failed), string(Failed), fault.ToWire(err).Message)
	}
}

// accept adds the task to the workflow.
func (d *decision) accept(t Task) {
	if err := d.checkTask(t); err != nil {
		d.refuseTask(t.ID, err)
		return
	}
	d.Tasks = append(d.Tasks, t)
	d.begin(len(d.Tasks) - 1)
}

func (d *decision) begin(i int) {
	t := &d.Tasks[i]
	d.publishTask(t.ID, string(Waiting), string(Waiting), "")
	if t.Wait.Text != "" {
		t.Sending = true
		if slices.Contains(d.Facts.Disconnected, t.Wait.Platform) {
			d.unsendable = append(d.unsendable, t.ID)
			return
		}
		d.emit(SendMessage{*t})
	}
}

func (d *decision) cancelled(in Cancel) {
	reason := in.Reason
	if reason == "" {
		reason = detailCancelled
	}
	switch {
	case d.State == Waiting:
		d.end(Cancelled, reason)
	case d.State == "":
		if d.ID == "" {
			d.ID, d.Origin, d.CreatedAt = in.ID, in.From, d.now.UnixMilli()
		}
		d.Early, d.Detail = true, reason
	}
}

// settle resolves each waiting task for which match returns a result, in the order of
// the tasks.
func (d *decision) settle(match func(Task) *Result) {
	last := ""
	for i, t := range d.Tasks {
		if !d.isWaiting(t) {
			continue
		}
		if r := match(t); r != nil {
			d.resolve(i, *r)
			last = t.ID
		}
	}
	d.conclude(last)
}

func (d *decision) resolve(i int, r Result) {
	t := &d.Tasks[i]
	t.State, t.Result, t.ResolvedAt, t.Due = Resolved, &r, d.now.UnixMilli(), 0
	d.publishTask(t.ID, string(Resolved), string(Resolved), string(r.Outcome))
	d.emit(Publish{"task:" + t.ID + ":result", event.WorkflowTaskOutcome{WorkflowID: d.ID, TaskID: t.ID, Result: encode(r), TS: d.now.UnixMilli()}})
}

// conclude ends the workflow if the task that got a result completes it.
func (d *decision) conclude(taskID string) {
	if taskID == "" || d.State != Waiting {
		return
	}
	if d.Completion == All && slices.ContainsFunc(d.Tasks, func(t Task) bool { return t.State == Waiting }) {
		return
	}
	if depth := d.Depth(); depth > event.MaxDepth {
		d.end(Failed, detailTooDeep)
		d.emit(EndChain{depth})
		return
	}
	d.end(Resolved, "")
	d.wake(taskID)
}

func (d *decision) wake(taskID string) {
	d.Resumes++
	if d.abandoned = d.Facts.SessionGone; d.abandoned {
		d.emit(Abandon{})
		return
	}
	d.emit(Wake{N: d.Resumes, TaskID: taskID})
}

// end ends the workflow and the tasks that still wait.
func (d *decision) end(state State, detail string) {
	d.State, d.Detail, d.EndedAt = state, detail, d.now.UnixMilli()
	for i, t := range d.Tasks {
		if t.State != Waiting {
			continue
		}
		d.Tasks[i].State, d.Tasks[i].ResolvedAt, d.Tasks[i].Due = Cancelled, d.now.UnixMilli(), 0
		d.Tasks[i].Result = &Result{Outcome: Abandoned}
		d.publishTask(t.ID, string(Cancelled), string(Cancelled), detail)
		if t.Sending {
			d.emit(WithdrawMessage{t.ID})
		}
	}
	if state == Resolved {
		results := map[string]*Result{}
		for _, t := range d.Tasks {
			results[t.ID] = t.Result
		}
		d.emit(Publish{"result", event.WorkflowOutcome{WorkflowID: d.ID, Result: encode(results), TS: d.now.UnixMilli()}})
	}
	d.publishState(state, detail)
}

// sent records the id of the message of a task, even if the task has ended: a reply to
// the message still belongs to the workflow.
func (d *decision) sent(in Sent) {
	i := slices.IndexFunc(d.Tasks, func(t Task) bool { return t.ID == in.TaskID })
	if i < 0 || !d.Tasks[i].Sending {
		return
	}
	d.Tasks[i].Sending = false
	switch {
	case in.MessageID != "":
		d.Tasks[i].Wait.MessageID = in.MessageID
		d.publishTask(in.TaskID, stateSent, stateSent, in.MessageID)
	case d.isWaiting(d.Tasks[i]):
		d.resolve(i, Result{Outcome: NotSent, Reason: in.Reason})
		d.conclude(in.TaskID)
	}
}

func (d *decision) tick(in Tick) {
	if due := d.Due(); due == 0 || due > d.now.UnixMilli() {
		return // the timer was early
	}
	switch {
	case d.State == "":
		d.end(Failed, detailNeverCreated)
		return
	case len(d.Tasks) == 0:
		d.end(Failed, detailNoTask)
		return
	case d.Tasks[0].Wait.Kind == BySchedule:
		d.run(in.Queued)
		return
	}
	d.settle(func(t Task) *Result {
		switch {
		case t.Due == 0 || t.Due > d.now.UnixMilli():
			return nil
		case t.Wait.Kind == ForMoment:
			return &Result{Outcome: Reached}
		}
		return &Result{Outcome: TimedOut}
	})
}

// run performs one run of a schedule, however many were missed, or none if missed runs
// are to be skipped. If the last run has not begun, it counts for this one, too:
// otherwise, runs would pile up in a conversation that is busy or waits at a limit.
func (d *decision) run(queued bool) {
	t := &d.Tasks[0]
	missed := d.now.UnixMilli()-t.Due > missedAfter.Milliseconds()
	next, err := nextRun(t.Wait, d.now)
	if !queued && (!missed || !t.Wait.Skip) {
		t.Runs++
		t.Result = &Result{Outcome: Reached}
		d.publishTask(t.ID, stateRun+":"+strconv.Itoa(t.Runs), stateRun, "")
		d.wake(t.ID)
	}
	if err != nil || next.IsZero() {
		d.resolve(0, Result{Outcome: Finished})
		d.end(Resolved, "")
		return
	}
	t.Due = next.UnixMilli()
}

func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null") // results are strings, numbers, and JSON that was decoded
	}
	return data
}
