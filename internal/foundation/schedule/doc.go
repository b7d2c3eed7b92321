// Package schedule computes when something is due: at the times of a cron expression
// in a time zone, or at a fixed interval.
//
// A [Schedule] is a fixed set of times, the slots. The slots depend neither on the
// time of the question nor on the start of the process, so a slot can identify the
// work that is done in it. When clocks change, a Schedule behaves like cron:
//
//   - An expression that names its hours fires once in an hour that occurs twice, the
//     first time. An expression for every hour (*) fires in both.
//   - A time in an hour that is skipped fires directly after it.
//
// Everything here is pure and safe for concurrent use. Every package may use it.
package schedule
