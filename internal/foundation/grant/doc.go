// Package grant says which tools and callables a request may use.
//
// A [Grant] is a list of restrictions. Each comes from a part of the configuration (a
// rule, a channel, a surface, a person's rights) and all of them must allow a name, so
// that adding one never gives a request more. Components that start work for a request
// (sub-agents, background commands, workflows, events) pass its grant on.
//
// A grant also names the people for whom the request works, because the policy (package
// policy) decides by person, and the work that a request starts is done for the same people.
//
// A pattern is the name of a tool or callable, which includes the names below it
// ("workflow" includes "workflow.schedule"); a prefix followed by .*, which means only
// the names below it; or * for all names.
//
// All functions are pure and safe for concurrent use.
package grant
