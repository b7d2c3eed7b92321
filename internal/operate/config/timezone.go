package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// localZone is the name of the machine's time zone in the configuration.
const localZone = "Local"

// wrongTZ warns if a setting uses the machine's time zone and the variable TZ, which then
// decides, names no zone. The Go runtime silently uses UTC instead.
func (c reader) wrongTZ() []Warning {
	tz := c.getenv("TZ")
	field := ""
	if c.Limits.TimeZone == localZone {
		field = "limits.timeZone"
	}
	for name, t := range c.Timers {
		if t.TimeZone == localZone {
			field = "timers." + name + ".timeZone"
		}
	}
	if tz == "" || field == "" || isZone(strings.TrimPrefix(tz, ":")) {
		return nil
	}
	return []Warning{{Message: fmt.Sprintf("the environment variable TZ is %q, which is no time zone, so %s is UTC. Set TZ to a name such as Europe/Berlin, or set %s", tz, field, field)}}
}

// isZone reports whether a name is a time zone, or the absolute path of a file of one.
func isZone(name string) bool {
	if filepath.IsAbs(name) {
		_, err := os.Stat(name)
		return err == nil
	}
	_, err := time.LoadLocation(name)
	return err == nil
}
