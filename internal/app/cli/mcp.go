package cli

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/agent/mcpclient"
	"lilac/internal/app"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
)

// loginTime limits the wait for a person in a browser.
const loginTime = 10 * time.Minute

func mcpCommand(c *cli) *cobra.Command {
	list := c.withJSON(&cobra.Command{
		Use:   "list",
		Short: "List the MCP servers of the running Lilac, with their states",
		Long: "STATE is ready, starting, waiting (it failed and is started again by itself), or disabled. Their tools\n" +
			"are callables: \"lilac tools --list\" shows those that a token allows.",
		Example: "  lilac mcp list",
		Args:    cobra.NoArgs,
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, _ []string) error {
			var answer struct {
				Servers []mcpclient.Status `json:"servers"`
			}
			if err := server.Call(cmd.Context(), "GET", "/tools/mcp", nil, &answer); err != nil {
				return err
			}
			if c.json {
				return c.printJSON(answer.Servers)
			}
			rows := make([][]string, 0, len(answer.Servers))
			for _, s := range answer.Servers {
				rows = append(rows, []string{s.Name, s.Transport, string(s.State), strconv.Itoa(s.Tools), strconv.Itoa(s.Restarts), orDash(s.Product), orDash(s.Trouble)})
			}
			return c.table("NAME TRANSPORT STATE TOOLS FAILURES PRODUCT TROUBLE", rows)
		}),
	})
	test := c.withJSON(&cobra.Command{
		Use:   "test NAME",
		Short: "Start a configured MCP server and print what it offers",
		Long: "Starts the server NAME of mcpServers in the configuration, in the sandbox and with the limits that it\n" +
			"has in Lilac, lists its tools, and ends it. Lilac need not run. If the server fails, the reason and\n" +
			"the end of its output are printed, and the exit code is not 0.",
		Example: "  lilac mcp test github",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			result, err := app.TestMCP(ctx, cfg, args[0])
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(result)
			}
			fmt.Fprintf(c.out, "%s works: %s, protocol %s, %s", result.Name, text.Sanitize(result.Product), text.Sanitize(result.Protocol), text.Count(result.Tools, "tool"))
			if result.Resources {
				fmt.Fprint(c.out, ", resources")
			}
			if result.Prompts {
				fmt.Fprint(c.out, ", prompts")
			}
			fmt.Fprintln(c.out)
			if result.Trouble != "" {
				fmt.Fprintln(c.out, "note:", text.Sanitize(result.Trouble))
			}
			for _, name := range result.Names {
				fmt.Fprintln(c.out, "  mcp."+result.Name+"."+name)
			}
			return nil
		},
	})
	login := &cobra.Command{
		Use:   "login NAME",
		Short: "Log in to an MCP server with a browser",
		Long: "Prints an address to open in a browser on this machine. When you have agreed there, Lilac keeps the tokens,\n" +
			"encrypted, for this server only. Without oauth: {clientId: …} in the configuration, Lilac registers itself with\n" +
			"the authorization server first. If Lilac runs, it connects at once.",
		Example: "  lilac mcp login github",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			ctx, cancel := context.WithTimeoutCause(ctx, loginTime, fault.New(fault.Timeout, "Nobody finished the login within %s.", loginTime))
			defer cancel()
			err = app.LogInToMCP(ctx, cfg, args[0], func(address string) {
				host := address
				if u, err := url.Parse(address); err == nil {
					host = u.Host
				}
				fmt.Fprintf(c.out, "Open this address in a browser on this machine. Agree only if the server %s may use your account at %s.\n\n  %s\n\n",
					args[0], text.SingleLine(host), address)
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(c.out, "Logged in to %s.\n", args[0])
			server, err := c.connect()
			if err == nil {
				err = server.Call(cmd.Context(), "POST", "/tools/mcp/"+url.PathEscape(args[0])+"/retry", nil, nil)
			}
			if err != nil { // the login counts all the same
				fmt.Fprintln(c.out, "Lilac uses the login when it starts the server next.")
			}
			return nil
		},
	}
	logout := &cobra.Command{
		Use: "logout NAME", Short: "Forget the login of an MCP server", Example: "  lilac mcp logout github", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			switch had, err := app.MCPLogins(cfg).Remove(args[0]); {
			case err != nil:
				return err
			case !had:
				return fault.New(fault.NotFound, "There is no login of an MCP server %q.", args[0])
			}
			return nil
		},
	}
	cmd := &cobra.Command{
		Use: "mcp", Short: "List and test the servers of the Model Context Protocol (MCP)",
		Example: strings.Join([]string{list.Example, test.Example}, "\n"),
	}
	cmd.AddCommand(list, test, login, logout)
	return cmd
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
