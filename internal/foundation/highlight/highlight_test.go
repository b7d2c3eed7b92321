package highlight

import (
	"strings"
	"testing"
)

func TestWordsHaveTheirKinds(t *testing.T) {
	for _, c := range []struct {
		language, code string
		kind           Kind
	}{
		{"go", "func", Keyword},
		{"go", "// x", Comment},
		{"go", "/* x */", Comment},
		{"go", "`a`", Literal},
		{"go", `"a\"b"`, Literal},
		{"go", "12.5", Number},
		{"go", "funcs", Plain},
		{"python", "# x", Comment},
		{"py", `"""a"""`, Literal},
		{"sh", "# x", Comment},
		{"sql", "SELECT", Keyword},
		{"sql", "-- x", Comment},
		{"rust", "'a'", Literal},
		{"rust", "&'a str", Plain},
		{"json", "true", Keyword},
		{"", "func", Plain},
		{"unknown", "func", Plain},
		{"html", "<!-- x -->", Comment},
		{"go", "f(", Function},
		{"yaml", "key: ", Function},
		{"diff", "+a", Added},
		{"diff", "-a", Removed},
		{"diff", "+++ b/x", Marked},
	} {
		if got := Tokens(c.code, c.language)[0].Kind; got != c.kind {
			t.Errorf("%s %q begins with a %q, want %q", c.language, c.code, got, c.kind)
		}
	}
}

func FuzzTokensJoinToTheCode(f *testing.F) {
	f.Add("go title=x", "func f() { return \"a\nb\" /* c")
	f.Add("rust", "'a 'b' '\\''")
	f.Add("py", "'''x\n\"\"\"")
	f.Add("diff", "+a\n-b\n@@")
	f.Fuzz(func(t *testing.T, info, code string) {
		var b strings.Builder
		for _, one := range Tokens(code, Language(info)) {
			b.WriteString(one.Text)
		}
		if b.String() != code {
			t.Errorf("%q in %q became %q", code, info, b.String())
		}
	})
}
