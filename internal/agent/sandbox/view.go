package sandbox

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// layerKind says what a layer is made of.
type layerKind string

// The kinds of layers.
const (
	layerBind  layerKind = "bind"  // a path of the machine
	layerLink  layerKind = "link"  // a symbolic link
	layerText  layerKind = "text"  // a file with a content of ours, read only
	layerTmpfs layerKind = "tmpfs" // an empty directory in memory
	layerProc  layerKind = "proc"  // the processes of the sandbox
	layerDev   layerKind = "dev"   // the few harmless devices
)

// layer is one thing that a command sees at Target. Both ways of confining
// build the same layers, in order; a later one lies over an earlier one.
type layer struct {
	Kind   layerKind
	Target string
	// Source is the path that is bound, where a link points to, or the text of
	// the file.
	Source string `json:",omitempty"`
	// Writable is for binds and empty directories.
	Writable bool `json:",omitempty"`
	// Bytes bounds an empty directory in memory.
	Bytes int64 `json:",omitempty"`
}

// helperDir holds what we bring into a sandbox: it is first in the PATH.
const helperDir = "/run/lilac/bin"

// masks are small, empty and read only.
const maskBytes = 4 << 10

// layers is the whole of what a command sees.
func (r resolved) layers() []layer {
	var out []layer
	var shown []string
	for _, dir := range systemDirs {
		if target, err := os.Readlink(dir); err == nil {
			out = append(out, layer{Kind: layerLink, Source: target, Target: dir})
		} else if _, err := os.Stat(dir); err == nil {
			out = append(out, layer{Kind: layerBind, Source: dir, Target: dir})
			shown = append(shown, dir)
		}
	}
	for _, path := range etcPaths {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			out = append(out, layer{Kind: layerBind, Source: real, Target: path})
		}
	}
	uid, gid := strconv.Itoa(os.Getuid()), strconv.Itoa(os.Getgid())
	out = append(out,
		layer{Kind: layerText, Target: "/etc/passwd", Source: "lilac:x:" + uid + ":" + gid + ":lilac:" + r.Workspace + ":/bin/bash\n"},
		layer{Kind: layerText, Target: "/etc/group", Source: "lilac:x:" + gid + ":\n"},
		layer{Kind: layerText, Target: "/etc/hosts", Source: "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 " + r.Hostname + "\n"},
		layer{Kind: layerProc, Target: "/proc"},
		layer{Kind: layerDev, Target: "/dev"},
		layer{Kind: layerTmpfs, Target: "/dev/shm", Writable: true, Bytes: r.TmpBytes},
		layer{Kind: layerTmpfs, Target: "/tmp", Writable: true, Bytes: r.TmpBytes},
	)
	out = append(out, masks(slices.Concat(r.hidden, r.masked), shown)...)
	binds := append([]Bind{{Source: r.Workspace, Target: r.Workspace, Writable: true}}, r.Binds...)
	// What lies in another one comes after it, and is not covered by it.
	slices.SortStableFunc(binds, func(a, b Bind) int { return cmp.Compare(strings.Count(a.Target, "/"), strings.Count(b.Target, "/")) })
	for _, bind := range binds {
		out = append(out, layer{Kind: layerBind, Source: bind.Source, Target: bind.Target, Writable: bind.Writable})
		for _, hidden := range r.masked {
			if rel, err := filepath.Rel(bind.Source, hidden); err == nil && inside(hidden, bind.Source) {
				out = append(out, mask(hidden, filepath.Join(bind.Target, rel))...)
			}
		}
	}
	return out
}

// masks covers the hidden paths that lie in directories that are shown.
func masks(hidden, shown []string) (out []layer) {
	for _, path := range hidden {
		for _, dir := range shown {
			if inside(path, dir) {
				out = append(out, mask(path, path)...)
			}
		}
	}
	return out
}

// mask covers path, which is seen at target: a directory by an empty one, a
// file by the null device. What does not exist needs no cover.
func mask(path, target string) []layer {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil
	case info.IsDir():
		return []layer{{Kind: layerTmpfs, Target: target, Bytes: maskBytes}}
	}
	return []layer{{Kind: layerBind, Source: os.DevNull, Target: target}}
}
