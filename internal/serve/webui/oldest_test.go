package webui_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"testing"
)

// newer finds what Safari 16.4 lacks, one of the oldest browsers that show the page (theme.js has all of
// them), and what a page cannot do without. A property that only decorates is not among it: an old browser ignores it.
var newer = map[string]*regexp.Regexp{
	".css": regexp.MustCompile(`light-dark\(|@scope\b|@starting-style|@property|\bif\(|[{;]\s*&|:popover-open|:user-(?:in)?valid|:state\(|\bround\(|\brem\(|\bmod\(|\bsibling-index\(|\b(?:rgb|hsl|oklch|color)\(from\b|\bcalc-size\(|position-try|field-sizing`),
	".js": regexp.MustCompile(`\bPromise\.(?:withResolvers|try)\b|\b(?:Object|Map)\.groupBy\b|\.checkVisibility\(|\bURL\.(?:canParse|parse)\(|\bAbortSignal\.any\(|\brequestIdleCallback\(|\.(?:show|hide|toggle)Popover\(|` +
		`\.requestClose\(|\bfor await\b|'scrollend'|\bRegExp\.escape\(|\bIterator\.from\(|\.(?:isSubsetOf|isSupersetOf|isDisjointFrom|symmetricDifference|intersection|union)\(|\.(?:values|keys|entries)\(\)\.(?:map|filter|some|every|find|take|drop|reduce|toArray|forEach)\(|` +
		`\.(?:isWellFormed|toWellFormed)\(|\.to(?:Base64|Hex)\(|\bscheduler\.|startViewTransition|setHTML|\.moveBefore\(|/[dgimsuy]*v[dgimsuy]*\.test\(`),
}

func TestThePageUsesNothingThatSafari16Lacks(t *testing.T) {
	t.Parallel()
	dir := os.DirFS("static")
	files, err := fs.ReadDir(dir, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		lacks := newer[path.Ext(f.Name())]
		if lacks == nil {
			continue
		}
		body, err := fs.ReadFile(dir, f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if hit := lacks.Find(body); hit != nil {
			t.Errorf("%s uses %q, which Safari 16.4 lacks", f.Name(), hit)
		}
	}
}
