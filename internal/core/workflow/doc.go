// Package workflow waits for days: for a reply, for a moment, for an event of
// the environment, or by a calendar, and wakes the agent when it is over. It
// follows the design's section on workflows and part F of the surface-tools
// specification.
//
// What it promises:
//
//   - [Decide] is pure and knows every rule; its table test is the
//     specification. What waits is in the store, and what a wait comes to
//     (the state, the events, and the request that wakes the agent) is one
//     transaction with the end of the wait: it happens once, or not yet.
//   - A reply to a message that a task waits or waited for is the workflow's:
//     [Service.ClaimReply] runs in the router's own transaction, so that a reply
//     wakes the agent by one way and never by two. A reply to a message of ours
//     whose id is not known yet is held until it is.
//   - Replies are strict: that channel, that message, that person when one is
//     named, and never a program.
//   - Nothing polls: one timer is set for what is due next. What fell due while
//     the program was away happens once after the start, and a schedule has
//     one run that waits for its turn at most. What a clock planned that was
//     ahead goes on when the clock is right: a schedule with its next run, and
//     nothing waits longer than it was to.
//   - Nothing waits for ever: replies and events have a time-out, and that is a
//     result too; what can come to nothing is refused or ended with a reason.
//   - An event is held up for a second by all who look whether they waited for
//     it, each in its share of that.
//
// Commands come from the topic cmd.workflow, or through [Service.Submit], which
// publishes the command and carries it out in one transaction.
package workflow
