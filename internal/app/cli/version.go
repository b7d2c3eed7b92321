package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand(c *cli) *cobra.Command {
	return c.withJSON(&cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  lilac version\n  lilac version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if c.json {
				return c.printJSON(map[string]string{
					"version": c.versionString(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(c.out, "lilac %s (%s, %s/%s)\n", c.versionString(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	})
}

// versionString returns the release, or the commit of the build.
func (c *cli) versionString() string {
	if c.release != "" {
		return c.release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if revision == "" {
		return "devel"
	}
	return "devel-" + revision + dirty
}
