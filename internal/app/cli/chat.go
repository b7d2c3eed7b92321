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
	"lilac/internal/operate/terminal"
)

// maxPiped limits a message that is read from a pipe, in bytes.
const maxPiped = 900 << 10

func chatCommand(c *cli) *cobra.Command {
	var o chatOptions
	cmd := &cobra.Command{
		Use:   "chat [MESSAGE...]",
		Short: "Chat in the terminal",
		Long: "Chats with the running server. What you type during an answer is added to it; Esc stops the answer,\n" +
			"@FILE attaches a file, and /help lists the commands and keys. To leave, press Ctrl-D: a running answer\n" +
			"continues, and --session shows it again.\n\n" +
			"With a message as an argument or from a pipe, the command sends it, prints the answer and ends. On a\n" +
			"terminal that cannot move the cursor (TERM=dumb), or with --plain, it reads and prints line by line:\n" +
			"a line that you type during an answer steers it, Ctrl-C or /stop stops it, /model chooses a model, and\n" +
			"Ctrl-C again, Ctrl-D, or /quit leaves.",
		Args:    cobra.ArbitraryArgs,
		Example: "  lilac chat\n  lilac chat --resume\n  lilac chat --session 01k2…\n  lilac chat what is new\n  echo hi | lilac chat",
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			return c.chat(cmd.Context(), server, o, args)
		}),
	}
	cmd.Flags().StringVar(&o.session, "session", "", "continue this conversation `id`")
	cmd.Flags().BoolVar(&o.resume, "resume", false, "choose a conversation to continue")
	cmd.Flags().BoolVar(&o.plain, "plain", false, "read and print line by line")
	return cmd
}

// chatOptions are the flags of the command.
type chatOptions struct {
	session       string
	resume, plain bool
}

func (c *cli) chat(ctx context.Context, server *client.Client, o chatOptions, args []string) error {
	t := &talk{cli: c, server: server, session: o.session, typed: isTerminal(c.in), terminal: isTerminal(c.out), done: make(chan struct{}, 1)}
	once := len(args) > 0 || !t.typed
	name := c.getenv("TERM")
	full := !once && t.terminal && !o.plain && name != "" && name != "dumb"
	if o.resume && (!full || o.session != "") {
		return fault.New(fault.Invalid, "--resume needs a terminal that can move the cursor, and no message, --session or --plain")
	}
	if once {
		return t.once(ctx, strings.Join(args, " "))
	}
	if !full {
		return t.interactive(ctx)
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the current directory: %w", err)
	}
	last, err := terminal.Run(ctx, terminal.Options{
		Server: server, Version: c.release, Session: o.session, Pick: o.resume,
		In: c.in, Out: c.out, Environ: os.Environ(), Dir: dir,
	})
	switch {
	case last.Busy:
		fmt.Fprintf(c.out, "The answer continues. To see it: lilac chat --session %s\n", last.Session)
	case last.Session != "":
		fmt.Fprintf(c.out, "To continue: lilac chat --session %s\n", last.Session)
	}
	return err
}

// talk is one conversation in the terminal.
type talk struct {
	cli     *cli
	server  *client.Client
	session string
	// typed reports that input is a terminal, terminal that output is one.
	typed, terminal bool
	// done receives an element when a request of the session ends. One slot is
	// enough, because the receiver checks the state.
	done chan struct{}

	mu sync.Mutex // guards the fields below and cli.out
	// running is the running request, mine the one that once waits for.
	running, mine string
	screen        screen
	midline       bool
	ended         map[string]error
	// printErr is the error of printing the answer.
	printErr error
	// asked reports that no event arrived since the last message, heard that one
	// arrived since the last check.
	asked, heard bool
}

// open creates the session if necessary and returns a cursor from before the first
// message.
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

// waiting prints why no answer comes.
func (t *talk) waiting(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waitingLocked(why)
}

func (t *talk) waitingLocked(why error) {
	fmt.Fprintf(t.cli.err, "%sWaiting: %s\n", t.newLineLocked(), oneLine(fault.ToWire(why).Message))
}

// quiet is the silence after which the server is asked for the reason.
const quiet = 5 * time.Second

// watch prints why no answer comes, once for each reason, while one is expected.
func (t *talk) watch(ctx context.Context, tick <-chan time.Time) {
	for printed := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		if !t.silent() {
			printed = ""
			continue
		}
		why := t.server.OutageReason(ctx)
		if why == nil || ctx.Err() != nil {
			printed = ""
		} else if text := fault.ToWire(why).Message; text != printed {
			printed = text
			t.waiting(why)
		}
	}
}

// silent reports whether an answer is expected and no event arrived since the last
// call.
func (t *talk) silent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	heard := t.heard
	t.heard = false
	return !heard && (t.asked || t.running != "")
}

// ask sends a message to the conversation.
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

// sendGrace is the time that sending a message may still take after Ctrl-C, because
// the request can be cancelled only when its id is known.
const sendGrace = 2 * time.Second

// once sends one message and prints the answer.
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
		return fault.New(fault.Invalid, "there is no message: pass one as an argument or on standard input")
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
		return fault.Wrap(fault.Timeout, err, "the server did not confirm the message in time; to check, run: lilac requests list")
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
		return cmp.Or(t.ended[t.mine], t.printErr)
	}
	if ctx.Err() != nil {
		if err := t.server.Cancel(context.WithoutCancel(ctx), t.session, t.mine); err != nil {
			return err
		}
		return fault.New(fault.Cancelled, "the answer was stopped")
	}
	return err
}

// interactive chats until the user leaves.
func (t *talk) interactive(ctx context.Context) error {
	cursor, err := t.open(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.cli.out, "Session %s. To stop an answer, press Ctrl-C; to leave, Ctrl-D.\n", t.session)
	t.prompt()

	signals := make(chan os.Signal, 2) // the second Ctrl-C must not be dropped
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
	// This goroutine ends with the process, because a read from a terminal cannot be
	// cancelled.
	lines, ended := make(chan string, 16), make(chan struct{})
	go readLines(t.cli.in, lines, ended, ctx.Done())
	return t.converse(ctx, signals, lines, ended)
}

// converse sends the user's lines, one at a time. It handles signals and the end of
// input even while the server hangs.
func (t *talk) converse(ctx context.Context, signals <-chan os.Signal, lines <-chan string, ended <-chan struct{}) error {
	calling, stop := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer stop()
	handled, failed := make(chan bool, 1), make(chan error)
	handling, interrupted := false, false
	var late <-chan time.Time
	for {
		next := lines
		if handling {
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
			t.note("stopping; to leave, press Ctrl-C again")
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
			t.note(fault.Plain(err))
		case <-t.done:
			interrupted = false
		case line, ok := <-next:
			if !ok {
				return nil
			}
			handling = true
			calls.Go(func() { handled <- t.handleLine(calling, line) })
		case leave := <-handled:
			if handling = false; leave {
				return nil
			}
		case <-ended:
			ended, late = nil, time.After(sendGrace)
		case <-late:
			return nil
		}
	}
}

// maxTyped is the length of a line, in bytes, beyond which a terminal drops input.
const maxTyped = 4095

// readLines sends the lines of in. At the end of input it closes ended, then lines.
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

// handleLine handles a line of the user and reports whether to leave.
func (t *talk) handleLine(ctx context.Context, line string) (leave bool) {
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
			t.note(fault.Plain(err))
		}
		return false
	case line == "/model" || strings.HasPrefix(line, "/model "):
		t.model(ctx, strings.Fields(line)[1:])
		return false
	case cut:
		t.note(fmt.Sprintf("not sent: a terminal accepts at most %d bytes per line. Use: lilac chat --session %s < FILE", maxTyped, t.session))
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
		t.note(fault.Plain(err))
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

// note prints a line between parts of the answer.
func (t *talk) note(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.noteLocked(s)
}

func (t *talk) noteLocked(s string) {
	fmt.Fprintf(t.cli.out, "%s  · %s\n", t.newLineLocked(), text.TruncateRunes(oneLine(s), 240))
}

// newLineLocked returns the line break that is needed to start a new line.
func (t *talk) newLineLocked() string {
	if !t.midline {
		return ""
	}
	t.midline = false
	return "\n"
}
