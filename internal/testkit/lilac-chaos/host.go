package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
)

// host replaces a test for the fakes and harnesses. It embeds the interface
// for its private method; methods that nothing here uses are nil.
type host struct {
	testing.TB
	ctx  context.Context
	stop context.CancelFunc

	mu       sync.Mutex
	failed   bool
	cleanups []func()
}

func newHost(ctx context.Context) *host {
	h := &host{}
	h.ctx, h.stop = context.WithCancel(ctx)
	return h
}

// run calls work, then all cleanups, in the reverse order. A fatal error ends work.
func (h *host) run(work func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	<-done
	h.stop()
	for {
		h.mu.Lock()
		n := len(h.cleanups)
		if n == 0 {
			h.mu.Unlock()
			return
		}
		last := h.cleanups[n-1]
		h.cleanups = h.cleanups[:n-1]
		h.mu.Unlock()
		last()
	}
}

func (h *host) Context() context.Context { return h.ctx }
func (*host) Helper()                    {}
func (*host) Name() string               { return "lilac-chaos" }

func (h *host) Cleanup(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cleanups = append(h.cleanups, f)
}

func (h *host) Failed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed
}

func (h *host) Fail() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = true
}

func (*host) Log(args ...any)                 { fmt.Fprintln(os.Stderr, args...) }
func (*host) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (h *host) Error(args ...any) {
	h.Log(args...)
	h.Fail()
}

func (h *host) Errorf(format string, args ...any) {
	h.Logf(format, args...)
	h.Fail()
}

func (h *host) Fatal(args ...any) {
	h.Error(args...)
	runtime.Goexit()
}

func (h *host) Fatalf(format string, args ...any) {
	h.Errorf(format, args...)
	runtime.Goexit()
}

// Skip fails: what a test would skip without is required here.
func (h *host) Skip(args ...any) { h.Fatal(args...) }

func (h *host) Skipf(format string, args ...any) { h.Fatalf(format, args...) }

func (h *host) TempDir() string {
	dir, err := os.MkdirTemp("", "lilac-chaos-")
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
