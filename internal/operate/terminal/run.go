package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"lilac/internal/foundation/fault"
	"lilac/internal/operate/client"
)

// Options configure [Run].
type Options struct {
	Server *client.Client
	// Version is shown in the header.
	Version string
	// Session is the conversation to continue; "" begins a new one with the first message.
	Session string
	// Pick lets the user choose a conversation first.
	Pick bool
	// In and Out are the terminal. Environ describes it.
	In      io.Reader
	Out     io.Writer
	Environ []string
	// Dir is where relative paths of attachments and exports begin.
	Dir string
}

// Result is the state in which the user left.
type Result struct {
	// Session is the open conversation, or "".
	Session string
	// Busy reports that the server still works on an answer.
	Busy bool
}

// Run chats until the user leaves. It waits for everything that it started.
func Run(ctx context.Context, o Options) (result Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &service{ctx: ctx, o: o}
	defer s.wg.Wait()
	defer cancel()
	model, err := s.currentModel()
	if err != nil {
		return result, err
	}
	p := &program{service: s, model: NewModel(o.Server.Addr(), o.Version, model, time.Now())}
	out := colorprofile.NewWriter(o.Out, o.Environ) // only colors that the terminal has
	if _, err := fmt.Fprintln(out, p.model.Header()); err != nil {
		return result, fmt.Errorf("print: %w", err)
	}
	s.program = tea.NewProgram(p, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ))
	last, err := s.program.Run()
	if p, ok := last.(*program); ok {
		result = Result{Session: p.model.session, Busy: p.model.Busy()}
	}
	if errors.Is(err, tea.ErrInterrupted) || ctx.Err() != nil {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("run the terminal: %w", err)
	}
	return result, err
}

// currentModel returns the name of the model that answers. Without an answer in time it is
// "", because only the header shows it.
func (s *service) currentModel() (string, error) {
	ctx, cancel := context.WithTimeout(s.ctx, 3*time.Second)
	defer cancel()
	list, err := s.o.Server.Models(ctx)
	if err != nil && (client.NoServer(err) || fault.KindOf(err) == fault.Unauthenticated) {
		return "", err
	}
	return list.Default, nil
}

// program connects [Update] to Bubble Tea.
type program struct {
	*service
	model Model
}

// Init implements tea.Model.
func (p *program) Init() tea.Cmd {
	model, effects := p.model.Begin(p.o.Session, p.o.Pick)
	p.model = model
	return tea.Batch(tea.RequestBackgroundColor, p.commands(effects))
}

// Update implements tea.Model.
func (p *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	model, effects := Update(p.model, msg)
	p.model = model
	return p, p.commands(effects)
}

// View implements tea.Model.
func (p *program) View() tea.View { return p.model.View() }

// commands turns effects into Bubble Tea's commands. Calls of one list run one after
// another, because a message must not overtake the one before it.
func (p *program) commands(effects []Effect) tea.Cmd {
	var all, calls []tea.Cmd
	for _, e := range effects {
		switch e := e.(type) {
		case Print:
			all = append(all, printLines(e))
		case Wait:
			all = append(all, tea.Tick(e.For, func(at time.Time) tea.Msg { return Tick{at} }))
		case Copy:
			all = append(all, tea.SetClipboard(e.Text))
		case Suspend:
			all = append(all, tea.Suspend)
		case Leave:
			all = append(all, tea.Quit)
		default:
			calls = append(calls, p.call(e))
		}
	}
	if len(calls) > 0 {
		all = append(all, tea.Sequence(calls...))
	}
	return tea.Batch(all...)
}

// printLines prints one line after the other. Bubble Tea makes room for what it prints by
// scrolling; for more lines than are free below the changing part, that would scroll the
// changing part itself into the terminal's history.
func printLines(e Print) tea.Cmd {
	all := make([]tea.Cmd, 0, len(e.Lines)+1)
	for _, l := range e.Lines {
		if l == "" {
			l = " " // Bubble Tea prints no empty text
		}
		all = append(all, tea.Println(l))
	}
	return tea.Sequence(append(all, func() tea.Msg { return Printed{} })...)
}

// call runs an effect in a goroutine that Run waits for.
func (s *service) call(e Effect) tea.Cmd {
	return func() tea.Msg {
		s.wg.Add(1)
		defer s.wg.Done()
		if s.ctx.Err() != nil {
			return nil
		}
		return s.do(e)
	}
}

// service carries out the effects that call the server or read files.
type service struct {
	ctx     context.Context
	o       Options
	program *tea.Program
	wg      sync.WaitGroup

	mu sync.Mutex // guards the field below
	// unfollow ends the goroutine that follows the event stream.
	unfollow context.CancelFunc
}

// follow follows the events of a session instead of those of another one; "" follows none.
// It retries without end while the server is away.
func (s *service) follow(session, cursor string) {
	ctx, cancel := context.WithCancel(s.ctx)
	s.mu.Lock()
	if s.unfollow != nil {
		s.unfollow()
	}
	s.unfollow = cancel
	s.mu.Unlock()
	if session == "" {
		return
	}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		for ctx.Err() == nil {
			err := s.o.Server.Events(ctx, session, cursor, func(f client.Frame) error {
				cursor = f.Cursor
				s.program.Send(Streamed{Session: session, Event: f.Event})
				return nil
			})
			if err != nil && client.NoServer(err) {
				s.program.Send(Outage{Reason: fault.Plain(err)})
				continue
			}
			if ctx.Err() == nil {
				s.program.Send(StreamEnded{Session: session, Err: err})
			}
			return
		}
	}()
}
