package config_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lilac/internal/operate/config"
)

func TestThePasswordOfTheDatabaseIsNeverShown(t *testing.T) {
	for _, raw := range []string{
		"postgres://user:hunter2@host/name", "postgresql://user:hunter2@x@host/name", "postgres://user:%68unter2@a:1,b:2/name", "postgres//user:hunter2@host",
		"postgres://user@host/name?password=hunter2", "postgres://user@host/name?sslpassword=hunter2", "postgres://user:hun/ter2@host/name", "host=h password=hunter2@",
	} {
		u := config.DatabaseURL(raw)
		encoded, err := json.Marshal(map[string]config.DatabaseURL{"url": u})
		if err != nil {
			t.Fatal(err)
		}
		c, _, err := config.Load(config.Source{Getenv: withDatabase(t, raw)})
		shown := []string{fmt.Sprint(u), fmt.Sprintf("%v %s", u, u), string(encoded), u.LogValue().String(), fmt.Sprint(err)}
		if raw == "postgres://user:hunter2@host/name" && !slices.Contains(c.Secrets(), "hunter2") {
			t.Errorf("the logger does not know the password: %q", c.Secrets())
		}
		if strings.Contains(raw, "?password") {
			if !strings.Contains(fmt.Sprint(err), "before the host") {
				t.Errorf("%q: %v", raw, err)
			}
		}
		if strings.Contains(raw, "password=") && strings.Contains(raw, "?") {
			shown = shown[4:] // it is refused, and no error shows it
		}
		for _, one := range shown {
			if strings.Contains(one, "unter2") || strings.Contains(one, "hun/ter2") {
				t.Errorf("%q shows the password of %q", one, raw)
			}
		}
	}
}

func TestTheURLOfTheDatabase(t *testing.T) {
	for raw, wrong := range map[string]string{
		"sqlite:":                          "",
		"postgres://user:p%40ss@host/name": "",
		"postgresql:///name?host=/run/pg":  "",
		"postgres://u:p@a:1,b:2/n?target_session_attrs=read-write": "",
		"mysql://host":                                      "is unknown",
		"postgres://user:a/b@host/n":                        "cannot be read",
		"postgres://user:a@host:x/n":                        "cannot be read",
		"postgres://u@h/n?password=x":                       "before the host",
		"postgres://u@h/n?sslcert=a&sslkey=b&sslpassword=x": "PGSSLPASSWORD",
		"postgres://u@%2Frun%2Fpostgresql/n":                "?host=/run/postgresql",
	} {
		c, _, err := config.Load(config.Source{Getenv: withDatabase(t, raw)})
		if wrong == "" && (err != nil || c.Database.URL.Reveal() != raw || c.Database.URL.Postgres() != strings.HasPrefix(raw, "postgres")) {
			t.Errorf("%s: %v", raw, err)
		}
		if wrong != "" && !strings.Contains(fmt.Sprint(err), wrong) {
			t.Errorf("%s: %v, want %q", raw, err, wrong)
		}
	}
}

func withDatabase(t *testing.T, url string) func(string) string {
	env := map[string]string{"HOME": t.TempDir(), "LILAC_DB_URL": url}
	return func(name string) string { return env[name] }
}
