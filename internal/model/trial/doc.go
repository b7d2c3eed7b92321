// Package trial makes two small real calls of a model and reports what worked: a call of
// a tool, and an answer to its result. "lilac models test" prints the report, and "lilac
// doctor --online" checks it.
//
// The calls cost a few hundred tokens. The package keeps nothing; it obeys the context.
package trial
