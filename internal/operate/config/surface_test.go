package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/operate/config"
)

func TestTheTokenOfDiscordComesFromEitherVariable(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"DISCORD_TOKEN": "a"}, "a"},
		{map[string]string{"DISCORD_BOT_TOKEN": "b"}, "b"},
		{map[string]string{"DISCORD_TOKEN": "a", "DISCORD_BOT_TOKEN": "b"}, "a"},
		{nil, ""},
	} {
		got, _, err := config.Load(config.Source{Getenv: func(name string) string {
			if name == "HOME" {
				return t.TempDir()
			}
			return c.env[name]
		}})
		if err != nil {
			t.Fatal(err)
		}
		if got.Surface.Discord.Token.Reveal() != c.want {
			t.Errorf("%v: the token is %q", c.env, got.Surface.Discord.Token.Reveal())
		}
	}
}

func TestATokenIsTheTextAlone(t *testing.T) {
	for token, want := range map[string]string{"abc\n": "abc", " abc ": "abc", "Bot abc": ""} {
		got, _, err := config.Load(config.Source{Getenv: func(name string) string {
			return map[string]string{"DISCORD_TOKEN": token, "HOME": t.TempDir()}[name]
		}})
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "without “Bot”") {
				t.Errorf("%q: %v", token, err)
			}
			continue
		}
		if err != nil || got.Surface.Discord.Token.Reveal() != want {
			t.Errorf("%q: %v", token, err)
		}
	}
}

func TestMistakesOfTheSurfaceAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		`{allowedChannelIds: ["#general"]}`:  "Copy ID",
		`{mode: loud}`:                       "mention or active",
		`{channels: {"12": {mode: loud}}}`:   "surface.discord.channels.12.mode",
		`{channels: {"1": {}}}`:              "mention or active",
		`{apiURL: "ftp://example.org"}`:      "not an address",
		`{gatewayURL: "https://e.org"}`:      "not an address",
		`{backfill: {messages: -1}}`:         "below zero",
		`{cache: {age: 1h}}`:                 "less than 48h",
		`{cache: {messages: 10}}`:            "less than 1000",
		`{allowedGuildIds: ["0"], mode: ""}`: "not an id",
	} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte("surface: {discord: "+text+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := config.Load(config.Source{File: file, Getenv: func(name string) string {
			if name == "HOME" {
				return t.TempDir()
			}
			return ""
		}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestNamesAreForIdsOfThePlatform(t *testing.T) {
	for file, want := range map[string]string{
		"entity: {users: {discord: {ann: \"@ann\"}}}\n":                                                             "c.yaml:1:28: \"@ann\" is not an id",
		"entity: {sessions: {discord: {ops: \"#ops\"}}}\n":                                                          "c.yaml:1:31: \"#ops\" is not an id",
		"entity: {users: {discord: {ann: \"80351110224678912\"}}, sessions: {discord: {ops: 41771983423143937}}}\n": "",
	} {
		_, _, err := load(t, file, nil, config.Flags{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", file, err, want)
		}
	}
}
