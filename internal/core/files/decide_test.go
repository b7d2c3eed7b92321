package files_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/files"
	"lilac/internal/foundation/fault"
)

func TestSettle(t *testing.T) {
	for _, c := range []struct {
		known, exists, moved bool
		want                 files.Change
	}{
		{false, true, false, files.Create},
		{false, true, true, files.Create},
		{true, true, false, files.Write},
		{true, true, true, files.Write}, // an editor moved the old one away and wrote a new one
		{true, false, false, files.Remove},
		{true, false, true, files.Rename},
		{false, false, false, ""}, // it came and went
		{false, false, true, ""},  // an editor's temporary file
	} {
		if got, any := files.ChangeOf(c.known, c.exists, c.moved); got != c.want || any != (c.want != "") {
			t.Errorf("known %t, exists %t, moved %t: %q, want %q", c.known, c.exists, c.moved, got, c.want)
		}
	}
}

func TestPending(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	after := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	p := files.Pending{Wait: time.Second, Limit: 2}
	if !p.Due().IsZero() || len(p.Settled(after(100))) > 0 {
		t.Error("something waits in the beginning")
	}
	p.Add("b", false, start)
	p.Add("a", true, after(0.5))
	if p.Add("c", false, after(0.6)) {
		t.Error("a third was taken, the limit is 2")
	}
	p.Add("b", false, after(0.9)) // it does not rest yet
	if due := p.Due(); !due.Equal(after(1.5)) {
		t.Errorf("due at %s", due)
	}
	if got := p.Settled(after(1.5)); !cmp.Equal(got, []files.Settled{{Path: "a", Moved: true}}) {
		t.Errorf("%+v", got)
	}
	if got := p.Settled(after(2)); !cmp.Equal(got, []files.Settled{{Path: "b"}}) {
		t.Errorf("%+v", got)
	}
	// A file that never rests is told after ten times as long.
	for i := range 100 {
		at := after(10 + float64(i)/2)
		p.Add("log", false, at)
		if rested := p.Settled(at); len(rested) > 0 {
			if i != 20 {
				t.Errorf("told at the change %d", i)
			}
			return
		}
	}
	t.Error("a file that never rests is never told")
}

func TestPatterns(t *testing.T) {
	for path, c := range map[string]struct{ yes, no []string }{
		"/a/b.txt":          {[]string{"/a/b.txt"}, []string{"/a/b.txt2", "/a/c/b.txt", "/b.txt", "/a"}},
		"/a/*.txt":          {[]string{"/a/b.txt", "/a/.txt"}, []string{"/a/b/c.txt", "/a/b.md", "/b.txt"}},
		"/a/**/*.go":        {[]string{"/a/x.go", "/a/b/c/x.go"}, []string{"/x.go", "/a/x.md", "/ab/x.go"}},
		"/a/":               {[]string{"/a/x", "/a/b/c"}, []string{"/a", "/b", "/a/../b"}},
		"/a/*/c.{yml,yaml}": {[]string{"/a/b/c.yml", "/a/x/c.yaml"}, []string{"/a/c.yml", "/a/b/b/c.yml"}},
		"/a/../b/x":         {[]string{"/b/x"}, []string{"/a/x"}},
		"/a/[xy]":           {[]string{"/a/x"}, []string{"/a/z"}},
	} {
		p, err := files.Compile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range c.yes {
			if !p.Matches(f) {
				t.Errorf("%s does not mean %s (%+v)", path, f, p)
			}
		}
		for _, f := range c.no {
			if p.Matches(f) {
				t.Errorf("%s means %s (%+v)", path, f, p)
			}
		}
	}
	for _, bad := range []string{"", "a", "~/x", "./a", "/a/[", "/a/{b"} {
		if _, err := files.Compile(bad); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{"/a/**/*.go", "/a/", "/{a,b/c}/*", "/a/../[x", `/a\*`} {
		f.Add(s, "/a/b/c.go")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		p, err := files.Compile(pattern)
		if err != nil {
			return
		}
		if p.Matches(path) && !files.Within(path, p.Base) {
			t.Errorf("%q means %q, which is outside of %q", pattern, path, p.Base)
		}
	})
}
