package builtin_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/fault"
)

// newFiles returns a workspace with the tools for attachments.
func newFiles(t *testing.T, o builtin.AttachOptions) (*bench, *builtin.Attachments) {
	t.Helper()
	o.Workspace = filepath.Join(t.TempDir(), "ws")
	files, err := builtin.NewAttachments(o)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: o.Workspace, tools: map[string]tool.Tool{}}
	list, err := builtin.New(builtin.Options{Workspace: o.Workspace, Attachments: files})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range list {
		b.tools[one.Spec().Name] = one
	}
	return b, files
}

func TestFilesOfTheWorkspaceAreGivenInOrder(t *testing.T) {
	var given []builtin.File
	b, _ := newFiles(t, builtin.AttachOptions{FileBytes: 100, TotalBytes: 150, HandOver: func(_ context.Context, _ tool.Call, f builtin.File) error {
		given = append(given, f)
		return nil
	}})
	png := "\x89PNG\r\n\x1a\n"
	for name, text := range map[string]string{
		"b.txt": "bee", "a.png": png, "odd": "%PDF-1.7", "c.csv": "a,b", "lie.png": "only words", "x.docx": "PK\x03\x04", "sub/d.md": "# d",
		"large": strings.Repeat("l", 101), "half": strings.Repeat("h", 80), "other half": strings.Repeat("o", 80),
	} {
		b.put(name, text)
	}
	for name, want := range map[string]struct {
		in   args
		want []string
	}{
		"in order":                   {args{"paths": []string{"b.txt", "a.png", "odd"}}, []string{"b.txt text/plain", "a.png image/png", "odd application/pdf"}},
		"one":                        {args{"path": "c.csv"}, []string{"c.csv text/csv"}},
		"a single text for a list":   {args{"paths": "c.csv"}, []string{"c.csv text/csv"}},
		"paths win over path":        {args{"path": "none", "paths": []string{"b.txt"}}, []string{"b.txt text/plain"}},
		"by content before the name": {args{"paths": []string{"lie.png", "x.docx"}}, []string{"lie.png text/plain", "x.docx application/vnd.openxmlformats-officedocument.wordprocessingml.document"}},
		"names in pairs": {
			args{"paths": []string{"b.txt", "a.png", "odd"}, "filenames": []string{"", "plot.png"}, "mimeTypes": []string{"text/x-bee", "", "application/x-odd; a=b"}},
			[]string{"b.txt text/x-bee", "plot.png image/png", "odd application/x-odd"},
		},
		"one with a name":             {args{"path": "~/b.txt", "filename": "c", "mimeType": "a/b"}, []string{"c a/b"}},
		"twice the same":              {args{"paths": []string{"b.txt", "./b.txt"}}, []string{"b.txt text/plain", "b.txt text/plain"}},
		"deeper, by an absolute path": {args{"path": filepath.Join(b.dir, "sub/d.md")}, []string{"d.md text/markdown"}},
	} {
		given = nil
		res := b.call("attachment_add", want.in)
		var got []string
		for _, f := range given {
			got = append(got, f.Name+" "+f.MimeType)
		}
		if diff := cmp.Diff(want.want, got); diff != "" || res.Failed {
			t.Errorf("%s: %s%+v", name, diff, res)
		}
		var told builtin.Added
		if err := json.Unmarshal([]byte(res.Text), &told); err != nil || !told.OK || len(told.Attachments) != len(given) {
			t.Errorf("%s: the model reads %s (%v)", name, res.Text, err)
		}
		for i, g := range told.Attachments {
			if f := given[i]; g != (builtin.Given{Filename: f.Name, MimeType: f.MimeType, Bytes: len(f.Data)}) {
				t.Errorf("%s: %d is told as %+v", name, i, g)
			}
		}
	}
}

// A step that is repeated has calls with other ids; what it gives is the same.
func TestTheSameFileIsTheSameActWhateverTheCallIsCalled(t *testing.T) {
	var given []builtin.File
	b, files := newFiles(t, builtin.AttachOptions{HandOver: func(_ context.Context, _ tool.Call, f builtin.File) error {
		given = append(given, f)
		return nil
	}})
	give := func(callID string, in builtin.AddInput) (ids []string) {
		t.Helper()
		given = nil
		if _, err := files.Add(t.Context(), tool.Call{ID: callID}, in, ""); err != nil {
			t.Fatal(err)
		}
		for _, f := range given {
			ids = append(ids, f.ID)
		}
		return ids
	}
	b.put("a.txt", "one")
	b.put("copy/a.txt", "one")
	b.put("b.txt", "one")
	first := give("call-1", builtin.AddInput{Paths: []string{"a.txt", "copy/a.txt", "b.txt"}})
	if again := give("call-2", builtin.AddInput{Paths: []string{"a.txt", "copy/a.txt", "b.txt"}}); !slices.Equal(first, again) {
		t.Errorf("%q and %q", first, again)
	}
	seen := map[string]bool{}
	for _, id := range slices.Concat(first, give("call-3", builtin.AddInput{Path: "a.txt", Filename: "c.txt"}), give("call-4", builtin.AddInput{Path: "a.txt", MimeType: "a/b"})) {
		if seen[id] {
			t.Errorf("two files are %s", id)
		}
		seen[id] = true
	}
	b.put("a.txt", "two")
	if id := give("call-5", builtin.AddInput{Path: "a.txt"}); seen[id[0]] {
		t.Error("a file that has changed is the same one")
	}
}

func TestWhatCannotBeGivenGivesNothing(t *testing.T) {
	given := 0
	b, _ := newFiles(t, builtin.AttachOptions{FileBytes: 100, TotalBytes: 150, HandOver: func(context.Context, tool.Call, builtin.File) error {
		given++
		return nil
	}})
	for name, text := range map[string]string{"b.txt": "bee", "large": strings.Repeat("l", 101), "half": strings.Repeat("h", 80), "other half": strings.Repeat("o", 80)} {
		b.put(name, text)
	}
	for name, target := range map[string]string{"link": "/etc/passwd", "up": "../..", "null": "/dev/null", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(b.dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]args{
		"nothing":                    {},
		"an empty list":              {"paths": []string{}},
		"an empty path":              {"paths": []string{"b.txt", ""}},
		"no list":                    {"paths": 1},
		"one that is missing":        {"paths": []string{"b.txt", "none"}},
		"outside":                    {"paths": []string{"b.txt", "../x"}},
		"an absolute path outside":   {"path": "/etc/passwd"},
		"a link that leads out":      {"path": "link"},
		"a directory that leads out": {"path": "up/etc/passwd"},
		"a device":                   {"path": "null"},
		"a pipe":                     {"path": "fifo"},
		"a circle":                   {"path": "loop"},
		"the workspace":              {"path": "."},
		"a NUL":                      {"path": "b.txt\x00"},
		"too large":                  {"paths": []string{"b.txt", "large"}},
		"too large together":         {"paths": []string{"half", "other half"}},
		"too many":                   {"paths": strings.Split(strings.Repeat("b.txt,", 20)+"b.txt", ",")},
		"more names than files":      {"paths": []string{"b.txt"}, "filenames": []string{"a", "b"}},
		"more types than files":      {"paths": []string{"b.txt"}, "mimeTypes": []string{"a/b", "a/b"}},
		"a name with a path":         {"path": "b.txt", "filename": "../b"},
		"a name that ends its line":  {"path": "b.txt", "filename": "a\r\nb"},
		"a type that is none":        {"path": "b.txt", "mimeType": "png"},
		"a type with a line's end":   {"path": "b.txt", "mimeType": "image/png\r\nX: y"},
	} {
		if res := b.call("attachment_add", in); !res.Failed || given > 0 {
			t.Errorf("%s: %+v, given %d", name, res, given)
		}
	}
	if res := b.call("attachment_add", args{"paths": []string{"b.txt", "half"}}); res.Failed || given != 2 {
		t.Errorf("control: %+v, given %d", res, given)
	}
}

func TestRelativePathsBeginWhereTheCommandStarted(t *testing.T) {
	var given []string
	b, files := newFiles(t, builtin.AttachOptions{HandOver: func(_ context.Context, _ tool.Call, f builtin.File) error {
		given = append(given, string(f.Data))
		return nil
	}})
	b.put("a", "top")
	b.put("sub/a", "below")
	for cwd, want := range map[string]string{"": "top", b.dir: "top", filepath.Join(b.dir, "sub"): "below", "/etc": "top", "sub": "top"} {
		given = nil
		if _, err := files.Add(t.Context(), tool.Call{ID: "c"}, builtin.AddInput{Path: "a"}, cwd); err != nil || len(given) != 1 || given[0] != want {
			t.Errorf("from %q: %q, %v", cwd, given, err)
		}
	}
	if _, err := files.Add(t.Context(), tool.Call{ID: "c"}, builtin.AddInput{Path: "../../a"}, filepath.Join(b.dir, "sub")); fault.KindOf(err) != fault.Denied {
		t.Errorf("out of the workspace: %v", err)
	}
}

func TestAFileThatCannotBeGivenIsAFailureThatTheModelReads(t *testing.T) {
	b, _ := newFiles(t, builtin.AttachOptions{HandOver: func(context.Context, tool.Call, builtin.File) error {
		return fault.New(fault.Denied, "Nobody sees files here.")
	}})
	b.put("a", "a")
	if res := b.call("attachment_add", args{"paths": "a"}); !res.Failed || !strings.Contains(res.Text, "Nobody sees files here.") {
		t.Errorf("%+v", res)
	}
	if _, there := newBench(t, nil).tools["attachment_add"]; there {
		t.Error("the tool is there without anybody to give files to")
	}
}
