// Package environment carries what happens around the agent: environment
// events, and the rules that decide what each of them sets off.
//
// [Publish] puts an event on the bus in the caller's transaction and drops an
// id that was seen before, durably. The [Service] handles each event of the
// topic env once, in order per session: [Match] picks the one rule whose
// handler runs. An event without a rule is logged and done; a handler that
// fails or panics is retried by the bus and ends in the dead letters, and the
// events behind it go on. Events that only describe (session.*, stream.*, …)
// never match "*": a rule must name them.
//
// A rule is a function, or wakes the agent, makes another event or drops this
// one. [Agent] has no state: it turns an event into one message for the
// session's runner, in which the event stands as data that the tool
// get_event_info told. What a rule does is a [Run] in the same transaction, so
// that limits, the depth of a chain of events and exactly-once need no memory.
//
// [Service.Allow] is asked before each model call of a request that a rule
// started: a budget holds within it, too. People are told once in the session.
//
// [Match] is pure; handlers are cheap: they write, or send the runner a command,
// and never wait for a model. It follows the specification of environment
// events. Anyone may publish; only the composition root runs the service.
package environment
