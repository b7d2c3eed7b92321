package discord_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
	"lilac/internal/testkit/discordtest"
)

// desk records the interactions that users triggered.
type desk struct {
	mu       sync.Mutex
	running  string
	asker    string
	stopped  []string
	answered []string
	asked    []surface.Message
	renewed  []string
	wait     chan struct{}
	// hold, if not nil, blocks the lookup of the asker until it is closed.
	hold chan struct{}
}

func (d *desk) Running(context.Context, string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running, nil
}

func (d *desk) Askers(ctx context.Context, _ string) ([]string, error) {
	if d.hold != nil {
		select {
		case <-d.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return []string{d.asker}, nil
}

func (d *desk) Stop(_ *db.Tx, request string, by surface.User) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = append(d.stopped, request+" by "+by.Name)
	return nil
}

func (d *desk) Answer(_ *db.Tx, request string, pause, answer int, by surface.User) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if by.ID != d.asker {
		return fault.New(fault.Denied, "You may not approve this.")
	}
	d.answered = append(d.answered, fmt.Sprintf("%s %d %d by %s", request, pause, answer, by.Name))
	return nil
}

func (d *desk) Status(ctx context.Context, _ string) (string, error) {
	if d.wait != nil {
		select {
		case <-d.wait:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return "Nothing is going on.", nil
}

func (d *desk) Queue(context.Context, string) (string, error) {
	return "Nothing runs or waits here.", nil
}

func (d *desk) NewConversation(_ *db.Tx, _ string, by surface.User) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running != "" {
		return fault.New(fault.Conflict, "An answer is in progress here.")
	}
	d.renewed = append(d.renewed, by.Name)
	return nil
}

func (d *desk) Ask(_ *db.Tx, m surface.Message, _ surface.User) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, m)
	return nil
}

func (d *desk) done() (stopped []string, asked []surface.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.stopped...), append([]surface.Message{}, d.asked...)
}

// knowsCommands waits until the commands are registered with Discord and the registration is stored.
func (w *world) knowsCommands() {
	w.t.Helper()
	w.await("the commands", func() bool {
		var state discord.GatewayState
		err := w.db.Read(context.Background(), func(q db.Queryer) (err error) {
			state, err = store.Discord{}.Gateway(q)
			return err
		})
		return err == nil && state.Commands != "" && len(w.server.Commands()) > 0
	})
}

// answered waits for the visible response to an interaction and returns its text.
func (w *world) answered(id string) string {
	w.t.Helper()
	w.await("an answer", func() bool {
		i := w.server.Interaction(id)
		return len(i.Messages) > 0 && i.Messages[len(i.Messages)-1].Content != ""
	})
	i := w.server.Interaction(id)
	if !i.Acked || !i.Ephemeral {
		w.t.Errorf("acknowledged: %v, only for the asker: %v", i.Acked, i.Ephemeral)
	}
	return i.Messages[len(i.Messages)-1].Content
}

func TestOnlyWhoAskedAndModeratorsMayStop(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	d := &desk{running: "discord:7:9", asker: w.ann.ID}
	o := w.options()
	o.Interactions = d
	a, _ := w.connected(o)
	w.knowsCommands()
	s := say(w, "working", "act-1")
	s.Buttons = []surface.Button{{ID: "stop:discord:7:9", Label: "Stop"}}
	m, err := a.Send(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.answered(w.server.Press(w.channel, m.ID, w.bob.ID, "stop:discord:7:9")); !strings.Contains(got, "Only the person who asked") {
		t.Errorf("somebody else is told %q", got)
	}
	if stopped, _ := d.done(); len(stopped) != 0 {
		t.Errorf("stopped: %q", stopped)
	}
	if got := w.answered(w.server.Press(w.channel, m.ID, w.ann.ID, "stop:discord:7:9")); got != "Stopped." {
		t.Errorf("who asked is told %q", got)
	}
	if got := w.answered(w.server.Slash(w.channel, w.ann.ID, "stop", nil)); got != "Stopped." {
		t.Errorf("/stop says %q", got)
	}
	w.server.Role(w.guild, discordtest.ManageMessages, w.bob.ID)
	if got := w.answered(w.server.Press(w.channel, m.ID, w.bob.ID, "stop:discord:7:9")); got != "Stopped." {
		t.Errorf("a moderator is told %q", got)
	}
	if stopped, _ := d.done(); len(stopped) != 3 {
		t.Errorf("stopped: %q", stopped)
	}
}

// Fifteen minutes after a command, Discord refuses replies to it with a 401 (reported as
// discord-api-docs#6851). By a clock that is behind, there is still time. It says nothing about the bot's
// token.
func TestALateReplyDoesNotBlameTheToken(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	d := &desk{}
	o := w.options()
	o.Interactions = d
	a, _ := w.connected(o)
	w.knowsCommands()
	w.server.FailNext("PATCH /webhooks", discordtest.Fault{Status: http.StatusUnauthorized, Code: 50027, Message: "Invalid Webhook Token"})
	w.server.Slash(w.channel, w.ann.ID, "status", nil)
	w.await("the refusal", func() bool { return strings.Contains(w.log.String(), "cannot reply to a Discord interaction") })
	if log := w.log.String(); strings.Contains(log, "rejected the bot's token") || !strings.Contains(log, "no longer accepts replies") {
		t.Errorf("the log says: %s", log)
	}
	if err := a.Healthy(); err != nil {
		t.Errorf("its health is %v", err)
	}
}

// Requests that another component starts can have IDs longer than Discord's limit for a button ID.
// They can still be stopped.
func TestARequestWithALongIdCanBeStopped(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	d := &desk{asker: w.ann.ID}
	o := w.options()
	o.Interactions = d
	a, _ := w.connected(o)
	w.knowsCommands()
	request := "env:" + w.channel + ":webhook.deployments." + strings.Repeat("a1b2", 20)
	s := say(w, "working", "act-1")
	s.Buttons = []surface.Button{{ID: "stop:" + request, Label: "Stop"}}
	m, err := a.Send(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	press := func() string {
		return w.answered(w.server.Press(w.channel, m.ID, w.ann.ID, w.server.Ours(w.channel)[0].Buttons[0].ID))
	}
	if got := press(); got != "This button no longer works." {
		t.Errorf("before the message is known: %q", got)
	}
	m.RequestID = request
	if err := w.db.Update(t.Context(), func(tx *db.Tx) error { return store.SurfaceCache{}.PutMessage(tx, m) }); err != nil {
		t.Fatal(err)
	}
	if got := press(); got != "Stopped." {
		t.Errorf("who asked is told %q", got)
	}
	if stopped, _ := d.done(); len(stopped) != 1 || !strings.HasPrefix(stopped[0], request+" ") {
		t.Errorf("stopped: %q", stopped)
	}
}

// The buttons of a question name the question and the answer, also if the request's id is
// too long for them.
func TestQuestionsAreAnsweredWithButtons(t *testing.T) {
	for name, request := range map[string]string{"a short id": "discord:7:9", "a long id": "env:7:webhook." + strings.Repeat("a1b2", 20)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, discordtest.Options{})
			d := &desk{asker: w.ann.ID}
			o := w.options()
			o.Interactions = d
			a, _ := w.connected(o)
			w.knowsCommands()
			s := say(w, "May I?", "act-1")
			s.Buttons = []surface.Button{{ID: surface.AnswerButton(2, 1, request), Label: "Always here"}}
			m, err := a.Send(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			m.RequestID = request
			if err := w.db.Update(t.Context(), func(tx *db.Tx) error { return store.SurfaceCache{}.PutMessage(tx, m) }); err != nil {
				t.Fatal(err)
			}
			button := w.server.Ours(w.channel)[0].Buttons[0].ID
			if got := w.answered(w.server.Press(w.channel, m.ID, w.bob.ID, button)); got != "You may not approve this." {
				t.Errorf("somebody else is told %q", got)
			}
			if got := w.answered(w.server.Press(w.channel, m.ID, w.ann.ID, button)); got != "Your answer counts." {
				t.Errorf("who may is told %q", got)
			}
			if len(d.answered) != 1 || d.answered[0] != request+" 2 1 by Ann" {
				t.Errorf("answered %q", d.answered)
			}
		})
	}
}

func TestCommandsAreAnswered(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	d := &desk{wait: make(chan struct{})}
	o := w.options()
	o.Interactions = d
	w.connected(o)
	w.knowsCommands()
	if got := w.answered(w.server.Slash(w.channel, w.ann.ID, "help", nil)); !strings.Contains(got, "/status") {
		t.Errorf("/help says %q", got)
	}
	status := w.server.Slash(w.channel, w.ann.ID, "status", nil)
	w.server.AwaitInteraction(t, status) // acknowledged while the response is still pending
	close(d.wait)
	if got := w.answered(status); got != "Nothing is going on." {
		t.Errorf("/status says %q", got)
	}
	if got := w.answered(w.server.Slash(w.channel, w.ann.ID, "stop", nil)); !strings.Contains(got, "No answer is in progress") {
		t.Errorf("/stop of nothing says %q", got)
	}
	for _, name := range []string{"new", "reset"} {
		if got := w.answered(w.server.Slash(w.channel, w.ann.ID, name, nil)); !strings.Contains(got, "This is a new conversation") {
			t.Errorf("/%s says %q", name, got)
		}
	}
	if len(d.renewed) != 2 || d.renewed[0] != "Ann" {
		t.Errorf("new conversations for %q", d.renewed)
	}
	if got := w.answered(w.server.Slash(w.channel, w.ann.ID, "queue", nil)); got != "Nothing runs or waits here." {
		t.Errorf("/queue says %q", got)
	}
	about := w.server.Say(w.channel, w.bob, "a riddle", discordtest.SayOptions{})
	if got := w.answered(w.server.Menu(w.channel, about, w.ann.ID, "Ask about this")); got != "I am looking at it." {
		t.Errorf("the menu says %q", got)
	}
	if _, asked := d.done(); len(asked) != 1 || asked[0].ID != about || asked[0].Text != "a riddle" || asked[0].AuthorID != w.bob.ID {
		t.Errorf("asked about %+v", asked)
	}
	if _, err := w.cached(w.channel, about); err != nil {
		t.Errorf("the message is not in the cache: %v", err)
	}
}

// Who may not talk to the agent can use no command, except help and one's own stop.
func TestCommandsAreForThoseWhoMayTalk(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	d := &desk{}
	o := w.options()
	o.Interactions, o.MayTalk = d, func(u surface.User) bool { return u.ID == w.ann.ID }
	w.connected(o)
	w.knowsCommands()
	for _, name := range []string{"new", "reset", "status", "queue", "model"} {
		if got := w.answered(w.server.Slash(w.channel, w.bob.ID, name, nil)); !strings.Contains(got, "may not talk") {
			t.Errorf("/%s of somebody who may not talk says %q", name, got)
		}
	}
	if len(d.renewed) != 0 {
		t.Errorf("new conversations for %q", d.renewed)
	}
	for _, name := range []string{"help", "stop"} {
		if got := w.answered(w.server.Slash(w.channel, w.bob.ID, name, nil)); strings.Contains(got, "may not talk") {
			t.Errorf("/%s says %q", name, got)
		}
	}
	if got := w.answered(w.server.Slash(w.channel, w.ann.ID, "new", nil)); !strings.Contains(got, "This is a new conversation") {
		t.Errorf("control: /new says %q", got)
	}
}

func TestCommandsAreToldOnceUntilTheyChange(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	for range 3 {
		_, stop := w.connected(w.options())
		w.knowsCommands()
		stop()
	}
	if n := w.server.CommandWrites(); n != 1 {
		t.Errorf("the commands were told %d times", n)
	}
}

func TestARefusalNamesTheFieldsThatAreWrong(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.server.FailNext("PUT /applications/{application}/commands", discordtest.Fault{
		Status: http.StatusBadRequest,
		Page:   `{"code":50035,"message":"Invalid Form Body","errors":{"0":{"options":{"1":{"_errors":[{"code":"additionalProperties","message":"must NOT have additional properties"}]}}}}}`,
	})
	w.connected(w.options())
	w.await("the log says why the commands are refused", func() bool {
		return strings.Contains(w.log.String(), "Invalid Form Body (0.options.1: must NOT have additional properties)")
	})
}

func TestInteractionsInOtherChannelsAreRefused(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	d := &desk{running: "r", asker: w.ann.ID}
	o := w.options()
	o.Interactions, o.AllowedGuildIDs, o.AllowedChannelIDs = d, nil, []string{"42"}
	w.connected(o)
	w.knowsCommands()
	if got := w.answered(w.server.Slash(w.channel, w.ann.ID, "stop", nil)); !strings.Contains(got, "do not work in this channel") {
		t.Errorf("it says %q", got)
	}
	if stopped, _ := d.done(); len(stopped) != 0 {
		t.Errorf("stopped %q", stopped)
	}
}

var _ discord.Interactions = (*desk)(nil)

// An interaction that was stored before a crash is executed after the restart: once, and with the
// meaning that it had when it was triggered.
func TestWhatWasAskedForBeforeACrashIsDone(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	d := &desk{running: "discord:7:9", asker: w.bob.ID, hold: make(chan struct{})}
	o := w.options()
	o.Interactions = d
	_, stop := w.connected(o)
	w.knowsCommands()
	id := w.server.Slash(w.channel, w.bob.ID, "stop", nil)
	w.server.AwaitInteraction(t, id)
	w.await("it is about to be done", func() bool { return len(w.orders()) == 1 })
	stop()
	if stopped, _ := d.done(); len(stopped) != 0 {
		t.Fatalf("stopped before the crash: %q", stopped)
	}

	d.running = "discord:7:10"
	close(d.hold)
	_, stop = w.connected(o)
	if got := w.answered(id); got != "Stopped." {
		t.Errorf("who asked is told %q", got)
	}
	stop()
	w.connected(o)
	w.server.Say(w.channel, w.ann, "anything", discordtest.SayOptions{})
	w.hears("anything")
	w.await("nothing is left", func() bool { return len(w.orders()) == 0 })
	if stopped, _ := d.done(); len(stopped) != 1 || stopped[0] != "discord:7:9 by Bob" {
		t.Errorf("stopped %q", stopped)
	}
}

// An acknowledged interaction shows a pending response until the response arrives, even if the
// response is only a text. A crash must not lose that response.
func TestWhatWasToBeSaidBeforeACrashIsSaid(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	d := &desk{wait: make(chan struct{})}
	o := w.options()
	o.Interactions = d
	_, stop := w.connected(o)
	w.knowsCommands()
	id := w.server.Slash(w.channel, w.bob.ID, "status", nil)
	w.server.AwaitInteraction(t, id)
	stop()
	if shown := w.server.Interaction(id).Messages; len(shown) > 0 && shown[0].Content != "" {
		t.Fatalf("answered before the crash: %+v", shown)
	}

	close(d.wait)
	w.connected(o)
	if got := w.answered(id); got != "Nothing is going on." {
		t.Errorf("who asked is told %q", got)
	}
	w.await("nothing is left", func() bool { return len(w.orders()) == 0 })
}

func (w *world) orders() (out []discord.PendingInteraction) {
	w.t.Helper()
	err := w.db.Read(context.Background(), func(q db.Queryer) (err error) {
		out, err = store.Discord{}.Interactions(q, 10)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func TestADamagedOrderHoldsUpNoOther(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	err := w.db.Update(t.Context(), func(tx *db.Tx) error {
		for _, id := range []string{"1", "2"} {
			if err := (store.Discord{}).PutInteraction(tx, discord.PendingInteraction{ID: id, Payload: []byte(`{}`)}); err != nil {
				return err
			}
		}
		_, err := tx.Exec(`UPDATE discord_orders SET checksum = checksum + 1 WHERE id = '1'`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = w.db.Read(t.Context(), func(q db.Queryer) error {
		left, err := store.Discord{}.Interactions(q, 10)
		if err == nil || len(left) != 1 || left[0].ID != "2" {
			t.Errorf("%+v, %v", left, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
