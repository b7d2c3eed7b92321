package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/app"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/trial"
	"lilac/internal/operate/config"
)

const (
	// listTimeout bounds the wait for one endpoint's list of models.
	listTimeout = 15 * time.Second
	// trialTimeout bounds the calls of lilac models test.
	trialTimeout = 10 * time.Minute
)

// offer is a model that an endpoint offers, with what the catalog and the configuration
// know of it.
type offer struct {
	Model           string        `json:"model"`
	Name            string        `json:"name,omitempty"`
	ContextTokens   int           `json:"contextTokens,omitempty"`
	MaxOutputTokens int           `json:"maxOutputTokens,omitempty"`
	Price           *config.Price `json:"price,omitempty"`
	Images          bool          `json:"images"`
	PDFs            bool          `json:"pdfs"`
	Audio           bool          `json:"audio"`
	Thinking        bool          `json:"thinking"`
	Tools           bool          `json:"tools"`
	// Known means that the catalog or the configuration has facts about the model.
	Known bool `json:"known"`
}

func modelsCommand(c *cli) *cobra.Command {
	list := c.withJSON(&cobra.Command{
		Use:   "models [WORD]",
		Short: "List the models that the configured providers offer",
		Long: "Asks each provider that has a key or an address of its own for its models, and shows what is known\n" +
			"of each: from the provider, the catalog, and the section models of the configuration. WORD selects\n" +
			"the models whose names contain it. Prices are in US dollars per million tokens.",
		Example: "  lilac models\n  lilac models claude\n  lilac models test openai/gpt-5.4    # make a small real call with a tool",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return listModels(ctx, c, strings.Join(args, ""))
		},
	})
	test := c.withJSON(&cobra.Command{
		Use:   "test [NAME]",
		Short: "Make a small real call of a model with a tool, and print what worked",
		Long: "Calls the model twice: it must call a tool with the right input, and repeat what the tool returned.\n" +
			"NAME is provider/model, as in the setting model; without it, the configured model is tested. The\n" +
			"provider charges for a few hundred tokens. The exit code is not 0 if a check fails.",
		Example: "  lilac models test anthropic/claude-sonnet-5-5\n  lilac models test local/qwen3 --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return testModel(ctx, c, strings.Join(args, ""))
		},
	})
	list.AddCommand(test)
	return list
}

func testModel(ctx context.Context, c *cli, ref string) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	choice, err := cfg.ResolveModel()
	if ref != "" {
		choice, err = cfg.LookupModel(ref)
	}
	if err != nil {
		return err
	}
	if choice.Type == config.Demo {
		return fault.New(fault.Invalid, "The demo model is built in, and there is nothing to test. Name a model, for example: lilac models test anthropic/claude-sonnet-5-5")
	}
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	report := trial.Run(ctx, app.NewModel(choice), time.Now)
	if c.json {
		err = c.printJSON(struct {
			Model string `json:"model"`
			OK    bool   `json:"ok"`
			trial.Report
		}{choice.String(), report.OK(), report})
	} else {
		err = printModelTest(c, choice, report)
	}
	if err != nil {
		return err
	}
	if failed, ok := report.First(); ok {
		return fault.Wrap(cmp.Or(fault.KindOf(report.Err), fault.Unavailable), errors.Unwrap(report.Err), "%s: %s", choice, failed.Detail)
	}
	return nil
}

func printModelTest(c *cli, choice config.ModelChoice, report trial.Report) error {
	fmt.Fprintf(c.out, "%s at %s\n", oneLine(choice.String()), oneLine(choice.BaseURL))
	for _, check := range report.Checks {
		if _, err := fmt.Fprintf(c.out, "%-8s %-9s %s\n", check.Status, check.Name, oneLine(c.secrets.Redact(check.Detail))); err != nil {
			return err
		}
	}
	if report.Usage.CostMicros > 0 {
		fmt.Fprintf(c.out, "The test cost %s.\n", dollars(report.Usage.CostMicros))
	}
	return nil
}

// listModels asks all endpoints at the same time and prints their models.
func listModels(ctx context.Context, c *cli, word string) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	providers := cfg.OnlineProviders()
	if len(providers) == 0 {
		return fault.New(fault.Invalid, "No provider is configured. Run lilac setup, or set a key such as ANTHROPIC_API_KEY.")
	}
	answers, failures := make([][]offer, len(providers)), make([]error, len(providers))
	var asked sync.WaitGroup
	for i, name := range providers {
		asked.Go(func() { answers[i], failures[i] = offered(ctx, cfg, name) })
	}
	asked.Wait()
	failed := 0
	for i, err := range failures {
		if err != nil {
			failed++
			fmt.Fprintf(c.err, "lilac: %s: %s\n", providers[i], oneLine(c.secrets.Redact(fault.ToWire(err).Message)))
		}
	}
	var all []offer
	for _, o := range slices.Concat(answers...) {
		if strings.Contains(strings.ToLower(o.Model), strings.ToLower(word)) {
			all = append(all, o)
		}
	}
	if err := printOffers(c, cfg, all); err != nil {
		return err
	}
	if failed == len(providers) {
		return fault.New(fault.Unavailable, "No provider listed its models.")
	}
	return nil
}

// offered returns the models of one provider.
func offered(ctx context.Context, cfg *config.Config, provider string) ([]offer, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	answer, err := app.ListModels(ctx, cfg, provider)
	if err != nil {
		return nil, err
	}
	var out []offer
	for _, m := range answer {
		choice, err := cfg.LookupModel(provider + "/" + m.ID)
		if err != nil {
			continue // a name that the configuration cannot express
		}
		o := offer{
			Model: choice.String(), Name: cmp.Or(m.Name, choice.Facts.Name), Price: choice.Price, Images: choice.Images,
			PDFs: choice.Facts.PDFs, Audio: choice.Facts.Audio, Thinking: choice.Facts.Thinking, Tools: choice.Facts.Tools,
			Known: choice.Facts.ID != "" || !choice.ContextUnknown,
		}
		o.ContextTokens, o.MaxOutputTokens = m.ContextTokens, m.MaxOutputTokens
		if o.Known {
			o.ContextTokens, o.MaxOutputTokens = choice.ContextTokens, choice.MaxOutputTokens
		}
		out = append(out, o)
	}
	return out, nil
}

func printOffers(c *cli, cfg *config.Config, all []offer) error {
	if c.json {
		if all == nil {
			all = []offer{}
		}
		return c.printJSON(struct {
			Catalog string  `json:"catalog"`
			Models  []offer `json:"models"`
		}{cfg.CatalogSource(), all})
	}
	rows := make([][]string, 0, len(all))
	for _, o := range all {
		in, out := "-", "-"
		if o.Price != nil {
			in, out = fmt.Sprintf("%g", o.Price.Input), fmt.Sprintf("%g", o.Price.Output)
		}
		rows = append(rows, []string{o.Model, tokens(o.ContextTokens), tokens(o.MaxOutputTokens), in, out, o.abilities()})
	}
	if err := c.table("MODEL CONTEXT OUTPUT $IN $OUT CAPABILITIES", rows); err != nil {
		return err
	}
	fmt.Fprintf(c.err, "Facts: %s\n", oneLine(cfg.CatalogSource()))
	return nil
}

func tokens(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// abilities returns the known capabilities of a model.
func (o offer) abilities() string {
	if !o.Known {
		return "unknown"
	}
	var out []string
	for name, has := range map[string]bool{"images": o.Images, "pdfs": o.PDFs, "audio": o.Audio, "thinking": o.Thinking, "tools": o.Tools} {
		if has {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		return "text"
	}
	return strings.Join(out, ",")
}
