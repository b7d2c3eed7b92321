package builtin

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"mime"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"lilac/internal/agent/tool"
	"lilac/internal/foundation/fault"
)

//go:embed attachment_add.md
var attachmentAddText string

// actDigits is the number of hex digits that tell the files of one answer apart.
const actDigits = 24

// maxAttachName bounds the name of a file, in bytes.
const maxAttachName = 255

// AddInput is the input of [Attachments.Add].
type AddInput struct {
	Paths     []string `json:"paths,omitempty" min:"1" max:"20" jsonschema:"The files, in the order in which people see them: absolute, or relative to the workspace."`
	Path      string   `json:"path,omitempty" jsonschema:"One file, instead of paths."`
	Filenames []string `json:"filenames,omitempty" max:"20" jsonschema:"Names that people see instead, one for each of paths; an empty one changes nothing."`
	Filename  string   `json:"filename,omitempty" jsonschema:"The name that people see instead of that of path."`
	MimeTypes []string `json:"mimeTypes,omitempty" max:"20" jsonschema:"Media types, one for each of paths, where what the files hold does not say it; an empty one changes nothing."`
	MimeType  string   `json:"mimeType,omitempty" jsonschema:"The media type of path."`
}

func (in AddInput) paths() []string     { return orOne(in.Paths, in.Path) }
func (in AddInput) filenames() []string { return orOne(in.Filenames, in.Filename) }
func (in AddInput) mimeTypes() []string { return orOne(in.MimeTypes, in.MimeType) }

// orOne returns a list, or if it is empty the field that stands for a list of one.
func orOne(list []string, one string) []string {
	if len(list) == 0 && one != "" {
		return []string{one}
	}
	return list
}

// Added is the result of [Attachments.Add].
type Added struct {
	OK          bool    `json:"ok"`
	Attachments []Given `json:"attachments"`
}

// Given describes a file that was sent, without its bytes.
type Given struct {
	Filename string `json:"filename"`
	MimeType string `json:"mimeType"`
	Bytes    int    `json:"bytes"`
}

// Add sends all of the files in the input, or none. Relative paths start at cwd, or at
// the workspace if cwd is empty or outside.
func (a *Attachments) Add(ctx context.Context, call tool.Call, in AddInput, cwd string) (Added, error) {
	paths, names, kinds := in.paths(), in.filenames(), in.mimeTypes()
	switch {
	case len(paths) == 0:
		return Added{}, fault.InvalidField("paths", "Name the files to give, in paths.")
	case len(names) > len(paths):
		return Added{}, fault.InvalidField("filenames", "There are %d filenames for %d paths.", len(names), len(paths))
	case len(kinds) > len(paths):
		return Added{}, fault.InvalidField("mimeTypes", "There are %d mimeTypes for %d paths.", len(kinds), len(paths))
	}
	ws := a.ws.in(call.Workspace)
	// Read all files before sending the first one, so that a mistake sends none.
	files := make([]File, len(paths))
	given := map[string]int{}
	rest := a.o.TotalBytes
	for i, name := range paths {
		f, err := a.read(ctx, ws, ws.from(cwd, name), rest)
		if err != nil {
			return Added{}, err
		}
		if err := f.rename(at(names, i), at(kinds, i)); err != nil {
			return Added{}, err
		}
		rest -= int64(len(f.Data))
		act := f.act()
		f.ID = fmt.Sprintf("%s/%d", act, given[act])
		given[act]++
		files[i] = f
	}
	out := Added{OK: true}
	for _, f := range files {
		if err := a.o.HandOver(ctx, call, f); err != nil {
			return Added{}, err
		}
		out.Attachments = append(out.Attachments, Given{Filename: f.Name, MimeType: f.MimeType, Bytes: len(f.Data)})
	}
	return out, nil
}

// act identifies a file by what people receive, so that a repeated step, whose call may
// have another id, sends the same file.
func (f File) act() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q\n", f.Name, f.MimeType)
	sum.Write(f.Data)
	return "file-" + hex.EncodeToString(sum.Sum(nil))[:actDigits]
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

// read reads a file of at most rest bytes in a workspace.
func (a *Attachments) read(ctx context.Context, ws *workspace, name string, rest int64) (File, error) {
	if strings.TrimSpace(name) == "" {
		return File{}, fault.InvalidField("paths", "A path must not be empty.")
	}
	rel, err := ws.rel(name)
	if err != nil {
		return File{}, err
	}
	root, err := ws.open()
	if err != nil {
		return File{}, err
	}
	defer func() { _ = root.Close() }()
	file, info, err := openPlain(root, rel)
	if err != nil {
		return File{}, ws.explain(err, name)
	}
	defer func() { _ = file.Close() }()
	if info.IsDir() {
		return File{}, fault.New(fault.Invalid, "%s is a directory; give its files, or an archive of them.", name)
	}
	if info.Size() > a.o.FileBytes {
		return File{}, fault.New(fault.TooLarge, "%s has %d bytes; at most %d can be given.", name, info.Size(), a.o.FileBytes)
	}
	most := min(a.o.FileBytes, rest)
	data, err := io.ReadAll(io.LimitReader(&ctxReader{ctx, file}, most+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return File{}, context.Cause(ctx)
	case err != nil:
		return File{}, ws.explain(err, name)
	case int64(len(data)) > a.o.FileBytes:
		return File{}, fault.New(fault.TooLarge, "%s has more than %d bytes and cannot be given.", name, a.o.FileBytes)
	case int64(len(data)) > most:
		return File{}, fault.New(fault.TooLarge, "The files have more than %d bytes together; give fewer in one call.", a.o.TotalBytes)
	}
	return File{Name: path.Base(rel), MimeType: typeOf(data, rel), Path: filepath.Join(ws.dir, rel), Data: data}, nil
}

// rename applies the name and the type from the input, if they are set.
func (f *File) rename(name, kind string) error {
	if name != "" {
		if len(name) > maxAttachName || name == "." || name == ".." || strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == '\\' || unicode.IsControl(r) }) {
			return fault.New(fault.Invalid, "%q is no file name: it has at most %d bytes and no path.", tool.Line(name, 60), maxAttachName)
		}
		f.Name = name
	}
	if kind != "" {
		parsed, _, err := mime.ParseMediaType(kind)
		if err != nil || !strings.Contains(parsed, "/") {
			return fault.New(fault.Invalid, "%q is not a media type such as image/png.", tool.Line(kind, 60))
		}
		f.MimeType = parsed
	}
	return nil
}
