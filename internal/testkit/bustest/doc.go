// Package bustest is the one conformance suite that every engine of the bus
// passes: [Run] takes a function that opens a fresh engine and checks the ten
// rules of package bus. What an engine cannot do it declares in [Abilities];
// the suite then asserts the weaker promise instead of skipping. [Trimming] is the
// long walk through random sequences; [DeadWork] and [ExitingPoison] end processes,
// for which an engine's tests start their own program again ([StartChild]).
//
// Only tests import it.
package bustest
