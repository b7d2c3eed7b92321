package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/operate/config"
	"lilac/internal/telemetry/logs"
	"lilac/internal/testkit/logtest"
)

// The start logs a warning if it creates a database although stored files exist, because the
// old database is then probably lost.
func TestADatabaseThatIsLostIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		make func(dir string) error
		told bool
	}{
		"stored files and no database": {func(dir string) error { return os.Mkdir(filepath.Join(dir, "blobs"), 0o700) }, true},
		"control: a new directory":     {func(string) error { return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			log, dir := &logtest.Log{}, t.TempDir()
			if err := c.make(dir); err != nil {
				t.Fatal(err)
			}
			p := &base{Options: Options{Config: &config.Config{DataDir: dir}, Logger: logs.New(log, logs.Options{})}}
			p.warnOfLostDatabase()
			if told := strings.Contains(log.String(), "a new one is made"); told != c.told {
				t.Errorf("told: %v\n%s", told, log)
			}
		})
	}
}
