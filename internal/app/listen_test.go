package app

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

func TestAPortThatIsLeftInAMomentIsWaitedFor(t *testing.T) {
	before, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := before.Addr().String()
	if l, err := listen(t.Context(), addr); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("while it is taken: %v, %v", l, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := listen(ctx, addr); !errors.Is(err, context.Canceled) {
		t.Errorf("when nobody wants it any more: %v", err)
	}
	time.AfterFunc(portPatience/10, func() { _ = before.Close() })
	after, err := listen(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := after.Close(); err != nil {
		t.Error(err)
	}
}
