package config_test

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestFilesOfTheConfiguration(t *testing.T) {
	c, file, err := loadRules(t, `
files:
  inbox:
    paths: [~/lilac/inbox/*.pdf, /etc/app/]
    changes: [create]
    debounce: 2s
  all: {paths: [/srv/**/*.yaml]}
`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.WatchedFiles()
	if err != nil || len(all) != 2 || all[0].Queue != 1000 || len(all[0].Changes) != 4 || len(all[1].Changes) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	home := filepath.Dir(file)
	if inbox := all[1].Patterns; !inbox[0].Matches(filepath.Join(home, "lilac/inbox/a.pdf")) || !inbox[1].Matches("/etc/app/x/y") {
		t.Errorf("%+v", inbox)
	}
}

func TestFilesWithMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"files:\n  a: {}\n":                                     ":2:3: The files a have no paths",
		"files:\n  a:\n    paths: [x]\n":                        `:3:13: The path "x" is not absolute`,
		"files:\n  a:\n    paths: ['/[']\n":                     `:3:13: The path "/[" is not a valid glob`,
		"files:\n  a:\n    paths: [~/.lilac/blobs/]\n":          ":3:13: The path ",
		"files:\n  a:\n    paths: [/x]\n    changes: [chmod]\n": `:4:15: "chmod" is no change`,
		"files:\n  a:\n    paths: [/x]\n    queue: -1\n":        ":4:5: The queue of the files a is negative",
		"files:\n  a:\n    paths: [/x]\n    missed: once\n":     ":4:5: The files a have \"once\" for what is missed",
	} {
		if _, file, err := loadRules(t, text); err == nil || !strings.HasPrefix(err.Error(), file+want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
