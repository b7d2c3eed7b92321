// Package agent is the loop of a run: call the model, run the tools that it
// requests, add the messages that arrive meanwhile, until nothing is left to do.
//
// The package knows neither bus nor database. [Run] reports to a [Host] and asks it
// for messages, and the host makes every report durable before the run continues.
// A run that was killed at any point therefore continues from its last report: a
// finished model call is not repeated, because [Host.ModelDone] precedes its tool
// calls, and a tool that may have run is not silently run again.
//
// # Promises
//
//   - Every model call gets a well-formed conversation ([Repair]).
//   - [Outcome].Text equals the streamed deltas with the resets applied, and
//     [JoinText] rebuilds it from the journaled steps.
//   - An answer that reaches a limit or exceeds its [Bounds] is stopped within a second,
//     and what was streamed until then is kept.
//   - A cancelled run returns within a second. An interrupt stops a model call or
//     tool at once. A draining run records nothing more.
//   - Compaction makes the conversation shorter, with or without the model's help.
//     It never covers messages that the model has not seen: a tool result that is too
//     long is shortened and says so, and a person's message that is too long is
//     refused.
//
// # Callers
//
// Package session calls Run and implements Host.
//
// # Concurrency
//
// Run does its work in the caller's goroutine and calls one method of the host at a
// time, except [Host.CheckLimits]. Only tools run in other goroutines, up to maxParallel of a step. None of
// them outlives Run, except a tool that ignores the end of its context for more than
// toolGrace.
//
// The loop is not a decider like those of the cores: each of its decisions depends
// on a stream that it is reading, so a pure function would get the whole stream as
// its input. What does not depend on a stream is pure: [Repair], [KeepFrom],
// [Digest], [EstimateTokens] and [SystemPrompt].
package agent
