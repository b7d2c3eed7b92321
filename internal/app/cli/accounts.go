package cli

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"lilac/internal/core/account"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
)

// accountsCommand returns the commands for the people of a team.
func accountsCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "accounts", Short: "Manage the people of your team",
		Long:    "People with accounts see their own conversations and those that others share with them. Members use conversations; operators also see all of them and manage Lilac.",
		Example: "  lilac accounts invite \"Ada Lovelace\"\n  lilac accounts list",
	}
	cmd.AddCommand(accountsList(c), accountsInvite(c), accountsUninvite(c), accountsRole(c), accountsSwitch(c, "disable", "Sign a person out everywhere, and refuse further logins", true),
		accountsSwitch(c, "enable", "Let a person who was disabled sign in again", false), accountsLog(c))
	return cmd
}

func accountsList(c *cli) *cobra.Command {
	return c.withJSON(&cobra.Command{
		Use: "list", Short: "List people and invites", Example: "  lilac accounts list", Args: cobra.NoArgs,
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, _ []string) error {
			found, err := client.Accounts{Client: server}.List(cmd.Context())
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(found)
			}
			rows := make([][]string, 0, len(found.People)+len(found.Invites))
			for _, p := range found.People {
				state := "active"
				if p.Disabled {
					state = "disabled"
				}
				rows = append(rows, []string{p.ID, p.Name, string(p.Role), state, when(p.SeenAt), cmp.Or(p.Email, "-")})
			}
			for _, i := range found.Invites {
				rows = append(rows, []string{i.ID, i.Name, string(i.Role), "invited until " + when(i.ExpiresAt), "-", "-"})
			}
			return c.page("ID NAME ROLE STATE SEEN EMAIL", rows, "")
		}),
	})
}

func accountsInvite(c *cli) *cobra.Command {
	var in account.NewInvite
	cmd := c.withJSON(&cobra.Command{
		Use: "invite [NAME]", Short: "Create a link that signs in one person",
		Long:    "Prints a link for one person. It works once, for a week. With --person, it signs in somebody who has an account already, for example in another browser.",
		Example: "  lilac accounts invite \"Ada Lovelace\"\n  lilac accounts invite Grace --role operator\n  lilac accounts invite --person ada-lovelace",
		Args:    cobra.MaximumNArgs(1),
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			if (len(args) == 0) == (in.PersonID == "") {
				return fault.New(fault.Invalid, "Name a new person, or somebody who has an account with --person.")
			}
			if len(args) > 0 {
				in.Name = args[0]
			}
			made, err := client.Accounts{Client: server}.Invite(cmd.Context(), in)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(made)
			}
			fmt.Fprintf(c.err, "Give this link to %s (%s). It works once, until %s.\n", text.Sanitize(made.Name), made.Role, when(made.ExpiresAt))
			_, err = fmt.Fprintln(c.out, made.URL)
			return err
		}),
	})
	cmd.Flags().StringVar((*string)(&in.Role), "role", "", "the `role` of the new person: member (the default) or operator")
	cmd.Flags().StringVar(&in.PersonID, "person", "", "the `id` of a person who has an account")
	return cmd
}

func accountsUninvite(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "uninvite ID", Short: "Withdraw an invite", Example: "  lilac accounts uninvite k3v9q2m4xa", Args: cobra.ExactArgs(1),
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			if err := (client.Accounts{Client: server}).DropInvite(cmd.Context(), args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.out, "The invite %s is dropped.\n", args[0])
			return err
		}),
	}
}

func accountsRole(c *cli) *cobra.Command {
	return c.withJSON(&cobra.Command{
		Use: "role ID ROLE", Short: "Change the role of a person", Example: "  lilac accounts role ada-lovelace operator", Args: cobra.ExactArgs(2),
		Long: "Changes the role of a person to member or operator. It holds from the next call of the person on.",
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			role := account.Role(args[1])
			return c.changePerson(cmd, server, args[0], account.PersonChange{Role: &role})
		}),
	})
}

func accountsSwitch(c *cli, verb, short string, disabled bool) *cobra.Command {
	return c.withJSON(&cobra.Command{
		Use: verb + " ID", Short: short, Example: "  lilac accounts " + verb + " ada-lovelace", Args: cobra.ExactArgs(1),
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			return c.changePerson(cmd, server, args[0], account.PersonChange{Disabled: &disabled})
		}),
	})
}

// changePerson changes a person and prints the result.
func (c *cli) changePerson(cmd *cobra.Command, server *client.Client, id string, in account.PersonChange) error {
	p, err := client.Accounts{Client: server}.Change(cmd.Context(), id, in)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(p)
	}
	state := "active"
	if p.Disabled {
		state = "disabled"
	}
	_, err = fmt.Fprintf(c.out, "%s (%s): %s, %s\n", text.Sanitize(p.Name), p.ID, p.Role, state)
	return err
}

func accountsLog(c *cli) *cobra.Command {
	var page client.Page
	return withPage(c.withJSON(&cobra.Command{
		Use: "log", Short: "List what people did, newest first", Args: cobra.NoArgs,
		Long:    "Lists what people and the operator did: logins, invites, roles, shares, prompts (by id), answers, and changes of the settings. Recording begins with the first invite; actions are kept for a year.",
		Example: "  lilac accounts log\n  lilac accounts log --limit 100 --json",
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, _ []string) error {
			var before int64
			if page.Before != "" {
				n, err := strconv.ParseInt(page.Before, 10, 64)
				if err != nil || n < 1 {
					return fault.New(fault.Invalid, "--before must be the id of an action, not %q.", page.Before)
				}
				before = n
			}
			found, err := client.Accounts{Client: server}.Log(cmd.Context(), page.Limit, before)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(found)
			}
			rows := make([][]string, 0, len(found))
			for _, a := range found {
				rows = append(rows, []string{strconv.FormatInt(a.ID, 10), when(a.At), a.PersonID, a.Kind, cmp.Or(a.SessionID, "-"), cmp.Or(a.Subject, "-"), cmp.Or(a.Detail, "-")})
			}
			next := ""
			if len(found) == page.Limit {
				next = strconv.FormatInt(found[len(found)-1].ID, 10)
			}
			return c.page("ID TIME PERSON ACTION SESSION SUBJECT DETAIL", rows, next)
		}),
	}), &page)
}
