package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"lilac/internal/core/environment"
	"lilac/internal/core/webhook"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/client"
	"lilac/internal/operate/config"
)

// sources returns the command "lilac sources".
func sourcesCommand(c *cli) *cobra.Command {
	return c.withJSON(&cobra.Command{
		Use:   "sources",
		Short: "List event sources (webhooks, files, timers, programs) with their counts",
		Long: "Counts since the start of the server. DROPPED are events that came while the queue of the\n" +
			"source was full, WAITING are events that no rule has handled yet, and REFUSED are webhooks without a\n" +
			"valid signature, or whose body was too large or too slow, and lines of programs that are not events.",
		Example: "  lilac sources",
		Args:    cobra.NoArgs,
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, _ []string) error {
			var answer struct {
				Sources []environment.SourceCounts `json:"sources"`
			}
			if err := server.Call(cmd.Context(), "GET", "/sources", nil, &answer); err != nil {
				return err
			}
			if c.json {
				return c.printJSON(answer)
			}
			rows := make([][]string, 0, len(answer.Sources))
			for _, s := range answer.Sources {
				trouble := s.Trouble
				if trouble == "" {
					trouble = "-"
				}
				row := []string{s.Kind, s.Name}
				for _, n := range []int64{s.Accepted, s.Duplicates, s.Dropped, s.Refused, int64(s.Waiting)} {
					row = append(row, strconv.FormatInt(n, 10))
				}
				rows = append(rows, append(row, trouble))
			}
			return c.table("KIND NAME ACCEPTED DUPLICATES DROPPED REFUSED WAITING TROUBLE", rows)
		}),
	})
}

// webhooks returns the command "lilac webhooks".
func webhooksCommand(c *cli) *cobra.Command {
	var file, name, id, contentType string
	sign := c.withJSON(&cobra.Command{
		Use:   "sign NAME",
		Short: "Print a curl command that sends a signed webhook",
		Long: "Signs the body with the secret of webhooks.NAME in the configuration and prints a shell command;\n" +
			"--json prints only the headers. Each call creates a new delivery; to repeat one, pass its --id (the\n" +
			"forms stripe and slack have the id in the body; hmac and token have one only with idHeader). The body is a file, or - for standard input, which the printed command then reads as well.",
		Example: "  lilac webhooks sign github --file body.json --event workflow_run\n  lilac webhooks sign github --file body.json --event workflow_run | sh\n  lilac webhooks sign billing --file body.json --id msg_1 --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			hooks, err := cfg.Hooks()
			if err != nil {
				return err
			}
			hook, ok := hooks[args[0]]
			if !ok {
				there := strings.Join(slices.Sorted(maps.Keys(hooks)), ", ")
				return fault.New(fault.NotFound, "There is no webhook %q in the configuration. Webhooks: %s.", args[0], cmp.Or(there, "none"))
			}
			body, err := c.readBody(file, hook.MaxBytes)
			if err != nil {
				return err
			}
			if id == "" {
				id = ulid.Make().String()
			}
			header := hook.Sign(webhook.Delivery{ID: id, Event: name, Body: body}, time.Now())
			header.Set("Content-Type", contentType)
			if _, err := hook.Verify(header, body, time.Now()); err != nil {
				return err
			}
			if c.json {
				return c.printJSON(header)
			}
			base, err := c.addressOf(cfg)
			if err != nil {
				return err
			}
			return c.printCurl(base+"/webhooks/"+hook.Name, header, file)
		},
	})
	sign.Flags().StringVar(&file, "file", "", "the `file` with the body, or - for standard input")
	sign.Flags().StringVar(&name, "event", "", "the `name` of the event, for webhooks of GitHub, GitLab, and those with an eventHeader")
	sign.Flags().StringVar(&id, "id", "", "the `id` of the delivery (default: a new one)")
	sign.Flags().StringVar(&contentType, "content-type", "application/json", "the `type` of the body")
	_ = sign.MarkFlagRequired("file") // it exists
	cmd := &cobra.Command{Use: "webhooks", Short: "Sign webhooks for testing", Example: "  lilac webhooks sign github --file body.json --event workflow_run"}
	cmd.AddCommand(sign)
	return cmd
}

// addressOf returns the address of the running server, or the configured one if no
// server runs.
func (l *locator) addressOf(cfg *config.Config) (string, error) {
	if l.flags.Addr == "" && l.getenv("LILAC_ADDR") == "" {
		if base, err := (client.Options{DataDir: cfg.DataDir}).Find(); err == nil {
			return base, nil
		}
	}
	return client.Options{Addr: cfg.Addr}.Find()
}

func (c *cli) readBody(path string, limit int64) ([]byte, error) {
	body, err := c.readFile(path, limit+1)
	if err == nil && int64(len(body)) > limit {
		return nil, fault.New(fault.TooLarge, "The body is larger than the webhook's limit of %d bytes.", limit)
	}
	return body, err
}

// readFile reads at most limit bytes of a file, or of standard input for "-".
func (c *cli) readFile(path string, limit int64) ([]byte, error) {
	in := c.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "The file %s cannot be read", path)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, limit))
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "The file %s cannot be read", path)
	}
	return data, nil
}

func (p *printer) printCurl(url string, header http.Header, file string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "curl -sS %s", shellQuote(url))
	for _, name := range slices.Sorted(maps.Keys(header)) {
		fmt.Fprintf(&b, " \\\n  -H %s", shellQuote(name+": "+header.Get(name)))
	}
	fmt.Fprintf(&b, " \\\n  --data-binary %s\n", shellQuote("@"+file))
	_, err := io.WriteString(p.out, b.String())
	return err
}

// shellQuote quotes text as one word for the shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
