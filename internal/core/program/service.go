package program

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

const (
	// readBuffer is the size of the buffer for the output of a program: the capacity of a
	// pipe (pipe(7)).
	readBuffer = 64 << 10
	// answerWait is the default of [Options].AnswerWait.
	answerWait = 30 * time.Second
	// drainWait limits the time for which the output of a program that has ended may stay open, because
	// a process that left the process group still has it.
	drainWait = time.Second
	// retryPause is the pause before an event that could not be committed is tried again.
	retryPause = time.Second
	// maxReason bounds the reason of a refusal, in bytes.
	maxReason = 300
)

// Intake publishes events of sources; see [environment.Intake].
type Intake interface {
	AwaitRoom(ctx context.Context, from environment.SourceID, queue int) error
	Publish(ctx context.Context, from environment.SourceID, queue int, e event.EnvEvent, also func(*db.Tx) (bool, error)) (published bool, err error)
	Refuse(from environment.SourceID)
	SetTrouble(from environment.SourceID, why string)
}

// Options configure a [Service].
type Options struct {
	Intake Intake
	Logger *slog.Logger
	Now    func() time.Time
	// Grace limits the time that a program takes to end after it was asked to. Default: 3 s.
	Grace time.Duration
	// AnswerWait limits the time for which a program leaves its answers unread when the pipe is full of
	// them. Default: 30 s.
	AnswerWait time.Duration
	// Sleep waits until d has passed or ctx ends, and then returns false. Default: a timer.
	Sleep func(ctx context.Context, d time.Duration) bool
}

// Service runs the programs.
type Service struct {
	o       Options
	sources atomic.Pointer[[]Source]
	// wakeup wakes Run. It holds one signal, because a second would add nothing.
	wakeup chan struct{}
}

// New returns a service without programs.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Grace == 0 {
		o.Grace = stopGrace
	}
	if o.AnswerWait == 0 {
		o.AnswerWait = answerWait
	}
	if o.Sleep == nil {
		o.Sleep = delay.Wait
	}
	s := &Service{o: o, wakeup: make(chan struct{}, 1)}
	s.sources.Store(&[]Source{})
	return s
}

// Set replaces the programs. Programs that stay the same keep running.
func (s *Service) Set(sources []Source) {
	sources = slices.Clone(sources)
	s.sources.Store(&sources)
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// supervised is a source with the goroutine that runs it.
type supervised struct {
	source Source
	cancel context.CancelFunc
	done   chan struct{}
}

// Run runs the programs until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	running := map[string]supervised{}
	for {
		wanted := map[string]Source{}
		for _, source := range *s.sources.Load() {
			wanted[source.Name] = source
		}
		if ctx.Err() != nil {
			wanted = nil
		}
		stopUnwanted(running, wanted)
		if ctx.Err() != nil {
			return nil
		}
		for name, source := range wanted {
			if _, ok := running[name]; ok {
				continue
			}
			own, cancel := context.WithCancel(ctx)
			r := supervised{source, cancel, make(chan struct{})}
			running[name] = r
			go func() {
				defer close(r.done)
				s.supervise(own, source)
			}()
		}
		select {
		case <-ctx.Done():
		case <-s.wakeup:
		}
	}
}

// stopUnwanted ends the programs that are gone or have changed, and waits for their end.
func stopUnwanted(running map[string]supervised, wanted map[string]Source) {
	var ending []supervised
	for name, r := range running {
		if source, ok := wanted[name]; ok && reflect.DeepEqual(source, r.source) {
			continue
		}
		r.cancel()
		ending = append(ending, r)
		delete(running, name)
	}
	for _, r := range ending {
		<-r.done
	}
}

// supervise runs a program until ctx ends, and starts it again when it ends.
func (s *Service) supervise(ctx context.Context, source Source) {
	r := &run{Source: source, o: s.o, log: &limitedLog{logger: s.o.Logger.With("source", source.Name), now: s.o.Now}}
	defer r.log.summarize()
	for failures := 0; ; {
		started := s.o.Now()
		err := r.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if s.o.Now().Sub(started) >= stableTime {
			failures = 0
		}
		failures++
		pause := Pause(failures)
		r.trouble(ctx, fmt.Sprintf("the program does not run: %s. It is started again every %s.", text.SingleLine(fault.Plain(err)), pause))
		r.log.log(slog.LevelWarn, "a source ended and will be started again", "reason", err.Error(), "failures", failures, "pause", pause.String())
		s.o.Sleep(ctx, pause)
		if ctx.Err() != nil {
			return
		}
	}
}

// run runs the program of a source.
type run struct {
	Source
	o   Options
	log *limitedLog
}

// trouble sets the reason why the source does not work, unless it is ending: then another
// source may have its name.
func (r *run) trouble(ctx context.Context, why string) {
	if ctx.Err() == nil {
		r.o.Intake.SetTrouble(r.id(), why)
	}
}

// errExited is the error of a program that ended by itself without an error.
var errExited = errors.New("it ended; a source must keep running")

// once runs the program to its end and returns the reason, which is never nil.
func (r *run) once(ctx context.Context) error {
	p, err := start(r.Source)
	if err != nil {
		return err
	}
	defer p.close()
	// Lines are handled until the program has ended, but no longer than ctx.
	var readers sync.WaitGroup
	handled := make(chan error, 1)
	readers.Go(func() { handled <- r.handle(ctx, p) })
	readers.Go(func() { r.log.copy(p.stderr) })
	broken := r.await(ctx, p, handled)
	p.stop(r.o.Grace)
	// Nothing writes to the pipes any more, unless a process has left the group.
	deadline := time.Now().Add(drainWait)
	_ = p.stdout.SetReadDeadline(deadline)
	_ = p.stderr.SetReadDeadline(deadline)
	readers.Wait()
	switch {
	case broken != nil:
		return broken
	case p.err != nil:
		return p.err
	}
	return errExited
}

// await returns when the program has ended, when ctx ends, or with the reason why the
// program must be ended. handled receives the result of its output.
func (r *run) await(ctx context.Context, p *process, handled <-chan error) error {
	stable := time.NewTimer(stableTime)
	defer stable.Stop()
	var closed <-chan time.Time // nil while the output is open
	for {
		select {
		case <-p.ended:
			return nil
		case <-ctx.Done():
			return nil
		case <-stable.C:
			r.trouble(ctx, "")
		case err := <-handled:
			if err != nil {
				return err
			}
			// The output usually ends a moment before the program.
			timer := time.NewTimer(drainWait)
			defer timer.Stop()
			closed, handled = timer.C, nil
		case <-closed:
			return errors.New("it closed its standard output")
		}
	}
}

// handle publishes and acknowledges the lines of a program until its output ends. An
// error says why the program must be ended.
func (r *run) handle(ctx context.Context, p *process) error {
	in := bufio.NewReaderSize(p.stdout, readBuffer)
	for ctx.Err() == nil {
		line, err := readLine(in, r.MaxBytes)
		switch {
		case errors.Is(err, errTooLong):
			err = r.refuse(p, "", fault.ToWire(err).Message)
		case err != nil:
			return nil // the output has ended, or was closed after the end of the program
		case len(strings.TrimSpace(string(line))) == 0:
			continue
		default:
			err = r.handleLine(ctx, p, line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) handleLine(ctx context.Context, p *process, line []byte) error {
	e, id, err := Parse(r.Name, line, r.o.Now())
	if err != nil {
		return r.refuse(p, id, fault.ToWire(err).Message)
	}
	for {
		err := r.o.Intake.AwaitRoom(ctx, r.id(), r.Queue)
		if err == nil {
			_, err = r.o.Intake.Publish(ctx, r.id(), r.Queue, e, nil)
		}
		switch kind := fault.KindOf(err); {
		case err == nil:
			r.trouble(ctx, "")
			return r.answer(p, "ack "+id)
		case ctx.Err() != nil:
			return nil
		case kind == fault.Invalid || kind == fault.TooLarge:
			return r.refuse(p, id, fault.ToWire(err).Message)
		}
		r.trouble(ctx, "an event cannot be saved: "+fault.ToWire(err).Message)
		r.log.log(slog.LevelError, "cannot save an event of a source; trying again", "error", err)
		r.o.Sleep(ctx, retryPause)
	}
}

// refuse answers a line that can never become an event.
func (r *run) refuse(p *process, id, reason string) error {
	r.o.Intake.Refuse(r.id())
	reason = text.SingleLine(text.Truncate(reason, maxReason))
	if id == "" {
		id = "-"
	}
	r.log.log(slog.LevelWarn, "a source printed a line that is not an event", "id", id, "reason", reason)
	return r.answer(p, "nack "+id+" "+reason)
}

// answer writes a line to the program. It is no error if the program has ended or does
// not read: it will send again what it does not know to be durable.
func (r *run) answer(p *process, line string) error {
	_ = p.stdin.SetWriteDeadline(time.Now().Add(r.o.AnswerWait)) // pipes of some systems have none
	_, err := p.stdin.WriteString(line + "\n")
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("it has not read its acknowledgments for %s", r.o.AnswerWait)
	}
	return nil
}
