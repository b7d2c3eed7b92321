package sandbox

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lilac/internal/foundation/order"
)

// layerKind is the kind of a [layer].
type layerKind string

// The kinds of layers.
const (
	layerBind  layerKind = "bind"  // a path of the machine
	layerLink  layerKind = "link"  // a symbolic link
	layerText  layerKind = "text"  // a read-only file with content that Lilac provides
	layerTmpfs layerKind = "tmpfs" // an empty directory in memory
	layerProc  layerKind = "proc"  // the processes of the sandbox
	layerDev   layerKind = "dev"   // the few harmless devices
)

// layer is one mount, link or file that a command sees at Target. Both sandboxes build the
// same layers in order; a later one covers an earlier one.
type layer struct {
	Kind   layerKind
	Target string
	// Source is the path to bind, the target of the link, or the content of the file.
	Source string `json:",omitempty"`
	// Writable is for binds and empty directories.
	Writable bool `json:",omitempty"`
	// Bytes bounds an empty directory in memory.
	Bytes int64 `json:",omitempty"`
}

// helperDir holds the programs that Lilac adds to a sandbox. It is first in the PATH.
const helperDir = "/run/lilac/bin"

// maskBytes is the size of the empty read-only directories that cover hidden paths.
const maskBytes = 4 << 10

// layers returns everything that a command sees.
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
		layer{Kind: layerText, Target: "/etc/passwd", Source: "lilac:x:" + uid + ":" + gid + ":lilac:" + cmp.Or(r.home, r.Workspace) + ":/bin/bash\n"},
		layer{Kind: layerText, Target: "/etc/group", Source: "lilac:x:" + gid + ":\n"},
		layer{Kind: layerText, Target: "/etc/hosts", Source: "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 " + r.Hostname + "\n"},
		layer{Kind: layerProc, Target: "/proc"},
		layer{Kind: layerDev, Target: "/dev"},
		layer{Kind: layerTmpfs, Target: "/dev/shm", Writable: true, Bytes: r.TmpBytes},
		layer{Kind: layerTmpfs, Target: "/tmp", Writable: true, Bytes: r.TmpBytes},
	)
	out = append(out, masks(slices.Concat(r.hidden, r.masked), shown)...)
	binds := append([]Bind{{Source: r.Workspace, Target: r.Workspace, Writable: true}}, r.Binds...)
	// A bind inside another one must come later, or the other one would cover it.
	order.By(binds, func(a, b Bind) int { return cmp.Compare(strings.Count(a.Target, "/"), strings.Count(b.Target, "/")) })
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

// masks returns layers that cover the hidden paths in shown directories.
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

// mask returns a layer that covers path, which is visible at target: an empty directory
// for a directory, the null device for a file. A missing path needs none.
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
