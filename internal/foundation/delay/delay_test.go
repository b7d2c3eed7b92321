package delay_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/foundation/delay"
)

func TestWaitEndsWithTheTimeOrTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		if !delay.Wait(ctx, time.Minute) || time.Since(begun) != time.Minute {
			t.Errorf("a pause of a minute took %v", time.Since(begun))
		}
		time.AfterFunc(time.Second, cancel)
		begun = time.Now()
		if delay.Wait(ctx, time.Minute) || time.Since(begun) != time.Second {
			t.Errorf("a pause whose context ended after a second took %v", time.Since(begun))
		}
		if delay.Wait(ctx, 0) {
			t.Error("a context that had ended did not end the pause")
		}
	})
}
