package cli

import (
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"lilac/internal/operate/config"
)

func configCommand(c *cli) *cobra.Command {
	check := &cobra.Command{
		Use:     "check",
		Short:   "Check the configuration",
		Example: "  lilac config check\n  lilac config check --config ./lilac.yaml",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			model, err := cfg.ResolveModel()
			if err != nil {
				return err
			}
			file := cfg.File
			if file == "" {
				file = "no file"
			}
			_, err = fmt.Fprintf(c.out, "The configuration is valid (%s). The model is %s: %s.\n", file, model, model.Why)
			return err
		},
	}
	var defaults bool
	show := c.withJSON(&cobra.Command{
		Use:     "print",
		Short:   "Print the effective configuration, with secrets as ***",
		Example: "  lilac config print\n  lilac config print --json\n  lilac config print --defaults > ~/.lilac/config.yaml    # every key, explained",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if defaults {
				return config.WriteDefaults(c.out)
			}
			cfg, err := c.load()
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(cfg)
			}
			data, err := yaml.Marshal(cfg)
			if err != nil {
				return fmt.Errorf("print configuration: %w", err)
			}
			_, err = c.out.Write(data)
			return err
		},
	})
	show.Flags().BoolVar(&defaults, "defaults", false, "print a configuration file with every key, its description and its default")
	schema := &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of the configuration file",
		Example: "  lilac config schema > lilac.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			s, err := config.Schema()
			if err != nil {
				return err
			}
			return c.printJSON(s)
		},
	}
	cmd := &cobra.Command{Use: "config", Short: "Check and print the configuration", Example: "  lilac config check"}
	cmd.AddCommand(check, show, schema)
	return cmd
}
