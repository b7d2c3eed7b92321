// Package environment handles environment events, and the rules that decide what
// each event causes.
//
// [Publish] puts an event on the bus in the caller's transaction. It drops an id that
// was published before, also after a restart. [Service] handles each event of the
// topic env once, in order per session: [Match] selects the one rule that handles it.
// An event that no rule matches is logged. An event whose handler fails or panics is
// retried by the bus and ends as a dead letter; the events after it continue. Events
// that only describe what happened (session.*, stream.*, …) never match "*": a rule
// must name them.
//
// A rule has one [Action]: a function, waking the agent, publishing another event, or
// dropping the event. [Decide] is the pure decider for its debounce, rate, budget,
// depth, and dry run; state.go has its states and transitions. The service runs it
// through the kernel, so the action, its [Run], and the delivered event are one
// transaction. [Try] makes the same decisions and changes nothing.
//
// [Service.Allow] is called before each model call of a request that a rule started,
// so a budget also holds within a request. People see one message about it.
//
// A Service is safe for concurrent use. Actions are cheap: they write, or send a
// command to the runner, and never wait for a model. Every package may publish; only
// package app runs the service. It implements the specification of environment
// events.
package environment
