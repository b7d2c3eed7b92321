package terminal

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"lilac/internal/foundation/lazyregexp"
)

// mention matches @path and @"path with spaces" at the beginning of a word.
var mention = lazyregexp.New(`(?:^|\s)@(?:"([^"\n]+)"|([^\s"]+))`)

// mentions returns the paths that a message mentions, in order and without duplicates.
func mentions(message string) (paths []string) {
	for _, m := range mention().FindAllStringSubmatch(message, -1) {
		path := m[1] + m[2]
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// mentionAt returns the path that is being typed at the end of the text before the cursor.
func mentionAt(before string) (prefix string, ok bool) {
	at := strings.LastIndexAny(before, " \t\n") + 1
	if quoted := strings.LastIndex(before, `@"`); quoted >= 0 && !strings.Contains(before[quoted+2:], `"`) && (quoted == 0 || strings.ContainsAny(before[quoted-1:quoted], " \t\n")) {
		return before[quoted+2:], true
	}
	word, ok := strings.CutPrefix(before[at:], "@")
	return word, ok
}

// quoteMention returns the mention of a path.
func quoteMention(path string) string {
	if strings.ContainsAny(path, " \t") {
		return `@"` + path + `"`
	}
	return "@" + path
}

// pictures are the file endings of pictures that terminals paste as a path when the user
// drops them.
var pictures = []string{".png", ".jpg", ".jpeg", ".gif", ".webp", ".heic", ".pdf"}

// droppedFile returns the path of a file that the user dropped on the terminal.
func droppedFile(pasted string) (path string, ok bool) {
	path = strings.Trim(strings.TrimSpace(pasted), `'"`)
	if u, err := url.Parse(path); err == nil && u.Scheme == "file" {
		path = u.Path
	}
	path = strings.ReplaceAll(path, `\ `, " ")
	absolute := filepath.IsAbs(path) || strings.HasPrefix(path, "~/")
	return path, absolute && !strings.ContainsAny(path, "\n\"") && slices.Contains(pictures, strings.ToLower(filepath.Ext(path)))
}
