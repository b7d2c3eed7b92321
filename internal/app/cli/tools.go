package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"lilac/internal/foundation/fault"
	"lilac/internal/operate/client"
	"lilac/internal/operate/toolcli"
	"lilac/internal/serve/toolserver"
)

// ownTools are the subcommands of "lilac tools" for operators, which the command
// tools does not have.
var ownTools = []string{"token", "calls"}

// isTools returns the arguments of the command tools if the program was called by that
// name or as "lilac tools", otherwise nil.
func isTools(argv []string) []string {
	if filepath.Base(argv[0]) == "tools" {
		return append([]string{}, argv[1:]...)
	}
	if len(argv) < 2 || argv[1] != "tools" || len(argv) > 2 && slices.Contains(ownTools, argv[2]) {
		return nil
	}
	return append([]string{}, argv[2:]...)
}

// runTools runs the command tools if the program was called by that name; otherwise ran is
// false. It runs before everything else, so that tools starts fast.
func runTools(ctx context.Context, argv []string) (code int, ran bool) {
	args := isTools(argv)
	if args == nil {
		return 0, false
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	c := &cli{in: os.Stdin, printer: printer{out: os.Stdout, err: os.Stderr}, locator: machine()}
	tools := c.toolcli()
	if filepath.Base(argv[0]) == "tools" {
		tools.DataDir = nil // the agent's commands have no configuration
	}
	return tools.Main(ctx, args), true
}

// toolcli returns the command tools for operators. It reads the configuration only if
// the address of the server is not given otherwise.
func (c *cli) toolcli() toolcli.Command {
	return toolcli.Command{Getenv: c.getenv, Stdin: c.in, Stdout: c.out, Stderr: c.err, DataDir: func() (string, error) {
		at, err := c.locate()
		return at.DataDir, err
	}}
}

// tools adds the command to the help. [runTools] has already run it, unless a flag
// precedes it, which is an error.
func toolsCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "Call the callables of the tool server, as the agent does; manage tokens",
		Long: "Calls a callable of the tool server. From a terminal this requires a token: create one with\n" +
			"\"lilac tools token create\" and set LILAC_TOOL_TOKEN to it.",
		Example: "  lilac tools --list\n  lilac tools help surface.sessions.list\n" +
			"  export LILAC_TOOL_TOKEN=$(lilac tools token create laptop --allow 'surface.*')",
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return fault.New(fault.Invalid, "Flags before \"tools\" are not supported. Use \"lilac tools …\".")
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, last string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return c.toolcli().Complete(cmd.Context(), append(args, last)), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.AddCommand(toolTokensCommand(c), toolCallsCommand(c))
	return cmd
}

func toolTokensCommand(c *cli) *cobra.Command {
	var allow []string
	var expires string
	create := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token and print it once",
		Long: "Creates a token for calling tools from a terminal or a script, and prints it to standard output.\n" +
			"Lilac stores only a hash, so the token cannot be shown again. It expires after 90 days unless you\n" +
			"set --expires.",
		Example: "  lilac tools token create laptop --allow 'surface.*' --allow events.publish\n" +
			"  export LILAC_TOOL_TOKEN=$(lilac tools token create laptop --allow '*')\n" +
			"  lilac tools token create nightly --allow events.publish --expires never",
		Args: cobra.ExactArgs(1),
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			token, err := server.CreateToolToken(cmd.Context(), args[0], allow, expires)
			if err != nil {
				return err
			}
			fmt.Fprintln(c.out, token)
			fmt.Fprintln(c.err, "lilac: set LILAC_TOOL_TOKEN to this token, then run: lilac tools --list. The token is not shown again.")
			return nil
		}),
	}
	create.Flags().StringVar(&expires, "expires", toolserver.DefaultLife, "lifetime, such as 36h or 30d, or "+toolserver.Forever)
	create.Flags().StringArrayVar(&allow, "allow", nil, "a `callable` that the token allows, or a prefix such as 'surface.*'; repeat for more; '*' allows all")
	_ = create.MarkFlagRequired("allow") // it exists
	list := c.withJSON(&cobra.Command{
		Use:     "list",
		Short:   "List the tokens, by name",
		Example: "  lilac tools token list",
		Args:    cobra.NoArgs,
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, _ []string) error {
			tokens, err := server.ToolTokens(cmd.Context())
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(tokens)
			}
			rows := make([][]string, 0, len(tokens))
			for _, t := range tokens {
				until := toolserver.Forever
				if t.ExpiresAt > 0 {
					until = when(t.ExpiresAt)
				}
				rows = append(rows, []string{t.Name, when(t.CreatedAt), when(t.UsedAt), until, strings.Join(t.Callables, ", ")})
			}
			return c.table("NAME CREATED USED EXPIRES ALLOWS", rows)
		}),
	})
	revoke := &cobra.Command{
		Use:     "revoke NAME...",
		Short:   "Revoke tokens immediately",
		Example: "  lilac tools token revoke laptop",
		Args:    cobra.MinimumNArgs(1),
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			for _, name := range args {
				if err := server.RevokeToolToken(cmd.Context(), name); err != nil {
					return err
				}
				fmt.Fprintln(c.out, "revoked", name)
			}
			return nil
		}),
	}
	cmd := &cobra.Command{Use: "token", Short: "Create, list and revoke tokens for the tool server", Example: "  lilac tools token list"}
	cmd.AddCommand(create, list, revoke)
	return cmd
}

func toolCallsCommand(c *cli) *cobra.Command {
	var page client.Page
	return withPage(c.withJSON(&cobra.Command{
		Use:     "calls",
		Short:   "List the calls made with tokens of \"lilac tools token\", newest first",
		Example: "  lilac tools calls --limit 5",
		Args:    cobra.NoArgs,
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, _ []string) error {
			calls, err := server.ToolCalls(cmd.Context(), page)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(calls)
			}
			rows := make([][]string, 0, len(calls))
			for _, one := range calls {
				rows = append(rows, []string{strconv.FormatInt(one.ID, 10), when(one.At), one.Operator, one.Callable, one.SessionID, one.Outcome, one.Detail})
			}
			return c.table("ID WHEN TOKEN CALLABLE SESSION OUTCOME DETAIL", rows)
		}),
	}), &page)
}
