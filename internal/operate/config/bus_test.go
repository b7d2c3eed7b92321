package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lilac/internal/operate/config"
)

func TestThePasswordOfTheBusIsNeverShown(t *testing.T) {
	for _, raw := range []string{
		"redis://user:hunter2@host:6379/0", "rediss://:hunter2@host", "redis://user:hunter2@x@host", "redis://user:%68unter2hunter2@host",
		"redis//user:hunter2@host", "redis:/user:hunter2@host", ":hunter2@host:6379", "user:hunter2@x@host:6379",
	} {
		u := config.BusURL(raw)
		encoded, err := json.Marshal(map[string]config.BusURL{"url": u})
		if err != nil {
			t.Fatal(err)
		}
		for _, shown := range []string{fmt.Sprint(u), fmt.Sprintf("%v %s", u, u), string(encoded), u.LogValue().String()} {
			if strings.Contains(shown, "unter2") {
				t.Errorf("%q shows the password of %q", shown, raw)
			}
		}
		if u.Reveal() != raw {
			t.Errorf("Reveal() = %q, want %q", u.Reveal(), raw)
		}
	}
	if got := config.BusURL("redis://user@host:1/2").String(); got != "redis://user@host:1/2" {
		t.Errorf("a URL without a password is shown as %q", got)
	}
}

func TestTheURLOfRedisMaySayWhatTheClientHeeds(t *testing.T) {
	for _, raw := range []string{"redis://a:1?addr=b:2&addr=c:3&master_set=x&protocol=2", "rediss://host?db=3&skip_verify", "valkeys://host/", "unix:///run/redis.sock?db=3", "unix://u:p@/run/redis.sock"} {
		c, _, err := config.Load(config.Source{Getenv: func(name string) string {
			return map[string]string{"HOME": t.TempDir(), "LILAC_BUS_URL": raw}[name]
		}})
		if err != nil || c.Bus.URL.Reveal() != raw {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestThePasswordOfTheBusComesFromAFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.yaml": "bus: {url: \"redis://host?master_set=ours\", passwordFile: secret, sentinelPasswordFile: theirs}",
		"secret":      "hunter2\nmore", "theirs": "hunter3\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, _, err := config.Load(config.Source{File: filepath.Join(dir, "config.yaml"), Getenv: func(name string) string {
		return map[string]string{"HOME": t.TempDir()}[name]
	}})
	if err != nil {
		t.Fatal(err)
	}
	if password, err := c.Bus.Password(); err != nil || password.Reveal() != "hunter2" {
		t.Errorf("Password() = %q, %v; want the first line", password.Reveal(), err)
	}
	if password, err := c.Bus.SentinelPassword(); err != nil || password.Reveal() != "hunter3" {
		t.Errorf("SentinelPassword() = %q, %v; want the first line", password.Reveal(), err)
	}
	for _, secret := range []string{"hunter2", "hunter3"} {
		if !slices.Contains(c.Secrets(), secret) {
			t.Errorf("%s is no secret of %q", secret, c.Secrets())
		}
	}
}
