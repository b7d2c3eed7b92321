package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"lilac/internal/agent/skills"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// skillsCommand returns the commands for skills. They read files; Lilac need not run.
func skillsCommand(c *cli) *cobra.Command {
	list := c.withJSON(&cobra.Command{
		Use:   "list",
		Short: "List the skills that were found, with their states",
		Long: "STATE is trusted; new or changed (the agent does not use it until you trust it); shadowed (an earlier\n" +
			"directory has a skill with this name); or invalid. Nothing of a skill runs.",
		Example: "  lilac skills list",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			found, err := cfg.SkillLibrary().List()
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(append([]skills.Skill{}, found...))
			}
			rows := make([][]string, 0, len(found))
			for _, s := range found {
				rows = append(rows, []string{s.Name, string(s.State), s.Dir, text.TruncateRunes(orDash(s.Description+s.Trouble), 80)})
			}
			return c.table("NAME STATE DIRECTORY DESCRIPTION", rows)
		},
	})
	check := &cobra.Command{
		Use:   "check [DIRECTORY]",
		Short: "Say what is wrong with skills",
		Long: "Compares the skill in DIRECTORY, or all skills, with the public specification. The exit code is not 0 if\n" +
			"a skill cannot be used; notes do not matter for Lilac, but may for other products.",
		Example: "  lilac skills check\n  lilac skills check ./skills/pdf",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var found []skills.Skill
			if len(args) == 1 {
				dir, err := filepath.Abs(args[0])
				if err != nil {
					return fmt.Errorf("find the directory: %w", err)
				}
				one, ok := skills.Check(dir)
				if !ok {
					return fault.New(fault.NotFound, "There is no %s in %s.", skills.FileName, args[0])
				}
				found = []skills.Skill{one}
			} else {
				cfg, err := c.load()
				if err != nil {
					return err
				}
				if found, err = cfg.SkillLibrary().List(); err != nil {
					return err
				}
			}
			return c.checkSkills(found)
		},
	}
	all := false
	trust := &cobra.Command{
		Use:   "trust [NAME…]",
		Short: "Let the agent use skills, as their files are now",
		Long: "Look at the files first: a skill tells the agent what to do, and its scripts run as commands of the agent.\n" +
			"If a file changes, the skill waits again. Conversations that exist keep their list of skills; new ones have the skill.",
		Example: "  lilac skills trust pdf\n  lilac skills trust --all",
		RunE: func(_ *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return fault.New(fault.Invalid, "Name the skills, or use --all.")
			}
			cfg, err := c.load()
			if err != nil {
				return err
			}
			done, err := cfg.SkillLibrary().SetTrusted(args...)
			if err != nil {
				return err
			}
			if len(done) == 0 {
				fmt.Fprintln(c.out, "No skill waits.")
			}
			for _, s := range done {
				fmt.Fprintf(c.out, "trusted %s (%s), %s\n", s.Name, s.Dir, s.Hash[:12])
			}
			return nil
		},
	}
	trust.Flags().BoolVar(&all, "all", false, "trust all skills that wait")
	untrust := &cobra.Command{
		Use: "untrust NAME…", Short: "Take skills away from the agent", Example: "  lilac skills untrust pdf", Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			return cfg.SkillLibrary().SetUntrusted(args...)
		},
	}
	cmd := &cobra.Command{Use: "skills", Short: "List, check, and trust skills (directories with a SKILL.md)", Example: strings.Join([]string{list.Example, trust.Example}, "\n")}
	cmd.AddCommand(list, check, trust, untrust)
	return cmd
}

// checkSkills prints what is wrong with skills.
func (c *cli) checkSkills(found []skills.Skill) error {
	invalid := 0
	for _, s := range found {
		switch {
		case s.State == skills.Invalid:
			invalid++
			fmt.Fprintf(c.out, "%s: cannot be used: %s\n", s.Dir, text.Sanitize(s.Trouble))
		case len(s.Notes) == 0:
			fmt.Fprintf(c.out, "%s: ok\n", s.Dir)
		}
		for _, note := range s.Notes {
			fmt.Fprintf(c.out, "%s: note: %s\n", s.Dir, text.Sanitize(note))
		}
	}
	if invalid > 0 {
		return fault.New(fault.Invalid, "%d of %d skills cannot be used.", invalid, len(found))
	}
	return nil
}
