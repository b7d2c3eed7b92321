package memory

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/fault"
)

func newStore(t testing.TB) *Store {
	t.Helper()
	n := 0
	return &Store{Dir: filepath.Join(t.TempDir(), "memory"), Now: func() time.Time { return time.UnixMilli(5) }, NewID: func() string { n++; return fmt.Sprintf("c%05d", n) }}
}

var ann = Place{Person, "discord-1"}

func TestANoteIsAPlainFile(t *testing.T) {
	s := newStore(t)
	if got, err := s.Index(ann, Common); err != nil || got != "" {
		t.Fatalf("an empty memory has %q, %v", got, err)
	}
	c, err := s.Remember(Author{RequestID: "r"}, ann, "Home Town.md", "# Lives in Kyoto\n\nSince 2020.\x1b[31m")
	if err != nil || c.Name != "home-town" || c.Before != nil {
		t.Fatalf("%+v, %v", c, err)
	}
	file := filepath.Join(s.Dir, "people", "discord-1", "home-town.md")
	if data, err := os.ReadFile(file); err != nil || string(data) != "# Lives in Kyoto\n\nSince 2020.[31m\n" {
		t.Errorf("the file has %q, %v", data, err)
	}
	if got, _ := s.Index(ann, Common); got != "- home-town: Lives in Kyoto\n" {
		t.Errorf("the index is %q", got)
	}
	// An operator edits it, and adds one for everyone.
	if err := os.WriteFile(file, []byte("Lives in Nara"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(s.Dir, "everyone"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "everyone", "rules.md"), []byte("Be kind."), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Index(ann, Common); got != "- home-town: Lives in Nara\n- rules: Be kind.\n" {
		t.Errorf("after the edit, the index is %q", got)
	}
	if got, err := s.Recall("rules", ann, Common); err != nil || got != "Be kind." {
		t.Errorf("recalled %q, %v", got, err)
	}
	if _, err := s.Recall("home-town", Place{Person, "discord-2"}, Common); fault.KindOf(err) != fault.NotFound || strings.Contains(err.Error(), "mean") {
		t.Errorf("somebody else: %v", err)
	}
	if places, err := s.Places(); err != nil || len(places) != 2 {
		t.Errorf("the places are %v, %v", places, err)
	}
}

func TestEveryChangeCanBeUndone(t *testing.T) {
	s := newStore(t)
	first, err := s.Remember(Author{}, ann, "color", "red")
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Remember(Author{}, ann, "color", "blue")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Undo(first.ID); fault.KindOf(err) != fault.Conflict {
		t.Errorf("an older change: %v", err)
	}
	if _, err := s.Undo(second.ID); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Recall("color", ann); got != "red\n" {
		t.Errorf("after the undo, it is %q", got)
	}
	gone, err := s.Forget(Author{}, ann, "color")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recall("color", ann); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a note that was forgotten: %v", err)
	}
	if _, err := s.Undo(gone.ID); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Recall("color", ann); got != "red\n" {
		t.Errorf("after the undo, it is %q", got)
	}
	for _, id := range []string{"none", "../x", ""} {
		if _, err := s.Undo(id); fault.KindOf(err) != fault.NotFound {
			t.Errorf("the change %q: %v", id, err)
		}
	}
	if list, err := s.Changes(3); err != nil || len(list) != 3 || list[0].After == nil || *list[0].After != "red\n" {
		t.Errorf("the changes are %+v, %v", list, err)
	}
}

func TestTheMemoryIsBoundedAndStaysInItsDirectory(t *testing.T) {
	s := newStore(t)
	for name, note := range map[string]string{"": "x", "..": "x", "!": "x", strings.Repeat("n", 65): "x", "big": strings.Repeat("x", MaxText), "empty": " "} {
		if _, err := s.Remember(Author{}, ann, name, note); fault.KindOf(err) != fault.Invalid && fault.KindOf(err) != fault.TooLarge {
			t.Errorf("%q: %v", name, err)
		}
	}
	for i := range maxNotes {
		if _, err := s.Remember(Author{}, ann, fmt.Sprintf("n%d", i), strings.Repeat("long ", 100)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Remember(Author{}, ann, "one-more", "x"); fault.KindOf(err) != fault.TooLarge {
		t.Errorf("one note more: %v", err)
	}
	if _, err := s.Remember(Author{}, ann, "n1", "x"); err != nil {
		t.Errorf("a note that exists: %v", err)
	}
	if got, err := s.Index(ann); err != nil || len(got) > maxIndex+100 || !strings.Contains(got, "more: tools memory.list") {
		t.Errorf("the index has %d bytes, %v", len(got), err)
	}
	outside := filepath.Join(t.TempDir(), "secret.md")
	if err := os.WriteFile(outside, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(s.Dir, "people", "discord-1", "link.md")); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Recall("link", ann); err == nil {
		t.Errorf("a link outside is read: %q", got)
	}
}

func TestPlacesOfConversations(t *testing.T) {
	for want, f := range map[string]Facts{
		"[people/operator]":                       {Client: "web", SessionID: "s"},
		"[people/discord-1]":                      {Client: "discord", SessionID: "1", Platform: true, Direct: true},
		"[channels/discord-2]":                    {Client: "discord", SessionID: "2", Platform: true},
		"[channels/discord-3 channels/discord-2]": {Client: "discord", SessionID: "3", Platform: true, Parent: "2"},
		"[channels/v1-ide-4]":                     {Client: "v1-ide", SessionID: "4", Program: true},
		"[people/account-ada]":                    {Client: "web", SessionID: "5", Account: "ada"},
		"[channels/web-6]":                        {Client: "web", SessionID: "6", Account: "ada", Several: true},
		"[channels/discord-%2e%2e%2f%41]":         {Client: "discord", SessionID: "../A", Platform: true},
	} {
		if got := fmt.Sprint(PlacesOf(f)); got != want {
			t.Errorf("%+v has %s, want %s", f, got, want)
		}
	}
}
