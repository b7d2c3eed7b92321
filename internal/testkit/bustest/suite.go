package bustest

import "testing"

// Run checks an engine against the contract. open returns a fresh engine on its own
// storage and closes it when the test ends.
func Run(t *testing.T, open func(t testing.TB) Engine) {
	for _, row := range []struct {
		name string
		test func(*testing.T, func(testing.TB) Engine)
	}{
		{"publish/an event comes back as it was", roundTrip},
		{"publish/the same id again is the same event", sameID},
		{"publish/all or none", allOrNone},
		{"publish/in a transaction it exists exactly when that commits", inTransaction},
		{"tail/from the beginning, from now and from a position", tailStarts},
		{"tail/one goroutine reads several topics", tailsAreRead},
		{"tail/only the lane that was asked for", tailLane},
		{"tail/a slow reader misses nothing and slows nobody", tailOverflow},
		{"tail/goes on over a restart from its position", tailRestart},
		{"group/a work group shares, fanout groups each get all", modes},
		{"group/nothing published after Declare is missed (D5)", declared},
		{"group/a new one starts at the end or the beginning", newGroup},
		{"group/a lane keeps its order, lanes run side by side", laneOrder},
		{"group/a lane keeps its order through retries and restarts", orderKept},
		{"group/other types are committed unseen", types},
		{"group/consumers that care for other types are refused", otherTypes},
		{"group/what its next consumer does not care for is not left pending", typesChange},
		{"group/dropped, it is gone", dropGroup},
		{"group/dropped while a consumer comes, it exists or is made anew", dropWhileJoining},
		{"handler/an acknowledgement commits with the handler's writes", ackInTransaction},
		{"handler/a retry holds up its own lane only", retryLane},
		{"handler/poison goes to the dead letters after five attempts and can be replayed (D7)", poison},
		{"handler/control: without a last attempt poison loops and holds up its lane (D7)", poisonLoops},
		{"handler/a permanent failure goes to the dead letters at once", permanent},
		{"handler/stopping is not an attempt", stopping},
		{"handler/long work is not delivered twice (D6)", longWork},
		{"handler/control: long work that is given up is delivered twice (D6)", longWorkGivenUp},
		{"group/goes on over a restart without loss", groupRestart},
		{"trim/keeps what a live group has not committed", trimKeeps},
		{"trim/a reader is told what it missed", trimTold},
		{"trim/an output expires as a whole", outputExpires},
		{"trim/a reader of an output that is lost is told", outputLost},
		{"trim/a silent group does not block it for ever", silentGroup},
	} {
		t.Run(row.name, func(t *testing.T) { row.test(t, open) })
	}
}
