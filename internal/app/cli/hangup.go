package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// closing is the longest time between the SIGHUP of a shell whose terminal is closed, and the end of
// that terminal: some terminals signal their shell first, and the shell signals its jobs.
const closing = 300 * time.Millisecond

// onHangUp returns a channel that receives each SIGHUP as a wish to reload. If the server was started in
// a terminal that is gone then, it calls stop instead: nobody wants a server that runs on unseen. Under
// nohup, in a service, and where there was no terminal, SIGHUP always reloads.
func onHangUp(ctx context.Context, stop func()) <-chan os.Signal {
	nohup := signal.Ignored(syscall.SIGHUP)
	signals := make(chan os.Signal, 1) // one pending signal is enough: a reload reads the newest file
	signal.Notify(signals, syscall.SIGHUP)
	if nohup || !hasTerminal() {
		return signals
	}
	reload := make(chan os.Signal, 1)
	go func() {
		for {
			select {
			case s := <-signals:
				time.Sleep(closing)
				if !hasTerminal() {
					stop()
					return
				}
				select {
				case reload <- s:
				default: // one is pending
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return reload
}

// hasTerminal reports whether the process has a controlling terminal.
func hasTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err == nil {
		_ = tty.Close()
	}
	return err == nil
}
