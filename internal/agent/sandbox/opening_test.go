package sandbox

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"lilac/internal/foundation/fault"
)

func TestCommandsWaitForTheSandboxThatIsLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &Opening{found: make(chan struct{})}
		ctx, cancel := context.WithCancelCause(t.Context())
		ran := make(chan error, 2)
		run := func(ctx context.Context) {
			_, err := o.Run(ctx, Command{}, Policy{})
			ran <- err
		}
		go run(ctx)
		synctest.Wait()
		if len(ran) > 0 {
			t.Fatalf("a command did not wait: %v", <-ran)
		}
		stopped := errors.New("stopped")
		cancel(stopped)
		if err := <-ran; !errors.Is(err, stopped) {
			t.Errorf("a command that was cancelled while it waited: %v", err)
		}
		go run(t.Context())
		synctest.Wait()
		refused := errors.New("refused")
		o.box, o.err = Refusing(refused), refused
		close(o.found)
		if err := <-ran; !errors.Is(err, refused) {
			t.Errorf("a command that waited: %v", err)
		}
		if err := o.Wait(); !errors.Is(err, refused) || o.Name() != "none" {
			t.Errorf("it is %s: %v", o.Name(), err)
		}
	})
}

func TestAnUnknownModeRefusesEveryCommand(t *testing.T) {
	o := Start(t.Context(), "weak")
	if err := o.Wait(); fault.KindOf(err) != fault.Invalid {
		t.Errorf("it waited for %v", err)
	}
	if _, err := o.Run(t.Context(), Command{Argv: []string{"true"}}, Policy{}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("it ran: %v", err)
	}
}
