// Package workflow lets the agent wait, for days if necessary: for a reply, for a
// time, for an environment event, or by a calendar. When the wait is over, it
// wakes the agent.
//
// [Decide] is the pure decider; state.go has the states and their transitions, and
// the table test of Decide is the specification. [Service] loads a workflow and
// the facts about its surroundings, runs the decider through the kernel, and
// carries out the effects.
//
// The package guarantees:
//
//   - The end of a wait and everything that follows from it (the state, the events,
//     and the request that wakes the agent) are one transaction: they happen once,
//     or not yet.
//   - A reply to a message that a task waits for, or waited for, belongs to the
//     workflow. [Service.ClaimReply] runs in the router's transaction, so a reply
//     wakes the agent once. A reply to a message of the agent whose id is not known
//     yet is held until the id is known.
//   - Replies are matched strictly: by channel, by message, by person if one is
//     named. A reply of a program never counts.
//   - There is no polling: one timer is set for the next due time. What became due
//     while the process was down happens once after the start, and at most one run
//     of a schedule is queued. If the clock is set back, schedules continue with
//     their next run, and nothing waits longer than planned.
//   - Nothing waits forever: waits for replies and events have a timeout, and the
//     timeout is a result. A workflow that can never end is refused, or ends with a
//     reason.
//   - All conditions on one event share a time limit of one second.
//
// Commands come from the topic cmd.workflow, or through [Service.Submit], which
// publishes the command and carries it out in one transaction.
//
// A Service is safe for concurrent use. Decisions about one workflow are ordered by
// their transactions; the goroutine of Run owns the timer. The Service keeps in
// memory only whether a workflow waits for an event, so that most events cost no
// read.
//
// The package implements the section on workflows in the system design, and part F
// of the surface-tools specification. Package app builds it; the router, the outbox,
// and the callables use it.
package workflow
