package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/foundation/fault"
)

const (
	// updateTimeout limits the question for the newest release.
	updateTimeout = 15 * time.Second
	// maxRelease limits the description of a release, in bytes.
	maxRelease = 1 << 20
)

// release is the newest release, in the form of GitHub's API.
type release struct {
	Tag string `json:"tag_name"`
	URL string `json:"html_url"`
}

func updateCommand(c *cli) *cobra.Command {
	check, from := false, c.releases
	cmd := c.withJSON(&cobra.Command{
		Use:   "update --check",
		Short: "Report whether there is a newer release",
		Long: "Asks for the newest release and compares it with this program. It sends nothing about this machine and\n" +
			"changes nothing: packages, images, and binaries are updated the way they were installed. Lilac never\n" +
			"asks by itself. The exit code is 0 also if there is a newer release; --json prints the field newer.",
		Example: "  lilac update --check\n  lilac update --check --json | jq .newer\n  lilac update --check --from https://mirror.example/latest.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !check {
				return fault.New(fault.Invalid, "Lilac does not replace its own program. To see whether there is a newer release, run: lilac update --check")
			}
			return c.checkUpdate(cmd.Context(), from)
		},
	})
	cmd.Flags().BoolVar(&check, "check", false, "only report")
	cmd.Flags().StringVar(&from, "from", from, "`URL` of a JSON object with tag_name and html_url, as in GitHub's API")
	return cmd
}

func (c *cli) checkUpdate(ctx context.Context, from string) error {
	if from == "" {
		return fault.New(fault.Invalid, "This build does not know where its releases are. Name the place with --from URL.")
	}
	latest, err := newestRelease(ctx, from)
	if err != nil {
		return err
	}
	current := c.versionString()
	newer, known := newerRelease(current, latest.Tag)
	if c.json {
		return c.printJSON(map[string]any{"version": current, "latest": latest.Tag, "newer": newer, "url": latest.URL})
	}
	line := fmt.Sprintf("Lilac %s is the newest release.", oneLine(current))
	switch {
	case !known:
		line = fmt.Sprintf("This is %s, which is not a release. The newest release is %s: %s", oneLine(current), oneLine(latest.Tag), oneLine(latest.URL))
	case newer:
		line = fmt.Sprintf("Lilac %s is available; this is %s. What changed, and how to get it: %s", oneLine(latest.Tag), oneLine(current), oneLine(latest.URL))
	}
	_, err = fmt.Fprintln(c.out, line)
	return err
}

func newestRelease(ctx context.Context, from string) (latest release, err error) {
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return latest, fault.InvalidField("from", "%q is not a URL.", from)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "lilac")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return latest, fault.Wrap(fault.Unavailable, err, "%s cannot be reached. Check the network, or name a mirror with --from URL", from)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return latest, fault.New(fault.Unavailable, "%s answered with %s. Try again later, or name a mirror with --from URL.", from, res.Status)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxRelease)).Decode(&latest); err != nil || latest.Tag == "" {
		return latest, fault.New(fault.Internal, "%s does not describe a release: there is no field tag_name.", from)
	}
	return latest, nil
}

// newerRelease compares versions such as 1.2.3, v1.2.3, and 1.2.3-rc.1. A version is newer than
// its release candidates. known is false if one of them is not a version.
func newerRelease(current, latest string) (newer, known bool) {
	a, preA, okA := versionOf(current)
	b, preB, okB := versionOf(latest)
	if !okA || !okB {
		return false, false
	}
	for i := range a {
		if a[i] != b[i] {
			return b[i] > a[i], true
		}
	}
	return preA != preB && preA != "" && (preB == "" || preB > preA), true
}

func versionOf(s string) (numbers [3]int, pre string, ok bool) {
	s, _, _ = strings.Cut(strings.TrimPrefix(s, "v"), "+")
	s, pre, _ = strings.Cut(s, "-")
	parts := strings.Split(s, ".")
	if len(parts) != len(numbers) {
		return numbers, "", false
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return numbers, "", false
		}
		numbers[i] = n
	}
	return numbers, pre, true
}
