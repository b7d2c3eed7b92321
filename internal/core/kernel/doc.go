// Package kernel runs the deciders of the cores, all in the same order: load the
// state, decide, save the state, carry out the effects, and wake whoever waits
// once the transaction has committed.
//
// A decider is a pure function. It receives the state, one input, and the time
// of the transaction, and returns the next state and a list of effects:
//
//	func Decide(state State, in Input, now time.Time) (State, []Effect)
//
// Effect is a sealed interface: each core has a closed set of effect types and
// one switch that carries them out. Everything that an effect writes or
// publishes belongs to the same transaction, so state, journal, and events never
// disagree. Effects must not call the decider again; facts that the decider
// needs are loaded before the decision and are part of the state or the input.
//
// A [Core] has no state and is safe for concurrent use if its functions are. The
// order of concurrent decisions about one key is the order of their
// transactions.
package kernel
