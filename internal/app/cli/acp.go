package cli

import (
	"log/slog"

	"github.com/spf13/cobra"

	"lilac/internal/foundation/fault"
	"lilac/internal/operate/acp"
	"lilac/internal/operate/client"
)

func acpCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "acp",
		Short: "Let an editor talk to the running server",
		Long: "Speaks the Agent Client Protocol on standard input and output, so that editors such as Zed and those of\n" +
			"JetBrains can talk to the running server. An editor starts this command itself. In Zed's settings:\n\n" +
			"  {\"agent_servers\": {\"Lilac\": {\"command\": \"lilac\", \"args\": [\"acp\"]}}}\n\n" +
			"The agent works in a directory of the server, not in the editor's; docs/editors.md says how to make them the\n" +
			"same. An editor that is closed stops no answer; open the conversation again to see it. Questions and approvals appear in the editor.",
		Args:    cobra.NoArgs,
		Example: "  lilac acp",
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, _ []string) error {
			if isTerminal(c.in) {
				return fault.New(fault.Invalid, "An editor starts this command; it speaks the Agent Client Protocol. To talk in the terminal: lilac chat")
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			acp.Serve(ctx, acp.Options{Server: server, Version: c.versionString(), Logger: slog.New(slog.NewTextHandler(c.err, &slog.HandlerOptions{Level: slog.LevelWarn}))}, c.in, c.out)
			return nil
		}),
	}
}
