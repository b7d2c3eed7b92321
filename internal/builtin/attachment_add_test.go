package builtin_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/builtin"
	"lilac/internal/fault"
	"lilac/internal/tool"
)

func TestFilesOfTheWorkspaceAreGivenInOrder(t *testing.T) {
	var given []builtin.File
	b := newBenchWith(t, builtin.Options{HandOver: func(_ context.Context, _ tool.Call, f builtin.File) error {
		given = append(given, f)
		return nil
	}})
	for name, text := range map[string]string{"b.txt": "bee", "a.png": "\x89PNG\r\n\x1a\n", "odd": "%PDF-1.7"} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(b.dir, "link")); err != nil {
		t.Fatal(err)
	}
	res := b.call("attachment_add", args{"paths": []string{"b.txt", "a.png", "odd"}})
	var names []string
	for _, f := range given {
		names = append(names, f.Name+" "+f.MimeType+" "+f.ID[strings.LastIndexByte(f.ID, '/')+1:])
	}
	want := []string{"b.txt text/plain; charset=utf-8 0", "a.png image/png 1", "odd application/pdf 2"}
	if diff := cmp.Diff(want, names); diff != "" || res.Failed || !strings.Contains(res.Text, "a.png") {
		t.Errorf("%s%+v", diff, res)
	}
	given = nil
	for _, paths := range [][]string{{"b.txt", "none"}, {"../x"}, {"link"}, {"."}, {}, {""}, {"/etc/passwd"}} {
		if res := b.call("attachment_add", args{"paths": paths}); !res.Failed || len(given) > 0 {
			t.Errorf("%q: %+v, given %d", paths, res, len(given))
		}
	}
	if res := b.call("attachment_add", args{}); !res.Failed {
		t.Errorf("without paths: %+v", res)
	}
}

func TestAFileThatCannotBeGivenIsAFailureThatTheModelReads(t *testing.T) {
	b := newBenchWith(t, builtin.Options{HandOver: func(context.Context, tool.Call, builtin.File) error {
		return fault.New(fault.Denied, "Nobody sees files here.")
	}})
	if err := os.WriteFile(filepath.Join(b.dir, "a"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if res := b.call("attachment_add", args{"paths": "a"}); !res.Failed || !strings.Contains(res.Text, "Nobody sees files here.") {
		t.Errorf("%+v", res)
	}
	if _, there := newBench(t, nil).tools["attachment_add"]; there {
		t.Error("the tool is there without anybody to give files to")
	}
}
