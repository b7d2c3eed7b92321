package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/term"

	"lilac/internal/app"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/config"
	"lilac/internal/operate/setup"
)

// A questioner asks on the terminal. The end of the input (Ctrl-D) ends its context, as Ctrl-C does.
// Every answer is empty then: nobody has agreed to anything.
type questioner struct {
	ctx context.Context
	end context.CancelFunc
	in  *bufio.Reader
	out io.Writer
	// hidden reads a line without showing it.
	hidden func() (string, error)
}

func newQuestioner(ctx context.Context, in io.Reader, out io.Writer) *questioner {
	q := &questioner{in: bufio.NewReader(in), out: out}
	q.ctx, q.end = context.WithCancel(ctx)
	q.hidden = q.shown
	if f, ok := in.(*os.File); ok && isTerminal(in) {
		q.hidden = func() (string, error) {
			state, stateErr := term.GetState(int(f.Fd()))
			line, err := q.await(func() (string, error) { return readHidden(f, q.in) })
			if q.ctx.Err() != nil {
				if stateErr == nil {
					_ = term.Restore(int(f.Fd()), state) // the process ends
				}
				return "", err
			}
			fmt.Fprintln(out)
			return line, err
		}
	}
	return q
}

func (q *questioner) shown() (string, error) {
	return q.await(func() (string, error) { return q.in.ReadString('\n') })
}

// await reads an answer, or returns when the context ends: nothing can interrupt the read of a
// terminal, so Ctrl-C leaves it to the end of the process.
func (q *questioner) await(read func() (string, error)) (string, error) {
	type answer struct {
		line string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		line, err := read()
		answers <- answer{line, err}
	}()
	select {
	case a := <-answers:
		if a.err == nil {
			return a.line, nil
		}
		q.end()
	case <-q.ctx.Done():
	}
	fmt.Fprintln(q.out) // behind the question
	return "", context.Cause(q.ctx)
}

// line asks for a line; an empty one means usual.
func (q *questioner) line(question, usual string) string {
	if usual != "" {
		question += " [" + usual + "]"
	}
	if q.ctx.Err() != nil {
		return ""
	}
	fmt.Fprint(q.out, question+": ")
	line, _ := q.shown()
	if q.ctx.Err() != nil {
		return ""
	}
	return cmp.Or(strings.TrimSpace(line), usual)
}

// secret asks for a line that is not shown.
func (q *questioner) secret(question string) config.Secret {
	if q.ctx.Err() != nil {
		return ""
	}
	fmt.Fprint(q.out, question+" (not shown): ")
	line, _ := q.hidden()
	return config.Secret(strings.TrimSpace(line))
}

// yes asks a question that is answered with yes or no.
func (q *questioner) yes(question string, usual bool) bool {
	word := "n"
	if usual {
		word = "y"
	}
	return strings.HasPrefix(strings.ToLower(q.line(question+" (y/n)", word)), "y")
}

// pick asks for one of the options, by number, or for none.
func (q *questioner) pick(question string, options []string) (int, bool) {
	for i, option := range options {
		fmt.Fprintf(q.out, "  %d  %s\n", i+1, text.Sanitize(option))
	}
	for {
		line := q.line(question+" (Enter: skip)", "")
		if line == "" {
			return 0, false
		}
		if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(options) {
			return n - 1, true
		}
		fmt.Fprintf(q.out, "Enter a number from 1 to %d, or only press Enter to skip.\n", len(options))
	}
}

// ask leads through the steps.
func (s *setupRun) ask(ctx context.Context) error {
	q := newQuestioner(ctx, s.in, s.out)
	defer q.end()
	ctx = q.ctx
	fmt.Fprintf(s.out, "This sets up Lilac in three steps, each of which you can skip. The file is %s.\n", s.store.Path)
	for _, step := range []struct {
		title string
		ask   func(context.Context, *questioner) (setup.Answers, bool, error)
	}{
		{"1. A model", s.askModel}, {"2. Discord", s.askDiscord}, {"3. A first rule", s.askRule},
	} {
		fmt.Fprintf(s.out, "\n%s\n", step.title)
		for {
			answers, ok, err := step.ask(ctx, q)
			if err == nil && ok && ctx.Err() == nil {
				err = s.apply(ctx, answers, q)
			}
			if err != nil && ctx.Err() == nil {
				s.printError(err)
				if q.yes("Try this step again?", true) {
					continue
				}
			}
			if ctx.Err() != nil {
				return fault.New(fault.Cancelled, "The setup was stopped. What it has written stays.")
			}
			break
		}
	}
	fmt.Fprintln(s.out, "\nStart the server with \"lilac serve\", or diagnose problems with \"lilac doctor\".")
	return nil
}

func (s *setupRun) askModel(ctx context.Context, q *questioner) (a setup.Answers, ok bool, err error) {
	var titles []string
	for _, p := range setup.Providers {
		titles = append(titles, p.Title)
	}
	n, ok := q.pick("Provider", titles)
	if !ok {
		return a, false, nil
	}
	p := setup.Providers[n]
	m := &setup.Model{Provider: p.Name}
	switch p.Name {
	case "demo":
		return setup.Answers{Model: m}, true, nil
	case "custom":
		m.Provider = q.line("Short name for it", "local")
		m.BaseURL = q.line("Address", "http://127.0.0.1:11434/v1")
	case "ollama":
		m.BaseURL = q.line("Address", p.BaseURL)
	}
	m.Name = q.line("Model", p.Model)
	if p.Key != "" || p.Name == "custom" {
		if p.Key != "" && ctx.Err() == nil {
			fmt.Fprintln(q.out, "You get a key at", p.Key)
		}
		m.Key = q.secret("API key")
		s.secrets.Add(m.Key.Reveal())
	}
	for p.Name == "custom" {
		header := q.secret("Header that a gateway wants, as NAME: VALUE (Enter: no more)")
		if !header.Set() {
			break
		}
		m.Headers += header + "\n"
	}
	return setup.Answers{Model: m}, true, nil
}

func (s *setupRun) askDiscord(ctx context.Context, q *questioner) (a setup.Answers, ok bool, err error) {
	fmt.Fprintln(q.out, "Create an application at https://discord.com/developers/applications. Under “Bot”, turn on “Message\nContent Intent”, then select “Reset Token”.")
	d := &setup.Discord{Token: q.secret("Bot token (Enter: skip)")}
	if !d.Token.Set() {
		return a, false, nil
	}
	s.secrets.Add(d.Token.Reveal())
	cfg, _, err := s.read()
	if err != nil {
		return a, false, err
	}
	for {
		found, err := app.TryDiscord(ctx, cfg, d.Token.Reveal())
		if err != nil {
			return a, false, err
		}
		s.printChecks(found.Checks)
		var names, ids []string
		for _, server := range found.Servers {
			names, ids = append(names, server.Name), append(ids, server.ID)
		}
		if len(ids) == 0 {
			fmt.Fprintln(q.out, "The bot is in no server yet. Invite it:", found.Invite)
			if !q.yes("Look again?", true) {
				return a, false, nil
			}
			continue
		}
		n, ok := q.pick("Server in which the bot listens", names)
		if !ok {
			return a, false, nil
		}
		d.Servers = []string{ids[n]}
		return setup.Answers{Discord: d}, true, nil
	}
}

func (s *setupRun) askRule(_ context.Context, q *questioner) (a setup.Answers, ok bool, err error) {
	var titles []string
	for _, t := range setup.Templates {
		titles = append(titles, t.Title)
	}
	n, ok := q.pick("Rule", titles)
	if !ok {
		return a, false, nil
	}
	t := setup.Templates[n]
	r := &setup.Rule{Template: t.Name, Conversation: q.line("Conversation in which the agent answers", t.Conversation)}
	switch {
	case t.Name == "weekdays":
		r.Time = q.line("Time", "09:00")
	case t.Name == "file":
		r.Directory = q.line("Directory to watch", "")
	case t.Name == "ci" && !slices.Contains(s.hooks(), "github"):
		r.Secret = q.secret("Secret that you enter on GitHub, at least 16 characters")
		s.secrets.Add(r.Secret.Reveal())
	}
	return setup.Answers{Rule: r}, true, nil
}

// hooks lists the configured webhooks.
func (s *setupRun) hooks() (names []string) {
	cfg, _, err := s.read()
	if err != nil {
		return nil
	}
	for name := range cfg.Webhooks {
		names = append(names, name)
	}
	return names
}
