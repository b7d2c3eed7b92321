// Package policy decides whether a call of a tool or callable may run: it allows the call,
// asks a permitted person first, or denies it.
//
// [Decide] is the whole decision: a pure function of the rules, the call with its input,
// the people for whom the request works, and the place. A matching deny always wins;
// otherwise the first matching rule applies, and without one the call is allowed. If a
// request works for several people, the strictest decision for one of them applies.
//
// A person or a role that is not known matches rules that ask or deny, and no rule that
// allows. The text of a command is never interpreted: a rule can only name an input that
// it allows exactly.
//
// All functions are safe for concurrent use.
package policy
