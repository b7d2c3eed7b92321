// Package schedule says when something is due again: at the times of a cron
// expression in a time zone, or at a fixed interval.
//
// A [Schedule] is a fixed set of moments, the slots. Which slots there are does
// not depend on when one asks, nor on when the program started, so a slot can
// be the name of what is done in it. What it promises about a change of the
// clocks, in the way of cron:
//
//   - An expression that names its hours happens once in an hour that comes
//     twice, the first time. One for every hour (*) happens in both.
//   - What would fall into an hour that is left out happens right after it.
//
// Everything here is pure. Anyone may use it.
package schedule
