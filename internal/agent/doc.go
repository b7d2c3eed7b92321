// Package agent is the loop of a run: ask the model, run the tools it asked for,
// take in what people said meanwhile, until there is nothing left to do.
//
// It knows no bus and no database: [Run] reports to a [Host] and asks it for
// messages, and the host makes every report durable before the run goes on. So
// a run that was killed at any point goes on from its last report: a finished
// model call is not repeated ([Host.ModelDone] comes before any of its tools
// starts), and a tool that may have run is not silently run again.
//
// What it promises:
//
//   - Every model call sees a well-formed conversation ([Repair]).
//   - [Outcome].Text equals the streamed deltas with the resets applied, and
//     [JoinText] rebuilds it from the journaled steps.
//   - A cancelled run returns within a second, an interrupted model call or tool
//     stops now, a draining run records nothing more.
//   - Compaction makes the conversation smaller, with or without the model's help.
//     What the model has not seen yet is no part of it: a result that is too long
//     is shown shortened and says so, a person's message that is too long is refused.
//   - No goroutine of its own outlives Run, except that of a tool that ignores
//     the end of its context for more than half a second.
package agent
