package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
)

// maxPiped bounds what is read from a pipe as one message.
const maxPiped = 900 << 10

func (c *cli) chat() *cobra.Command {
	var sessionID string
	cmd := &cobra.Command{
		Use:   "chat [MESSAGE...]",
		Short: "Talk in the terminal",
		Long: "Talks to the running server. A line that is typed while it answers is taken into the answer\n" +
			"(it steers). Ctrl-C stops the answer; a second Ctrl-C, or Ctrl-D, leaves. /stop stops, /quit leaves.\n\n" +
			"With a message, or with text from a pipe, it says that, prints the answer and ends.",
		Args:    cobra.ArbitraryArgs,
		Example: "  lilac chat\n  lilac chat --session 01k2…\n  lilac chat what is new\n  echo hi | lilac chat",
		RunE: func(cmd *cobra.Command, args []string) error {
			server, err := c.connect()
			if err != nil {
				return err
			}
			t := &talk{cli: c, server: server, session: sessionID, typed: isTerminal(c.in), terminal: isTerminal(c.out), done: make(chan struct{}, 1)}
			if len(args) > 0 || !t.typed {
				return t.once(cmd.Context(), strings.Join(args, " "))
			}
			return t.interactive(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&sessionID, "session", "", "continue this conversation `id`")
	return cmd
}

// talk is one conversation in the terminal.
type talk struct {
	cli     *cli
	server  *client.Client
	session string
	// typed says that lines come from a terminal, terminal that answers go to one.
	typed, terminal bool
	// done has an element when a request of the session has ended; one is
	// enough, since who waits looks at the state.
	done chan struct{}

	mu sync.Mutex // guards what follows and cli.out
	// running is the request that runs, mine the one that once waits for.
	running, mine string
	screen        screen
	midline       bool
	ended         map[string]error
	// unprinted is why some of an answer could not be printed.
	unprinted error
	// asked says that something was said and nothing came since, heard that
	// something came lately.
	asked, heard bool
}

// open finds or makes the session and returns a cursor from before anything
// that is said now.
func (t *talk) open(ctx context.Context) (cursor string, err error) {
	if t.session == "" {
		s, err := t.server.CreateSession(ctx, "terminal", "")
		if err != nil {
			return "", err
		}
		t.session = s.ID
	}
	return t.server.Now(ctx, t.session, t.waiting)
}

// waiting tells why nothing comes.
func (t *talk) waiting(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waitingLocked(why)
}

func (t *talk) waitingLocked(why error) {
	fmt.Fprintf(t.cli.err, "%sWaiting: %s\n", t.newLineLocked(), oneLine(fault.ToWire(why).Message))
}

// quiet is how long nothing may come before the server is asked why.
const quiet = 5 * time.Second

// watch tells who waits for an answer why none comes, once for each reason.
func (t *talk) watch(ctx context.Context, tick <-chan time.Time) {
	for told := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		if !t.silent() {
			told = ""
			continue
		}
		why := t.server.Hindrance(ctx)
		if why == nil || ctx.Err() != nil {
			told = ""
		} else if text := fault.ToWire(why).Message; text != told {
			told = text
			t.waiting(why)
		}
	}
}

// silent reports whether something is awaited and nothing came since it was
// asked last.
func (t *talk) silent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	heard := t.heard
	t.heard = false
	return !heard && (t.asked || t.running != "")
}

// ask says something in the conversation.
func (t *talk) ask(ctx context.Context, text string, queue event.Queue) (client.Accepted, error) {
	t.mu.Lock()
	t.asked = true
	t.mu.Unlock()
	accepted, err := t.server.Prompt(ctx, t.session, text, queue)
	if err != nil {
		t.mu.Lock()
		t.asked = false
		t.mu.Unlock()
	}
	return accepted, err
}

// sendGrace is how long sending a message may still take when its sender gives up:
// what the server has taken can be stopped only by who knows its request.
const sendGrace = 2 * time.Second

// once says one thing and prints the answer.
func (t *talk) once(ctx context.Context, message string) error {
	if !t.typed && message == "" {
		data, err := io.ReadAll(io.LimitReader(t.cli.in, maxPiped+1))
		if err != nil {
			return fmt.Errorf("read message: %w", err)
		}
		if len(data) > maxPiped {
			return fault.New(fault.TooLarge, "the message is larger than %d KiB", maxPiped>>10)
		}
		message = strings.TrimSpace(string(data))
	}
	if strings.TrimSpace(message) == "" {
		return fault.New(fault.Invalid, "there is nothing to say: give a message, or text on standard input")
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	cursor, err := t.open(ctx)
	if err != nil {
		return err
	}
	t.ended = map[string]error{}
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(sendGrace, cancel) })()
	accepted, err := t.ask(sending, message, event.Prompt)
	if err != nil && sending.Err() != nil {
		return fault.Wrap(fault.Timeout, err, "the server did not say in time whether it took the message; see: lilac requests list")
	}
	if err != nil {
		return err
	}
	t.mine = accepted.RequestID
	tick := time.NewTicker(quiet)
	defer tick.Stop()
	watching, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { t.watch(watching, tick.C) })
	err = t.server.Events(ctx, t.session, cursor, func(f client.Frame) error {
		t.show(f.Event)
		if _, over := t.ended[t.mine]; over {
			return io.EOF
		}
		return nil
	})
	end()
	wg.Wait()
	if errors.Is(err, io.EOF) {
		return cmp.Or(t.ended[t.mine], t.unprinted)
	}
	if ctx.Err() != nil {
		if err := t.server.Cancel(context.WithoutCancel(ctx), t.session, t.mine); err != nil {
			return err
		}
		return fault.New(fault.Cancelled, "the answer was stopped")
	}
	return err
}

// interactive talks until the user leaves.
func (t *talk) interactive(ctx context.Context) error {
	cursor, err := t.open(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.cli.out, "Session %s. Ctrl-C stops an answer, Ctrl-D leaves.\n", t.session)
	t.prompt()

	signals := make(chan os.Signal, 2) // room for the second Ctrl-C
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	ctx, stop := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop(nil)
	wg.Go(func() {
		err := t.server.Events(ctx, t.session, cursor, func(f client.Frame) error {
			t.show(f.Event)
			return nil
		})
		if err != nil {
			stop(err)
		}
	})
	tick := time.NewTicker(quiet)
	defer tick.Stop()
	wg.Go(func() { t.watch(ctx, tick.C) })
	// The reader of standard input ends with the process: a read of a
	// terminal cannot be stopped.
	lines, ended := make(chan string, 16), make(chan struct{})
	go readLines(t.cli.in, lines, ended, ctx.Done())
	return t.converse(ctx, signals, lines, ended)
}

// converse says the lines of the user, one after the other. The server may hang:
// signals and the end of the lines are heeded all the while.
func (t *talk) converse(ctx context.Context, signals <-chan os.Signal, lines <-chan string, ended <-chan struct{}) error {
	calling, stop := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer stop()
	said, failed := make(chan bool, 1), make(chan error)
	saying, interrupted := false, false
	var late <-chan time.Time
	for {
		next := lines
		if saying {
			next = nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case sig := <-signals:
			if sig != os.Interrupt || interrupted || !t.busy() {
				fmt.Fprintln(t.cli.out)
				return nil
			}
			interrupted = true
			t.note("stopping; Ctrl-C again leaves")
			calls.Go(func() {
				if err := t.server.Cancel(calling, t.session, ""); err != nil {
					select {
					case failed <- err:
					case <-calling.Done():
					}
				}
			})
		case err := <-failed:
			interrupted = false
			t.note(err.Error())
		case <-t.done:
			interrupted = false
		case line, ok := <-next:
			if !ok {
				return nil
			}
			saying = true
			calls.Go(func() { said <- t.said(calling, line) })
		case leave := <-said:
			if saying = false; leave {
				return nil
			}
		case <-ended:
			ended, late = nil, time.After(sendGrace)
		case <-late:
			return nil
		}
	}
}

// maxTyped is how much of a line a terminal passes on; what is typed or pasted
// beyond it is lost.
const maxTyped = 4095

// readLines closes ended when there are no more, and lines behind them.
func readLines(in io.Reader, lines chan<- string, ended chan<- struct{}, stop <-chan struct{}) {
	defer close(lines)
	defer close(ended)
	sc := bufio.NewScanner(in)
	sc.Buffer(make([]byte, 4096), maxPiped)
	for sc.Scan() {
		select {
		case lines <- sc.Text():
		case <-stop:
			return
		}
	}
}

// said handles a line of the user and reports whether to leave.
func (t *talk) said(ctx context.Context, line string) (leave bool) {
	cut := t.typed && len(line) >= maxTyped
	line = strings.TrimSpace(line)
	queue := event.Prompt
	switch {
	case line == "":
		t.prompt()
		return false
	case line == "/quit" || line == "/exit":
		return true
	case line == "/stop":
		if err := t.server.Cancel(ctx, t.session, ""); err != nil && ctx.Err() == nil {
			t.note(err.Error())
		}
		return false
	case cut:
		t.note(fmt.Sprintf("not said: a terminal passes on no more than %d bytes of a line. Use: lilac chat --session %s < FILE", maxTyped, t.session))
		t.prompt()
		return false
	case t.busy():
		queue = event.Steer
	}
	accepted, err := t.ask(ctx, line, queue)
	if ctx.Err() != nil { // the user left
		return true
	}
	if err != nil {
		t.note(err.Error())
		t.prompt()
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if queue == event.Prompt {
		t.mine = accepted.RequestID
	}
	return false
}

func (t *talk) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.running != ""
}

func (t *talk) prompt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.terminal && t.running == "" {
		fmt.Fprint(t.cli.out, "› ")
	}
}

// note prints a line beside the answer.
func (t *talk) note(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.noteLocked(s)
}

func (t *talk) noteLocked(s string) {
	fmt.Fprintf(t.cli.out, "%s  · %s\n", t.newLineLocked(), text.TruncateRunes(oneLine(s), 240))
}

// newLineLocked is what has to be printed to be at the beginning of a line.
func (t *talk) newLineLocked() string {
	if !t.midline {
		return ""
	}
	t.midline = false
	return "\n"
}
