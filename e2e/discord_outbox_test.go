package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/core/outbox"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/store"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
)

// After a downtime of two days, a restart sends the messages that are still relevant, once, and no
// others. This includes messages that were being sent when the process ended.
func TestARestartSendsNothingThatIsTooOld(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		wrong, s := outboxAfterDays(t, bus)
		for _, w := range wrong {
			t.Error(w)
		}
		if n := leftOver(s); n != 0 {
			t.Errorf("%d things are left over", n)
		}
	})
}

func TestControlARestartWithoutExpirySendsYesterday(t *testing.T) {
	effort.SkipDetail(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		wrong, _ := outboxAfterDays(t, bus, "LILAC_WITHOUT=expiry")
		noticed(t, wrong, "was sent although it was too old")
	})
}

// outboxAfterDays starts a server with an outbox of 200 rows from the last 48 hours, and returns
// the problems with the messages that it sends.
func outboxAfterDays(t *testing.T, bus e2e.Engine, env ...string) (wrong []string, s *e2e.Server) {
	t.Helper()
	const rows, young = 200, 12
	d := e2e.NewDiscord(t, discordtest.Options{})
	s = e2e.Start(t, slices.Concat(bus(t), modelEnv("http://127.0.0.1:1"), d.Env(), env)...)
	s.Terminate(startStop)
	channels := []string{d.General, d.Lounge}
	now := time.Now()
	fresh := map[string]bool{}
	plan(t, s, func(tx *db.Tx) error {
		for i := range rows {
			// The oldest row comes first. The last few rows have not expired.
			age := 30*time.Minute + time.Duration(rows-i)*(48*time.Hour-30*time.Minute)/rows
			if i >= rows-young {
				age = time.Duration(rows-i) * 10 * time.Second
			}
			text := fmt.Sprintf("row %d of %s", i, age.Round(time.Second))
			fresh[text] = i >= rows-young
			at := now.Add(-age)
			r := outbox.Row{
				Key: fmt.Sprintf("test:%d", i), Platform: "discord", SessionID: channels[i%2], State: outbox.Planned,
				Send:      surface.Send{ChannelID: channels[i%2], Content: surface.Content{Text: text}, Nonce: fmt.Sprintf("n%d", i)},
				CreatedAt: at.UnixMilli(), ExpiresAt: at.Add(15 * time.Minute).UnixMilli(),
			}
			if _, err := (store.Outbox{}).Plan(tx, r); err != nil {
				return err
			}
			if i%25 == 0 || i == rows-1 { // interrupted while it was sent, and did not arrive
				r.State, r.SendingAt, r.Attempts = outbox.Sending, at.UnixMilli(), 1
				if err := (store.Outbox{}).Save(tx, r); err != nil {
					return err
				}
			}
		}
		return nil
	})
	s.Restart()
	sent := func() (texts []string) {
		for _, channel := range channels {
			for _, m := range d.Ours(channel) {
				texts = append(texts, m.Content)
			}
		}
		return texts
	}
	old := func(text string) bool { return strings.HasPrefix(text, "row ") && !fresh[text] }
	e2e.Eventually(t, answerWithin, "everything is sent or given up", func() bool {
		return s.Count("SELECT count(*) FROM outbox WHERE unfinished = 1") == 0 || slices.ContainsFunc(sent(), old)
	})
	count := map[string]int{}
	for _, text := range sent() {
		if count[text]++; old(text) {
			wrong = append(wrong, text+" was sent although it was too old")
		}
	}
	for text, is := range fresh {
		if is && count[text] != 1 {
			wrong = append(wrong, fmt.Sprintf("%s was sent %d times", text, count[text]))
		}
	}
	return wrong, s
}

// startStop bounds the stop of an idle server.
const startStop = 30 * time.Second

// plan changes the database of a server that is not running.
func plan(t *testing.T, s *e2e.Server, fn func(*db.Tx) error) {
	t.Helper()
	d, err := db.Open(context.Background(), db.Options{Dir: filepath.Join(s.Dir, "data"), Migrations: slices.Concat(sqlitebus.Migrations, store.Migrations)})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Update(context.Background(), fn), d.Close()); err != nil {
		t.Fatal(err)
	}
}
