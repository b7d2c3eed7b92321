package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/sandbox"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/effort"
)

func TestMain(m *testing.M) {
	sandbox.Enter()
	goleak.VerifyTestMain(m)
}

// bench is a workspace with its tools.
type bench struct {
	t     *testing.T
	dir   string
	tools map[string]tool.Tool
}

func newBench(t *testing.T, box sandbox.Sandbox, hidden ...string) *bench {
	t.Helper()
	return newBenchWith(t, builtin.Options{Sandbox: box, Hidden: hidden})
}

func newBenchWith(t *testing.T, opts builtin.Options) *bench {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ws")
	opts.Workspace = dir
	list, err := builtin.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: dir, tools: map[string]tool.Tool{}}
	for _, one := range list {
		b.tools[one.Spec().Name] = one
	}
	return b
}

type args map[string]any

func (b *bench) call(name string, in args) tool.Result {
	b.t.Helper()
	res, err := b.callCtx(b.t.Context(), name, in)
	if err != nil {
		b.t.Fatalf("%s %v: %v", name, in, err)
	}
	return res
}

func (b *bench) callCtx(ctx context.Context, name string, in args) (tool.Result, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.tools[name].Run(ctx, tool.Call{ID: "call_1", Input: raw, RequestID: "web:s:1", SessionID: "s", Client: "web", Workspace: b.dir})
}

func (b *bench) put(rel, content string) {
	b.t.Helper()
	path := filepath.Join(b.dir, rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) get(rel string) string {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, rel))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

// expect checks a result: failed or not, and what its text must contain.
func expect(t *testing.T, got tool.Result, failed bool, says ...string) {
	t.Helper()
	if got.Failed != failed {
		t.Errorf("failed is %t: %s", got.Failed, got.Text)
	}
	for _, s := range says {
		if !strings.Contains(got.Text, s) {
			t.Errorf("%q is not in:\n%s", s, got.Text)
		}
	}
}

func TestSpecs(t *testing.T) {
	b := newBench(t, nil)
	for name, want := range map[string]struct{ idempotent, parallel bool }{
		"bash": {false, false}, "read": {true, true}, "write": {true, false},
		"edit": {false, false}, "glob": {true, true}, "grep": {true, true},
	} {
		one, ok := b.tools[name]
		if !ok {
			t.Errorf("%s is missing", name)
			continue
		}
		spec := one.Spec()
		var schema struct {
			Type       string
			Properties map[string]struct{ Description string }
			Required   []string
		}
		if err := json.Unmarshal(spec.Schema, &schema); err != nil || schema.Type != "object" || len(schema.Required) == 0 {
			t.Errorf("%s: schema %s: %v", name, spec.Schema, err)
		}
		for field, p := range schema.Properties {
			if p.Description == "" {
				t.Errorf("%s: field %s has no description", name, field)
			}
		}
		if spec.Idempotent != want.idempotent || spec.ParallelSafe != want.parallel || len(spec.Description) < 100 {
			t.Errorf("%s: %+v", name, spec)
		}
		display := one.(tool.Displayer).Display(json.RawMessage(`{"command":"go  test\n./...","path":"a.go","pattern":"x"}`))
		if !strings.HasPrefix(display, name+": ") || strings.Contains(display, "\n") {
			t.Errorf("%s: display %q", name, display)
		}
		if res, err := one.Run(t.Context(), tool.Call{Input: json.RawMessage(`{}`)}); err != nil || !res.Failed || !strings.Contains(res.Text, "missing") {
			t.Errorf("%s without input: %+v, %v", name, res, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := one.Run(ctx, tool.Call{Input: json.RawMessage(`{}`)}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s after the end of its context: %v", name, err)
		}
	}
}

func TestWorkspaceAndDataDirectoryStayApart(t *testing.T) {
	base := t.TempDir()
	for name, c := range map[string]struct{ workspace, data string }{
		"the same":              {"a", "a"},
		"data in the workspace": {"a", "a/data"},
		"workspace in the data": {"a/ws", "a"},
	} {
		_, err := builtin.New(builtin.Options{Workspace: filepath.Join(base, c.workspace), Hidden: []string{filepath.Join(base, c.data)}})
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := builtin.New(builtin.Options{Workspace: filepath.Join(base, "x"), Hidden: []string{filepath.Join(base, "xy")}}); err != nil {
		t.Errorf("neighbours: %v", err)
	}
}

// Other users of the machine have no business in a workspace that we make; one
// that was there stays as it was.
func TestANewWorkspaceIsPrivate(t *testing.T) {
	shared := filepath.Join(t.TempDir(), "shared")
	if err := os.Mkdir(shared, 0o750); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]os.FileMode{filepath.Join(t.TempDir(), "a", "ws"): 0o700, shared: 0o750} {
		if _, err := builtin.New(builtin.Options{Workspace: dir}); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != want {
			t.Errorf("%v, %v, want %v", info.Mode(), err, want)
		}
	}
}

func TestRead(t *testing.T) {
	b := newBench(t, nil)
	b.put("a.txt", "one\r\ntwo\nthree\x1b[31m\n")
	b.put("long.txt", strings.Repeat("x", 5000)+"\nnext\n")
	b.put("many.txt", strings.Repeat("line\n", 3000))
	b.put("wide.txt", strings.Repeat(strings.Repeat("w", 999)+"\n", 100))
	b.put("empty.txt", "")
	b.put("bin", "\x89PNG\r\n\x1a\n\x00\x00")
	b.put("dir/sub/file", "x")
	for name, c := range map[string]struct {
		in     args
		failed bool
		says   []string
	}{
		"whole":              {args{"path": "a.txt"}, false, []string{"     1\tone\n     2\ttwo\n     3\tthree␛[31m\n"}},
		"absolute":           {args{"path": b.dir + "/a.txt"}, false, []string{"two"}},
		"home":               {args{"path": "~/a.txt"}, false, []string{"two"}},
		"dots inside":        {args{"path": "dir/../a.txt"}, false, []string{"two"}},
		"a part":             {args{"path": "many.txt", "offset": "10", "limit": 2}, false, []string{"    10\tline\n    11\tline\n", "offset 12"}},
		"too many lines":     {args{"path": "many.txt"}, false, []string{"  2000\tline\n", "offset 2001"}},
		"too many bytes":     {args{"path": "wide.txt"}, false, []string{"there is more"}},
		"long line":          {args{"path": "long.txt"}, false, []string{"3000 more bytes in this line", "     2\tnext"}},
		"after the end":      {args{"path": "a.txt", "offset": 9}, false, []string{"only 3 lines"}},
		"empty":              {args{"path": "empty.txt"}, false, []string{"is empty"}},
		"directory":          {args{"path": "dir"}, false, []string{"sub/"}},
		"binary":             {args{"path": "bin"}, true, []string{"not text", "image/png"}},
		"missing":            {args{"path": "none"}, true, []string{"none does not exist"}},
		"below a file":       {args{"path": "a.txt/b"}, true, []string{"a.txt/b"}},
		"up and out":         {args{"path": "../secret"}, true, []string{"outside the workspace"}},
		"up and out, deeper": {args{"path": "dir/../../secret"}, true, []string{"outside the workspace"}},
		"absolute outside":   {args{"path": "/etc/passwd"}, true, []string{"outside the workspace"}},
		"like the workspace": {args{"path": b.dir + "-other/x"}, true, []string{"outside the workspace"}},
		"percent is a name":  {args{"path": "%2e%2e/secret"}, true, []string{"does not exist"}},
		"NUL":                {args{"path": "a\x00.txt"}, true, []string{"NUL"}},
		"endless name":       {args{"path": strings.Repeat("n", 300)}, true, []string{"too long"}},
		"wrong type":         {args{"path": "a.txt", "limit": "few"}, true, []string{`"limit" must be a whole number`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := b.call("read", c.in)
			expect(t, got, c.failed, c.says...)
			if len(got.Text) > tool.MaxBytes+500 {
				t.Errorf("%d bytes", len(got.Text))
			}
		})
	}
}

func TestWrite(t *testing.T) {
	b := newBench(t, nil)
	b.put("old.sh", "old")
	if err := os.Chmod(filepath.Join(b.dir, "old.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.put("dir/file", "x")
	if err := os.Symlink("old.sh", filepath.Join(b.dir, "link")); err != nil {
		t.Fatal(err)
	}
	expect(t, b.call("write", args{"path": "new/deep/a.txt", "content": "one\ntwo"}), false, "Created new/deep/a.txt (2 lines, 7 bytes)")
	expect(t, b.call("write", args{"path": "new/deep/a.txt", "content": "one\ntwo"}), false, "Unchanged")
	expect(t, b.call("write", args{"path": "link", "content": "new"}), false, "Replaced")
	expect(t, b.call("write", args{"path": "empty", "content": ""}), false, "0 lines, 0 bytes")
	expect(t, b.call("write", args{"path": "dir", "content": "x"}), true, "is a directory")
	expect(t, b.call("write", args{"path": "dir/", "content": "x"}), true, "names a directory")
	expect(t, b.call("write", args{"path": "old.sh/x", "content": "x"}), true, "old.sh/x")
	expect(t, b.call("write", args{"path": "../x", "content": "x"}), true, "outside")
	expect(t, b.call("write", args{"path": "x"}), true, `"content" is missing`)
	if got := b.get("old.sh"); got != "new" {
		t.Errorf("behind the link: %q", got)
	}
	info, err := os.Lstat(filepath.Join(b.dir, "old.sh"))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if info, _ := os.Lstat(filepath.Join(b.dir, "link")); info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced")
	}
	if left, _ := filepath.Glob(filepath.Join(b.dir, ".lilac-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestEdit(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		in      args
		want    string // the content afterwards
		failed  bool
		says    []string
	}{
		"one": {
			"a\nb\nc\n",
			args{"old_string": "b", "new_string": "B\nB2"},
			"a\nB\nB2\nc\n", false,
			[]string{"1 replacement", "@@ line 2 @@\n a\n-b\n+B\n+B2\n c\n"},
		},
		"delete":                {"a\nb\nc\n", args{"old_string": "b\n", "new_string": ""}, "a\nc\n", false, []string{"-b\n c"}},
		"all":                   {"x=1; x=2\nmid\nmid\nx=3\n", args{"old_string": "x", "new_string": "yy", "replace_all": "true"}, "yy=1; yy=2\nmid\nmid\nyy=3\n", false, []string{"3 replacements", "-x=1; x=2\n+yy=1; yy=2\n", "-x=3\n+yy=3\n"}},
		"twice":                 {"b\na\nb\n", args{"old_string": "b", "new_string": "c"}, "b\na\nb\n", true, []string{"occurs 2 times", "lines 1, 3", "replace_all"}},
		"not there":             {"a\n", args{"old_string": "z", "new_string": "y"}, "a\n", true, []string{"does not occur"}},
		"white space":           {"if x {\n\ty()\n}\n", args{"old_string": "if x {\n    y()\n}", "new_string": "z"}, "if x {\n\ty()\n}\n", true, []string{"lines 1 to 3", "white space"}},
		"same":                  {"a\n", args{"old_string": "a", "new_string": "a"}, "a\n", true, []string{"nothing would change"}},
		"empty":                 {"a\n", args{"old_string": "", "new_string": "b"}, "a\n", true, []string{"use write"}},
		"CRLF is kept":          {"a\r\nb\r\nc\r\n", args{"old_string": "a\nb", "new_string": "x\ny"}, "x\r\ny\r\nc\r\n", false, []string{"-a\n-b\n+x\n+y\n"}},
		"CRLF in what is new":   {"a\r\nb\r\n", args{"old_string": "a", "new_string": "x\ny"}, "x\r\ny\r\nb\r\n", false, []string{"-a\n+x\n+y\n"}},
		"CRLF at the beginning": {"a\r\nb\r\n", args{"old_string": "\nb", "new_string": " b"}, "a b\r\n", false, []string{"-a\n-b\n+a b\n"}},
		"CRLF stays":            {"a\r\nb\r\n", args{"old_string": "a\r\nb", "new_string": "a\nb"}, "a\r\nb\r\n", true, []string{"line ends"}},
		"CRLF and others":       {"a\r\nb\nc\n", args{"old_string": "b\nc", "new_string": "x\ny"}, "a\r\nx\ny\n", false, []string{"+x\n+y\n"}},
		"end of file":           {"a\nb", args{"old_string": "b", "new_string": "c"}, "a\nc", false, []string{" a\n-b\n+c\n"}},
		"binary":                {"a\x00b", args{"old_string": "a", "new_string": "c"}, "a\x00b", true, []string{"not text"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.put("f", c.content)
			c.in["path"] = "f"
			expect(t, b.call("edit", c.in), c.failed, c.says...)
			if got := b.get("f"); got != c.want {
				t.Errorf("content %q, want %q", got, c.want)
			}
		})
	}
	b := newBench(t, nil)
	expect(t, b.call("edit", args{"path": "none", "old_string": "a", "new_string": "b"}), true, "none does not exist")
	expect(t, b.call("edit", args{"path": "/etc/hosts", "old_string": "a", "new_string": "b"}), true, "outside")
}

func TestGlob(t *testing.T) {
	b := newBench(t, nil)
	for i, rel := range []string{"a.go", "b.txt", "src/c.go", "src/deep/d.go", "src/e.ts", ".git/f.go", "node_modules/g.go"} {
		b.put(rel, "x")
		when := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(filepath.Join(b.dir, rel), when, when); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		in   args
		want string
	}{
		"top":              {args{"pattern": "*.go"}, "a.go\n"},
		"deep, newest 1st": {args{"pattern": "**/*.go"}, "src/deep/d.go\nsrc/c.go\na.go\n"},
		"braces":           {args{"pattern": "src/*.{go,ts}"}, "src/e.ts\nsrc/c.go\n"},
		"below a path":     {args{"pattern": "*.go", "path": "src"}, "src/c.go\n"},
		"absolute":         {args{"pattern": b.dir + "/src/*.ts"}, "src/e.ts\n"},
		"named on purpose": {args{"pattern": "node_modules/*"}, "node_modules/g.go\n"},
		"none":             {args{"pattern": "*.rs"}, "[no file matches]\n"},
		"limit":            {args{"pattern": "**/*.go", "limit": 1}, "src/deep/d.go\n[1 of 3 files are shown, the newest; narrow the pattern to see others]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := b.call("glob", c.in); got.Failed || got.Text != c.want {
				t.Errorf("got %q, want %q", got.Text, c.want)
			}
		})
	}
	expect(t, b.call("glob", args{"pattern": "[a"}), true, "not a valid glob")
	expect(t, b.call("glob", args{"pattern": "../*"}), true, "..")
	expect(t, b.call("glob", args{"pattern": "/etc/*"}), true, "outside")
	expect(t, b.call("glob", args{"pattern": "*", "path": "none"}), true, "none does not exist")
}

func TestGrep(t *testing.T) {
	b := newBench(t, nil)
	b.put("a.go", "package a\n\nfunc Foo() {}\nfunc Bar() {}\n// end\n")
	b.put("src/b.go", "func foo() {}\r\n")
	b.put("src/c.txt", "func text\n")
	b.put("bin", "func\x00binary\n")
	b.put(".git/x", "func hidden\n")
	b.put("long.txt", strings.Repeat("é", 1000)+"needle"+strings.Repeat("é", 1000)+"\n")
	for name, c := range map[string]struct {
		in   args
		want string
	}{
		"all":         {args{"pattern": `^func`}, "a.go:3: func Foo() {}\na.go:4: func Bar() {}\nsrc/b.go:1: func foo() {}\nsrc/c.txt:1: func text\n"},
		"glob, name":  {args{"pattern": "func", "glob": "*.go", "path": "src"}, "src/b.go:1: func foo() {}\n"},
		"glob, path":  {args{"pattern": "func", "glob": "src/*.txt"}, "src/c.txt:1: func text\n"},
		"ignore case": {args{"pattern": "FOO", "ignore_case": true}, "a.go:3: func Foo() {}\nsrc/b.go:1: func foo() {}\n"},
		"context":     {args{"pattern": "Foo", "context": 1}, "a.go-2- \na.go:3: func Foo() {}\na.go-4- func Bar() {}\n"},
		"overlapping": {args{"pattern": "Foo|Bar", "context": 1}, "a.go-2- \na.go:3: func Foo() {}\na.go:4: func Bar() {}\na.go-5- // end\n"},
		"one file":    {args{"pattern": "package", "path": "a.go"}, "a.go:1: package a\n"},
		"files":       {args{"pattern": "func", "files_only": true}, "a.go\nsrc/b.go\nsrc/c.txt\n"},
		"limit":       {args{"pattern": "func", "limit": 1}, "a.go:3: func Foo() {}\n[stopped at the limit of 1; narrow the search to see others]\n"},
		"none":        {args{"pattern": "nowhere"}, "[no match]\n"},
		"line end":    {args{"pattern": `\{\}$`, "path": "src"}, "src/b.go:1: func foo() {}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := b.call("grep", c.in); got.Failed || got.Text != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got.Text, c.want)
			}
		})
	}
	expect(t, b.call("grep", args{"pattern": "needle"}), false, "éneedleé", "…")
	expect(t, b.call("grep", args{"pattern": "func("}), true, "regular expression", "backslash")
	expect(t, b.call("grep", args{"pattern": "x", "path": "../"}), true, "outside")
}

func TestSpecialFilesAreRefusedAtOnce(t *testing.T) {
	b := newBench(t, nil)
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(b.dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	names := []string{"pipe"}
	if os.Getuid() == 0 {
		if err := syscall.Mknod(filepath.Join(b.dir, "zero"), syscall.S_IFCHR|0o666, 1<<8|5); err == nil {
			names = append(names, "zero")
		}
	}
	if err := os.Symlink("pipe", filepath.Join(b.dir, "link")); err != nil {
		t.Fatal(err)
	}
	names = append(names, "link")
	for _, name := range names {
		for _, c := range []struct {
			tool string
			in   args
		}{
			{"read", args{"path": name}},
			{"write", args{"path": name, "content": "x"}},
			{"edit", args{"path": name, "old_string": "a", "new_string": "b"}},
			{"grep", args{"pattern": "x", "path": name}},
		} {
			done := make(chan tool.Result, 1)
			go func() { done <- b.call(c.tool, c.in) }()
			select {
			case got := <-done:
				expect(t, got, true, "only plain files")
			case <-time.After(time.Minute):
				t.Fatalf("%s of %s hangs", c.tool, name)
			}
		}
	}
	expect(t, b.call("grep", args{"pattern": "x"}), false, "no match")
	expect(t, b.call("glob", args{"pattern": "*"}), false, "no file")

	// The control: a plain open of the pipe does hang.
	opened := make(chan error, 1)
	go func() {
		f, err := os.Open(filepath.Join(b.dir, "pipe"))
		if err == nil {
			err = f.Close()
		}
		opened <- err
	}()
	select {
	case <-opened:
		t.Error("control: a plain open did not wait for a writer")
	case <-time.After(200 * time.Millisecond):
	}
	w, err := os.OpenFile(filepath.Join(b.dir, "pipe"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-opened, w.Close()); err != nil {
		t.Error(err)
	}
}

func TestSearchesEndWithTheirContext(t *testing.T) {
	b := newBench(t, nil)
	for i := range 300 {
		b.put(fmt.Sprintf("d%d/f", i), strings.Repeat("a line to look at\n", 2000))
	}
	for name, in := range map[string]args{"grep": {"pattern": "(.*)(.*)(.*)nowhere"}, "glob": {"pattern": "**/*"}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		before := time.Now()
		_, err := b.callCtx(ctx, name, in)
		cancel()
		if took := time.Since(before); err == nil && name == "grep" || took > effort.Within(time.Second) {
			t.Errorf("%s: %v after %v", name, err, took)
		}
	}
}
