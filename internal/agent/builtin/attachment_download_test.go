package builtin_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
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

// source is what somebody sent: the bytes and the type by the address.
type source struct {
	sent  []builtin.Sent
	data  map[string]string
	kinds map[string]string
}

func (s *source) options() builtin.AttachOptions {
	return builtin.AttachOptions{
		FileBytes: 100, TotalBytes: 250,
		Inbound: func(context.Context, tool.Call) ([]builtin.Sent, error) { return s.sent, nil },
		Fetch: func(_ context.Context, _ tool.Call, f builtin.Sent, most int64) ([]byte, string, error) {
			at := f.URL + f.Blob
			data, there := s.data[at]
			switch {
			case !there:
				return nil, "", fault.New(fault.NotFound, "It is gone.")
			case int64(len(data)) > most:
				return nil, "", fault.New(fault.TooLarge, "It is too large.")
			}
			return []byte(data), s.kinds[at], nil
		},
	}
}

func hashOf(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:])[:10]
}

func (b *bench) download(in args) (out builtin.Downloaded, res tool.Result) {
	b.t.Helper()
	res = b.call("attachment_download", in)
	if !res.Failed {
		if err := json.Unmarshal([]byte(res.Text), &out); err != nil {
			b.t.Fatalf("%v: %s", err, res.Text)
		}
	}
	return out, res
}

func (b *bench) list(dir string) (names []string) {
	b.t.Helper()
	entries, err := os.ReadDir(filepath.Join(b.dir, dir))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestFilesThatWereSentGoIntoTheWorkspaceUnderTheirHash(t *testing.T) {
	s := &source{
		sent: []builtin.Sent{
			{URL: "https://cdn/1/by-type.bin", Filename: "by-type.dat"},
			{URL: "https://cdn/2/x.url", Filename: "by-name.CSV"},
			{URL: "https://cdn/3/by-url.log?ex=1"},
			{URL: "https://cdn/4/none"},
			{URL: "https://cdn/5/again", Filename: "again.png"},
			{Blob: "blob:sha256:aa", Filename: "up.pdf", MimeType: "application/pdf"},
			{URL: "https://cdn/6/strange", Filename: "a.p n/g"},
		},
		data: map[string]string{
			"https://cdn/1/by-type.bin": "picture", "https://cdn/2/x.url": "a,b", "https://cdn/3/by-url.log?ex=1": "log", "https://cdn/4/none": "bare",
			"https://cdn/5/again": "picture", "blob:sha256:aa": "%PDF", "https://cdn/6/strange": "strange",
		},
		kinds: map[string]string{"https://cdn/1/by-type.bin": "image/png; charset=x", "https://cdn/2/x.url": "application/octet-stream", "https://cdn/5/again": "image/png"},
	}
	b, _ := newFiles(t, s.options())
	out, _ := b.download(args{})
	want := []string{hashOf("picture") + ".png", hashOf("a,b") + ".csv", hashOf("log") + ".log", hashOf("bare"), hashOf("%PDF") + ".pdf", hashOf("strange")}
	var got []string
	for _, f := range out.Files {
		if data, err := os.ReadFile(f.Path); err != nil || hashOf(string(data)) != f.SHA10 || len(data) != f.Bytes {
			t.Errorf("%+v: %q, %v", f, data, err)
		}
		got = append(got, filepath.Base(f.Path))
	}
	if diff := cmp.Diff(want, got); diff != "" || !out.OK || out.DownloadDir != filepath.Join(b.dir, "Downloads") {
		t.Errorf("%s%+v", diff, out)
	}
	if f := out.Files[0]; f.SourceURL != "https://cdn/1/by-type.bin" || f.MimeType != "image/png" || f.Filename != "by-type.dat" {
		t.Errorf("%+v", f)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, b.list("Downloads")); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyWhatIsMissingIsWritten(t *testing.T) {
	s := &source{sent: []builtin.Sent{{URL: "u/a.txt"}, {URL: "u/b.txt"}}, data: map[string]string{"u/a.txt": "a", "u/b.txt": "b"}}
	b, _ := newFiles(t, s.options())
	path := filepath.Join("Downloads", hashOf("a")+".txt")
	b.put(path, "a")
	before, err := os.Stat(filepath.Join(b.dir, path))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		out, res := b.download(args{})
		if len(out.Files) != 2 || !out.OK {
			t.Fatalf("%+v", res)
		}
	}
	if after, err := os.Stat(filepath.Join(b.dir, path)); err != nil || !os.SameFile(before, after) {
		t.Errorf("what was there was written again: %v", err)
	}
	if b.get("Downloads/"+hashOf("b")+".txt") != "b" {
		t.Error("what was missing was not written")
	}
}

// What lies under the name of a file that was sent may be another one: two files
// can have the same ten digits, and a command can write there.
func TestWhatIsToldIsWhatWasSent(t *testing.T) {
	// Found by trying a million.
	const one, other = "lilac 943499", "lilac 1690862"
	if hashOf(one) != hashOf(other) || one == other {
		t.Fatal("the two files have no longer the same name")
	}
	for name, tt := range map[string]struct {
		there string // under the short name
		sent  []string
	}{
		"another file":             {"planted", []string{one}},
		"a longer one":             {one + "more", []string{one}},
		"the beginning":            {one[:3], []string{one}},
		"two of one name":          {"", []string{one, other, one}},
		"two of one name, planted": {"planted", []string{other, one}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &source{data: map[string]string{}}
			different := map[string]bool{}
			for i, data := range tt.sent {
				url := fmt.Sprintf("u/%d.txt", i)
				s.sent, s.data[url], different[data] = append(s.sent, builtin.Sent{URL: url}), data, true
			}
			b, _ := newFiles(t, s.options())
			short := filepath.Join("Downloads", hashOf(one)+".txt")
			if tt.there != "" {
				b.put(short, tt.there)
			}
			for range 2 {
				out, res := b.download(args{})
				if !out.OK || len(out.Files) != len(different) {
					t.Fatalf("%+v", res)
				}
				for _, f := range out.Files {
					if data, err := os.ReadFile(f.Path); err != nil || string(data) != s.data[f.SourceURL] {
						t.Errorf("%s is told to be %s: %q, %v", f.Path, f.SourceURL, data, err)
					}
				}
			}
			if tt.there != "" && b.get(short) != tt.there {
				t.Errorf("what was there is now %q", b.get(short))
			}
		})
	}
}

func TestDownloadsStayInTheirDirectory(t *testing.T) {
	s := &source{sent: []builtin.Sent{{URL: "https://x/%2e%2e%2f../../etc/a.txt", Filename: "../../b.txt"}}, data: map[string]string{"https://x/%2e%2e%2f../../etc/a.txt": "a"}}
	b, _ := newFiles(t, s.options())
	outside := t.TempDir()
	for name, target := range map[string]string{"out": outside, "up": ".."} {
		if err := os.Symlink(target, filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.put("file", "")
	for _, dir := range []string{"../x", "/tmp/x", "/etc", "out", "out/sub", "up", "up/x", "file", "file/x", "~/../x", "a\x00b"} {
		if out, res := b.download(args{"downloadDir": dir}); !res.Failed {
			t.Errorf("%q: %+v", dir, out)
		}
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("written outside: %v", left)
	}
	name := hashOf("a") + ".txt"
	for dir, at := range map[string]string{"": "Downloads", "in": "in", "~/in/deep": "in/deep", ".": ".", filepath.Join(b.dir, "abs"): "abs"} {
		if out, res := b.download(args{"downloadDir": dir}); res.Failed || out.Files[0].Path != filepath.Join(b.dir, at, name) {
			t.Errorf("control: %q: %+v", dir, res)
		}
	}
	// What is in the way is neither followed nor replaced.
	for kind, place := range map[string]func(string) error{
		"a link out":  func(p string) error { return os.Symlink(filepath.Join(outside, "x"), p) },
		"a directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"a pipe":      func(p string) error { return syscall.Mkfifo(p, 0o600) },
	} {
		b.put("way/keep", "")
		path := filepath.Join(b.dir, "way", name)
		if err := place(path); err != nil {
			t.Fatal(err)
		}
		if _, res := b.download(args{"downloadDir": "way"}); !res.Failed || !strings.Contains(res.Text, "in the way") {
			t.Errorf("%s: %+v", kind, res)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFilesThatCannotBeHadAreToldBesideTheOthers(t *testing.T) {
	s := &source{
		sent: []builtin.Sent{{URL: "gone.txt", Filename: "gone.txt"}, {URL: "large"}, {URL: "a"}, {URL: "b"}, {URL: "c"}},
		data: map[string]string{"large": strings.Repeat("l", 101), "a": strings.Repeat("a", 100), "b": strings.Repeat("b", 100), "c": strings.Repeat("c", 60)},
	}
	b, _ := newFiles(t, s.options())
	out, _ := b.download(args{})
	var failed []string
	for _, f := range out.Failed {
		failed = append(failed, f.SourceURL+": "+f.Error)
	}
	if diff := cmp.Diff([]string{"gone.txt: It is gone.", "large: It is too large.", "c: It is too large."}, failed); diff != "" || out.OK || len(out.Files) != 2 {
		t.Errorf("%s%+v", diff, out)
	}
	s.sent = s.sent[:1]
	if _, res := b.download(args{}); !res.Failed || !strings.Contains(res.Text, "It is gone.") {
		t.Errorf("none could be had: %+v", res)
	}
	s.sent = nil
	if _, res := b.download(args{}); !res.Failed || !strings.Contains(res.Text, "Nobody has sent a file") {
		t.Errorf("none was sent: %+v", res)
	}
}
