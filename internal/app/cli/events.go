package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
)

func eventsCommand(c *cli) *cobra.Command {
	var t tailer
	tail := c.withJSON(&cobra.Command{
		Use:   "tail",
		Short: "Print every event as it happens",
		Long: "Follows the bus until Ctrl-C, through restarts of the server. Without --topic, it prints the\n" +
			"events of every fixed topic, and the output of requests as stream.* events.",
		Example: "  lilac events tail\n  lilac events tail --session 01k2…\n  lilac events tail --topic cmd.request --from-begin --json\n  lilac events tail --topic out.req.web:01k2…:01k2… --from-begin",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if t.fromBegin && t.topic == "" {
				return fault.New(fault.Invalid, "--from-begin requires --topic.")
			}
			server, err := c.connect()
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			t.cli, t.server = c, server
			return stopped(ctx, t.run(ctx))
		},
	})
	tail.Flags().StringVar(&t.topic, "topic", "", "only this topic of the bus")
	tail.Flags().StringVar(&t.session, "session", "", "only events of this session `id`")
	tail.Flags().BoolVar(&t.fromBegin, "from-begin", false, "with --topic: start with the oldest retained event")
	cmd := &cobra.Command{Use: "events", Short: "Follow, publish and replay events", Example: "  lilac events tail\n  lilac events publish --type deploy.done\n  lilac events replay webhook:ci:72d3162e"}
	cmd.AddCommand(tail, publishCommand(c), replayCommand(c))
	return cmd
}

// tailer follows one topic, or all fixed topics and the output of requests as
// stream.* events, and prints the events.
type tailer struct {
	cli       *cli
	server    *client.Client
	topic     string
	session   string
	fromBegin bool

	mu sync.Mutex // guards cli.out
}

func (t *tailer) run(ctx context.Context) error {
	if t.topic != "" {
		return t.server.Tail(ctx, event.Topic(t.topic), t.fromBegin, t.print)
	}
	if err := t.server.Ready(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for _, topic := range event.Topics() {
		wg.Go(func() {
			if err := t.server.Tail(ctx, topic, false, t.print); err != nil {
				stop(err)
			}
		})
	}
	wg.Go(func() {
		err := t.server.Events(ctx, t.session, "", func(f client.Frame) error {
			if !strings.HasPrefix(string(f.Event.Type), "stream.") {
				return nil // printed with its topic
			}
			data, err := json.Marshal(f.Event)
			if err != nil {
				return fmt.Errorf("encode event: %w", err)
			}
			return t.print(event.Event{
				ID: f.Event.ID, Topic: "stream", Type: f.Event.Type, TS: f.Event.Timestamp,
				Key: f.Event.Metadata.TriggerSessionID, Lane: f.Event.Metadata.TriggerSessionID, Data: data,
			})
		})
		if err != nil {
			stop(err)
		}
	})
	wg.Wait()
	return context.Cause(ctx)
}

func (t *tailer) print(e event.Event) error {
	if s := t.session; s != "" && e.Headers.SessionID() != s && e.Lane != s && e.Key != s {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cli.json {
		data, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode event: %w", err)
		}
		_, err = fmt.Fprintf(t.cli.out, "%s\n", text.SanitizeJSON(data))
		return err
	}
	topic := string(e.Topic)
	if _, output := e.Topic.OutputRequest(); output {
		topic = "out.req" // the request is the key
	}
	_, err := fmt.Fprintf(t.cli.out, "%s  %-12s %-30s %s  %s\n", time.UnixMilli(e.TS).Format("15:04:05.000"),
		oneLine(topic), oneLine(string(e.Type)), text.TruncateRunes(oneLine(e.Key), 72), text.TruncateRunes(oneLine(string(e.Data)), 160))
	return err
}
