// Package bustest is the one conformance suite that every engine of the bus
// passes: [Run] takes a function that opens a fresh engine and checks the ten
// rules of package bus. An engine declares in [Abilities] what it guarantees; without an
// ability, the suite checks the weaker guarantee instead of skipping. [Trimming] runs
// random sequences; [DeadWork] and [ExitingPoison] kill child processes, which the
// engine's tests start with [StartChild].
//
// Only tests import it.
package bustest
