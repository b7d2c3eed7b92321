package sandbox_test

import (
	"fmt"
	"testing"

	"lilac/internal/sandbox"
)

// Our own process in a sandbox has the limits of the command, and Go ends a program
// that gets no memory for another thread: with cgo that takes 8 MiB.
func TestALittleMemoryLeavesRoomForOurOwnProcess(t *testing.T) {
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		policy := sandbox.Policy{Workspace: t.TempDir(), Proxy: listen(t).Addr().String(), Limits: sandbox.Limits{MemoryBytes: sandbox.MinMemoryBytes}}
		out, res := script(t, box, policy, `ulimit -d; sed -n 's/^VmData:\s*//p' /proc/$PPID/status`)
		var limit, ours int64 // KiB
		if _, err := fmt.Sscan(out, &limit, &ours); err != nil {
			t.Fatalf("%v: %+v: %s", err, res, out)
		}
		if room := limit - ours; room < 3*8<<10 {
			t.Errorf("our own process has %d KiB, and room for %d KiB", ours, room)
		}
	})
}
